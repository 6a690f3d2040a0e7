"""The packaged agents, and what an agent says of itself."""

from __future__ import annotations

from agentorchestra.agents.agent import Agent
from agentorchestra.agents.deep_analyzer import DEEP_ANALYZER
from agentorchestra.agents.reporter import REPORTER
from agentorchestra.agents.worker import WORKER
from agentorchestra.tea.context import ComponentConfig, Kind, Operation


def builtin_agents() -> dict[str, Agent]:
    """The agents every workspace has, by name."""
    return {one.name: one for one in (DEEP_ANALYZER, REPORTER, WORKER)}


def _describe(name: str, agent: Agent, builtin: bool) -> ComponentConfig:
    schema = agent.schema
    return ComponentConfig(
        kind="agent",
        name=name,
        description=agent.description,
        version=agent.version,
        content_hash=agent.content_hash,
        operations=(Operation(name=schema.name, description=schema.description, parameters=schema.parameters),),
        metadata={
            "role": agent.role,
            "tools": "those of the application" if agent.tools is None else [*agent.tools],
            "prompt": agent.prompt,
            "max_steps": agent.max_steps,
        },
        builtin=builtin,
    )


AGENT: Kind[Agent] = Kind("agent", "agents", _describe)

__all__ = ["AGENT", "builtin_agents"]
