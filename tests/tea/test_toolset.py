"""What one agent may call: names, schemas, and the effects of right and wrong calls."""

from __future__ import annotations

from typing import Any

import pytest

from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Effect, EffectKind, Mode, Tag
from agentorchestra.core.errors import ToolDefinitionError
from agentorchestra.core.messages import ToolCall, ToolSchema
from agentorchestra.tea.calling.tool import tool
from agentorchestra.tea.calling.toolset import AgentToolset
from tests.tea.support import seen


@tool(effect="pure")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="read")
def zip_code(city: str) -> str:
    """Find a zip code."""
    return city


class Board:
    """A game with two actions; only what a toolset looks at."""

    name = "board"
    version = "1.2.0"
    content_hash = "abc"

    def actions(self) -> tuple[ToolSchema, ...]:
        number = {"type": "integer", "minimum": 0, "maximum": 8}
        move = {"type": "object", "properties": {"field": number}, "required": ["field"]}
        return (
            ToolSchema(name="move", description="Take a field.", parameters=move),
            ToolSchema(name="board_look", description="Look.", parameters={"type": "object", "properties": {}}),
        )

    def mutates(self, action: str) -> bool:
        return action == "move"


def toolset(*tools: Any, **environments: Any) -> AgentToolset:
    return AgentToolset(tools or (zip_code, add), environments or {"board": Board()}, role="player")


def effect(name: str, arguments: dict[str, Any] | str) -> Effect:
    call = ToolCall(id="c1", name=name, arguments=arguments)
    return toolset().effect(call, None, seen(Trust.UNTRUSTED))


def test_names_and_schemas_are_sorted() -> None:
    made = toolset()
    assert made.names == ("add", "board_board_look", "board_move", "zip_code")
    assert tuple(schema.name for schema in made.schemas()) == made.names
    assert made.schemas()[0] == add.schema
    assert made.schemas()[2].description == "Take a field."
    assert toolset(add, zip_code).schemas() == made.schemas()


def test_the_effect_of_a_tool() -> None:
    found = effect("add", {"a": 1, "b": 2})
    assert (found.kind, found.component, found.content_hash) == (
        EffectKind.INVOKE_TOOL, "add@1.0.0", add.content_hash,
    )  # fmt: skip
    assert (found.arguments, found.invalid, found.mode) == ({"a": 1, "b": 2}, None, Mode.PURE)
    assert (found.role, found.provenance) == ("player", seen(Trust.UNTRUSTED))
    assert effect("add", '{"a": 1, "b": 2}').arguments == {"a": 1, "b": 2}


def test_the_effect_of_an_action() -> None:
    found = effect("board_move", {"field": 3})
    assert (found.kind, found.component, found.content_hash) == (EffectKind.INVOKE_ACTION, "board@1.2.0", "abc")
    assert found.arguments == {"action": "move", "arguments": {"field": 3}}
    assert (found.mode, found.tags, found.instance) == (Mode.ONCE, frozenset({Tag.WRITE}), "board")
    assert (found.invalid, found.role, found.provenance) == (None, "player", seen(Trust.UNTRUSTED))
    assert effect("board_move", '{"field": 3}').fingerprint == found.fingerprint
    looked = effect("board_board_look", {})
    assert looked.arguments["action"] == "board_look"
    assert (looked.mode, looked.tags) == (Mode.REPEATABLE, frozenset({Tag.READ}))


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        (
            "ad",
            {"a": 1},
            "there is no tool 'ad', did you mean 'add'; the tools: add, board_board_look, board_move, zip",
        ),
        ("quite else", {}, "there is no tool 'quite else'; the tools: add"),
        ("", {}, "there is no tool ''; the tools: add"),
        ("add", {"a": 1}, "add: b: Field required. Its arguments: a (integer, required), b (integer, required)"),
        ("add", "[1]", "the arguments of add are not a JSON object: '[1]'"),
        ("board_move", {}, "board_move: 'field' is a required property. Its arguments: field (integer, required)"),
        ("board_move", {"field": 9}, "board_move: field: 9 is greater than the maximum of 8. Its arguments: field"),
        ("board_move", {"field": 1, "x": 2}, "('x' was unexpected). Its arguments: field (integer, required)"),
        ("board_move", "take 3", "the arguments of board_move are not a JSON object: 'take 3'"),
        ("board_board_look", {"x": 1}, "('x' was unexpected). Its arguments: none"),
    ],
)
def test_a_wrong_call_is_an_invalid_effect_that_says_what_is_allowed(name: str, arguments: Any, sentence: str) -> None:
    found = effect(name, arguments)
    assert sentence in (found.invalid or "")


def test_what_cannot_be_read_is_kept_as_it_was() -> None:
    assert effect("board_move", "take 3").arguments["arguments"] == {"raw": "take 3"}
    assert effect("nothing", "take 3").arguments == {"raw": "take 3"}
    assert effect("add", "take 3").arguments == {"raw": "take 3"}


def test_two_of_one_name_are_refused() -> None:
    assert toolset(add, add).names == ("add", "board_board_look", "board_move")
    with pytest.raises(ToolDefinitionError, match="two of the agent's tools, actions and agents are called 'add'"):
        toolset(add, tool(name="add")(lambda: None))
    with pytest.raises(ToolDefinitionError, match="are called 'board_move'"):
        toolset(tool(name="board_move")(lambda: None))
