"""Calls that a task spells out: `longest_words(text="a bird in the hand", most=1)`, and what agents give back."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

_BEGINNING = re.compile(r"(?<![\w.])(?P<name>[A-Za-z_]\w*)\(")
_LONGEST = 5_000  # characters of one call


def spelled_calls(task: str, tools: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, dict[str, JsonValue]]]:
    """Return the calls of offered tools with literal arguments in a task; unnamed ones are in the schema's order."""
    found: list[tuple[str, dict[str, JsonValue]]] = []
    end = 0
    for match in _BEGINNING.finditer(task):
        if match.start() < end or match["name"] not in tools:
            continue
        for closing in re.finditer(r"\)", task[match.end() : match.end() + _LONGEST]):
            text = task[match.start() : match.end() + closing.end()]
            arguments = _arguments(text, list(tools[match["name"]].get("properties", {})))
            if arguments is not None:
                found.append((match["name"], arguments))
                end = match.start() + len(text)
                break
    return found


def unknown_calls(task: str, tools: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the names in calls that a task spells out with arguments by name, of tools that are not offered."""
    found: dict[str, None] = {}
    for match in _BEGINNING.finditer(task):
        for closing in re.finditer(r"\)", task[match.end() : match.end() + _LONGEST]):
            text = task[match.start() : match.end() + closing.end()]
            if match["name"] not in tools and _arguments(text, []):
                found[match["name"]] = None
                break
    return [*found]


def agent_result(text: str) -> dict[str, Any] | None:
    """Return the answer, status and sources of an agent's result as a caller sees it; None for the result of a tool."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) and {"answer", "status", "sources"} <= set(found) else None


def _arguments(text: str, names: list[str]) -> dict[str, JsonValue] | None:
    """Return the arguments of a call by name; None where it is not (yet) one."""
    try:
        call = ast.parse(text, mode="eval").body
        if not isinstance(call, ast.Call) or len(call.args) > len(names):
            return None
        given = dict(zip(names, (ast.literal_eval(one) for one in call.args), strict=False))
        for one in call.keywords:
            if one.arg is None:
                return None
            given[one.arg] = ast.literal_eval(one.value)
        json.dumps(given, allow_nan=False)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return None
    return given
