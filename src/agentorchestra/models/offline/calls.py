"""Calls: those that a task spells out, as in `longest_words(text="a bird in the hand", most=1)`, and those made."""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.spec import AgentResult
from agentorchestra.models.offline.passages import Passage

_BEGINNING = re.compile(r"(?<![\w.])(?P<name>[A-Za-z_]\w*)\(")
_LONGEST = 5_000  # characters of one call
_MOST_TRIED = 100  # beginnings of calls that are read on


@dataclass(frozen=True)
class CallRecord:
    """A call that was made: the texts of its result, none while it is not known, and the passages of files in it."""

    name: str
    arguments: dict[str, Any]
    texts: tuple[str, ...] = ()
    is_error: bool = False
    passages: tuple[Passage, ...] = ()

    @property
    def text(self) -> str:
        return next((text for text in self.texts if text), "")

    @cached_property
    def result(self) -> AgentResult | None:
        """What an agent gave back; None for a tool."""
        for text in () if self.is_error else self.texts:
            try:
                value = json.loads(text)
                if isinstance(value, dict) and "status" in value:
                    return AgentResult.model_validate(value)
            except ValueError:
                continue
        return None


def spelled_calls(task: str, tools: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, dict[str, JsonValue]]]:
    """Return the calls with literal arguments in a task; those of a tool that is not offered name each argument.

    Arguments without a name are in the order of the tool's schema.
    """
    calls: list[tuple[str, dict[str, JsonValue]]] = []
    end = 0
    for match in islice(_BEGINNING.finditer(task), _MOST_TRIED):
        text = _call_at(task, match.start()) if match.start() >= end else ""
        arguments = _arguments(text, list(tools.get(match["name"], {}).get("properties", {})))
        if arguments or (arguments is not None and match["name"] in tools):
            calls.append((match["name"], arguments))
            end = match.start() + len(text)
    return calls


def _call_at(task: str, start: int) -> str:
    """Return the call that begins here, to the bracket that closes it; "" where none does."""
    text = task[start : start + _LONGEST]
    depth = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.OP:
                depth += (token.string in "([{") - (token.string in ")]}")
                if not depth:
                    row, column = token.end
                    lines = text.split("\n")
                    return "\n".join([*lines[: row - 1], lines[row - 1][:column]])
    except (tokenize.TokenError, SyntaxError):
        pass
    return ""


def _arguments(text: str, names: list[str]) -> dict[str, JsonValue] | None:
    """Return the arguments of a call by name; None where it is not (yet) one."""
    try:
        call = ast.parse(text, mode="eval").body
        if not isinstance(call, ast.Call) or len(call.args) > len(names):
            return None
        arguments = dict(zip(names, (ast.literal_eval(value) for value in call.args), strict=False))
        for keyword in call.keywords:
            if keyword.arg is None:
                return None
            arguments[keyword.arg] = ast.literal_eval(keyword.value)
        json.dumps(arguments, allow_nan=False)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return None
    return arguments
