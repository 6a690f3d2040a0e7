"""The version rule: what a change of a schema means for callers."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentorchestra import tool
from agentorchestra.core.errors import UsageError
from agentorchestra.tea.registry.versions import changes_of, level_of, next_version
from tests.support.examples import examples

BASE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Where."},
        "days": {"type": "integer", "minimum": 1},
        "unit": {"enum": ["C", "F"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "place": {"type": "object", "properties": {"lat": {"type": "number"}}, "required": ["lat"]},
    },
    "required": ["city"],
    "additionalProperties": False,
}


def _changed(path: str, value: Any) -> dict[str, Any]:
    made = copy.deepcopy(BASE)
    place: Any = made
    *parents, last = path.split("/")
    for part in parents:
        place = place[part]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return made


@pytest.mark.parametrize(
    ("path", "value", "level", "what"),
    [
        ("properties/city/description", "In which town.", "patch", "descriptions"),
        ("properties/days", None, "major", "days was removed"),
        ("required", ["city", "days"], "major", "days is required now"),
        ("required", [], "minor", "city is optional now"),
        ("properties/hour", {"type": "integer"}, "minor", "hour is new and optional"),
        ("properties/days/type", "string", "major", "days may no longer be integer"),
        ("properties/days/type", "number", "minor", "days may be number too"),
        ("properties/days/type", ["integer", "null"], "minor", "days may be null too"),
        ("properties/days/minimum", 2, "major", "minimum of days is 2 now"),
        ("properties/days/minimum", 0, "minor", "minimum of days is 0 now"),
        ("properties/days/minimum", None, "minor", "minimum of days is free now"),
        ("properties/city/maxLength", 10, "major", "maxLength of city is 10 now"),
        ("properties/city/pattern", "^[A-Z]", "major", "the pattern of city"),
        ("properties/unit/enum", ["C"], "major", "unit may no longer be 'F'"),
        ("properties/unit/enum", ["C", "F", "K"], "minor", "unit may be 'K' too"),
        ("properties/tags/items", {"type": "integer"}, "major", "tags[] may no longer be string"),
        ("properties/place/properties/alt", {"type": "number"}, "minor", "place.alt is new and optional"),
        ("properties/place/required", ["lat", "lon"], "major", "place.lon is required now"),
    ],
)
def test_changes(path: str, value: Any, level: str, what: str) -> None:
    found = changes_of(BASE, _changed(path, value))
    assert level_of(found) == level
    assert any(what in change.what for change in found), found


def test_a_new_required_argument_is_major() -> None:
    changed = _changed("properties/hour", {"type": "integer"})
    changed["required"] = ["city", "hour"]
    assert [(one.level, one.what) for one in changes_of(BASE, changed)] == [("major", "hour is new and required")]


def test_references_are_followed() -> None:
    inner: dict[str, Any] = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    one = {"type": "object", "properties": {"p": {"$ref": "#/$defs/P"}}, "$defs": {"P": inner}}
    other = {"type": "object", "properties": {"p": {"$ref": "#/$defs/Q"}}, "$defs": {"Q": inner}}
    assert level_of(changes_of(one, other)) == "patch"
    narrower = {**inner, "required": ["x", "y"], "properties": {**inner["properties"], "y": {"type": "string"}}}
    assert level_of(changes_of(one, {**one, "$defs": {"P": narrower}})) == "major"
    recursive: dict[str, Any] = {"$defs": {"N": {"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}}}}
    recursive["properties"] = {"n": {"$ref": "#/$defs/N"}}
    assert changes_of(recursive, {**recursive, "title": "Other"})


def test_tools_as_they_are_written() -> None:
    @tool
    def before(city: str) -> str:
        """Weather."""
        return city

    def schema(one: Any) -> dict[str, Any]:
        return dict(one.schema.parameters)

    @tool(name="before")
    def optional(city: str, days: int | None = None) -> str:
        """Weather."""
        return city

    @tool(name="before")
    def required(city: str, days: int) -> str:
        """Weather."""
        return city

    assert level_of(changes_of(schema(before), schema(optional))) == "minor"
    assert level_of(changes_of(schema(before), schema(required))) == "major"
    assert level_of(changes_of(schema(optional), schema(before))) == "major"
    assert changes_of(schema(before), schema(before)) == []


def test_next_versions() -> None:
    assert next_version("1.2.3", "major") == "2.0.0"
    assert next_version("1.2.3", "minor") == "1.3.0"
    assert next_version("1.2.3", "patch") == "1.2.4"
    assert next_version("1.2.3", "none") == "1.2.3"
    with pytest.raises(UsageError, match=r"'1\.2' is no version"):
        next_version("1.2", "patch")


_LEAF = st.sampled_from(
    [
        {"type": "string"},
        {"type": "integer"},
        {"type": "number"},
        {"enum": ["a", "b"]},
        {"enum": ["a"]},
        {"type": ["string", "null"]},
    ]
)
_NAMES = ("a", "b", "c")
_VALUES = st.sampled_from(["a", "b", "z", 1, 1.5, None])


@st.composite
def _schemas(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(_NAMES), unique=True))
    return {
        "type": "object",
        "properties": {name: draw(_LEAF) for name in names},
        "required": [name for name in names if draw(st.booleans())],
        "additionalProperties": False,
    }


@settings(max_examples=examples(400), deadline=None)
@given(_schemas(), _schemas(), st.dictionaries(st.sampled_from(_NAMES), _VALUES))
def test_a_call_that_is_newly_refused_means_major(
    before: dict[str, Any], after: dict[str, Any], call: dict[str, Any]
) -> None:
    """Whatever the old schema took and the new one refuses, the change is said to be major."""
    took = jsonschema.Draft202012Validator(before).is_valid(call)
    takes = jsonschema.Draft202012Validator(after).is_valid(call)
    level = level_of(changes_of(before, after))
    if took and not takes:
        assert level == "major"
    if before == after:
        assert level == "none"


@settings(max_examples=examples(400), deadline=None)
@given(_schemas(), _schemas(), st.dictionaries(st.sampled_from(_NAMES), _VALUES))
def test_a_call_that_is_newly_taken_means_at_least_minor(
    before: dict[str, Any], after: dict[str, Any], call: dict[str, Any]
) -> None:
    took = jsonschema.Draft202012Validator(before).is_valid(call)
    takes = jsonschema.Draft202012Validator(after).is_valid(call)
    if takes and not took:
        assert level_of(changes_of(before, after)) in ("minor", "major")
