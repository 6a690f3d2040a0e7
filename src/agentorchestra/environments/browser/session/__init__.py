"""A run's browser: the process, its pages and what they may reach."""

from agentorchestra.aliases import former

__getattr__ = former(__name__)
