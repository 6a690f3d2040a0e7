"""Forms of replies: schemas that constrained decoders take, the reason before the verdict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agentorchestra.agents.analysis import rounds, strategies
from agentorchestra.agents.analysis.merge import merged_form
from agentorchestra.agents.forms import Form, form
from agentorchestra.agents.research import questions
from agentorchestra.agents.search.queries import BETTER
from agentorchestra.core.errors import OutputError
from agentorchestra.tea.calling.structured_output import read_output

ANSWER: dict[str, Any] = {
    "type": "object",
    "properties": {"town": {"type": "string"}},
    "required": ["town"],
    "additionalProperties": False,
}
FORMS: dict[str, Form] = {
    "plan": questions.PLAN,
    "queries": BETTER,
    "insights": questions.insights_form(goes_on=True),
    "last insights": questions.insights_form(goes_on=False),
    "check": questions.check_form(None, calculations=True, follow_ups=True),
    "last check": questions.check_form(ANSWER, calculations=False, follow_ups=False),
    "report": questions.report_form(ANSWER),
    "marks": questions.PARAGRAPHS,
    "kind": strategies.KIND,
    "findings": strategies.FINDINGS,
    "program": strategies.PROGRAM,
    "looked": strategies.LOOK_FORM,
    "conclusion": strategies.CONCLUSION,
    "round": rounds.ROUND,
    "merged": merged_form(None),
}
VERDICTS = ("complete", "answers", "found", "go_on", "agreed", "kind", "orders", "relevance")


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for one in schema.values():
            yield from objects(one)
    elif isinstance(schema, list):
        for one in schema:
            yield from objects(one)


@pytest.mark.parametrize("name", FORMS)
def test_a_form_holds_where_decoding_is_constrained(name: str) -> None:
    for one in objects(FORMS[name].request):
        assert one["properties"] and one["required"] == [*one["properties"]] and one["additionalProperties"] is False
        assert all("type" in each or "anyOf" in each for each in one["properties"].values())
        assert next(iter(one["properties"])) not in VERDICTS, "the reason comes first"


def test_an_answer_of_another_form_may_be_missing_in_words() -> None:
    answer = questions.check_form(ANSWER, calculations=False, follow_ups=True).request["properties"]["answer"]
    assert answer == {"anyOf": [ANSWER, {"type": "null"}]}


def test_a_reply_is_taken_without_what_it_may_lack() -> None:
    asked = form(("verdict",), reason={"type": "string"}, verdict={"type": "boolean"})
    assert read_output('{"verdict": true, "mood": "good"}', asked.read) == {"verdict": True, "mood": "good"}
    with pytest.raises(OutputError, match="'verdict' is a required property"):
        read_output('{"reason": "because"}', asked.read)
