"""References of a report: numbers by first use, one for each source, what has no evidence struck out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import JsonValue

from agentorchestra.agents.reporting.references import address_of, make_report
from agentorchestra.core.spec import Citation, FileRef
from agentorchestra.environments.report.addresses import normalised_address

LEASE = FileRef(name="lease (1).txt", sha256="0" * 64, size=10, origin="/home/me/my files/lease (1).txt")
RENT = Citation(source="lease (1).txt", place="line 1", quote="The rent is 900 euros.")
NOTICE = Citation(source="lease (1).txt", place="line 2", quote="The notice period is three months.")
PAGE = Citation(source="https://Example.org:443/law/?utm_source=x&b=2&a=1#top", place="", quote="Three months.")
SAME = Citation(source="http://example.org/other", place="", quote="Other.")
AGAIN = Citation(source="https://example.org/law?a=1&b=2", place="par. 4", quote="At least.")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("HTTPS://Example.org/a", "https://example.org/a"),
        ("https://example.org:443/a/", "https://example.org/a"),
        ("https://example.org/a#part", "https://example.org/a"),
        ("https://example.org/a?utm_source=x&gclid=1", "https://example.org/a"),
        ("https://example.org/b/../a?y=2&x=1", "https://example.org/a?x=1&y=2"),
        ("https://example.org/%7Eme", "https://example.org/~me"),
    ],
)
def test_two_spellings_are_one_address(one: str, other: str) -> None:
    assert normalised_address(one) == normalised_address(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://example.org/a", "https://example.org/A"),
        ("https://example.org/a?x=1", "https://example.org/a?x=2"),
        ("https://example.org/a", "https://www.example.org/a"),
    ],
)
def test_different_pages_stay_different(one: str, other: str) -> None:
    assert normalised_address(one) != normalised_address(other)


def test_a_file_of_the_task_has_a_file_address() -> None:
    files = {LEASE.name: LEASE}
    assert address_of("lease (1).txt", files) == "file:///home/me/my%20files/lease%20%281%29.txt"


def test_marks_become_numbers_by_first_use_and_sources_are_one_each() -> None:
    text = "Three months [E2][E3]. The rent is 900 euros [E1]. At least [E4]."
    report = make_report(text, [RENT, NOTICE, PAGE, AGAIN], [LEASE])
    lease, law = "file:///home/me/my%20files/lease%20%281%29.txt", "https://example.org/law?a=1&b=2"
    assert report.text.startswith(
        f"Three months [1]({lease})[2]({law}). The rent is 900 euros [1]({lease}). At least [2]({law})."
    )
    references = report.text.partition("## References")[2].strip().splitlines()
    assert len(references) == 2
    assert references[0].startswith("1. ") and "line 2" in references[0] and "line 1" in references[0]
    assert references[1].startswith("2. ") and "par. 4" in references[1]
    assert report.sources == (NOTICE, RENT, PAGE, AGAIN)
    assert report.notes == ()


def test_marks_without_evidence_are_struck_out_and_said() -> None:
    report = make_report("True [E1]. Invented [E7]. Odd [E?].", [RENT, SAME], [LEASE])
    assert "Invented . Odd ." in report.text or "Invented. Odd." in report.text
    assert "[E" not in report.text
    said = " ".join(report.notes)
    assert "[E7]" in said and "[E?]" in said
    assert "http://example.org/other" in said  # found, and not used
    assert report.sources == (RENT,)


def test_a_text_without_marks_has_no_references() -> None:
    report = make_report("Nothing is known.", [], [])
    assert (report.text, report.sources) == ("Nothing is known.", ())


def test_a_source_cannot_break_out_of_its_link() -> None:
    hostile = Citation(
        source="https://example.org/a) [evil](https://evil.example", place="", quote="](https://evil.example)"
    )
    report = make_report("Claim [E1].", [hostile], [])
    assert "](https://evil" not in re.sub(r"\\.", "", report.text)  # an escaped bracket makes no link


async def test_the_reporter_in_a_run(tmp_path: Path) -> None:
    """The model writes marks and invents one; numbers, list and notes are made by code."""
    from agentorchestra.core.messages import ModelRequest, ModelResponse
    from agentorchestra.testing import ScriptedModel, call, decide, say
    from agentorchestra.workspace import Workspace

    (tmp_path / "lease.txt").write_text("The rent is 900 euros.\nThe notice period is three months.\n")
    source: JsonValue = {"source": "lease.txt", "place": "line 2", "quote": "The notice period is three months."}

    def model(request: ModelRequest) -> ModelResponse:
        names = {schema.name for schema in request.tools}
        shown = "\n".join(message.text for message in request.messages)
        results = [message.text for message in request.messages if message.role == "tool"]
        if not names:
            return say('{"supported": true, "problem": ""}')
        if "deep_analyzer" in names and not results:
            return decide(calls=[call("deep_analyzer", task="Which notice period?")])
        if "deep_analyzer" in names and len(results) == 1:
            return decide(calls=[call("reporter", task="Report on the notice period.")])
        if "deep_analyzer" in names:
            return decide(calls=[call("done", answer="The report is written.", sources=[source])])
        if "You analyse files" in shown and not results:
            return decide(calls=[call("read_file", name="lease.txt")])
        if "You analyse files" in shown:
            return decide(calls=[call("done", answer="three months", sources=[source])])
        assert "[E1]" in shown and "The notice period is three months." in shown  # the evidence is listed
        return decide(calls=[call("done", answer="It is three months [E1]. It is blue [E9].")])

    async with Workspace(tmp_path / "ws") as ws:
        result = await ws.run("Report.", files=[tmp_path / "lease.txt"], model=ScriptedModel(model))
        address = (tmp_path / "lease.txt").as_uri()
        assert f"It is three months [1]({address})." in result.report
        assert f"1. [lease.txt]({address}): line 2" in result.report
        assert "[E9]" in result.report and "It is blue [" not in result.report
        assert [one.place for one in result.sources] == ["line 2"]
        assert (await ws.replay(result.run_id)).answer == result.answer_text
