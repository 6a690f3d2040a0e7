"""Direct: the model is asked once, without tools. What agents add is measured against it (000, table 5, model rows)."""

from __future__ import annotations

from typing import Any

from agentorchestra.agents.first_view import short_files
from agentorchestra.agents.plain_answer import refusal_of
from agentorchestra.agents.requests import model_effect, model_of, request_settings, role_of
from agentorchestra.agents.types import Kit
from agentorchestra.core.content import TextBlock, Trust
from agentorchestra.core.effects import provenance_of
from agentorchestra.core.messages import Message
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.runtime.context import BranchContext


async def direct(spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
    """Ask the model the task itself, with the short files; its reply as it stands is the answer."""
    model, role = model_of(spec, ctx), role_of(spec.role, ctx)
    _, settings, profile_hash = request_settings(model, role, ctx, kit)
    files = () if spec.on_demand else await short_files(ctx, spec)
    content = (TextBlock(text=spec.instruction, trust=Trust.USER), *spec.context, *files)
    effect = model_effect(
        model,
        (Message(role="user", content=content),),
        settings,
        profile_hash,
        role=spec.role,
        purpose="final",
        provenance=provenance_of(content),
    )
    ctx.answering = ("", True)
    outcome = await ctx.perform(effect)
    if refusal := refusal_of(outcome.response, ctx):
        return AgentResult(status=RunStatus.BLOCKED, report=refusal, steps=1)
    return AgentResult(answer=outcome.response.text.strip(), steps=1)
