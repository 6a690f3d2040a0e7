"""Schemas of outputs in a form that decoders hold to, with the same meaning.

Decoders that constrain what a model writes differ in what they read: an empty `properties` is refused or stands for
any object, a list of types is taken for its first one, and strict ones want every object closed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_OF_TYPE: dict[str, frozenset[str]] = {
    "string": frozenset({"minLength", "maxLength", "pattern", "format"}),
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
    "array": frozenset({"items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"}),
    "object": frozenset(
        {"properties", "required", "additionalProperties", "patternProperties", "minProperties", "maxProperties"}
    ),
}
"""Keywords that say something about values of one type only."""

_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose values are schemas by name."""

_NOT_SCHEMAS = frozenset({"enum", "const", "default", "examples", "required"})


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with closed objects, explicit unions and no empty list of properties."""
    result: dict[str, Any] = {}
    for name, value in schema.items():
        if name in _MAPS and isinstance(value, Mapping):
            if value or name != "properties":
                result[name] = {key: _inner(subschema) for key, subschema in value.items()}
        else:
            result[name] = value if name in _NOT_SCHEMAS else _inner(value)
    types = result.get("type")
    if isinstance(types, list):
        return _union(result, types)
    open_to_all = "additionalProperties" not in result and "patternProperties" not in result
    if types == "object" and "properties" in result and open_to_all:
        result["additionalProperties"] = False
    return result


def _inner(value: Any) -> Any:
    if isinstance(value, Mapping):
        return strict_schema(value)
    return [_inner(member) for member in value] if isinstance(value, list) else value


def _union(schema: dict[str, Any], types: list[Any]) -> dict[str, Any]:
    """Return one schema for each type of a list; what says something about one type goes with it."""
    parts = []
    for type_name in types:
        family = "number" if type_name == "integer" else type_name
        own = {key: value for key, value in schema.items() if key in _OF_TYPE.get(family, ())}
        if "enum" in schema:
            own["enum"] = [value for value in schema["enum"] if _is(value, type_name)]
        if own.get("enum") != []:
            parts.append(strict_schema({"type": type_name, **own}))
    every = frozenset[str]().union(*_OF_TYPE.values()) | {"type", "enum"}
    rest = {key: value for key, value in schema.items() if key not in every}
    if len(parts) == 1:
        return {**rest, **parts[0]}
    if "anyOf" in rest:
        return {**rest, "allOf": [*rest.get("allOf", []), {"anyOf": parts}]}
    return {**rest, "anyOf": parts}


def _is(value: Any, kind: str) -> bool:
    if kind == "null":
        return value is None
    if kind == "boolean":
        return isinstance(value, bool)
    if kind in ("number", "integer"):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, {"string": str, "array": list, "object": dict}[kind])
