"""The specification of a tool: written by the model before there is any code, and checked here."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from agentorchestra.agents.forms import FLAG, TEXT, TEXTS, Form, form, list_of
from agentorchestra.core.errors import ComponentNameError
from agentorchestra.core.ids import canonical_json
from agentorchestra.tea.calling.signatures import schema_problems
from agentorchestra.tea.registry.history import checked_component_name

_JSON = Form({"type": "string", "description": "JSON, written as text"}, {})
SPECIFICATION = form(
    ["possible"],
    reason=TEXT,
    possible=FLAG,
    name=TEXT,
    title=TEXT,
    description=TEXT,
    parameters=_JSON,
    returns=_JSON,
    plan=TEXTS,
    examples=list_of(form(["arguments", "expected"], arguments=_JSON, expected=_JSON)),
    case=form(["arguments"], arguments=_JSON, stated_as=TEXT, expected=_JSON),
)
"""The reply to prompt `tool_spec`. Schemas and values of any shape are texts, since decoders want closed objects."""

TOLERANCE = 1e-9  # by which two numbers may differ, as a part of the larger one

LONGEST_NAME = 40


@dataclass(frozen=True)
class Case:
    """One call and its result; `known` says whether anybody has said what the result is to be."""

    arguments: dict[str, JsonValue]
    expected: JsonValue = None
    known: bool = True


@dataclass(frozen=True)
class Specification:
    """A tool to be made, with examples that were written before the code, and the call that the task needs."""

    name: str
    title: str
    description: str
    parameters: dict[str, Any]
    returns: dict[str, Any]
    plan: tuple[str, ...]
    examples: tuple[Case, ...]
    case: Case

    @property
    def cases(self) -> tuple[Case, ...]:
        """Return the examples, and at last the task's own case."""
        return (*self.examples, self.case)

    @property
    def shown(self) -> dict[str, JsonValue]:
        """Return it as the author of the code reads it: the case's result is not told."""
        return {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
            "returns": self.returns,
            "plan": [*self.plan],
            "examples": [{"arguments": example.arguments, "expected": example.expected} for example in self.examples],
        }


class SpecificationError(Exception):
    """A specification that is none; the sentence says why."""


def read_specification(reply: Mapping[str, Any], task: str, least: int) -> Specification:
    """Return the specification in a reply; a result for the task counts only where the task states it.

    Raises:
        SpecificationError: for one by which no tool could be judged; `least` examples are needed.
    """
    name = str(reply.get("name") or "")
    try:
        checked_component_name("tool", name)
    except ComponentNameError as exc:
        raise SpecificationError(str(exc)) from None
    if not name.isidentifier() or len(name) > LONGEST_NAME:
        raise SpecificationError(f"{name!r} is no name for a Python function of at most {LONGEST_NAME} characters")
    description = " ".join(str(reply.get("description") or "").split())
    if not description:
        raise SpecificationError("the tool has no description")
    parameters, returns = _schema(reply, "parameters"), _schema(reply, "returns")
    properties = parameters.get("properties")
    if parameters.get("type") != "object" or not isinstance(properties, dict):
        raise SpecificationError('`parameters` is a JSON schema with "type": "object" and "properties"')
    # Where nothing is said of it, whatever has no default is needed.
    required_names = [name for name, item in properties.items() if not (isinstance(item, dict) and "default" in item)]
    parameters = {"additionalProperties": False, "required": required_names, **parameters}
    examples = [
        Case(_arguments(example, f"example {number}"), json_value(example["expected"], returns))
        for number, example in enumerate(reply.get("examples", ()), 1)
    ]
    raw_case = reply.get("case")
    if not isinstance(raw_case, Mapping):
        raise SpecificationError("`case` is missing: the call that the task needs")
    result = json_value(raw_case.get("expected"), returns)
    is_stated = _is_stated(raw_case, result, task)
    case = Case(_arguments(raw_case, "the case"), result if is_stated else None, is_stated)
    for number, case_checked in enumerate((*examples, case), 1):
        label = f"example {number}" if number <= len(examples) else "the case"
        if problems := schema_problems(case_checked.arguments, parameters):
            raise SpecificationError(f"the arguments of {label} do not fit the parameters: {problems[0]}")
        if case_checked.known and (problems := schema_problems(case_checked.expected, returns)):
            raise SpecificationError(f"the result of {label} does not fit `returns`: {problems[0]}")
    different = {canonical_json(example.arguments) for example in examples} - {canonical_json(case.arguments)}
    if len(different) < least:
        raise SpecificationError(f"there are {len(different)} different examples besides the case; {least} are needed")
    title = " ".join(str(reply.get("title") or name.replace("_", " ")).split())[:80]
    plan = tuple(str(step) for step in reply.get("plan", ()))[:20]
    return Specification(name, title, description[:1000], parameters, returns, plan, tuple(examples), case)


def json_value(raw: Any, schema: dict[str, Any] | None = None) -> JsonValue:
    """Return the JSON value of a reply, which may be written as text; a text that fits the schema is the value."""
    if not isinstance(raw, str):
        value: JsonValue = raw
        return value
    try:
        value = json.loads(raw, strict=False)
    except ValueError:
        return raw
    is_text = schema is not None and schema_problems(value, schema) and not schema_problems(raw, schema)
    return raw if is_text else value


def _arguments(raw: Mapping[str, Any], label: str) -> dict[str, JsonValue]:
    value = json_value(raw["arguments"])
    if not isinstance(value, dict):
        raise SpecificationError(
            f"the arguments of {label} are {short(value)}; give a JSON object of arguments by name"
        )
    return value


def _schema(reply: Mapping[str, Any], name: str) -> dict[str, Any]:
    schema = json_value(reply.get(name))
    if not isinstance(schema, dict) or not schema:
        raise SpecificationError(f"`{name}` is missing: a JSON schema")
    problems = [problem for problem in schema_problems(None, schema) if problem.startswith("the schema")]
    if problems:
        raise SpecificationError(f"`{name}`: {problems[0]}")
    return dict(schema)


def _is_stated(case: Mapping[str, Any], expected: JsonValue, task: str) -> bool:
    """Return True if the task itself states its case's result: the words stand there, and the result stands in them."""
    words = _plain(str(case.get("stated_as") or ""))
    if "expected" not in case or not words or words not in _plain(task):
        return False
    text = expected if isinstance(expected, str) else json.dumps(expected, ensure_ascii=False)
    return _plain(text).strip("\"'") in words


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def same(value: JsonValue, other: JsonValue) -> bool:
    """Return True if two JSON values are the same result: numbers nearly, everything else exactly."""
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    if isinstance(value, int | float) and isinstance(other, int | float):
        return math.isclose(value, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(same(a, b) for a, b in zip(value, other, strict=True))
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(same(value, other[key]) for key, value in value.items())
    return value == other


def short(value: JsonValue, most: int = 200) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def calls_of(cases: Sequence[Case]) -> list[dict[str, JsonValue]]:
    return [{"arguments": case.arguments, "expected": case.expected} for case in cases]
