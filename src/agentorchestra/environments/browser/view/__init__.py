"""The view that an agent has of a page."""
