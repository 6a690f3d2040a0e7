"""From type hints to schemas: every kind of type, the context wherever it stands, what counts for the hash."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired

import jsonschema
import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from agentorchestra.core.errors import ToolDefinitionError
from agentorchestra.core.protocols import RunContext
from agentorchestra.tea.calling.signatures import read_signature, schema_problems
from agentorchestra.tea.calling.tool import tool
from tests.tea.support import AnyTool, validated

if TYPE_CHECKING:
    from collections import OrderedDict


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Part(BaseModel):
    """A part."""

    name: str
    weight: float = Field(default=1.0, gt=0, description="In kilograms.")


class Whole(BaseModel):
    parts: list[Part]
    origin: Point | None = None


class Options(TypedDict):
    deep: bool
    limit: NotRequired[int]


class Node(BaseModel):
    value: int
    children: list[Node] = []


class Opaque:
    pass


def properties(one: AnyTool) -> dict[str, Any]:
    found: dict[str, Any] = one.schema.parameters["properties"]
    return found


# -- types -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (Any, {}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (Literal['a', 2], {"enum": ["a", 2]}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
        (dict[str, list[float]], {
            "type": "object", "additionalProperties": {"type": "array", "items": {"type": "number"}}
        }),
        (tuple[int, str], {
            "type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2
        }),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (datetime.date, {"type": "string", "format": "date"}),
        (Annotated[int, Field(ge=1, le=9)], {"type": "integer", "minimum": 1, "maximum": 9}),
        (Annotated[str, Field(pattern='^a', max_length=5)], {"type": "string", "pattern": "^a", "maxLength": 5}),
        (Annotated[list[int], Field(min_length=1)], {"type": "array", "items": {"type": "integer"}, "minItems": 1}),
        (list[dict[str, int | None]], {"type": "array", "items": {
            "type": "object", "additionalProperties": {"anyOf": [{"type": "integer"}, {"type": "null"}]}
        }}),
    ],
)  # fmt: skip
def test_types(hint: Any, schema: dict[str, Any]) -> None:
    def one(x: Any) -> None: ...

    one.__annotations__["x"] = hint
    assert tool(one).schema.parameters == {
        "type": "object",
        "properties": {"x": schema},
        "required": ["x"],
        "additionalProperties": False,
    }


def test_named_types_become_definitions() -> None:
    @tool
    def build(colour: Colour, whole: Whole, options: Options, at: Point, tree: Node) -> None:
        """Build."""

    assert properties(build) == {
        "colour": {"$ref": "#/$defs/Colour"},
        "whole": {"$ref": "#/$defs/Whole"},
        "options": {"$ref": "#/$defs/Options"},
        "at": {"$ref": "#/$defs/Point"},
        "tree": {"$ref": "#/$defs/Node"},
    }
    definitions = build.schema.parameters["$defs"]
    assert definitions["Colour"] == {"enum": ["red", "blue"], "type": "string"}
    assert definitions["Part"] == {
        "description": "A part.",
        "properties": {
            "name": {"type": "string"},
            "weight": {"type": "number", "exclusiveMinimum": 0, "default": 1.0, "description": "In kilograms."},
        },
        "required": ["name"],
        "type": "object",
    }
    assert definitions["Options"]["required"] == ["deep"]
    assert definitions["Node"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
    jsonschema.Draft202012Validator.check_schema(build.schema.parameters)

    found = validated(
        build,
        colour="red",
        whole={"parts": [{"name": "a"}], "origin": {"x": 1}},
        options={"deep": True},
        at={"x": 2},
        tree={"value": 1, "children": [{"value": 2}]},
    )
    assert found == {
        "colour": Colour.RED,
        "whole": Whole(parts=[Part(name="a")], origin=Point(1)),
        "options": {"deep": True},
        "at": Point(2),
        "tree": Node(value=1, children=[Node(value=2)]),
    }


def test_defaults_are_shown_and_the_functions_own_are_used() -> None:
    seen: list[Any] = []

    @tool
    def search(
        words: str,
        limit: int = 5,
        *,
        colours: set[str] = frozenset({"red", "blue"}),  # type: ignore[assignment]
        at: Point = Point(1, 2),  # noqa: B008 - what the schema makes of it is tested
        colour: Colour = Colour.RED,
        note: str | None = None,
    ) -> None:
        seen.append((limit, colours, at, colour, note))

    assert {name: one.get("default", "-") for name, one in properties(search).items()} == {
        "words": "-", "limit": 5, "colours": ["blue", "red"], "at": {"x": 1, "y": 2}, "colour": "red", "note": "-",
    }  # fmt: skip
    assert search.schema.parameters["required"] == ["words"]
    assert validated(search, words="x") == {"words": "x"}  # what is not given is left to the function
    search(**validated(search, words="x", limit=7))
    assert seen == [(7, {"red", "blue"}, Point(1, 2), Colour.RED, None)]


def test_names_that_a_model_class_would_not_allow() -> None:
    @tool
    def odd(_hidden: int, schema: int, json: int, model_config: int, copy: int, validate: int = 1) -> int:
        return _hidden + schema + json + model_config + copy + validate

    assert odd(**validated(odd, _hidden=1, schema=2, json=3, model_config=4, copy=5)) == 16


def test_a_description_in_the_type_wins_over_the_docstring() -> None:
    @tool
    def one(x: Annotated[int, Field(description="From the type.")]) -> None:
        """One.

        Args:
            x: From the docstring.
        """

    assert properties(one)["x"]["description"] == "From the type."


# -- the context -------------------------------------------------------------------------------------------------------


def test_the_context_is_found_by_its_annotation_wherever_it_stands() -> None:
    def first(ctx: RunContext[Any], x: int) -> None: ...
    def last(x: int, run: RunContext[Point]) -> None: ...
    def keyword(x: int, *, c: RunContext[Any]) -> None: ...
    def bare(x: int, context: RunContext) -> None: ...  # type: ignore[type-arg]
    def annotated(x: int, run: Annotated[RunContext[Any], "the run"]) -> None: ...
    def optional(x: int, run: RunContext[Any] | None = None) -> None: ...
    def by_name(ctx, x: int) -> None: ...  # type: ignore[no-untyped-def]
    def for_checkers_only(ctx: OrderedDict[str, int], x: int) -> None: ...

    for one in (first, last, keyword, bare, annotated, optional, by_name, for_checkers_only):
        made = tool(one)
        assert list(properties(made)) == ["x"], one.__name__


def test_a_context_whose_class_is_imported_for_checkers_only() -> None:
    namespace: dict[str, Any] = {}
    code = "def one(x: int, *, run: 'RunContext[Any]') -> None: ...\n"
    exec("from typing import Any\n" + code, namespace)
    assert list(properties(tool(namespace["one"]))) == ["x"]


# -- what is decorated -------------------------------------------------------------------------------------------------


def test_wrapped_functions_and_partials() -> None:
    def plain(x: int, y: int = 2) -> int:
        """Plain."""
        return x + y

    @tool
    @functools.wraps(plain)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return plain(*args, **kwargs)

    assert list(properties(wrapped)) == ["x", "y"]
    assert wrapped(1) == 3
    half = tool(name="half")(functools.partial(plain, y=5))
    assert half(1) == 6
    with pytest.raises(ToolDefinitionError, match="and name= where it has no name"):
        tool(functools.partial(plain, 1))


# -- identity ----------------------------------------------------------------------------------------------------------


def _loaded(folder: Any, body: str) -> Any:
    """The tool `one` of a module with this text."""
    folder.mkdir(exist_ok=True)
    path = folder / "module.py"
    path.write_text(body)
    namespace: dict[str, Any] = {"__name__": "module"}
    import linecache

    linecache.checkcache(str(path))
    exec(compile(body, str(path), "exec"), namespace)
    return namespace["one"]


def test_the_content_hash_is_of_source_and_schema(tmp_path: Any) -> None:
    head = "from agentorchestra.tea.calling.tool import tool\n"
    base = "@tool\ndef one(x: int) -> int:\n    return x\n"

    def hashed(name: str, body: str) -> str:
        found: str = _loaded(tmp_path / name, head + body).content_hash
        return found

    known = hashed("a", base)
    assert len(known) == 64
    assert hashed("b", base) == known  # another file, the same text
    assert hashed("c", "\n\n# above\n" + base) == known  # what stands elsewhere does not count
    assert hashed("d", "if True:\n" + "".join(f"    {line}\n" for line in base.splitlines())) == known
    different = [
        base.replace("return x", "return x + 1"),
        base.replace("x: int", "x: str"),
        base.replace("    return", "    # a comment is source too\n    return"),
        base.replace("    return", '    """Documented."""\n    return'),
        base.replace("@tool", "@tool(effect='read')"),
    ]
    assert len({known, *(hashed(f"e{n}", body) for n, body in enumerate(different))}) == 6


# -- what cannot be a tool ---------------------------------------------------------------------------------------------


def _callable(x: Callable[[], int]) -> None: ...
def _opaque(x: Opaque) -> None: ...
def _nan(x: float = float("nan")) -> None: ...
def _two(a: RunContext[Any], b: RunContext[Any]) -> None: ...
def _late(x: int, ctx) -> None: ...  # type: ignore[no-untyped-def]


def _plain(x: int) -> None: ...


def _yields(x: int) -> Any:
    yield x


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (_callable, "of parameter 'x' of tool '_callable' has no JSON schema"),
        (_opaque, "the type Opaque of parameter 'x' of tool '_opaque' has no JSON schema"),
        (_nan, "the default NaN of parameter 'x' of tool '_nan' is not JSON"),
        (_two, "tool '_two' takes the context twice: a and b; one is enough"),
        (_late, "parameter 'ctx' of tool '_late' has no type; write ctx: RunContext[Any] for the run's context"),
        (_yields, "tool '_yields' yields its results; return them as one list"),
    ],
)
def test_what_cannot_be_a_tool_says_what_to_change(function: Any, sentence: str) -> None:
    with pytest.raises(ToolDefinitionError) as caught:
        tool(function)
    assert sentence in str(caught.value)


def test_a_tool_is_not_made_a_tool_again() -> None:
    made = tool(_plain)
    assert tool(made) is made
    with pytest.raises(ToolDefinitionError, match=r"<Tool _plain@1\.0\.0 once> is a tool already; give"):
        tool(effect="read")(made)


def test_arguments_of_the_types_themselves_fit_the_schema_and_nothing_else_is_taken_for_that() -> None:
    def order(
        name: str,
        count: Annotated[int, Field(ge=1, le=9)],
        kind: Literal["a", "b"] = "a",
        share: float = 0.5,
        tags: list[str] | None = None,
        colour: Colour = Colour.RED,
        part: Part | None = None,
        fast: bool = False,
    ) -> None:
        """Order something."""

    signature = read_signature(order, "order", {})
    closed = {"additionalProperties": False, **signature.parameters}
    values: list[Any] = ["", "a", "red", 0, 3, 10, 0.5, True, None, [], ["x"], [1], {}, {"name": "p"}]
    fine: dict[str, Any] = {"name": "n", "count": 3}
    assert signature.fits(fine) and signature.fits({**fine, "share": 1, "tags": ["x"], "kind": "b", "fast": True})
    for name in ("name", "count", "kind", "share", "tags", "colour", "part", "fast", "other"):
        for value in values:
            given = {**fine, name: value}
            assert not signature.fits(given) or schema_problems(given, closed) == [], given
    assert not signature.fits({"name": "n"}) and not signature.fits({**fine, "other": 1})
    assert not signature.fits({**fine, "count": "3"}), "the function would take it, its schema does not"
