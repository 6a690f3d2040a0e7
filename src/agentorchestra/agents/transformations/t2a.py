"""T2A: tools as the actuators of an agent that turns goals into calls (000, app. A.2, "Tool-to-Agent")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentorchestra.agents.agent import Agent, Relationship
from agentorchestra.core.errors import TransformationError
from agentorchestra.tea.calling.tool import Tool
from agentorchestra.tea.transformations.base import Carried, Transformation, tools_in

PROMPT = "actuator"


def _t2a(
    tools: Tool[..., Any] | Sequence[Tool[..., Any]],
    *,
    name: str = "",
    description: str = "",
    prompt: str = PROMPT,
    role: str = "worker",
    max_steps: int = 10,
    objectives: tuple[str, ...] = (),
    relationships: tuple[Relationship, ...] = (),
    version: str = "1.0.0",
) -> Agent:
    """Return an agent that reaches its goals by calling the tools: the ordinary loop with a prompt of its own.

    Args:
        tools: one or several; the workspace takes them in with the agent.
        description: what it is for; by default what its tools do.
        prompt: the name of its system prompt.
        role, max_steps, objectives, relationships, version: see Agent.

    Raises:
        TransformationError: without a name.
    """
    bundle = tools_in(tools)
    if not name:
        raise TransformationError("t2a needs the agent's name; give name='...' (in compose: t2a.using(name=...))")
    abilities = tuple((tool.description.strip().splitlines() or [tool.name])[0].rstrip(".") for tool in bundle)
    return Agent(
        name=name,
        description=description or f"{'; '.join(abilities)}.",
        tools=tuple(tool.name for tool in bundle),
        prompt=prompt,
        role=role,
        max_steps=max_steps,
        competencies=abilities if description else (),
        objectives=objectives,
        relationships=relationships,
        version=version,
        carried=Carried(tools=bundle),
    )


t2a: Transformation[Any, Agent] = Transformation("t2a", "tool", "agent", _t2a)
"""Tools as an agent; see `_t2a` for its options."""
