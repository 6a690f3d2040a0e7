"""The request for a second look at a call (trust/review.py): it shows the user's words, the plan and the call."""

from __future__ import annotations

from typing import Any

from agentorchestra.agents.policy_plan import ROLE, shown_tools
from agentorchestra.agents.requests import model_effect, request_settings, role_of
from agentorchestra.agents.types import Kit
from agentorchestra.core.content import TextBlock, Trust
from agentorchestra.core.effects import Effect
from agentorchestra.core.errors import UsageError
from agentorchestra.core.messages import Message
from agentorchestra.core.messages import system as system_message
from agentorchestra.core.policy import REVIEW, PolicyView
from agentorchestra.runtime.context import BranchContext
from agentorchestra.trust.review import SCHEMA, shown_call, shown_plan


def may_review(kit: Kit, ctx: BranchContext[Any]) -> bool:
    """Return True if the model that would be asked takes second looks."""
    try:
        client = kit.models.client(role_of(ROLE, ctx).model or ctx.model)
    except UsageError:
        return False
    return bool(getattr(client, "reviews_calls", True))


def review_effect(kit: Kit, ctx: BranchContext[Any], effect: Effect, view: PolicyView) -> Effect:
    """Return the request for a second look at a call; `ctx` is a branch of it, `view` the run's with its plan."""
    role = role_of(ROLE, ctx)
    model = role.model or ctx.model
    _, settings, profile_hash = request_settings(model, role, ctx, kit, beside=True)
    tools = [kit.tools[effect.name]] if effect.name in kit.tools else []
    acting, _ = shown_tools(tools)
    earlier = [turn.task for turn in ctx.manifest.earlier]
    words = view.user_content
    rules, request = kit.prompts.get(REVIEW).messages(
        tool=acting.get(effect.called, f"- {effect.called}"),
        expected=shown_plan(effect, view),
        earlier=earlier,
        words=[words[0], *words[1 + len(ctx.manifest.earlier_words) :]],
    )
    message = Message(role="user", content=(TextBlock(text=request, trust=Trust.USER), *shown_call(effect, view)))
    return model_effect(
        model,
        (system_message(rules), message),
        settings.model_copy(update={"output_schema": SCHEMA}),
        profile_hash,
        role=ROLE,
        purpose=REVIEW,
        provenance=effect.provenance,
    )
