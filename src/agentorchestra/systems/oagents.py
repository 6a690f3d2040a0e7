"""OAgents: an agent that plans, and revises its plan from what it observes (004, sec. 3.2).

    facts of the task ─> plan ─> step, step, ... ─> plan as the observations leave it ─> step, ... ─> done
    agents/parts/: each part can be switched off, changed, and put into another system, by `[parts]` alone

It is one agent that reasons and acts in turn, as `react`, with the parts below. Acting by programs, as in the paper's
own runs, is the run's `action = "code"`.
"""

from __future__ import annotations

from typing import Any

from agentorchestra.agents.types import Kit
from agentorchestra.core.settings import PartSettings
from agentorchestra.core.spec import AgentResult, AgentSpec
from agentorchestra.runtime.session import Session
from agentorchestra.systems.react import react

PARTS = PartSettings(plan="reviewed")
"""The paper's own parts (004, sec. 4.1; table 7's baseline reviews its plan)."""


async def oagents(spec: AgentSpec, session: Session[Any], kit: Kit) -> AgentResult:
    """Run one agent with a plan that is reviewed, and whatever other parts the settings choose."""
    return await react(spec, session, kit, own_parts=PARTS)
