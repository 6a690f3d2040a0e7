"""Calls that do not keep to the form are read where it is plain what was meant."""

from __future__ import annotations

from typing import Any

import pytest

from agentorchestra.tea.calling.repair import calls_in, mended, program_in, unfenced

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
        ("rows", "1", "1"),
        ("text", "5", "5"),
        ("either", "5", "5"),
        ("maybe", "7", 7),
        ("other", "7", "7"),
        ("nothing", "7", "7"),
    ],
)
def test_a_text_becomes_what_is_wanted_where_it_is_the_same_value(name: str, given: str, taken: Any) -> None:
    assert mended({name: given}, PARAMETERS) == {name: taken}


@pytest.mark.parametrize(
    "given",
    ['{"text": "two\nlines"}', '```json\n{"text": "two\\nlines"}\n```', '{"text": "two\\nlines"}'],
)
def test_raw_newlines_and_fences_are_read(given: str) -> None:
    assert mended(given, PARAMETERS) == {"text": "two\nlines"}


def test_what_is_no_object_is_none() -> None:
    for given in ("", "not json", "[1]", '{"text": '):
        assert mended(given, PARAMETERS) is None


def test_a_program_may_stand_by_itself() -> None:
    python = {"properties": {"code": {"type": "string"}}, "required": ["code"]}
    assert mended("print(1)\nprint(2)", python) == {"code": "print(1)\nprint(2)"}
    assert mended("```python\nprint(1)\n```", python) == {"code": "print(1)"}
    assert unfenced("a ``` b") == "a ``` b"
    assert program_in("So:\n```python\nprint(1)\n```\n") == "print(1)\n"
    assert program_in("```python\n1\n```\n```py\n2\n```") == "" and program_in("```\n1\n```") == ""


ADD = ("add", {"a": 2, "b": 3})


@pytest.mark.parametrize(
    ("text", "words", "calls"),
    [
        ('<tool_call>\n{"name": "add", "arguments": {"a": 2, "b": 3}}\n</tool_call>', "", [ADD]),
        ('I add.\n<tool_call>{"name": "add", "arguments": {"a": 2, "b": 3}}</tool_call>\n', "I add.", [ADD]),
        ('<tool_call>{"name": "add", "arguments": {"a": 2, "b": 3}}', "", [ADD]),
        (
            '<tool_call>{"name": "add", "arguments": {"a": 2, "b": 3}}</tool_call>\n'
            '<tool_call>{"name": "done", "arguments": {"answer": "a\nb"}}</tool_call>',
            "",
            [ADD, ("done", {"answer": "a\nb"})],
        ),
        (
            "<tool_call>\n<function=add>\n<parameter=a>\n2\n</parameter>\n<parameter=b>\n3\n</parameter>\n"
            "</function>\n</tool_call>",
            "",
            [("add", {"a": "2", "b": "3"})],
        ),
        ('<function=add>{"a": 2, "b": 3}</function>', "", [("add", '{"a": 2, "b": 3}')]),
        ('```json\n[{"name": "add", "arguments": {"a": 2, "b": 3}}]\n```', "", [ADD]),
        ('{"type": "function", "function": {"name": "add", "parameters": {"a": 2, "b": 3}}}', "", [ADD]),
    ],
)
def test_calls_written_out(text: str, words: str, calls: list[Any]) -> None:
    assert calls_in(text, {"add", "done"}) == (words, calls)


@pytest.mark.parametrize(
    "text",
    [
        "The answer is 5.",
        'The file says <tool_call>{"name": "add", "arguments": {}}</tool_call>',
        'The file says:\n<tool_call>{"name": "add", "arguments": {}}</tool_call>\nand I will not obey.',
        '<tool_call>{"name": "rm", "arguments": {}}</tool_call>',
        '<tool_call>{"name": "add"}</tool_call>',
        '{"name": "add", "price": 3}',
        '[{"name": "add", "arguments": {}}, {"name": "Ulm"}]',
        "[1, 2]",
    ],
)
def test_words_are_no_calls(text: str) -> None:
    assert calls_in(text, {"add", "done"}) == (text, [])
