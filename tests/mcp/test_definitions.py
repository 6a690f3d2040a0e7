"""What is made of the tools that a server lists: what they may do, their names, their schemas, in bounded time."""

from __future__ import annotations

import time
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentorchestra.core.effects import Mode, Tag
from agentorchestra.core.messages import ToolSchema
from agentorchestra.tea.calling.tool import tool_from_schema
from agentorchestra.tools.mcp.definitions import (
    MAX_DESCRIPTION,
    Definition,
    definitions_of,
    effects_of,
    owned,
    schema_problem,
    tool_name,
    unique,
)
from tests.support.examples import examples

READ, WRITE, NETWORK, EXECUTE = Tag.READ, Tag.WRITE, Tag.NETWORK, Tag.EXECUTE
HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


def judged(hints: Any, *, trust: bool) -> tuple[set[Tag], Mode]:
    effect, idempotent = effects_of(hints, trust=trust)
    schema = ToolSchema(name="x", description="", parameters={"type": "object"})
    made = tool_from_schema(print, schema, effect=effect, idempotent=idempotent)
    return set(made.tags), made.mode


@pytest.mark.parametrize(
    ("hints", "untrusted", "trusted"),
    [
        (None, ({WRITE, NETWORK}, Mode.ONCE), ({WRITE, NETWORK}, Mode.ONCE)),
        ({}, ({WRITE, NETWORK}, Mode.ONCE), ({WRITE, NETWORK}, Mode.ONCE)),
        ("read only", ({WRITE, NETWORK}, Mode.ONCE), ({WRITE, NETWORK}, Mode.ONCE)),
        ({"readOnlyHint": True}, ({WRITE, NETWORK}, Mode.ONCE), ({READ, NETWORK}, Mode.REPEATABLE)),
        ({"readOnlyHint": "true"}, ({WRITE, NETWORK}, Mode.ONCE), ({WRITE, NETWORK}, Mode.ONCE)),
        ({"readOnlyHint": 1}, ({WRITE, NETWORK}, Mode.ONCE), ({WRITE, NETWORK}, Mode.ONCE)),
        ({"idempotentHint": True}, ({WRITE, NETWORK}, Mode.ONCE), ({WRITE, NETWORK}, Mode.REPEATABLE)),
        ({"openWorldHint": True}, ({WRITE, NETWORK}, Mode.ONCE), ({WRITE, NETWORK}, Mode.ONCE)),
        ({"openWorldHint": False}, ({WRITE, NETWORK}, Mode.ONCE), ({WRITE, NETWORK}, Mode.ONCE)),
        (
            {"readOnlyHint": True, "openWorldHint": False},
            ({WRITE, NETWORK}, Mode.ONCE),
            ({READ, NETWORK}, Mode.REPEATABLE),
        ),
        ({"destructiveHint": False}, ({WRITE, NETWORK}, Mode.ONCE), ({WRITE, NETWORK}, Mode.ONCE)),
        ({"destructiveHint": True}, ({WRITE, NETWORK, EXECUTE}, Mode.ONCE), ({WRITE, NETWORK, EXECUTE}, Mode.ONCE)),
        (
            {"readOnlyHint": True, "destructiveHint": True},
            ({WRITE, NETWORK, EXECUTE}, Mode.ONCE),
            ({WRITE, NETWORK, EXECUTE}, Mode.ONCE),
        ),
        (
            {"idempotentHint": True, "destructiveHint": True},
            ({WRITE, NETWORK, EXECUTE}, Mode.ONCE),
            ({WRITE, NETWORK, EXECUTE}, Mode.REPEATABLE),
        ),
    ],
)  # fmt: skip
def test_what_hints_make_of_a_tool(
    hints: Any, untrusted: tuple[set[Tag], Mode], trusted: tuple[set[Tag], Mode]
) -> None:
    assert judged(hints, trust=False) == untrusted
    assert judged(hints, trust=True) == trusted


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(HINTS), st.one_of(st.booleans(), st.none(), st.text(), st.integers())))
def test_no_hint_of_an_untrusted_server_loosens(hints: dict[str, Any]) -> None:
    tags, mode = judged(hints, trust=False)
    assert tags >= {WRITE, NETWORK}
    assert mode is Mode.ONCE


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(min_size=1, max_size=200), st.text(min_size=1, max_size=200))
def test_every_name_becomes_one_that_a_tool_may_have(server: str, remote: str) -> None:
    schema = ToolSchema(name=tool_name(server, remote), description="", parameters={"type": "object"})
    assert len(tool_from_schema(print, schema).name) <= 64


def test_names_stay_what_they_were_when_others_come(number: int = 3) -> None:
    def one(server: str, remote: str) -> Definition:
        return Definition(server, remote, tool_name(server, remote), "", {}, ("write",), False)

    several = [one("a", "list files"), one("a", "list_files"), one("a", "list  files"), one("a", "list.files")]
    names = [each.name for each in unique(several)]
    assert names[0] == "a_list_files"
    assert len(set(names)) == 4
    assert [each.name for each in unique([several[0], several[3]])] == [names[0], names[3]]
    long = [one("a", "x" * 100), one("a", "x" * 101)]
    assert len({each.name for each in unique(long)}) == 2


def test_a_name_belongs_to_the_server_with_the_longest_prefix() -> None:
    def one(server: str, remote: str) -> Definition:
        return Definition(server, remote, tool_name(server, remote), "", {}, ("write",), False)

    long = "s" * 70
    tools = [one("a", "x"), one("a", "b_x"), one("a_b", "x"), one("7", "x"), one(long, "y" * 90), one("s", "s" * 80)]
    kept, notes = owned(tools, ["a", "a_b", "7", long, "s"])
    assert [each.server for each in kept] == ["a", "a_b", "7", long, "s"] and kept[-1].remote == "s" * 80
    assert len(notes) == 1 and "'b_x'" in notes[0] and "MCP server 'a_b'; rename" in notes[0]


def test_one_broken_tool_costs_only_itself() -> None:
    listed: list[dict[str, Any]] = [
        {"name": "good", "inputSchema": {"type": "object"}, "title": "Does good."},
        {"name": "bare", "inputSchema": {}},
        {"name": "good", "inputSchema": {"type": "object"}, "description": "another"},
        {"name": "", "inputSchema": {"type": "object"}},
        {"inputSchema": {"type": "object"}},
        {"name": "none"},
        {"name": "text", "inputSchema": {"type": "string"}},
        {"name": "wrong", "inputSchema": {"type": "object", "required": "n"}},
        {"name": "large", "size": 200_000},
        {"name": "long", "inputSchema": {"type": "object"}, "description": "y" * 100_000},
    ]
    found, notes = definitions_of("srv", listed, trust=False)
    assert [one.name for one in found] == ["srv_good", "srv_bare", "srv_long"]
    assert found[0].description == "Does good."
    assert found[1].parameters == {"type": "object"}
    assert len(found[2].description) < MAX_DESCRIPTION + 20
    assert [note for note in notes if "has no name" in note] == [
        "a tool of the MCP server 'srv' is left out: it has no name"
    ] * 2
    assert "the tool 'good' of the MCP server 'srv' is listed twice: the first one holds" in notes
    assert notes[-1].endswith(
        "'large' of the MCP server 'srv' is left out: it has 200,000 characters; at most 50,000 are taken"
    )
    assert "the tool 'none' of the MCP server 'srv' is left out: its inputSchema is NoneType, not an object" in notes
    assert any(
        "'text'" in note and "describes 'string'; the arguments of a tool are an object" in note for note in notes
    )
    assert any("'wrong'" in note and "is no JSON schema: 'n' is not of type 'array'" in note for note in notes)


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"n": schema}}
    return schema


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ({"properties": {"n": {"type": "nonsense"}}}, "is no JSON schema"),
        ({"properties": {"n": {"$ref": "#/$defs/Gone"}}}, "refers to '#/$defs/Gone', which is not in it"),
        (
            {"properties": {"n": {"$ref": "http://127.0.0.1:9/x"}}},
            "refers to 'http://127.0.0.1:9/x', which is not in it",
        ),
        ({"properties": {"n": {"$ref": "#/type"}}, "type": "object"}, "refers to '#/type', which is not in it"),
        ({"properties": {"n": {"pattern": "("}}}, "is no JSON schema"),
        (nested(40), "is nested more than 64 deep"),
        (nested(20_000), "is nested more than 64 deep"),
    ],
)
def test_schemas_that_cannot_be_used(schema: dict[str, Any], sentence: str) -> None:
    assert sentence in schema_problem(schema)


def check(schema: dict[str, Any], arguments: dict[str, Any]) -> list[str]:
    assert schema_problem(schema) == ""
    return Definition("s", "t", "s_t", "", {**schema, "type": "object"}, ("write",), False).problems(arguments)


def test_arguments_are_checked_through_references() -> None:
    schema = {
        "properties": {
            "city": {"$ref": "#/$defs/City"},
            "pattern": {"type": "string"},
            "tree": {"$ref": "#/$defs/Tree"},
        },
        "required": ["city"],
        "additionalProperties": False,
        "$defs": {
            "City": {"type": "string", "minLength": 2},
            "Tree": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Tree"}}, "required": ["name"]},
        },
    }  # fmt: skip
    assert check(schema, {"city": "Rome", "pattern": "x", "tree": {"name": 1, "next": {}}}) == []
    assert check(schema, {}) == ["'city' is a required property"]
    assert check(schema, {"city": "R"}) == ["city: 'R' is too short"]
    assert check(schema, {"city": "Rome", "pattern": 1, "more": 1})
    assert check(schema, {"city": "Rome", "tree": {}}) == ["tree: 'name' is a required property"]


def test_the_drafts_that_servers_write() -> None:
    old = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"N": {"type": "integer"}},
        "properties": {"n": {"$ref": "#/definitions/N"}, "pair": {"type": "array", "items": [{"type": "string"}]}},
    }
    assert check(old, {"n": "x", "pair": [1]}) == ["n: 'x' is not of type 'integer'"]


LAUGHS = {
    "properties": {"n": {"$ref": "#/$defs/d0"}},
    "$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 10} for n in range(12)}
    | {"d12": {"type": "string"}},
}
_BRANCHES = [{"properties": {key: {"$ref": "#/$defs/T"}}, "required": ["x"]} for key in "aabb"]
FORKED = {"properties": {"n": {"$ref": "#/$defs/T"}}, "$defs": {"T": {"anyOf": _BRANCHES}}}
SLOW = {
    "properties": {"n": {"type": "string", "pattern": "^(a+)+$"}},
    "patternProperties": {"^(b+)+$": {"type": "integer"}},
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("schema", [LAUGHS, FORKED, SLOW, {"$ref": "#"}, {"properties": {"n": {"$ref": "#"}}}])
def test_no_schema_makes_a_check_take_long(schema: dict[str, Any]) -> None:
    deep: Any = "a" * 60 + "!"
    for _ in range(60):
        deep = {"a": deep, "b": deep}
        deep["b"] = 1
    began = time.process_time()
    for arguments in ({"n": "a" * 60 + "!"}, {"n": deep}, {"b" * 60 + "!": 1}):
        check(schema, arguments)
    # Without a bound each of these takes longer than the universe has existed: a minute is no matter of timing.
    assert time.process_time() - began < 60


SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([{"type": "string"}, {"type": "integer"}, {"enum": [1, "a"]}, True, {}]),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(st.sampled_from("abc"), inner)}
        ),
    ),
    max_leaves=8,
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.text(max_size=3), st.integers(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=8,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(SCHEMAS, VALUES)
def test_the_check_says_what_the_schema_says(inner: Any, value: Any) -> None:
    schema = {"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}, "$defs": {"N": inner}}
    assert (check(schema, {"n": value}) == []) == jsonschema.Draft202012Validator(schema).is_valid({"n": value})


KEYWORDS = [
    "type", "properties", "required", "items", "anyOf", "oneOf", "allOf", "not", "$ref", "$defs", "definitions",
    "$schema", "$id", "pattern", "patternProperties", "additionalProperties", "enum", "const", "minimum",
    "exclusiveMinimum", "format", "default", "description", "if", "then", "else", "n",
]  # fmt: skip
JSON: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.sampled_from([f"http://json-schema.org/draft-0{number}/schema#" for number in (3, 4, 7)]),
        st.sampled_from(
            ["object", "string", "array", "#", "#/$defs/n", "#/properties/n", "http://x/y", "http://[", "(", "n", ""]
        ),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=4)),
    max_leaves=12,
)


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(JSON, JSON, JSON, JSON)
def test_whatever_is_listed_gives_tools_or_notes(schema: Any, annotations: Any, name: Any, value: Any) -> None:
    listed = [
        {"name": "t", "description": name, "inputSchema": schema, "annotations": annotations, "title": value},
        {"name": name, "inputSchema": {"properties": {"n": schema}}},
    ]
    found, notes = definitions_of("srv", listed, trust=True)
    assert len(found) + len(notes) == 2
    for one in found:
        assert isinstance(one.problems({"n": value}), list)


def test_an_older_drafts_words_are_left_to_the_server() -> None:
    schema = {"$schema": "http://json-schema.org/draft-03/schema#", "properties": {"n": {"required": True}}}
    assert check(schema, {"n": 1}) == check(schema, {}) == []
