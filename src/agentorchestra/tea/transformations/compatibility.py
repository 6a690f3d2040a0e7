"""Compare the JSON schemas of a tool's result and of another tool's argument."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError

from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.signatures import kind_of
from agentorchestra.tea.calling.tool import Tool

_DEEPEST = 8  # levels that are compared; what lies deeper may fit


@functools.lru_cache(maxsize=1024)
def result_schema(tool: Tool[..., Any]) -> dict[str, Any] | None:
    """Return the JSON schema of a tool's result, from its return type; None where that says nothing."""
    function = inspect.unwrap(tool)
    function = getattr(function, "__func__", getattr(function, "func", function))
    try:
        hint = typing.get_type_hints(function, include_extras=True).get("return", Any)
        if hint is Any or (isinstance(hint, type) and issubclass(hint, ToolResult)):
            return None
        return TypeAdapter(hint).json_schema(mode="serialization")
    except (NameError, TypeError, AttributeError, PydanticUserError):
        return None  # a type for checkers only, or one that is not JSON: the result is


def part_of(schema: Mapping[str, Any], path: tuple[str | int, ...]) -> dict[str, Any] | str:
    """Return the schema of a part of a value, by names and places; a sentence where it cannot have such a part."""
    definitions = schema.get("$defs", {})
    found = dict(schema)
    for place in path:
        found = _resolved(found, definitions)
        kinds = _kinds(found, definitions, 0)
        if isinstance(place, int):
            if kinds is not None and "array" not in kinds:
                return f"it is {kind_of(found, definitions)}, which has no place {place}"
            items = found.get("prefixItems", [])
            inner = items[place] if 0 <= place < len(items) else found.get("items", {})
        else:
            if kinds is not None and "object" not in kinds:
                return f"it is {kind_of(found, definitions)}, which has no {place!r}"
            properties = found.get("properties", {})
            inner = properties.get(place, found.get("additionalProperties", {}))
            if place not in properties and (inner is False or (properties and "additionalProperties" not in found)):
                return f"it has no {place!r}; it has: {', '.join(properties) or 'nothing'}"
        found = inner if isinstance(inner, dict) else {}
    return {**found, "$defs": definitions}


def cannot_fit(given: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Return why no value of one schema can be one of the other; "" where some can, or where it cannot be told."""
    one, other = given.get("$defs", {}), wanted.get("$defs", {})
    if _disjoint(given, wanted, one, other, 0):
        return f"it is {kind_of(dict(given), one)}, needed is {kind_of(dict(wanted), other)}"
    return ""


def _resolved(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    for _ in range(_DEEPEST):
        if "$ref" not in schema:
            break
        schema = definitions.get(str(schema["$ref"]).rpartition("/")[2], {})
    return dict(schema)


def _kinds(schema: Mapping[str, Any], definitions: Mapping[str, Any], depth: int) -> set[str] | None:
    """Return the JSON types of a schema's values; None where they cannot be told."""
    schema = _resolved(schema, definitions)
    if depth > _DEEPEST:
        return None
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if values is not None:
        return {_NAMES.get(type(value), "object") for value in values}
    several = schema.get("anyOf", schema.get("oneOf"))
    if isinstance(several, list):
        found: set[str] = set()
        for one in several:
            kinds = _kinds(one, definitions, depth + 1) if isinstance(one, Mapping) else None
            if kinds is None:
                return None
            found |= kinds
        return found
    kind = schema.get("type")
    return {kind} if isinstance(kind, str) else set(kind) if isinstance(kind, list) else None


_NAMES: dict[type, str] = {
    str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null", list: "array", dict: "object",
}  # fmt: skip


def _disjoint(
    given: Mapping[str, Any], wanted: Mapping[str, Any], one: Mapping[str, Any], other: Mapping[str, Any], depth: int
) -> bool:
    given, wanted = _resolved(given, one), _resolved(wanted, other)
    has, needs = _kinds(given, one, depth), _kinds(wanted, other, depth)
    if has is None or needs is None or depth > _DEEPEST:
        return False
    if "number" in needs:
        needs |= {"integer"}
    if "number" in has:
        has |= {"integer"}  # 2.0 is one
    if not has & needs:
        return True
    if has & needs == {"array"} and isinstance(given.get("items"), dict) and isinstance(wanted.get("items"), dict):
        return _disjoint(given["items"], wanted["items"], one, other, depth + 1)
    if has == needs == {"object"}:
        properties = given.get("properties")
        if isinstance(properties, dict) and "additionalProperties" not in given:
            return any(name not in properties for name in wanted.get("required", ()))
        if isinstance(properties, dict):
            needed = {name: wanted.get("properties", {}).get(name, {}) for name in wanted.get("required", ())}
            return any(
                _disjoint(properties[name], inner, one, other, depth + 1)
                for name, inner in needed.items()
                if name in properties
            )
    return False
