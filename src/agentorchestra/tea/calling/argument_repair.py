"""Arguments of calls in the types that a schema wants, where it is plain what was meant.

Nothing is guessed that matters: a value keeps its meaning, an argument that a tool does not have is only left out where
nothing is at stake, and whoever reads the result is told.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.effects import Effect, Mode, Tag
from agentorchestra.core.ids import canonical_json
from agentorchestra.core.reply_text import read_json, whole_characters, without_fence

_AT_STAKE = frozenset({Tag.WRITE, Tag.SEND, Tag.SPEND})
_ALIASES = (
    ("command", "cmd", "commands"),
    ("path", "file", "filename", "file_name", "file_path", "filepath"),
    ("query", "q", "search_query", "queries"),
    ("url", "link", "address", "uri"),
    ("code", "program", "python_code", "source_code"),
    ("answer", "final_answer", "result", "response"),
)
"""Names of one argument. A tool that has one of a line, and no other of it, gets it under any of them."""

_COMPLETED = frozenset({"success", "succeeded", "successful", "done", "complete", "finished", "ok"})
"""Words for the status `completed`, where the schema has that one and not the word itself."""


def repair(
    arguments: JsonValue, parameters: Mapping[str, Any], *, finishes: bool = False, former: bool = False
) -> dict[str, JsonValue] | None:
    """Return arguments in the types a schema wants, as far as that is the same value; None for what is no object.

    Args:
        arguments: an object, its JSON as text, or the value of the one argument that has to be there.
        parameters: the schema of the arguments.
        finishes: the call ends the work: an answer of any type is an answer.
        former: mend no more than runs did that began before `RunManifest.checks` was 3.
    """
    properties, required = parameters.get("properties", {}), [*parameters.get("required", ())]
    only = required[0] if len(required) == 1 and (not former or required == ["code"]) else None
    if isinstance(arguments, str):
        text = without_fence(arguments).strip()
        try:
            arguments = json.loads(text, strict=False) if former else read_json(text)
            if isinstance(arguments, str) and not former and arguments.lstrip().startswith("{"):
                arguments = read_json(arguments)  # written as JSON twice
        except ValueError:
            fragment = not former and (not text or text[0] in '{["<')
            return None if only is None or fragment else {only: without_fence(str(arguments)) if former else text}
    if former:
        if not isinstance(arguments, dict):
            return None
        return {name: _from_text(value, _types(properties.get(name, {}))) for name, value in arguments.items()}
    if isinstance(arguments, list) and len(arguments) == 1 and isinstance(arguments[0], dict):
        arguments = arguments[0]
    if isinstance(arguments, dict) and len(arguments) == 1 and not arguments.keys() & properties.keys():
        ((name, inner),) = arguments.items()
        arguments = inner if name in ARGUMENT_KEYS and isinstance(inner, dict) else arguments
    if isinstance(arguments, dict):
        names = _renames(arguments, properties)
        arguments = {names.get(name, name): value for name, value in arguments.items()}
        whole = finishes and arguments and not arguments.keys() & properties.keys()
    else:
        whole = finishes or not isinstance(arguments, list) or "array" in _types(properties.get(only, {}))
        if only is None or not whole or arguments is None:
            return None
    values = {only: arguments} if whole and only is not None else arguments
    assert isinstance(values, dict)
    result: dict[str, JsonValue] = _whole(
        {name: _convert(value, properties.get(name, {}), finishes=finishes) for name, value in values.items()}
    )
    return result


ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "tool_input", "action_input", "params", "kwargs")
"""The names under which models write the arguments of a call."""


def _renames(arguments: Mapping[str, JsonValue], properties: Mapping[str, Any]) -> dict[str, str]:
    """Return the tool's names of arguments that came under another one of `_ALIASES`."""
    names: dict[str, str] = {}
    for line in _ALIASES:
        own = [name for name in line if name in properties]
        other = [name for name in line if name in arguments and name not in properties]
        if len(own) == len(other) == 1 and own[0] not in arguments:
            names[other[0]] = own[0]
    return names


def _convert(value: JsonValue, schema: Any, *, finishes: bool = False) -> JsonValue:
    """Return a value as the type that a schema wants in its place, where it takes none of its own."""
    types = _types(schema)
    if isinstance(value, str):
        value = _from_text(value, types)
    elif value is not None and types and types <= {"string", "null"} and "enum" not in schema:
        if not isinstance(value, list | dict) or finishes:
            with suppress(ValueError):  # NaN and infinities are no JSON
                return canonical_json(value)
    elif isinstance(value, float) and value.is_integer() and "integer" in types:
        return int(value)
    if isinstance(value, str) and isinstance(schema, dict) and value not in (choices := schema.get("enum", (value,))):
        plain = value.strip().casefold()
        return next((choice for choice in choices if choice == ("completed" if plain in _COMPLETED else plain)), value)
    if "array" in types and types <= {"array", "null"} and not isinstance(value, list | None):
        value = [value]
    if isinstance(value, list) and isinstance(schema, dict):
        return [_convert(element, schema.get("items", {})) for element in value]
    if isinstance(value, dict) and isinstance(schema, dict) and "object" in types:
        inner = schema.get("properties", {})
        return {name: _convert(member, inner.get(name, {})) for name, member in value.items()}
    return value


def _from_text(value: JsonValue, types: set[str]) -> JsonValue:
    """Return a text as the type that is wanted in its place, where no text is."""
    if not isinstance(value, str) or not types or "string" in types:
        return value
    try:
        read = json.loads(value.casefold() if value in ("True", "False") and "boolean" in types else value)
        canonical_json(read)  # NaN and infinities are no JSON
    except (ValueError, RecursionError):
        return value
    if isinstance(read, bool):
        fits = "boolean" in types
    elif isinstance(read, int | float):
        fits = "number" in types or ("integer" in types and isinstance(read, int))
    else:
        fits = (isinstance(read, list) and "array" in types) or (isinstance(read, dict) and "object" in types)
    return read if fits else value


def _types(schema: Any) -> set[str]:
    if not isinstance(schema, dict):
        return set()
    kind = schema.get("type")
    types = {kind} if isinstance(kind, str) else set(kind or ())
    for option in [*schema.get("anyOf", ()), *schema.get("oneOf", ())]:
        types |= _types(option) or {"string"}  # of a reference nothing is known: it may be a text
    return types | ({"string"} if "enum" in schema and not types else set())


def _whole(value: dict[str, JsonValue]) -> Any:
    """Return arguments without halves of characters, which nothing can store."""
    text = json.dumps(value, ensure_ascii=False)
    clean = whole_characters(text)
    return value if clean == text else json.loads(clean)


def unknown(arguments: Mapping[str, JsonValue], parameters: Mapping[str, Any]) -> list[str]:
    return [name for name in arguments if name not in parameters.get("properties", {})]


def harmless(effect: Effect) -> bool:
    """Return whether a call may be made without an argument that was meant: it changes and sends nothing."""
    return effect.mode is not Mode.ONCE and not effect.tags & _AT_STAKE
