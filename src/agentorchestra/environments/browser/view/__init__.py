"""The view that an agent has of a page."""

from agentorchestra.aliases import former

__getattr__ = former(__name__)
