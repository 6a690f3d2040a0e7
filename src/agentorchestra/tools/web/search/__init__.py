"""Searching: one interface over many engines (docs/web-search.md)."""
