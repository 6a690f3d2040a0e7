"""What a replay needs of tools that are not here: stand-ins with their recorded schemas, which cannot be called."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from agentorchestra.core.effects import EffectKind, Mode
from agentorchestra.core.errors import ToolDefinitionError, ToolError
from agentorchestra.core.messages import ToolSchema
from agentorchestra.log.ledger import Ledger, Record
from agentorchestra.tea.calling.tool import Tool, ToolTraits, tool_from_schema

_ACTION = EffectKind.INVOKE_ACTION
_NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}


def as_recorded(
    names: Iterable[str], here: Mapping[str, Tool[..., Any]], ledger: Ledger, kept_schemas: bytes = b"{}"
) -> dict[str, Tool[..., Any]]:
    """Return this process's tools where their schemas are the recorded ones or in `kept_schemas`, else stand-ins."""
    schemas = _schemas(kept_schemas) | ledger.codec.schemas()
    actions = {_component(record.effect) for record in ledger.records.values() if _kind(record) == _ACTION}
    tools: dict[str, Tool[..., Any]] = {}
    for name in names:
        if name in actions and name not in here:  # an environment's action, whose rules no log holds
            continue
        schema, own = schemas.get(name), here.get(name)
        if own is not None and (schema is None or schema.digest == own.schema.digest):
            tools[name] = own
        else:
            # Without a schema no model was offered it: nothing in the recording depends on how it looks.
            tools[name] = _stand_in(schema or ToolSchema(name=name, description="", parameters=_NO_ARGUMENTS), ledger)
    return tools


def _schemas(kept_schemas: bytes) -> dict[str, ToolSchema]:
    try:
        schemas = json.loads(kept_schemas)
        return {name: ToolSchema.model_validate(schema) for name, schema in schemas.items()}
    except (ValueError, AttributeError, RecursionError) as exc:
        raise ToolDefinitionError(f"the schemas kept with the run cannot be read: {exc}") from None


def _kind(record: Record) -> Any:
    return record.effect.get("kind")


def _component(effect: Mapping[str, Any]) -> str:
    return str(effect.get("component", "")).rpartition("@")[0]


def _stand_in(schema: ToolSchema, ledger: Ledger) -> Tool[..., Any]:
    def absent(**_arguments: Any) -> None:
        raise ToolError(f"the tool {schema.name!r} is known from a recording only; install it to go on with the run")

    calls = [
        record.effect
        for record in ledger.records.values()
        if _kind(record) == EffectKind.INVOKE_TOOL and _component(record.effect) == schema.name
    ]
    composite = any(effect.get("mode") == Mode.COMPOSITE for effect in calls)
    traits = ToolTraits(sequential=any(effect.get("instance") for effect in calls))
    try:
        return tool_from_schema(
            absent,
            schema,
            effect="composite" if composite else None,
            source=f"recorded {schema.digest}",
            traits=traits,
            trust=schema.trust,
        )
    except ToolDefinitionError as exc:
        raise ToolDefinitionError(f"the recording has a tool that is none: {exc}") from None
