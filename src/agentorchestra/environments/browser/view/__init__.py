"""What an agent sees of a page."""

from agentorchestra.aliases import former

__getattr__ = former(__name__)
