"""Requests to models: the model of a role, its parameters, and questions beside the steps of an agent."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from agentorchestra.agents.types import Kit
from agentorchestra.core.content import Block, TextBlock, Trust
from agentorchestra.core.effects import Effect, EffectKind, Mode, Provenance, provenance_of, union
from agentorchestra.core.errors import UsageError
from agentorchestra.core.ids import sha256_json
from agentorchestra.core.messages import Message, ModelRequest, ModelSettings
from agentorchestra.core.messages import system as system_message
from agentorchestra.core.settings import RoleSettings
from agentorchestra.core.spec import AgentSpec
from agentorchestra.runtime.context import BranchContext

_OF_ROLES = ("temperature", "max_tokens", "reasoning_effort", "thinking_tokens")


def model_of(spec: AgentSpec, ctx: BranchContext[Any]) -> str:
    """Return an agent's model: the delegation's choice, else its role's, else the run's."""
    return spec.model or role_of(spec.role, ctx).model or ctx.model


def role_of(role: str, ctx: BranchContext[Any]) -> RoleSettings:
    return ctx.manifest.roles.get(role, RoleSettings())


def window_of(model: str, ctx: BranchContext[Any], kit: Kit) -> int:
    """Return the tokens a model can read, as the run was created: a replay without its client takes out the same."""
    window = ctx.manifest.context_windows.get(model)
    return window if window is not None else kit.models.client(model).profile.context_window


def request_settings(
    model: str, role: RoleSettings, ctx: BranchContext[Any], kit: Kit, *, beside: bool = False
) -> tuple[bool, ModelSettings, str]:
    """Return whether a model takes native calls, the parameters of its requests in a role, and its profile's hash.

    A replay asks no model, so it needs neither key nor client: what it cannot look up it takes from the recording. For
    a request beside an agent's work nothing is refused here: its outcome says why the model cannot be asked.
    """
    native, settings, profile_hash = _model_facts(model, ctx, kit, beside=beside)
    own = {name: value for name in _OF_ROLES if (value := getattr(role, name)) is not None}
    return native, settings.model_copy(update=own), profile_hash


def _model_facts(
    model: str, ctx: BranchContext[Any], kit: Kit, *, beside: bool = False
) -> tuple[bool, ModelSettings, str]:
    try:
        if not beside and any(node.limits.cost_usd is not None for node in ctx.node.chain()):
            for candidate in kit.models.chain(model):
                kit.models.require_price(candidate)  # dollars cannot be held for a model without a price
        client = kit.models.client(model)
    except UsageError:
        if not ctx.run.replaying and not beside:
            raise
        request = recorded_request(ctx, model)
        if request is None:  # of this agent the recording ends before a request: nothing depends on the model
            return True, ModelSettings(), ""
        return bool(request.tools), request.settings, ""
    profile = client.profile
    settings = ModelSettings(
        max_tokens=profile.max_tokens,
        temperature=profile.temperature,
        reasoning_effort=profile.reasoning_effort,
        thinking_tokens=profile.thinking_tokens,
        timeout_s=profile.timeout_s,
    )
    return client.native_tools, settings, sha256_json(profile.model_dump(mode="json"))


def model_effect(
    model: str,
    messages: tuple[Message, ...],
    settings: ModelSettings,
    profile_hash: str,
    *,
    role: str,
    purpose: str,
    provenance: tuple[Provenance, ...],
) -> Effect:
    return Effect(
        kind=EffectKind.REQUEST_MODEL,
        component=f"{model}@1.0.0",
        content_hash=profile_hash,
        request=ModelRequest(model=model, messages=messages, settings=settings),
        mode=Mode.REPEATABLE,
        role=role,
        purpose=purpose,
        provenance=provenance,
    )


async def ask_model(
    role: str,
    prompt: str,
    ctx: BranchContext[Any],
    kit: Kit,
    *,
    purpose: str,  # says in the log what it was for
    trust: Trust,  # of what stands in the rendered prompt
    output_schema: dict[str, Any] | None = None,
) -> str:
    """Ask beside the steps of an agent (a judge, a formatter); return the reply, "" where nobody may be asked."""
    profile = role_of(role, ctx)
    model = profile.model or ctx.model
    _, settings, profile_hash = request_settings(model, profile, ctx, kit)
    if output_schema is not None:
        settings = settings.model_copy(update={"output_schema": output_schema})
    message = Message(role="user", content=(TextBlock(text=prompt, trust=Trust.SYSTEM),))
    provenance = (Provenance(kind="agent", ref=ctx.actor, trust=trust),)
    outcome = await ctx.perform(
        model_effect(model, (message,), settings, profile_hash, role=role, purpose=purpose, provenance=provenance)
    )
    return outcome.response.text if outcome.ok else ""


def request_effect(
    kit: Kit,
    ctx: BranchContext[Any],
    prompt: str,
    content: Sequence[Block],
    *,
    role: str,
    model: str,
    media: Literal["named", "required"],
    values: Mapping[str, Any],
) -> Effect:
    """Return RequestModel for a component's question; PromptError if there is no such prompt, or it does not fit."""
    role_settings = role_of(role, ctx)
    name = model or role_settings.model or ctx.model
    _, settings, profile_hash = request_settings(name, role_settings, ctx, kit, beside=True)
    if media == "required":
        settings = settings.model_copy(update={"media": media})
    rules, words = kit.prompts.get(prompt).messages(**values)
    blocks = (TextBlock(text=words, trust=Trust.SYSTEM),) if words else ()
    messages = (system_message(rules), Message(role="user", content=(*blocks, *content)))
    provenance = union(ctx.provenance, provenance_of(tuple(content)))
    return model_effect(name, messages, settings, profile_hash, role=role, purpose="tool", provenance=provenance)


def recorded_request(ctx: BranchContext[Any], model: str = "") -> ModelRequest | None:
    """Return a model request that the log has of an agent, to this model where it has one; None without any.

    Its decisions come first, those of its rivals too: what is asked beside them (a plan, a verifier's score) offers no
    tools.
    """
    ledger = ctx.run.ledger
    own = re.compile(rf"{re.escape(ctx.branch.rstrip('/'))}(/\d+\.\d+)*/?")
    rows = [
        (record.effect.get("purpose") not in ("decision", "final"), record.seq, record)
        for key, record in ledger.records.items()
        if record.effect.get("kind") == EffectKind.REQUEST_MODEL and own.fullmatch(key.branch)
    ]
    first: ModelRequest | None = None
    for _, _, record in sorted(rows, key=lambda row: row[:2]):
        request = ledger.codec.decode(record.effect).request
        first = first or request
        if request is not None and model in ("", request.model):
            return request
    return first
