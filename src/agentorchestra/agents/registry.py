"""The packaged agents."""

from __future__ import annotations

from agentorchestra.agents.agent import Agent
from agentorchestra.agents.deep_analyzer import DEEP_ANALYZER
from agentorchestra.agents.reporter import REPORTER
from agentorchestra.agents.worker import WORKER


def builtin_agents() -> dict[str, Agent]:
    """The agents every workspace has, by name."""
    return {one.name: one for one in (DEEP_ANALYZER, REPORTER, WORKER)}


__all__ = ["builtin_agents"]
