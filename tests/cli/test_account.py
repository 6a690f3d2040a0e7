"""What `show` says of a run to people: who did what, what came out once, what it cost, what to do next."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.cli.output import account_lines, readable_answer
from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.spec import Citation, RunResult, RunStatus
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace
from tests.cli.support import QUESTION, Folder
from tests.cli.team import price_of
from tests.support.cli_reading import WS, here, invoke
from tests.support.team import results

__all__ = ["here"]

KEY = re.compile(r"/\d+\.|#\d+|\w+\(\)")


def test_each_agent_is_named_and_what_came_out_stands_there_once(folder: Folder) -> None:
    folder.run("run", QUESTION, "-f", "lease.txt")
    shown = folder.run("show", "last").out
    answer = folder.run("show", "last", "--json").json["result"]["answer"]
    assert not KEY.search(shown) and "Receive" not in shown
    assert shown.count(answer) == 1 and shown.count("Sources:\n") == 1
    lines = shown.splitlines()
    done = lines.index("done:")
    assert lines[done + 1 : done + 4] == [
        "  agentorchestra, 2 steps",
        "    calls files_in_view: chars 8000",
        f"    deep_analyzer, 1 step: {QUESTION}",
    ]
    assert "      answers: the answer below" in lines
    (paid,) = [line for line in lines if line.startswith("paid: ")]
    assert re.fullmatch(r"paid: 2 steps, [\d,]+ tokens.*, \$0, [\d.]+ s", paid)
    assert lines[-2].startswith("to ask further: agentorchestra run --continue run_")
    assert lines[-1].endswith(" --effects")


@pytest.mark.parametrize("words", [("--effects", "--html"), ("--effects", "--patterns"), ("--effects", "--json")])
def test_one_form_at_a_time(folder: Folder, words: tuple[str, str]) -> None:
    refused = folder.run("show", "last", *words)
    assert refused.code == 2 and " exclude each other; give one of them" in refused.error


def _reply(request: ModelRequest) -> Any:
    """Hands the same part out twice; each looks one price up three times, and one of them wrongly at first."""
    names, replies = {one.name for one in request.tools}, results(request)
    if "delegate_task" in names and not replies:
        return decide(
            calls=[call("delegate_task", task_instruction=f"Price {one}.", tools=["price_of"]) for one in "AB"]
        )
    if "complete" in names:
        return decide(calls=[call("complete", answer="A: 120 euros", status="partial")])
    offer = "A" if "Price A." in request.messages[1].text else "B"
    if len(replies) < 3:
        return decide(calls=[call("price_of", **({"offer": offer} if replies or offer == "A" else {"of": offer}))])
    return decide(calls=[call("done", answer=f"{offer}: {replies[-1]}")])


@pytest.mark.long
def test_like_calls_are_one_line_and_failures_are_named() -> None:
    async def work() -> None:
        async with Workspace(Path(WS), models={"scripted": ScriptedModel(_reply)}, tools=[price_of]) as ws:
            await ws.run("What does the offer cost?", system="aorchestra", model="scripted")

    asyncio.run(work())
    lines = invoke("show", "last").stdout.splitlines()
    assert lines[lines.index("done:") + 1] == "  aorchestra, partial, 10 steps"
    first, second = (next(i for i, line in enumerate(lines) if f"Price {one}." in line) for one in "AB")
    named = {lines[first].split(",")[0].strip(), lines[second].split(",")[0].strip()}
    assert named == {"sub_agent", "sub_agent 2"}
    assert lines[first + 1 : first + 3] == [
        "      calls price_of (The price of an offer.), 3 times: A; A; A",
        "      answers: the answer below",
    ]
    assert "- 1 failed: price_of: " in lines[second + 1]


def test_an_answer_that_is_a_paragraph_of_the_report_is_not_read_twice() -> None:
    result = RunResult(status=RunStatus.COMPLETED, answer_text="It pays.", report="# Does it?\n\nIt pays.\n\n## Said")
    assert readable_answer(result) == result.report
    assert account_lines(result, result.report) == []
    assert readable_answer(result.model_copy(update={"answer_text": "4", "report": "14 of 42"})) == "4"


def test_a_source_that_the_report_lists_is_not_listed_again() -> None:
    kept, listed = Citation(source="a.txt", place="line 1", quote="one"), Citation(source="b.txt", quote="two words")
    result = RunResult(
        status=RunStatus.COMPLETED,
        answer_text="1",
        report="It is 1.\n\n1. b.txt: “two\nwords”",
        sources=(kept, listed, kept),
    )
    lines = account_lines(result, "1")
    assert [line for line in lines if line.startswith("  ")] == ['  "one" (a.txt, line 1)']
    assert '  "two words" (b.txt)' in account_lines(result.model_copy(update={"report": ""}), "1")
