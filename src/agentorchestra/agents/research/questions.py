"""What the replies of the researcher's model have to look like."""

from __future__ import annotations

from typing import Any

_TEXT: dict[str, Any] = {"type": "string"}
_TEXTS: dict[str, Any] = {"type": "array", "items": _TEXT}
_NUMBER: dict[str, Any] = {"type": "integer"}

_QUERY: dict[str, Any] = {"query": _TEXT, "since": _TEXT, "until": _TEXT, "language": _TEXT}


def _list_of(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "object", "properties": properties, "required": [*required]}}


PLAN: dict[str, Any] = {
    "type": "object",
    "properties": {"questions": _TEXTS, "queries": _list_of(_QUERY, "query")},
    "required": ["questions", "queries"],
}
"""What is to be found out, and the first queries."""

BETTER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "queries": _list_of({**_QUERY, "draft": _NUMBER, "problems": _TEXTS, "variants": _TEXTS}, "draft", "query")
    },
    "required": ["queries"],
}
"""Queries with what was wrong with their drafts, and variants of them."""

INSIGHTS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "insights": _list_of(
            {"fact": _TEXT, "quote": _TEXT, "piece": _NUMBER, "relevance": {"type": "number"}},
            "fact",
            "quote",
            "piece",
            "relevance",
        ),
        "read_on": _TEXT,
        "orders": {"type": "boolean"},
    },
    "required": ["insights"],
}
"""What a page says on the task."""

CHECK: dict[str, Any] = {
    "type": "object",
    "properties": {
        "complete": {"type": "boolean"},
        "missing": _TEXTS,
        "conflicts": _list_of({"about": _TEXT, "marks": _TEXTS, "believe": _TEXT}, "about", "marks"),
        "calculations": _list_of({"what": _TEXT, "code": _TEXT}, "what", "code"),
        "follow_ups": _list_of({**_QUERY, "follows": _NUMBER}, "query"),
    },
    "required": ["complete"],
}
"""What the findings come to."""


def report_schema(output: dict[str, Any] | None) -> dict[str, Any]:
    """Of the answer, in the form that the caller wants, and the report.

    Args:
        output: the schema of the answer; None for a text.
    """
    return {
        "type": "object",
        "properties": {"answer": output or _TEXT, "report": _TEXT},
        "required": ["answer", "report"],
    }


__all__ = ["BETTER", "CHECK", "INSIGHTS", "PLAN", "report_schema"]
