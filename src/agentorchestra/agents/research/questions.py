"""Forms of the replies of the researcher's model."""

from __future__ import annotations

from typing import Any

from agentorchestra.agents.forms import FLAG, INTEGER, NUMBER, TEXT, TEXTS, Form, form, list_of
from agentorchestra.agents.search.queries import QUERY

PLAN = form(("queries",), questions=TEXTS, queries=list_of(form(("query",), reason=TEXT, **QUERY)))
"""The questions to be settled and the first queries; before each what a plain one would miss."""


def insights_form(*, goes_on: bool) -> Form:
    """Return the form of what a page says on the task; `goes_on` where parts that are not shown may be read."""
    insight = form(("quote", "piece", "fact", "relevance"), quote=TEXT, piece=INTEGER, fact=TEXT, relevance=NUMBER)
    on = {"read_on": TEXT} if goes_on else {}
    return form(("insights",), reason=TEXT, insights=list_of(insight), **on, orders=FLAG)


def check_form(output: dict[str, Any] | None, *, calculations: bool, follow_ups: bool) -> Form:
    """Return the form of the judgement of the findings, then what is searched next, or the report."""
    more: dict[str, Any] = {}
    if calculations:
        more["calculations"] = list_of(form(("what", "code"), what=TEXT, code=TEXT))
    if follow_ups:
        more["follow_ups"] = list_of(form(("query",), follows=INTEGER, **QUERY))
    conflict = form(("about", "marks"), about=TEXT, marks=TEXTS, believe=TEXT)
    # An answer in a form of its own has none yet where more is searched for.
    answer = TEXT if output is None else {"anyOf": [output, {"type": "null"}]}
    return form(
        ("complete",),
        reason=TEXT,
        conflicts=list_of(conflict),
        missing=TEXTS,
        complete=FLAG,
        **more,
        report=TEXT,
        answer=answer,
    )


def report_form(output: dict[str, Any] | None) -> Form:
    """Return the form of the report, and the answer in the schema that the caller wants."""
    return form(("answer", "report"), report=TEXT, answer=output or TEXT)


PARAGRAPHS = form(("paragraphs",), paragraphs=list_of(form(("number", "text"), number=INTEGER, text=TEXT)))
"""Paragraphs of a report anew, with marks."""
