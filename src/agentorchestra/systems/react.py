"""ReAct: one agent, reasoning and acting in turn until it is done. The baseline every other system is compared with."""

from __future__ import annotations

from typing import Any

from agentorchestra.core.spec import AgentResult, AgentSpec
from agentorchestra.loop import Parts, environment_state, inbox, linear
from agentorchestra.runtime.session import Session
from agentorchestra.systems.kit import Kit, build_agent, result_of


async def react(spec: AgentSpec, session: Session[Any], kit: Kit) -> AgentResult:
    """Run one agent linearly over the tools of its spec."""
    agent = build_agent(spec, session, kit, prompt="react")
    top = session.parent is not None and session.parent.parent is None
    perceive = [environment_state(f"{name}@{kit.environments[name]().version}") for name in agent.environments]
    parts = Parts(
        decide=agent.decide,
        perceive=(*((inbox,) if top else ()), *perceive),
        environments=agent.environments,
    )
    return result_of(await linear(agent.state, session, parts))
