"""Prompts: Markdown files as versioned components."""
