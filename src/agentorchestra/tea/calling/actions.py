"""The effect of an environment's action, and what came back of it as a tool's result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentorchestra.core.effects import Effect, EffectKind, Mode, Outcome, Provenance, Tag
from agentorchestra.core.errors import ToolError
from agentorchestra.core.messages import ToolSchema
from agentorchestra.core.protocols import Environment, instance_of
from agentorchestra.runtime.results import ToolResult
from agentorchestra.runtime.worlds import STATE_ACTION


def action_effect(
    environment: Environment,
    action: str,
    arguments: Mapping[str, Any],
    *,
    instance: str = "",
    role: str = "agent",
    provenance: tuple[Provenance, ...] = (),
    invalid: str | None = None,
    schema: ToolSchema | None = None,
) -> Effect:
    """Return InvokeAction; `instance` is the environment's ground by default, `invalid` says what is wrong."""
    looks = action == STATE_ACTION
    composite = not looks and (is_composite(environment) or composes(environment, action))
    call: dict[str, Any] = {"action": action} if looks else {"action": action, "arguments": dict(arguments)}
    mutates = not looks and environment.mutates(action)
    again = mutates and is_repeatable(environment, action)
    return Effect(
        kind=EffectKind.INVOKE_ACTION,
        component=f"{environment.name}@{environment.version}",
        content_hash=environment.content_hash,
        arguments=call,
        mode=Mode.COMPOSITE if composite else Mode.ONCE if mutates and not again else Mode.REPEATABLE,
        tags=frozenset({Tag.READ}) if looks else action_tags(environment, action),
        role=role,
        provenance=provenance,
        instance=instance or instance_of(environment),
        invalid=invalid,
        declared=schema,
        confined=bool(getattr(environment, "confined", False)),
    )


def is_composite(environment: Environment) -> bool:
    """Return True if all actions do nothing but perform effects of their own (`composite = True`)."""
    return bool(getattr(environment, "composite", False))


def composes(environment: Environment, action: str) -> bool:
    """Return True if one action does nothing but perform effects of its own (`composes(action)`)."""
    predicate = getattr(environment, "composes", None)
    return predicate is not None and bool(predicate(action))


def is_repeatable(environment: Environment, action: str) -> bool:
    """Return True if a mutating action may be repeated after a crash, on the state that was recorded last."""
    repeatable = getattr(environment, "repeatable", None)
    return repeatable is not None and environment.branching == "snapshot" and bool(repeatable(action))


def action_tags(environment: Environment, action: str) -> frozenset[Tag]:
    tags = getattr(environment, "tags", None)
    further = frozenset(tags(action)) if tags is not None else frozenset()
    return frozenset({Tag.WRITE if environment.mutates(action) else Tag.READ}) | further


def tool_result(outcome: Outcome) -> ToolResult:
    """Return an outcome as the result of the tool that performed its effect; raise ToolError if it is not ok."""
    if not outcome.ok:
        raise ToolError(outcome.error or f"it ended as {outcome.status}")
    value: Any = outcome.value
    blocks = isinstance(value, dict) and "$blocks" in value
    return ToolResult(
        content=list(outcome.blocks()) if blocks else value, artifacts=outcome.artifacts, trust=outcome.trust
    )
