"""Prompts: Markdown files as versioned components."""

from agentorchestra.aliases import former

__getattr__ = former(__name__)
