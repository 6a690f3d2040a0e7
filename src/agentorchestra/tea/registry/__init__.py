"""The one registry: versions and histories of components, and the operations of the protocol on them."""

from agentorchestra.aliases import former

__getattr__ = former(__name__)
