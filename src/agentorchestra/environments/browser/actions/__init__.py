"""The actions of the environment `browser`."""

from agentorchestra.aliases import former

__getattr__ = former(__name__)
