"""Calls that do not keep to the form are read where it is plain what was meant."""

from __future__ import annotations

from typing import Any

import pytest

from agentorchestra.core.reply_text import read_json, without_fence
from agentorchestra.tea.calling.argument_repair import repair

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "count": {"type": "integer"},
        "share": {"type": "number"},
        "sure": {"type": "boolean"},
        "rows": {"type": "array"},
        "text": {"type": "string"},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "state": {"type": "string", "enum": ["completed", "open"]},
        "other": {"$ref": "#/$defs/Other"},
    },
}


@pytest.mark.parametrize(
    ("name", "given", "taken"),
    [
        ("count", "5", 5),
        ("count", "5.5", "5.5"),
        ("count", "five", "five"),
        ("share", "0.25", 0.25),
        ("share", "NaN", "NaN"),
        ("sure", "true", True),
        ("count", "true", "true"),
        ("rows", "[1, 2]", [1, 2]),
        ("rows", "1", ["1"]),
        ("text", 5, "5"),
        ("text", True, "true"),
        ("text", [1], [1]),
        ("count", 5.0, 5),
        ("maybe", None, None),
        ("sure", "True", True),
        ("state", "Success", "completed"),
        ("state", "OPEN", "open"),
        ("state", "paused", "paused"),
        ("text", "5", "5"),
        ("either", "5", "5"),
        ("maybe", "7", 7),
        ("other", "7", "7"),
        ("nothing", "7", "7"),
    ],
)
def test_a_text_becomes_what_is_wanted_where_it_is_the_same_value(name: str, given: Any, taken: Any) -> None:
    assert repair({name: given}, PARAMETERS) == {name: taken}


@pytest.mark.parametrize(
    "given", ['{"text": "two\nlines"}', '```json\n{"text": "two\\nlines"}\n```', '{"text": "two\\nlines"}']
)
def test_raw_newlines_and_fences_are_read(given: str) -> None:
    assert repair(given, PARAMETERS) == {"text": "two\nlines"}


def test_what_is_no_object_is_none() -> None:
    for given in ("", "not json", "[1]", '{"text": '):
        assert repair(given, PARAMETERS) is None


def test_a_program_may_stand_by_itself() -> None:
    python = {"properties": {"code": {"type": "string"}}, "required": ["code"]}
    assert repair("print(1)\nprint(2)", python) == {"code": "print(1)\nprint(2)"}
    assert repair("```python\nprint(1)\n```", python) == {"code": "print(1)"}
    assert without_fence("a ``` b") == "a ``` b"


def test_names_of_one_argument_stand_for_it_where_a_tool_has_no_other() -> None:
    path = {"properties": {"path": {"type": "string"}}, "required": ["path"]}
    assert repair({"file": "a"}, path) == repair({"filename": "a"}, path) == {"path": "a"}
    assert repair({"file": "a", "path": "b"}, path) == {"file": "a", "path": "b"}
    assert repair({"file": "a", "filename": "b"}, path) == {"file": "a", "filename": "b"}
    both = {"properties": {"path": {"type": "string"}, "file": {"type": "string"}}, "required": []}
    assert repair({"filename": "a"}, both) == {"filename": "a"}


def test_an_answer_of_any_type_is_an_answer_and_other_texts_are_not_made_of_objects() -> None:
    answer = {"properties": {"answer": {"type": "string"}, "report": {"type": "string"}}, "required": ["answer"]}
    pairs: tuple[tuple[Any, str], ...] = ((42, "42"), ({"town": "Ulm"}, '{"town":"Ulm"}'), ([1, 2], "[1,2]"))
    for given, taken in pairs:
        assert repair({"answer": given}, answer, finishes=True) == {"answer": taken}
        assert repair(given, answer, finishes=True) == {"answer": taken}
    assert repair({"answer": {"town": "Ulm"}}, answer) == {"answer": {"town": "Ulm"}}
    assert repair(["a", "b"], answer) is None and repair({"note": "x"}, answer) == {"note": "x"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2,], /* two */ "b": "x // y, ]",} // end', {"a": [1, 2], "b": "x // y, ]"}),
        ('{"a": 1, # one\n}', {"a": 1}),
        ('{"a": NaN}', {"a": "NaN"}),
        ("{'a': None, 'b': (1, True)}", {"a": None, "b": [1, True]}),
        ('```json\n{"a": "\ttab"}\n```', {"a": "\ttab"}),
    ],
)
def test_json_of_a_looser_form(text: str, value: Any) -> None:
    assert read_json(text) == value


@pytest.mark.parametrize("text", ["{'a': f()}", '{"a": 1', "[" * 5_000, "a, b", "{'a': {1, 2}}"])
def test_what_is_no_json(text: str) -> None:
    with pytest.raises(ValueError, match="no JSON"):
        read_json(text)


def test_runs_that_began_before_are_mended_as_they_were() -> None:
    assert repair({"text": 5, "rows": "1", "count": "5"}, PARAMETERS, former=True) == {
        "text": 5,
        "rows": "1",
        "count": 5,
    }
    python = {"properties": {"code": {"type": "string"}}, "required": ["code"]}
    assert repair('{"code": "pri', python, former=True) == {"code": '{"code": "pri'}
    assert repair('{"code": "pri', python) is None
