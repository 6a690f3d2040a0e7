"""Schemas of outputs as constrained decoders hold to them, and what is sent of them."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from agentorchestra.core.messages import ModelRequest, ModelSettings, user
from agentorchestra.models.schemas import strict_schema
from tests.models.support import no_media, serving

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "reason": {"type": "string"},
        "page": {"type": ["integer", "null"], "minimum": 1, "description": "its number"},
        "kind": {"type": ["string", "null"], "enum": ["a", "b", None]},
        "nothing": {"type": "object", "properties": {}, "additionalProperties": False},
        "free": {"type": "object", "additionalProperties": {"type": ["string", "number"], "maxLength": 3}},
        "properties": {"type": "array", "items": {"type": "object", "properties": {"type": {"type": "string"}}}},
    },
    "required": ["reason"],
}


def _walk(value: Any) -> Any:
    yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _walk(one)


def test_objects_are_closed_unions_explicit_and_no_list_of_properties_is_empty() -> None:
    made = strict_schema(SCHEMA)
    assert made["additionalProperties"] is False and made["required"] == ["reason"]
    fields = made["properties"]
    assert fields["page"] == {
        "description": "its number",
        "anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}],
    }
    assert fields["kind"] == {"anyOf": [{"type": "string", "enum": ["a", "b"]}, {"type": "null", "enum": [None]}]}
    assert fields["nothing"] == {"type": "object", "additionalProperties": False}
    assert fields["free"]["additionalProperties"] == {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "number"}]}
    assert fields["properties"]["items"]["additionalProperties"] is False
    assert not any(isinstance(one, dict) and isinstance(one.get("type"), list) for one in _walk(made))
    assert strict_schema(made) == made
    assert SCHEMA["properties"]["nothing"]["properties"] == {}, "the one that was given is not changed"


@pytest.mark.parametrize(
    "value",
    [
        {"reason": "x"},
        {"reason": "x", "page": None, "kind": None, "nothing": {}, "free": {"a": "abc", "b": 2.5}},
        {"reason": "x", "page": 0},
        {"reason": "x", "page": "1"},
        {"reason": "x", "kind": "c"},
        {"reason": "x", "nothing": {"a": 1}},
        {"reason": "x", "free": {"a": "abcd"}},
        {"page": 1},
    ],
)
def test_it_means_the_same(value: dict[str, Any]) -> None:
    def fits(schema: dict[str, Any]) -> bool:
        return bool(jsonschema.Draft202012Validator(schema).is_valid(value))

    assert fits(strict_schema(SCHEMA)) is fits(SCHEMA)


async def test_a_server_gets_it_in_this_form() -> None:
    async with serving(lambda body: '{"reason": "x"}') as (server, client):
        request = ModelRequest(
            model="local", messages=(user("Why?"),), settings=ModelSettings(output_schema={**SCHEMA, "title": "Why"})
        )
        await client.request(request, media=no_media)
    sent = server.requests[0]["response_format"]["json_schema"]["schema"]
    assert sent["additionalProperties"] is False
    assert sent["properties"]["page"]["anyOf"] == [{"type": "integer", "minimum": 1}, {"type": "null"}]
    assert sent["properties"]["nothing"] == {"type": "object", "additionalProperties": False}
