"""What the replies of the researcher's model have to look like."""

from __future__ import annotations

from typing import Any

from agentorchestra.agents.forms import Form, form, list_of

_TEXT: dict[str, Any] = {"type": "string"}
_TEXTS: dict[str, Any] = {"type": "array", "items": _TEXT}
_NUMBER: dict[str, Any] = {"type": "integer"}
_DECIMAL: dict[str, Any] = {"type": "number"}
_FLAG: dict[str, Any] = {"type": "boolean"}

_QUERY: dict[str, dict[str, Any]] = {
    "query": _TEXT,
    "since": _TEXT,
    "until": _TEXT,
    "language": _TEXT,
    "variants": _TEXTS,
}

PLAN = form(("queries",), questions=_TEXTS, queries=list_of(form(("query",), reason=_TEXT, **_QUERY)))
"""The questions to be settled and the first queries; before each what a plain one would miss."""

BETTER = form(("queries",), queries=list_of(form(("draft", "query"), draft=_NUMBER, problems=_TEXTS, **_QUERY)))
"""Queries with what was wrong with their drafts."""


def insights_form(*, goes_on: bool) -> Form:
    """Of what a page says on the task.

    Args:
        goes_on: the page has parts that are not shown and may be read.
    """
    one = form(("quote", "piece", "fact", "relevance"), quote=_TEXT, piece=_NUMBER, fact=_TEXT, relevance=_DECIMAL)
    on = {"read_on": _TEXT} if goes_on else {}
    return form(("insights",), reason=_TEXT, insights=list_of(one), **on, orders=_FLAG)


def check_form(output: dict[str, Any] | None, *, calculations: bool, follow_ups: bool) -> Form:
    """Of what the findings come to: the judgement, then what is searched next, or the report.

    Args:
        output: the schema of the answer; None for a text.
        calculations, follow_ups: whether there may be any.
    """
    more: dict[str, Any] = {}
    if calculations:
        more["calculations"] = list_of(form(("what", "code"), what=_TEXT, code=_TEXT))
    if follow_ups:
        more["follow_ups"] = list_of(form(("query",), follows=_NUMBER, **_QUERY))
    conflict = form(("about", "marks"), about=_TEXT, marks=_TEXTS, believe=_TEXT)
    # An answer in a form of its own has none yet where more is searched for.
    answer = _TEXT if output is None else {"anyOf": [output, {"type": "null"}]}
    return form(
        ("complete",),
        reason=_TEXT,
        conflicts=list_of(conflict),
        missing=_TEXTS,
        complete=_FLAG,
        **more,
        report=_TEXT,
        answer=answer,
    )


def report_form(output: dict[str, Any] | None) -> Form:
    """Of the report, and the answer in the form that the caller wants.

    Args:
        output: the schema of the answer; None for a text.
    """
    return form(("answer", "report"), report=_TEXT, answer=output or _TEXT)


MENDED = form(("paragraphs",), paragraphs=list_of(form(("number", "text"), number=_NUMBER, text=_TEXT)))
"""Paragraphs of a report anew, with marks."""

__all__ = ["BETTER", "MENDED", "PLAN", "check_form", "insights_form", "report_form"]
