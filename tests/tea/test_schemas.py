"""JSON schemas to models and back: the same values are accepted on the way there and on the way back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from agentorchestra.core.errors import SourceError
from agentorchestra.tea.calling.schemas import model_of, schema_of
from agentorchestra.tea.calling.signatures import schema_problems

NAMES = st.sampled_from(["a", "b", "class", "model_x", "copy", "x-y", "_z", "größe", "1st"])
TEXTS = st.text("ab1", max_size=4)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-3, 9), st.sampled_from([0.5, -2.5, 7.25]), TEXTS)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)


def leaf() -> st.SearchStrategy[dict[str, Any]]:
    bounds = {"minimum": st.integers(-2, 2), "maximum": st.integers(3, 6), "exclusiveMinimum": st.integers(-2, 2)}
    return st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("string")}, optional={"minLength": st.integers(0, 2), "maxLength": st.integers(2, 4)}
        ),
        st.fixed_dictionaries({"type": st.just("string"), "pattern": st.sampled_from(["^a", "(?=b)", "1$"])}),
        st.fixed_dictionaries({"type": st.sampled_from(["integer", "number"])}, optional=bounds),
        st.fixed_dictionaries({"type": st.just("integer"), "multipleOf": st.sampled_from([2, 3])}),
        st.sampled_from(
            [{"type": "boolean"}, {"type": "null"}, {}, {"type": ["string", "null"]}, {"description": "any"}]
        ),
        st.fixed_dictionaries({"enum": st.lists(SCALARS, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"const": SCALARS}),
        st.just({"$ref": "#/$defs/Node"}),
    )


def grow(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("array"), "items": inner},
            optional={"minItems": st.integers(0, 1), "maxItems": st.integers(1, 3), "uniqueItems": st.booleans()},
        ),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"oneOf": st.lists(inner, min_size=1, max_size=2)}),
        st.fixed_dictionaries({"not": inner}),
        st.fixed_dictionaries(
            {"type": st.just("object"), "additionalProperties": inner}, optional={"minProperties": st.just(1)}
        ),
        objects(inner),
    )


def objects(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, max_size=3)},
        optional={
            "required": st.lists(NAMES, max_size=2, unique=True),
            "additionalProperties": st.one_of(st.booleans(), inner),
            "maxProperties": st.just(2),
        },
    )


NODE = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"$ref": "#/$defs/Node"}},
    "required": ["a"],
    "additionalProperties": False,
}
SCHEMAS = objects(st.recursive(leaf(), grow, max_leaves=5)).map(lambda one: {**one, "$defs": {"Node": NODE}})


def accepts(model: type[BaseModel], value: Any) -> bool:
    try:
        model.model_validate(value)
    except ValidationError:
        return False
    return True


@settings(max_examples=50)
@given(schema=SCHEMAS, values=st.lists(st.dictionaries(NAMES, VALUES, max_size=3), min_size=1, max_size=8))
def test_schema_model_and_schema_accept_the_same_values(schema: dict[str, Any], values: list[Any]) -> None:
    model = model_of(schema)
    back = schema_of(model)
    for value in values:
        fits = not schema_problems(value, schema)
        assert (not schema_problems(value, back)) is fits
        assert accepts(model, value) is fits


@settings(max_examples=40)
@given(value=VALUES, needed=st.booleans())
def test_a_recursive_definition_stays_one(value: Any, needed: bool) -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/Node"}},
        "$defs": {"Node": NODE},
    }
    schema |= {"required": ["tree"]} if needed else {}
    model = model_of(schema)
    deep = {"tree": {"a": 1, "b": {"a": 2, "b": value}}}
    assert accepts(model, deep) is (not schema_problems(deep, schema))
    assert schema_problems(deep, schema_of(model)) == [] if accepts(model, deep) else True


def test_a_model_of_a_schema_reads_like_one_that_was_written() -> None:
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "which one"},
            "days": {"type": "integer", "minimum": 1, "default": 3},
            "units": {"enum": ["C", "F"], "default": "C"},
            "class": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["city", "class"],
        "additionalProperties": False,
    }
    model = model_of(schema, "Weather")
    one: Any = model.model_validate({"city": "Ulm", "class": ["x"]})
    assert (one.city, one.days, one.units, one.class_) == ("Ulm", 3, "C", ["x"])
    assert one.model_dump(by_alias=True, exclude_unset=True) == {"city": "Ulm", "class": ["x"]}
    assert model.__name__ == "Weather"
    back = schema_of(model)
    assert back["properties"]["city"] == {"type": "string", "description": "which one"}
    assert back["properties"]["days"] == {"type": "integer", "minimum": 1, "default": 3}
    assert back["required"] == ["city", "class"] and back["additionalProperties"] is False


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "string"}, "the schema of Arguments is not an object's: its type must be 'object'"),
        (
            {"type": "object", "properties": {"a": {"$ref": "#/$defs/No"}}},
            "refers to '#/\\$defs/No', which is not in it",
        ),
        ({"type": "object", "properties": {"a": {"$ref": "http://x/y"}}}, "refers to 'http://x/y', which is not in it"),
    ],
)
def test_what_has_no_model_is_a_sentence(schema: dict[str, Any], said: str) -> None:
    with pytest.raises(SourceError, match=said):
        model_of(schema)


def test_a_schema_without_end_is_a_sentence() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(20_000):
        schema = {"type": "array", "items": schema}
    with pytest.raises(SourceError, match="nested too deeply"):
        model_of({"type": "object", "properties": {"a": schema}})
