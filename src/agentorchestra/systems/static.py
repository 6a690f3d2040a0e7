"""The static workflow: one plan written by hand, the same for every task, never revised (004, table 7).

It is the baseline of plans that are made: `oagents` without the parts that plan, and with `prompts/static.md` in the
place of its plan.
"""

from __future__ import annotations

from typing import Any

from agentorchestra.agents.types import Kit
from agentorchestra.core.content import Source, TextBlock, Trust
from agentorchestra.core.errors import SettingsError
from agentorchestra.core.spec import AgentResult, AgentSpec
from agentorchestra.loop import Seen, State
from agentorchestra.runtime.context import BranchContext
from agentorchestra.systems.oagents import SEARCH
from agentorchestra.systems.react import react

NAME = "static"
PARTS = SEARCH.model_copy(update={"plan": "none", "subtasks": False})


async def static(spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
    """Run one agent that follows one written workflow in every task; SettingsError for a plan or subtasks."""
    plan_parts = ctx.manifest.parts
    if plan_parts.plan in ("once", "reviewed") or plan_parts.subtasks:
        name = "plan" if plan_parts.plan in ("once", "reviewed") else "subtasks"
        value = plan_parts.plan if name == "plan" else "true"
        raise SettingsError(
            f"the settings have parts.{name} = {value}, and the system {NAME!r} is there to follow a plan that nobody "
            "makes; take the setting out, or choose the system oagents"
        )
    text = kit.prompts.get(NAME).render()
    workflow = Seen(blocks=(TextBlock(text=text, source=Source(kind="prompt"), trust=Trust.SYSTEM),))

    async def perceive(state: State, ctx: BranchContext[Any]) -> Seen | None:
        return workflow

    return await react(spec, ctx, kit, own_parts=PARTS, perceive=(perceive,))
