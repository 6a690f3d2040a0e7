"""Finding components that fit a task."""

from agentorchestra.aliases import former

__getattr__ = former(__name__)
