"""Programs: their source texts, what they import, where they run."""

from agentorchestra.aliases import former

__getattr__ = former(__name__)
