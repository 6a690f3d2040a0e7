"""Reads a reply that was to be JSON of a schema (`ModelSettings.output_schema`)."""

from __future__ import annotations

from typing import Any

from pydantic import JsonValue

from agentorchestra.core.errors import OutputError
from agentorchestra.core.reply_text import read_json, values_in
from agentorchestra.tea.calling.signatures import schema_problems

_START_CHARS = 80


def read_output(text: str, schema: dict[str, Any]) -> JsonValue:
    """Return a reply's JSON without words or fences around it, or raise OutputError with a sentence for the model."""
    problems: list[str] = []
    for value in _values(text):
        problems = schema_problems(value, schema)
        if not problems:
            return value
    if problems:
        raise OutputError(f"the reply does not fit the schema: {'; '.join(problems[:3])}; reply with JSON that does")
    start = " ".join(text.split())[:_START_CHARS] or "nothing"
    raise OutputError(f"the reply holds no JSON but {start!r}; reply with one JSON value and nothing else")


def _values(text: str) -> list[JsonValue]:
    """Return the whole text as JSON, else the objects and lists in it, in order."""
    try:
        return [read_json(text)]
    except ValueError:
        return [*values_in(text)]
