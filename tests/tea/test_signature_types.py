"""Every kind of type and of callable: the schema a model is shown, the value the function receives."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import datetime
import decimal
import enum
import functools
import ipaddress
import pathlib
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, Required, TypeVar

import jsonschema
import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypeAliasType, TypedDict

from agentorchestra.core.errors import ToolDefinitionError
from agentorchestra.core.protocols import RunContext
from agentorchestra.tea.calling.tool import tool
from tests.tea.support import validated


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Size(enum.StrEnum):
    SMALL = "s"
    LARGE = "l"


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


class Partly(TypedDict, total=False):
    a: Required[int]
    b: str


class Chain(TypedDict):
    value: int
    next: NotRequired[Chain | None]


@dataclasses.dataclass
class Tree:
    value: int
    children: list[Tree] = dataclasses.field(default_factory=list)


class Pair(NamedTuple):
    x: int
    y: str = "k"


class Renamed(BaseModel):
    source: int = Field(alias="from")


T = TypeVar("T")


class Box(BaseModel, Generic[T]):
    item: T


UserId = NewType("UserId", int)
Nested = TypeAliasType("Nested", "list[Nested] | int")

INT = {"type": "integer"}
TEXT = {"type": "string"}
WHEN = datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.UTC)
ID = uuid.UUID(int=5)

ROWS: list[tuple[Any, dict[str, Any], Any, Any]] = [
    # type, schema, what a model gives, what the function receives
    (Level, {"enum": [1, 2], "type": "integer"}, 2, Level.HIGH),
    (Size, {"enum": ["s", "l"], "type": "string"}, "l", Size.LARGE),
    (Literal[Size.SMALL], {"const": "s", "type": "string"}, "s", Size.SMALL),
    (Literal["a", 1, None], {"enum": ["a", 1, None]}, None, None),
    (UserId, INT, 3, 3),
    (str | int | None, {"anyOf": [TEXT, INT, {"type": "null"}]}, "7", "7"),
    (frozenset[int], {"type": "array", "items": INT, "uniqueItems": True}, [1], frozenset({1})),
    (collections.deque[int], {"type": "array", "items": INT}, [1], collections.deque([1])),
    (collections.defaultdict[str, int], {"type": "object", "additionalProperties": INT}, {"a": 1},
     collections.defaultdict(int, a=1)),
    (collections.OrderedDict[str, int], {"type": "object", "additionalProperties": INT}, {"a": 1},
     collections.OrderedDict(a=1)),
    (collections.Counter[str], {"type": "object", "additionalProperties": INT}, {"a": 1},
     collections.Counter(a=1)),
    (dict[int, str], {"type": "object", "additionalProperties": TEXT}, {"4": "x"}, {4: "x"}),
    (Sequence[int], {"type": "array", "items": INT}, [1, 2], [1, 2]),
    (Mapping[str, int], {"type": "object", "additionalProperties": INT}, {"a": 1}, {"a": 1}),
    (list, {"type": "array", "items": {}}, [1, "a"], [1, "a"]),
    (dict, {"type": "object", "additionalProperties": True}, {"a": [1]}, {"a": [1]}),
    (tuple[()], {"type": "array", "minItems": 0, "maxItems": 0}, [], ()),
    (tuple[str, ...], {"type": "array", "items": TEXT}, ["a"], ("a",)),
    (datetime.datetime, {"type": "string", "format": "date-time"}, "2026-01-02T03:04:00Z", WHEN),
    (datetime.time, {"type": "string", "format": "time"}, "03:04", datetime.time(3, 4)),
    (datetime.timedelta, {"type": "string", "format": "duration"}, "PT90S", datetime.timedelta(seconds=90)),
    (uuid.UUID, {"type": "string", "format": "uuid"}, str(ID), ID),
    (pathlib.Path, {"type": "string", "format": "path"}, "a/b", pathlib.Path("a/b")),
    (bytes, {"type": "string", "format": "binary"}, "abc", b"abc"),
    (re.Pattern[str], {"type": "string", "format": "regex"}, "a+", re.compile("a+")),
    (ipaddress.IPv4Address, {"type": "string", "format": "ipv4"}, "127.0.0.1", ipaddress.IPv4Address("127.0.0.1")),
    (decimal.Decimal, {"anyOf": [{"type": "number"}, TEXT]}, "1.10", decimal.Decimal("1.10")),
    (Annotated[decimal.Decimal, Field(gt=0)], {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, TEXT]},
     "2", decimal.Decimal(2)),
    (Annotated[list[Annotated[int, Field(gt=0)]], Field(max_length=2)],
     {"type": "array", "items": {"type": "integer", "exclusiveMinimum": 0}, "maxItems": 2}, [1], [1]),
    (Annotated[str, Field(description="What.", examples=["x"])],
     {"type": "string", "description": "What.", "examples": ["x"]}, "y", "y"),
]  # fmt: skip

NAMED: list[tuple[Any, dict[str, Any], Any, Any]] = [
    (Partly, {"a": INT, "b": TEXT}, {"a": 1}, {"a": 1}),
    (Chain, {"value": INT, "next": {"anyOf": [{"$ref": "#/$defs/Chain"}, {"type": "null"}]}},
     {"value": 1, "next": {"value": 2}}, {"value": 1, "next": {"value": 2}}),
    (Tree, {"value": INT, "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
     {"value": 1, "children": [{"value": 2}]}, Tree(1, [Tree(2)])),
    (Renamed, {"from": INT}, {"from": 1}, Renamed.model_validate({"from": 1})),
    (Box[int], {"item": INT}, {"item": 1}, Box[int](item=1)),
]  # fmt: skip


def taking(hint: Any) -> Any:
    def one(x: Any) -> Any:
        return x

    one.__annotations__["x"] = hint
    return tool(one)


def definitions(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of `x` with the definition it refers to in its place."""
    found = schema["properties"]["x"]
    return dict(schema["$defs"][found["$ref"].rpartition("/")[2]]) if "$ref" in found else dict(found)


@pytest.mark.parametrize(("hint", "schema", "given", "received"), ROWS, ids=[str(row[0])[:40] for row in ROWS])
def test_types(hint: Any, schema: dict[str, Any], given: Any, received: Any) -> None:
    made = taking(hint)
    jsonschema.Draft202012Validator.check_schema(made.schema.parameters)
    assert definitions(made.schema.parameters) == schema
    jsonschema.Draft202012Validator(made.schema.parameters).validate({"x": given})
    found = validated(made, x=given)["x"]
    assert found == received
    assert isinstance(found, type(received))


@pytest.mark.parametrize(("hint", "properties", "given", "received"), NAMED, ids=[str(row[0])[:40] for row in NAMED])
def test_structures(hint: Any, properties: dict[str, Any], given: Any, received: Any) -> None:
    made = taking(hint)
    jsonschema.Draft202012Validator(made.schema.parameters).validate({"x": given})
    assert definitions(made.schema.parameters)["properties"] == properties
    assert validated(made, x=given)["x"] == received


def test_a_union_is_told_apart_by_its_discriminator() -> None:
    made = taking(Pet)
    shown = made.schema.parameters["properties"]["x"]
    assert shown["oneOf"] == [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]
    assert validated(made, x={"kind": "dog", "name": "Rex"})["x"] == Dog(kind="dog", name="Rex")
    _, problem = made.validate({"x": {"kind": "cow"}})
    assert "x: Input tag 'cow' found using 'kind' does not match any of the expected tags: 'cat', 'dog'" in problem


def test_recursive_aliases_and_named_tuples() -> None:
    assert validated(taking(Nested), x=[1, [2, []]])["x"] == [1, [2, []]]
    assert validated(taking(Pair), x=[1])["x"] == Pair(1)
    assert validated(taking(Iterable[int]), x=[1, 2]) is not None


def test_a_value_outside_is_named_with_what_is_allowed() -> None:
    _, problem = taking(Level).validate({"x": 3})
    assert problem == "one: x: Input should be 1 or 2 (got 3). Its arguments: x (1 | 2, required)"


# -- callables ---------------------------------------------------------------------------------------------------------


class Shop:
    def __init__(self, name: str) -> None:
        self.name = name

    @tool
    def greet(self, who: str) -> str:
        """Greet."""
        return f"{self.name}: {who}"

    @tool
    @classmethod
    def kind(cls, of: str) -> str:
        """The kind."""
        return f"{cls.__name__} of {of}"

    @tool
    @staticmethod
    def add(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    def __call__(self, question: str) -> str:
        """Ask.

        Args:
            question: what about.
        """
        return f"{self.name} answers {question}"


class Bakery(Shop):
    pass


def test_methods_class_methods_and_static_methods() -> None:
    shop = Shop("corner")
    for one, given, result in (
        (shop.greet, {"who": "Ann"}, "corner: Ann"),
        (Shop.kind, {"of": "tea"}, "Shop of tea"),
        (Bakery.kind, {"of": "bread"}, "Bakery of bread"),
        (Bakery("b").kind, {"of": "bread"}, "Bakery of bread"),
        (Shop.add, {"a": 1}, 2),
        (shop.add, {"a": 1, "b": 2}, 3),
        (tool(name="ask")(shop.__call__), {"question": "x"}, "corner answers x"),
    ):
        assert list(one.schema.parameters["properties"])[: len(given)] == list(given)
        found, problem = one.validate(given)
        assert problem is None and found is not None
        assert asyncio.run(one.call(found)).content == result
    with pytest.raises(ToolDefinitionError, match=r"of an object that is called: its __call__ method"):
        tool(shop)


def test_what_a_partial_binds_is_neither_shown_nor_replaced() -> None:
    def fetch(url: str, key: str, *, depth: int = 1) -> str:
        """Fetch.

        Args:
            url: where.
            key: a secret.
        """
        return f"{url} {key} {depth}"

    made = tool(name="fetch")(functools.partial(fetch, key="s3cret"))
    assert made.schema.parameters["properties"] == {
        "url": {"type": "string", "description": "where."}, "depth": {"type": "integer", "default": 1},
    }  # fmt: skip
    assert made.description == "Fetch."
    assert "s3cret" not in str(made.schema)
    found, _ = made.validate({"url": "x"})
    assert asyncio.run(made.call(found or {})).content == "x s3cret 1"
    assert "key" in str(made.validate({"url": "x", "key": "other"})[1])
    assert made.content_hash != tool(name="fetch")(functools.partial(fetch, depth=2)).content_hash


def test_positional_only_keyword_only_and_async() -> None:
    async def one(a: int, b: int = 2, /, c: int = 3, *, d: int) -> list[int]:
        return [a, b, c, d]

    made = tool(one)
    assert made.schema.parameters["required"] == ["a", "d"]
    for given, result in (({"a": 1, "d": 4}, [1, 2, 3, 4]), ({"a": 1, "b": 5, "c": 6, "d": 7}, [1, 5, 6, 7])):
        found, _ = made.validate(given)
        assert asyncio.run(made.call(found or {})).content == result


def _stars(*words: str) -> None: ...
def _more(**options: int) -> None: ...
def _untyped(x) -> None: ...  # type: ignore[no-untyped-def]
def _later(x: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def _field(x: int = Field(default=1)) -> None: ...
def _view(x: memoryview) -> None: ...
def _context(x: RunContext[Any], y: RunContext[Any]) -> None: ...


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (_stars, "takes *words: a model needs named arguments; write one parameter for each, or one list or dict"),
        (_more, "takes **options: a model needs named arguments"),
        (_untyped, "parameter 'x' of tool '_untyped' has no type; write e.g. x: str"),
        (_later, "'Missing' is not defined); import or define it in the module, not only for type checkers"),
        (_field, "the default of parameter 'x' of tool '_field' is a Field; write it into the type"),
        (_view, "the type memoryview of parameter 'x' of tool '_view' has no JSON schema"),
        (_context, "takes the context twice: x and y; one is enough"),
    ],
)
def test_what_has_no_schema_says_what_to_change(function: Any, sentence: str) -> None:
    with pytest.raises(ToolDefinitionError) as caught:
        tool(function)
    assert sentence in str(caught.value)
