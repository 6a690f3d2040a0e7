"""The offline model: rules instead of a language model, for the demo, the tutorials and the tests."""

from agentorchestra.aliases import former

__getattr__ = former(__name__)
