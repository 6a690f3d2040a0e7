"""Debates: their experts, their statements, their conclusion. `agents/debate/agent.py` leads them."""

from agentorchestra.aliases import former

__getattr__ = former(__name__)
