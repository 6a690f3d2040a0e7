"""What one agent may call: tools and environment actions, as schemas and as effects."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.effects import Effect, EffectKind, Mode, Provenance, Tag
from agentorchestra.core.messages import ToolCall, ToolSchema
from agentorchestra.core.protocols import Environment
from agentorchestra.tea.handlers import effect_for
from agentorchestra.tea.tool import Tool


class AgentToolset:
    """The tools and environments of one agent.

    Args:
        tools: by name.
        environments: instance -> environment (for schemas and rules; the runtime opens its own instances).
        role: who calls.
    """

    def __init__(
        self,
        tools: Sequence[Tool[..., Any]],
        environments: Mapping[str, Environment] | None = None,
        *,
        role: str = "agent",
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._actions: dict[str, tuple[str, Environment, ToolSchema]] = {}
        for instance, environment in (environments or {}).items():
            for schema in environment.actions():
                name = f"{instance}_{schema.name}"
                described = ToolSchema(name=name, description=schema.description, parameters=schema.parameters)
                self._actions[name] = (instance, environment, described)
        self._role = role

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that may be called, sorted."""
        return tuple(sorted([*self._tools, *self._actions]))

    def schemas(self) -> tuple[ToolSchema, ...]:
        """Sorted by name, so that the front of the prompt is the same in every step."""
        found = {name: tool.schema for name, tool in self._tools.items()}
        found |= {name: entry[2] for name, entry in self._actions.items()}
        return tuple(found[name] for name in sorted(found))

    def effect(self, call: ToolCall, session: Any, provenance: tuple[Provenance, ...]) -> Effect:
        """The effect of a call; an unknown name or arguments that do not fit give an invalid one."""
        tool = self._tools.get(call.name)
        if tool is not None:
            return effect_for(tool, call.arguments, role=self._role, provenance=provenance)
        entry = self._actions.get(call.name)
        if entry is not None:
            return self._action(entry, call, provenance)
        close = difflib.get_close_matches(call.name, self.names, n=1)
        hint = f", did you mean {close[0]!r}" if close else ""
        arguments: dict[str, JsonValue] = {"raw": call.arguments} if isinstance(call.arguments, str) else call.arguments
        return Effect(
            kind=EffectKind.INVOKE_TOOL,
            component=call.name or "unnamed",
            arguments=arguments,
            role=self._role,
            provenance=provenance,
            invalid=f"there is no tool {call.name!r}{hint}; the tools: {', '.join(self.names)}",
        )

    def _action(
        self, entry: tuple[str, Environment, ToolSchema], call: ToolCall, provenance: tuple[Provenance, ...]
    ) -> Effect:
        instance, environment, schema = entry
        action = schema.name.removeprefix(f"{instance}_")
        arguments = call.arguments if isinstance(call.arguments, dict) else {}
        invalid = None
        if not isinstance(call.arguments, dict):
            invalid = f"the arguments of {call.name} are not a JSON object: {call.arguments[:200]!r}"
        missing = [name for name in schema.parameters.get("required", ()) if name not in arguments]
        unknown = [name for name in arguments if name not in schema.parameters.get("properties", {})]
        if invalid is None and (missing or unknown):
            wrong = [*(f"missing {name!r}" for name in missing), *(f"unknown {name!r}" for name in unknown)]
            allowed = ", ".join(schema.parameters.get("properties", {})) or "none"
            invalid = f"{call.name}: {', '.join(wrong)}; its arguments: {allowed}"
        mutates = environment.mutates(action)
        return Effect(
            kind=EffectKind.INVOKE_ACTION,
            component=f"{environment.name}@{environment.version}",
            content_hash=environment.content_hash,
            arguments={"action": action, "arguments": arguments},
            mode=Mode.ONCE if mutates else Mode.REPEATABLE,
            tags=frozenset({Tag.WRITE} if mutates else {Tag.READ}),
            role=self._role,
            provenance=provenance,
            instance=instance,
            invalid=invalid,
        )
