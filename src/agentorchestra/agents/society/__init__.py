"""Agents that write to each other: their toolkit, and how one works from mention to mention."""
