"""The packaged agents."""

from __future__ import annotations

from agentorchestra.agents.agent import Agent


def builtin_agents() -> dict[str, Agent]:
    """The agents every workspace has, by name."""
    return {}


__all__ = ["builtin_agents"]
