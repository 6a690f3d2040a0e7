"""The reporter."""

from agentorchestra.aliases import former

__getattr__ = former(__name__)
