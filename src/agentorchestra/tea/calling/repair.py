"""Calls as models write them when they do not keep to the form: read where it is plain what was meant.

Nothing is guessed that matters: a value keeps its meaning, an argument that a tool does not have is only left out where
nothing is at stake, and whoever reads the result is told.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.effects import Effect, Mode, Tag
from agentorchestra.core.ids import canonical_json

_FENCED = re.compile(r"\A\s*```[ \t]*[\w+-]*[ \t]*\n(?P<inside>.*?)\n?[ \t]*```\s*\Z", re.DOTALL)
_PROGRAM = re.compile(
    r"^[ \t]*```[ \t]*(?:python3?|py)[ \t]*\n(?P<code>.*?)^[ \t]*```[ \t]*$", re.MULTILINE | re.DOTALL
)
_TAGGED = re.compile(r"^[ \t]*<tool_call>\s*(?P<call>.*?)\s*(?:</tool_call>|\Z)", re.MULTILINE | re.DOTALL)
_FUNCTION = re.compile(r"^[ \t]*<function=(?P<name>[\w-]+)>(?P<body>.*?)</function>", re.MULTILINE | re.DOTALL)
_PARAMETER = re.compile(r"<parameter=(?P<name>[\w-]+)>\n?(?P<value>.*?)\n?</parameter>", re.DOTALL)
DECISION_FIELDS = ("thinking", "thought", "evaluation_previous_goal", "memory", "next_goal", "tool", "answer")
_AT_STAKE = frozenset({Tag.WRITE, Tag.SEND, Tag.SPEND})


def unfenced(text: str) -> str:
    """Return what stands in a block between ``` where the text is nothing else, else the text."""
    found = _FENCED.match(text)
    return found["inside"] if found is not None else text


def read_json(text: str) -> Any:
    """Return the JSON value of a text, also in a fence and with raw control characters, or raise ValueError."""
    return json.loads(unfenced(text).strip(), strict=False)


def mended(arguments: dict[str, JsonValue] | str, parameters: Mapping[str, Any]) -> dict[str, JsonValue] | None:
    """Return arguments in the types a schema wants, as far as that is the same value; None for what is no object."""
    if isinstance(arguments, str):
        try:
            arguments = read_json(arguments)
        except ValueError:
            if list(parameters.get("required", ())) != ["code"]:
                return None
            return {"code": unfenced(str(arguments))}
    if not isinstance(arguments, dict):
        return None
    properties = parameters.get("properties", {})
    return {name: _typed(value, properties.get(name, {})) for name, value in arguments.items()}


def _typed(value: JsonValue, schema: Any) -> JsonValue:
    """Return a text as the type that a schema wants in its place, where it takes no text."""
    wanted = _types(schema)
    if not isinstance(value, str) or not wanted or "string" in wanted:
        return value
    try:
        read = json.loads(value)
        canonical_json(read)  # NaN and infinities are no JSON
    except ValueError:
        return value
    if isinstance(read, bool):
        fits = "boolean" in wanted
    elif isinstance(read, int | float):
        fits = "number" in wanted or ("integer" in wanted and isinstance(read, int))
    else:
        fits = (isinstance(read, list) and "array" in wanted) or (isinstance(read, dict) and "object" in wanted)
    return read if fits else value


def _types(schema: Any) -> set[str]:
    """Return the types that a schema allows; none where it does not say."""
    if not isinstance(schema, dict):
        return set()
    kind = schema.get("type")
    found = {kind} if isinstance(kind, str) else set(kind or ())
    for one in [*schema.get("anyOf", ()), *schema.get("oneOf", ())]:
        found |= _types(one) or {"string"}  # of a reference nothing is known: it may be a text
    return found | ({"string"} if "enum" in schema and not found else set())


def unknown(arguments: Mapping[str, JsonValue], parameters: Mapping[str, Any]) -> list[str]:
    """Return the names of arguments that a schema does not have."""
    return [name for name in arguments if name not in parameters.get("properties", {})]


def harmless(effect: Effect) -> bool:
    """Return whether a call may be made without an argument that was meant: it changes and sends nothing."""
    return effect.mode is not Mode.ONCE and not effect.tags & _AT_STAKE


# -- calls in a text -------------------------------------------------------------------------------------------------


def calls_in(text: str, names: Container[str]) -> tuple[str, list[tuple[str, dict[str, JsonValue] | str]]]:
    """Return a reply's words and the calls (of these `names`) at its end in another form than its provider's.

    These are `<tool_call>{"name": ..., "arguments": ...}</tool_call>`, `<function=NAME>...</function>`, or a reply that
    is nothing but such an object, or a list of them, with or without a fence.
    """
    for pattern, read in ((_TAGGED, _tagged), (_FUNCTION, _function)):
        found = list(pattern.finditer(text))
        if found and not text[found[-1].end() :].replace("</tool_call>", "").strip():
            calls = [call for match in found for call in read(match)]
            if calls and all(name in names for name, _ in calls):
                return pattern.sub("", text).replace("</tool_call>", "").replace("<tool_call>", "").strip(), calls
    try:
        calls = _listed(read_json(text))
    except ValueError:
        return text, []
    return ("", calls) if calls and all(name in names for name, _ in calls) else (text, [])


def _tagged(match: re.Match[str]) -> list[tuple[str, dict[str, JsonValue] | str]]:
    inner = _FUNCTION.search(match["call"])
    if inner is not None:
        return _function(inner)
    try:
        return _listed(read_json(match["call"]))
    except ValueError:
        return []


def _function(match: re.Match[str]) -> list[tuple[str, dict[str, JsonValue] | str]]:
    given: dict[str, JsonValue] = {one["name"]: one["value"] for one in _PARAMETER.finditer(match["body"])}
    return [(match["name"], given or match["body"].strip() or {})]


def _listed(value: Any) -> list[tuple[str, dict[str, JsonValue] | str]]:
    """Return the calls of an object or a list of objects; none if any of them is something else."""
    found: list[tuple[str, dict[str, JsonValue] | str]] = []
    for one in value if isinstance(value, list) else [value]:
        inner = one.get("function", one) if isinstance(one, dict) else None
        arguments = (
            next((inner[key] for key in ("arguments", "parameters", "args") if key in inner), None)
            if (isinstance(inner, dict))
            else None
        )
        if not isinstance(inner, dict) or not isinstance(arguments, dict | str) or "name" not in inner:
            return []
        found.append((str(inner["name"]), arguments))
    return found


def program_in(text: str) -> str:
    """Return the one program that a reply holds, fenced as Python; "" for none and for several."""
    found = _PROGRAM.findall(text)
    return found[0] if len(found) == 1 else ""


def decision_fields(text: str) -> dict[str, Any] | None:
    """Return the JSON object in a reply that looks most like a decision, wherever it stands; None without one."""
    decoder = json.JSONDecoder(strict=False)
    found: list[dict[str, Any]] = []
    at = text.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except ValueError:
            end = at + 1
        else:
            if isinstance(value, dict):
                found.append(value)
        at = text.find("{", end)
    return max(found, key=lambda one: sum(field in one for field in DECISION_FIELDS) + ("tool" in one), default=None)
