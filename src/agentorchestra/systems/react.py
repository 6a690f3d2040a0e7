"""ReAct: one agent, reasoning and acting in turn until it is done. The baseline every other system is compared with."""

from __future__ import annotations

from typing import Any

from agentorchestra.agents.kit import Kit, run_agent
from agentorchestra.core.spec import AgentResult, AgentSpec
from agentorchestra.runtime.session import Session


async def react(spec: AgentSpec, session: Session[Any], kit: Kit) -> AgentResult:
    """Run one agent linearly over the tools of its spec."""
    return await run_agent(spec, session, kit, prompt="react")
