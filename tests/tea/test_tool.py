"""Tools: from a function to a schema, a mode and sentences."""

from __future__ import annotations

import enum
import functools
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from agentorchestra.core.effects import Mode, Tag
from agentorchestra.core.errors import ToolDefinitionError
from agentorchestra.core.messages import ToolSchema
from agentorchestra.core.protocols import RunContext
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.signatures import given_of, read_docstring, schema_problems
from agentorchestra.tea.calling.tool import Tool, tool, tool_from_schema
from tests import warm
from tests.tea.support import refused, validated

if TYPE_CHECKING:
    from decimal import Decimal


class Colour(enum.Enum):
    """A choice."""

    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    """A place."""

    x: int
    y: int = 0


class Options(TypedDict, total=False):
    """Optional keys."""

    deep: bool


class Query(BaseModel):
    """A nested model."""

    words: list[str] = Field(min_length=1)
    at: Point | None = None


@tool
def everything(
    ctx: RunContext[Any],
    text: str,
    colour: Colour = Colour.RED,
    kind: Literal["a", "b"] = "a",
    number: int | float = 1,
    limit: Annotated[int, Field(ge=1, le=50, description="How many.")] = 5,
    query: Query | None = None,
    points: list[Point] | None = None,
    pair: tuple[int, str] = (1, "x"),
    names: set[str] = frozenset({"b", "a"}),  # type: ignore[assignment]
    options: Options | None = None,
    table: dict[str, list[int]] | None = None,
    day: date | None = None,
    json: Any = None,
    *,
    copy: bool = False,
) -> str:
    """Everything a signature can hold.

    Args:
        text: The text
            on two lines.
        limit: Not this one.
        copy: Whether to copy.
    """
    return text


# -- schema ------------------------------------------------------------------------------------------------------------


def test_the_schema_of_every_kind_of_parameter() -> None:
    schema = everything.schema.parameters
    found = schema["properties"]
    assert (schema["type"], schema["required"], schema["additionalProperties"]) == ("object", ["text"], False)
    assert "ctx" not in found
    assert found["text"] == {"type": "string", "description": "The text on two lines."}
    assert found["colour"]["default"] == "red"
    assert schema["$defs"]["Colour"]["enum"] == ["red", "blue"]
    assert found["kind"] == {"type": "string", "enum": ["a", "b"], "default": "a"}
    assert found["limit"] == {
        "type": "integer", "minimum": 1, "maximum": 50, "default": 5, "description": "How many.",
    }  # fmt: skip
    assert {one["type"] for one in found["number"]["anyOf"]} == {"integer", "number"}
    assert found["pair"]["prefixItems"] == [{"type": "integer"}, {"type": "string"}]
    assert found["names"] == {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "default": ["a", "b"]}
    assert found["table"]["additionalProperties"] == {"type": "array", "items": {"type": "integer"}}
    assert found["day"] == {"type": "string", "format": "date"}
    assert found["json"] == {}
    assert found["copy"] == {"type": "boolean", "default": False, "description": "Whether to copy."}
    assert "title" not in found["text"]
    assert everything.description == "Everything a signature can hold."


def test_arguments_become_the_types_of_the_function() -> None:
    found = validated(
        everything,
        text="t",
        colour="blue",
        limit="7",  # models write numbers as text
        query={"words": ["w"], "at": {"x": 1}},
        points=[{"x": 2, "y": 3}],
        pair=[4, "y"],
        names=["n"],
        options={"deep": True},
        day="2024-02-29",
        json=[1, {"a": None}],
    )
    assert found == {
        "text": "t",
        "colour": Colour.BLUE,
        "limit": 7,
        "query": Query(words=["w"], at=Point(1)),
        "points": [Point(2, 3)],
        "pair": (4, "y"),
        "names": {"n"},
        "options": {"deep": True},
        "day": date(2024, 2, 29),
        "json": [1, {"a": None}],
    }
    assert validated(everything, text="t") == {"text": "t"}  # defaults are the function's own business


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "everything: text: Field required. Its arguments: text (string, required), colour (\"red\" | \"blue\", "),
        ({"text": "t", "colour": "green"}, "colour: Input should be 'red' or 'blue' (got \"green\")"),
        ({"text": "t", "limit": 51}, "limit: Input should be less than or equal to 50 (got 51)"),
        ({"text": "t", "query": {"words": []}}, "query.words: List should have at least 1 item"),
        ({"text": "t", "limt": 1}, "limt: Extra inputs are not permitted (got 1), did you mean 'limit'?"),
        ({"text": "t", "ctx": 1}, "ctx: Extra inputs are not permitted"),
        ({"text": "x" * 300, "limit": "y" * 300}, "(got \"" + "y" * 78 + "…)"),
        ("[1, 2]", "the arguments of everything are not a JSON object: '[1, 2]'"),
        ('{"text": ', "the arguments of everything are not a JSON object: '{\"text\": '"),
        ({"text": "t", "number": float("nan")}, "the arguments of everything are not JSON"),
        ("", "text: Field required"),
    ],
)  # fmt: skip
def test_a_sentence_says_what_is_wrong_and_what_is_allowed(arguments: Any, said: str) -> None:
    sentence = refused(everything, arguments)
    assert said in sentence
    assert "Its arguments: text (string, required)" in sentence


def test_text_is_read_as_json() -> None:
    assert everything.validate('{"text": "t"}') == ({"text": "t"}, None)


def test_many_problems_are_not_all_listed() -> None:
    sentence = refused(everything, {"text": 1} | {f"unknown_{n}": n for n in range(9)})
    assert "; and 5 more. Its arguments" in sentence


def test_a_tool_without_parameters() -> None:
    @tool
    def ping() -> str:
        return "pong"

    assert ping.schema.parameters == {"type": "object", "properties": {}, "additionalProperties": False}
    assert "Its arguments: none" in refused(ping, {"x": 1})


_VALUES = st.fixed_dictionaries(
    {"text": st.text()},
    optional={
        "colour": st.sampled_from(["red", "blue"]),
        "kind": st.sampled_from(["a", "b"]),
        "number": st.integers() | st.floats(allow_nan=False, allow_infinity=False),
        "limit": st.integers(1, 50),
        "points": st.none() | st.lists(st.fixed_dictionaries({"x": st.integers()}, optional={"y": st.integers()})),
        "pair": st.tuples(st.integers(), st.text()).map(list),
        "names": st.lists(st.text(), unique=True),
        "options": st.none() | st.fixed_dictionaries({}, optional={"deep": st.booleans()}),
        "table": st.none() | st.dictionaries(st.text(), st.lists(st.integers())),
        "json": st.recursive(st.none() | st.booleans() | st.text(), st.lists, max_leaves=5),
        "copy": st.booleans(),
    },
)


@given(_VALUES)
def test_what_fits_the_schema_fits_the_function(arguments: dict[str, Any]) -> None:
    parameters = everything.schema.parameters
    assert schema_problems(given_of(arguments, parameters), parameters) == []
    assert everything.validate(arguments)[1] is None


@given(st.dictionaries(st.sampled_from(["text", "limit", "kind", "copy", "x"]), st.integers() | st.text(max_size=3)))
def test_what_the_schema_refuses_is_refused_or_understood(arguments: dict[str, Any]) -> None:
    found, sentence = everything.validate(arguments)
    assert (found is None) == (sentence is not None)
    if schema_problems(arguments, everything.schema.parameters) == []:
        assert sentence is None


# -- docstrings --------------------------------------------------------------------------------------------------------

GOOGLE = """Read.

Twice: really.

Args:
    a: One.
    b (int): Two
        lines.

Returns:
    Text.

Raises:
    ToolError: never.
"""
NUMPY = """Read.

Twice: really.

Parameters
----------
a
    One.
b : int
    Two
    lines.
"""
SPHINX = """Read.

Twice: really.

:param a: One.
:param int b: Two
    lines.
:returns: Text.
"""


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_docstrings_of_three_styles(text: str) -> None:
    assert read_docstring(text) == ("Read.\n\nTwice: really.", {"a": "One.", "b": "Two lines."})


def test_a_docstring_without_sections_stays_as_it_is() -> None:
    assert read_docstring("Read: a page.\n\nMore, see http://x:80.") == ("Read: a page.\n\nMore, see http://x:80.", {})


def test_description_and_name_may_be_given() -> None:
    @tool(name="read-page", description="Reads.")
    def read(url: str) -> str:
        """Else."""
        return url

    assert (read.name, read.description, read.component) == ("read-page", "Reads.", "read-page@1.0.0")


# -- effects -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("effect", "idempotent", "tags", "mode"),
    [
        (None, False, set(), Mode.ONCE),
        (None, True, set(), Mode.REPEATABLE),
        ("pure", False, set(), Mode.PURE),
        ("read", False, {"read"}, Mode.PURE),
        ("read", True, {"read"}, Mode.PURE),
        (("pure", "execute"), False, {"execute"}, Mode.PURE),
        (("read", "network"), False, {"read", "network"}, Mode.REPEATABLE),
        ("network", False, {"network"}, Mode.ONCE),
        (("read", "spend"), False, {"read", "spend"}, Mode.ONCE),
        (("read", "network", "spend"), False, {"read", "network", "spend"}, Mode.ONCE),
        (["read", "write"], False, {"read", "write"}, Mode.ONCE),
        ("write", True, {"write"}, Mode.REPEATABLE),
        ("send", False, {"send"}, Mode.ONCE),
        ("execute", False, {"execute"}, Mode.ONCE),
        ("composite", False, set(), Mode.COMPOSITE),
        (("composite", "network"), True, {"network"}, Mode.COMPOSITE),
    ],
)
def test_the_effect_decides_the_mode(effect: Any, idempotent: bool, tags: set[str], mode: Mode) -> None:
    @tool(effect=effect, idempotent=idempotent)
    def one() -> None:
        """One."""

    assert (one.tags, one.mode) == (frozenset(Tag(tag) for tag in tags), mode)


# -- what cannot be a tool ---------------------------------------------------------------------------------------------


def _stars(*args: int) -> None: ...
def _more(**kwargs: int) -> None: ...
def _untyped(a) -> None: ...  # type: ignore[no-untyped-def]
def _unknown(a: Decimal) -> None: ...
def _no_schema(a: subprocess.Popen[bytes]) -> None: ...
def _bad_default(a: Any = object()) -> None: ...  # noqa: B008
def _field(a: int = Field(default=1)) -> None: ...
async def _yields(a: int) -> AsyncIterator[int]:
    yield a


@pytest.mark.parametrize(
    ("function", "options", "said"),
    [
        (_stars, {}, "tool '_stars' takes *args: a model needs named arguments"),
        (_more, {}, "tool '_more' takes **kwargs"),
        (_untyped, {}, "parameter 'a' of tool '_untyped' has no type; write e.g. a: str"),
        (_unknown, {}, "the type 'Decimal' of parameter 'a' of tool '_unknown' cannot be resolved"),
        (_no_schema, {}, "of parameter 'a' of tool '_no_schema' has no JSON schema"),
        (_bad_default, {}, "the default <object object at"),
        (_field, {}, "is a Field; write it into the type: a: Annotated[..., Field(...)] = default"),
        (_yields, {}, "tool '_yields' yields its results; return them as one list"),
        (lambda: 1, {}, "'<lambda>' cannot be a tool's name"),
        (Point, {}, "cannot be a tool: give a function or a method"),
        (functools.partial(_stars), {}, "and name= where it has no name"),
        (everything.__call__, {"name": "1st"}, "'1st' cannot be a tool's name: 1 to 64 letters"),
        (read_docstring, {"name": "a" * 65}, "cannot be a tool's name"),
        (read_docstring, {"effect": "reads"}, "has the unknown effect 'reads'; the effects: read, write, network"),
        (read_docstring, {"effect": ("read", "x")}, "has the unknown effect 'x'"),
        (read_docstring, {"effect": ("pure", "write")}, "cannot be pure and write"),
        (read_docstring, {"effect": ("pure", "composite")}, "cannot be pure and composite"),
        (read_docstring, {"version": "1"}, "has the version '1'; versions look like '1.2.0'"),
        (read_docstring, {"timeout_s": 0}, "has timeout_s=0; give a positive number"),
        (read_docstring, {"timeout_s": float("inf")}, "has timeout_s=inf"),
        (read_docstring, {"max_cost_usd": -1}, "has max_cost_usd=-1"),
    ],
)
def test_a_definition_that_cannot_work_is_refused(function: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ToolDefinitionError) as caught:
        tool(**options)(function) if options else tool(function)
    assert said in str(caught.value)


# -- functions, methods, contexts --------------------------------------------------------------------------------------


class Shop:
    """An object with tools."""

    def __init__(self, price: int) -> None:
        self.price = price

    @tool(effect="pure", thread=False)
    def total(self, count: int) -> int:
        """What so many cost."""
        return self.price * count

    @tool
    @staticmethod
    def hello(name: str) -> str:
        """Greet."""
        return f"hello {name}"

    async def later(self, ctx: RunContext[Any], count: int) -> str:
        """A method that is no tool yet."""
        return f"{ctx} {self.price * count}"


async def test_methods_are_bound_to_their_objects() -> None:
    cheap, dear = Shop(1), Shop(9)
    assert (cheap.total(2), dear.total(2)) == (2, 18)
    assert (await dear.total.call({"count": 3})).content == 27
    assert list(dear.total.schema.parameters["properties"]) == ["count"]
    assert dear.total.content_hash == Shop.total.content_hash
    assert (await cheap.hello.call({"name": "a"})).content == "hello a"
    assert (await tool(dear.later).call({"count": 1}, "ctx")).content == "ctx 9"
    with pytest.raises(ToolDefinitionError, match=r"method without its object; register it from an instance"):
        await Shop.total.call({"count": 1})


async def test_a_tool_is_still_the_function() -> None:
    @tool(effect="pure")
    def add(a: int, b: int = 1, /, *, c: int = 0) -> int:
        """Add."""
        return a + b + c

    total: int = add(1, 2, c=3)
    assert (total, add.name, add.__doc__) == (6, "add", "Add.")
    assert (await add.call(validated(add, b=5, a=1))).content == 6
    assert (await add.call(validated(add, a=1, c=2))).content == 4
    assert tool(add) is add


async def test_the_context_is_found_by_type_or_by_name() -> None:
    @tool
    async def typed(a: int, run: RunContext[Any]) -> Any:
        return run

    @tool
    def named(ctx, a: int) -> Any:  # type: ignore[no-untyped-def]
        return ctx

    @tool
    def hidden(ctx: OnlyForCheckers, a: int) -> Any:  # type: ignore[name-defined] # noqa: F821
        return ctx

    for one in (typed, named, hidden):
        assert list(one.schema.parameters["properties"]) == ["a"]
        assert (await one.call({"a": 1}, "the context")).content == "the context"


def test_types_of_the_enclosing_function_are_found() -> None:
    class Local(BaseModel):
        n: int

    @tool
    def one(a: Local) -> int:
        return a.n

    assert validated(one, a={"n": 1}) == {"a": Local(n=1)}


async def test_partial_functions_and_results() -> None:
    async def power(base: int, exponent: int) -> ToolResult:
        """Raise to a power."""
        return ToolResult(content=base**exponent)

    square = tool(name="square")(functools.partial(power, exponent=2))
    assert (await square.call(validated(square, base=3))).content == 9


# -- identity ----------------------------------------------------------------------------------------------------------

_MODULE = '''
from agentorchestra.tea.calling.tool import tool
{import_}
@tool(effect="pure")
def double(a: int) -> int:
    """Double."""
    return a * {factor}
'''


def _hash(tmp_path: Path, name: str, factor: int, import_: str = "") -> str:
    (tmp_path / f"{name}.py").write_text(_MODULE.format(factor=factor, import_=import_))
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import {name}; print({name}.double.content_hash)"
    done = warm.run(["-c", code], environ=os.environ)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_content_hash_is_of_the_function_alone(tmp_path: Path) -> None:
    first = _hash(tmp_path, "one", 2)
    assert first == _hash(tmp_path, "two", 2, import_="import json  # another module")
    assert first != _hash(tmp_path, "three", 3)


def test_functions_without_source_have_a_hash_too() -> None:
    spaces: list[dict[str, Any]] = [{}, {}, {}]
    for space, factor in zip(spaces, (2, 2, 3), strict=True):
        exec(f"def f(a: int) -> int:\n    return a * {factor}", space)
    hashes = [tool(space["f"]).content_hash for space in spaces]
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.long
def test_the_schema_is_the_same_in_every_process(tmp_path: Path) -> None:
    code = (
        "from agentorchestra.tea.calling.tool import tool\n"
        "def f(a: set[str] = {'x', 'y', 'z', 'w'}) -> None: ...\n"
        "print(tool(f).schema.digest)"
    )
    found = set()
    for seed in ("1", "2", "3"):
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(one for one in sys.path if one)}
        command = [sys.executable, "-c", code]
        found.add(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)
    assert len(found) == 1


def test_defining_a_tool_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom agentorchestra.tea.calling.tool import tool\n"
        "@tool\ndef f(a: int) -> None:\n    'Plain.'\n"
        "print([m for m in ('pydantic_ai', 'jinja2', 'pydantic_monty', 'jsonschema', 'griffe', 'sqlalchemy') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.long
def test_a_type_checker_keeps_the_types(tmp_path: Path) -> None:
    from mypy import api

    (tmp_path / "user.py").write_text(
        "from agentorchestra.tea.calling.tool import Tool, tool\n"
        "@tool\ndef add(a: int, b: int = 1) -> int:\n    return a + b\n"
        '@tool(effect="read")\nasync def later(a: str) -> bytes:\n    return a.encode()\n'
        "class Shop:\n    @tool\n    def total(self, count: int) -> int:\n        return count\n"
        "every: list[Tool] = [add, later, Shop().total]\n"
        "async def main() -> None:\n"
        "    reveal_type(add(1))\n    reveal_type(await later('a'))\n    reveal_type(Shop().total(2))\n    add('x')\n"
    )
    out, _, _ = api.run(["--strict", "--no-incremental", "--config-file=", str(tmp_path / "user.py")])
    notes = [line.partition(": ")[2] for line in out.splitlines()]
    assert notes[:3] == [
        'note: Revealed type is "int"', 'note: Revealed type is "bytes"', 'note: Revealed type is "int"',
    ], out  # fmt: skip
    assert 'Argument 1 to "__call__" of "Tool" has incompatible type "str"; expected "int"' in notes[3]
    assert notes[4].startswith("1 error") or "Found 1 error" in out


# -- schemas from elsewhere --------------------------------------------------------------------------------------------

SCHEMA = {
    "type": "object",
    "properties": {"city": {"$ref": "#/$defs/City"}, "days": {"type": "integer", "minimum": 1}},
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {"City": {"type": "string", "minLength": 2}},
}


async def test_a_tool_from_a_schema() -> None:
    async def weather(ctx: Any, **arguments: Any) -> str:
        return f"{ctx} {arguments}"

    one: Tool = tool_from_schema(
        weather,
        ToolSchema(name="weather", description="Forecast.", parameters=SCHEMA),
        effect=("read", "network"),
        takes_context=True,
        source="server 1.0",
    )
    assert (one.mode, one.schema.parameters) == (Mode.REPEATABLE, SCHEMA)
    assert (await one.call(validated(one, city="Rome"), "c")).content == "c {'city': 'Rome'}"
    sentence = refused(one, {"city": "X", "days": 0, "more": 1})
    assert "city: 'X' is too short" in sentence
    assert "days: 0 is less than the minimum of 1" in sentence
    assert "('more' was unexpected)" in sentence
    assert "Its arguments: city (string, required), days (integer)" in sentence


async def test_any_name_may_be_an_argument_of_a_tool_from_a_schema() -> None:
    async def echo(ctx: Any, /, **arguments: Any) -> dict[str, Any]:
        return {"context": ctx, **arguments}

    parameters = {"type": "object", "properties": {"ctx": {"type": "string"}, "self": {"type": "string"}}}
    one: Tool = tool_from_schema(
        echo, ToolSchema(name="echo", description="", parameters=parameters), takes_context=True
    )
    called = await one.call(validated(one, ctx="mine", self="me"), "c")
    assert called.content == {"context": "c", "ctx": "mine", "self": "me"}


def test_a_schema_that_cannot_be_used() -> None:
    with pytest.raises(ToolDefinitionError, match="is not an object's"):
        tool_from_schema(print, ToolSchema(name="x", description="", parameters={"type": "string"}))


def test_references_to_other_documents_are_not_fetched() -> None:
    problems = schema_problems({}, {"$ref": "http://127.0.0.1:9/schema.json"})
    assert problems == ["the schema refers to 'http://127.0.0.1:9/schema.json', which is not in it"]
