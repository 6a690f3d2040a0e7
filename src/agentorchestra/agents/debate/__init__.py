"""What a debate is made of: who takes part, what was said, what it comes to. `agents/debate/agent.py` leads it."""

from agentorchestra.aliases import former

__getattr__ = former(__name__)
