"""ReAct: one agent, reasoning and acting in turn until it is done. The baseline every other system is compared with."""

from __future__ import annotations

from typing import Any

from agentorchestra.agents.agent import is_top
from agentorchestra.agents.driver import run_agent
from agentorchestra.agents.first_view import short_files
from agentorchestra.agents.planning.evidence import SourceCheck
from agentorchestra.agents.trace import CALLED_BY_CODE
from agentorchestra.agents.types import Kit
from agentorchestra.core.settings import PartSettings
from agentorchestra.core.spec import AgentResult, AgentSpec
from agentorchestra.loop import Perceive
from agentorchestra.runtime.context import BranchContext


async def react(
    spec: AgentSpec,
    ctx: BranchContext[Any],
    kit: Kit,
    *,
    own_parts: PartSettings | None = None,
    perceive: tuple[Perceive, ...] = (),
) -> AgentResult:
    """Run one agent linearly over the tools of its spec; the quotes of its answer are looked up by code.

    Args:
        own_parts, perceive: of a system that is this one with parts.
    """
    tools = tuple(name for name in spec.tools if name not in CALLED_BY_CODE)
    task = spec.instruction if is_top(ctx) else ""
    checks = (SourceCheck(kit.prompts.get("verification"), task=task),) if ctx.manifest.checks else ()
    context = spec.context if spec.on_demand else (*spec.context, *await short_files(ctx, spec, goes_on=True))
    own = spec.model_copy(update={"tools": tools, "context": context})
    return await run_agent(
        own, ctx, kit, prompt="react", observe=checks, own_parts=own_parts, perceive=perceive, checked=True
    )
