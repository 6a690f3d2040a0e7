"""The arguments of a call as a model: it accepts what their JSON schema accepts."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from agentorchestra.tea.calling.schemas import arguments_model
from agentorchestra.tea.calling.signatures import schema_problems
from tests.support.examples import examples

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


@settings(max_examples=examples(50))
@given(schema=SCHEMAS, values=st.lists(st.dictionaries(NAMES, VALUES, max_size=3), min_size=1, max_size=8))
def test_model_and_schema_accept_the_same_values(schema: dict[str, Any], values: list[Any]) -> None:
    model = arguments_model("anything", schema)
    for value in values:
        assert accepts(model, value) is (not schema_problems(value, schema))


def test_a_model_of_a_schema_reads_like_one_that_was_written() -> None:
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "which one"},
            "days": {"type": "integer", "minimum": 1, "default": 3},
            "class": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["city", "class"],
        "additionalProperties": False,
    }
    model = arguments_model("weather_of", schema)
    one: Any = model.model_validate({"city": "Ulm", "class": ["x"]})
    assert (one.city, one.days, one.field_class) == ("Ulm", 3, ["x"])
    assert one.model_dump(by_alias=True, exclude_unset=True) == {"city": "Ulm", "class": ["x"]}
    assert model.__name__ == "WeatherOfArguments" and model.model_fields["city"].description == "which one"
    assert model.model_json_schema() == schema
