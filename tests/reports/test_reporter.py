"""The reporter in a team: it writes from what agents answered and from what they added; the model reads its prompt."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.agents.agent import Agent
from agentorchestra.agents.outputs import outputs
from agentorchestra.agents.reporting.agent import MOST_SHOWN, wanted_file
from agentorchestra.agents.reporting.pieces import add_to_report
from agentorchestra.agents.types import Kit
from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.spec import AgentResult, AgentSpec, Citation, FileRef, RunResult
from agentorchestra.log.store import MemoryStore
from agentorchestra.runtime.context import BranchContext
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace
from tests.reports.support import in_folder

DEPTH = Citation(source="https://e.org/depth?utm_source=x", place="line 4", quote="The beds lie 3 m deep.")


async def dig(spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
    """Adds what it found, and answers next to nothing."""
    await add_to_report(ctx, "There are 42 beds [1](https://e.org/beds).", title="Beds")
    await add_to_report(ctx, "They lie 3 m deep [1].", title="Depth", citations=[DEPTH])
    return AgentResult(answer="It is in the report.")


async def ask(spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
    """Answers with its source, and adds nothing."""
    return AgentResult(answer="The rent is 900.", sources=(Citation(source="https://E.org/rent/", quote="900 a year"),))


DIGGER = Agent(name="digger", description="Digs.", tools=(), prompt="worker", environments=("report",), drive=dig)
CLERK = Agent(name="clerk", description="Asks.", tools=(), prompt="worker", drive=ask)


async def lead(spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
    """Lets both work, then has the report written, as a planner does."""
    await ctx.call_agent(AgentSpec(name="digger", instruction="Go.", system="digger", tools=("report",)))
    await ctx.call_agent(AgentSpec(name="clerk", instruction="Go.", system="clerk"))
    asked = AgentSpec(name="reporter", instruction=spec.instruction, system="reporter", tools=("report",), max_steps=3)
    return await ctx.call_agent(asked)


LEAD = Agent(
    name="lead", description="Leads.", tools=("python",), prompt="worker", environments=("report",), drive=lead
)


def reporter(request: ModelRequest) -> Any:
    """A sentence for each piece of evidence, from its quote or from the item in which its mark stands."""
    assert [one.name for one in request.tools] == ["done"], "no action on the report is offered"
    material = "\n".join(message.text for message in request.messages[1:])
    said = []
    for mark, source, quote in re.findall(r"^\[(E\d+)\] ([^\s,]+)[^\n“]*(?:: “([^”]*)”)?$", material, re.MULTILINE):
        stands = re.search(rf"^([^\n]*) \[{mark}\]", material, re.MULTILINE)
        said.append(f"{quote or (stands[1] if stands else source)} [{mark}].")
    return decide(calls=[call("done", answer="\n".join([*said, "Nobody knows more [E40]."]))])


async def written(folder: Path, task: str, model: Any = reporter) -> RunResult:
    (folder / "ws").mkdir()
    agents = [DIGGER, CLERK, LEAD]
    async with Workspace(folder / "ws", agents=agents, environ={}, store=MemoryStore()) as ws:
        result = await ws.run(task, system="lead", model=ScriptedModel(model))
        assert (await ws.replay(result.run_id)).answer == result.answer_text
    return result


async def test_the_report_cites_answers_and_items_alike_and_lies_where_the_task_wants_it(tmp_path: Path) -> None:
    result = await written(tmp_path, "Write a report on the beds to bay/beds.md.")
    text = in_folder(tmp_path, "bay/beds.md")
    assert result.answer == text.strip()
    lines = text.splitlines()
    assert lines[:4] == [
        "900 a year [1](https://e.org/rent).",
        "There are 42 beds [2](https://e.org/beds).",
        "The beds lie 3 m deep. [3](https://e.org/depth).",
        "Nobody knows more.",
    ]
    listed = [re.sub(r"\. \[[^\]]*\]", ".", line) for line in lines[7:]]
    assert listed == [
        "1.(https://e.org/rent): “900 a year”",
        "2.(https://e.org/beds)",
        "3.(https://e.org/depth): line 4 “The beds lie 3 m deep.”",
    ]
    assert "Struck out, no such evidence: [E40]" in result.report
    assert "It is bay/beds.md in the run's folder: /" in result.report


async def test_where_the_model_writes_nothing_the_items_are_the_report(tmp_path: Path) -> None:
    task = "Write a report on the beds."

    def silent(request: ModelRequest) -> Any:
        return decide(calls=[call("done", answer="", status="blocked")])

    result = await written(tmp_path, task, silent)
    text = in_folder(tmp_path)
    assert "## Beds\n\nThere are 42 beds [1](https://e.org/beds)." in text
    assert "The rent is 900." in text and "(https://e.org/rent)" in text
    assert "No model wrote it" in result.report


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ("Write it to report.md, please.", "report.md"),
        ("Put a report into `out/the bay.md`", ""),
        ("Schreib einen Bericht in die Datei austern.md.", ""),
        ("Write a report in bericht/austern.md.", "bericht/austern.md"),
        ("Read notes.md and write a report.", ""),
        ("Save it as given.md", ""),
        ("Save it to ../../x.md", ""),
        ("Report on it.", ""),
    ],
)
def test_the_file_that_a_task_wants(task: str, name: str) -> None:
    class Manifest:
        files = (FileRef(name="given.md", sha256="0" * 64, size=1),)
        task = ""

    class Asked:
        manifest = Manifest()

    assert wanted_file(AgentSpec(instruction=task), Asked()) == name  # type: ignore[arg-type]


@pytest.mark.long
async def test_what_the_reporter_is_shown_has_a_bound(tmp_path: Path) -> None:
    shown: list[str] = []

    async def at_length(spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
        for number in range(3):
            cited = [Citation(source=f"https://e.org/{number}/{one}", quote="so " * 300) for one in range(200)]
            await add_to_report(ctx, f"Item {number} {'and so on ' * 3_000}[1]", citations=cited)
        return AgentResult(answer="It is in the report.")

    def writing(request: ModelRequest) -> Any:
        shown.append("\n".join(message.text for message in request.messages[1:]))
        return decide(calls=[call("done", answer="All [E1].")])

    digger = replace(DIGGER, drive=at_length)
    (tmp_path / "ws").mkdir()
    async with Workspace(tmp_path / "ws", agents=[digger, CLERK, LEAD], environ={}, store=MemoryStore()) as ws:
        await ws.run("Write a report.", system="lead", model=ScriptedModel(writing))
    assert "Item 2 and so on" in shown[0] and "more sources, which are not shown)" in shown[0]
    assert len(shown[0]) < 3 * MOST_SHOWN


# -- marks -------------------------------------------------------------------------------------------------------------


TIDES = "https://e.org/tides"
HIGH = Citation(source=TIDES, place="line 1", quote="High water was at 4.")
LOW = Citation(source=TIDES, place="line 9", quote="Low water was at 10.")
SPAN = Citation(source="python", place="calculation 1", quote="print(10 - 4) gives 6")


async def measure(spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
    """Cites two quotes of one page and a calculation; what it adds says the same."""
    cited = [HIGH, LOW, SPAN]
    text = "High water was at 4 [1]. Low water was at 10 [2].\n\nThe span is 6 hours [3]."
    await add_to_report(ctx, text, title="Tides", citations=cited, titles={TIDES: "Tides of the bay"})
    return AgentResult(answer="The span is 6 hours.", sources=(HIGH, LOW, SPAN))


def cited_by(forms: dict[str, str], seen: list[str]) -> Any:
    """A model that cites each quote it is shown, in a form of its own."""

    def model(request: ModelRequest) -> Any:
        seen.append("\n".join(message.text for message in request.messages))
        marks = {quote: mark for mark, quote in re.findall(r"^\[(E\d+)\] [^\n“]*“([^”]*)”", seen[-1], re.MULTILINE)}
        high, low, span = (marks[one.quote] for one in (HIGH, LOW, SPAN))
        said = f"It rose at 4 {forms['one'].format(high)}. Both {forms['two'].format(high, low)}. In 6 hours [{span}]."
        return decide(calls=[call("done", answer=said)])

    return model


async def measured(folder: Path, model: Any) -> RunResult:
    digger = replace(DIGGER, drive=measure)
    (folder / "ws").mkdir()
    async with Workspace(folder / "ws", agents=[digger, CLERK, LEAD], environ={}, store=MemoryStore()) as ws:
        result = await ws.run("Report.", system="lead", model=ScriptedModel(model))
        assert (await ws.replay(result.run_id)).answer == result.answer_text
    return result


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "forms",
    [
        {"one": "({})", "two": "({}; {})"},
        {"one": "[[{}]]", "two": "[{}, {}]"},
        {"one": "[{}, line 1]", "two": "[{}-{}]"},
    ],
)
async def test_marks_as_models_write_them_keep_their_references(tmp_path: Path, forms: dict[str, str]) -> None:
    seen: list[str] = []
    result = await measured(tmp_path, cited_by(forms, seen))
    tides = f"[1]({TIDES})"
    assert f"It rose at 4 {tides}. Both {tides}. In 6 hours [2](#references)." in result.answer
    assert f"1. [Tides of the bay]({TIDES}): line 1 “{HIGH.quote}”; line 9 “{LOW.quote}”" in result.answer
    assert "2. python: calculation 1 “print(10 - 4) gives 6”" in result.answer
    assert set(result.sources) == {HIGH, LOW, SPAN} and "Struck out" not in result.report
    assert len(seen) == 1


async def test_each_quote_has_one_mark_and_nothing_is_shown_twice(tmp_path: Path) -> None:
    seen: list[str] = []
    await measured(tmp_path, cited_by({"one": "[{}]", "two": "[{}][{}]"}, seen))
    (shown,) = seen
    assert "High water was at 4 [E1]. Low water was at 10 [E2]." in shown, (
        "each quote has the mark under which it is listed"
    )
    assert shown.count("The span is 6 hours") == 1, "the item does not say again what the answer says"
    assert [shown.count(f"[{mark}] {TIDES}") for mark in ("E1", "E2")] == [1, 1]


@pytest.mark.parametrize("learns", [True, False])
async def test_the_author_is_told_once_which_marks_name_nothing(tmp_path: Path, learns: bool) -> None:
    asked: list[str] = []

    def model(request: ModelRequest) -> Any:
        asked.append(request.messages[-1].text)
        known = "No evidence in the list has https://made.up, [E40]" in asked[-1]
        wrong = "It is wide [E40], see [here](https://made.up)."
        return decide(calls=[call("done", answer="It rose at 4 [E1]." if known and learns else f"Rose [E1]. {wrong}")])

    result = await measured(tmp_path, model)
    assert len(asked) == 2
    assert ("Struck out, no such evidence: https://made.up, [E40]." in result.report) == (not learns)
    assert "made.up" not in result.answer and "[E40]" not in result.answer


async def test_what_agents_added_to_the_report_is_no_output_of_a_tool_to_be_judged_by(tmp_path: Path) -> None:
    """It says again what their answers and quotes say."""
    named: list[str] = []

    async def watching(spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
        result = await lead(spec, ctx, kit)
        named.extend(one.name for one in outputs(ctx))
        return result

    (tmp_path / "ws").mkdir()
    agents = [replace(DIGGER, drive=measure), CLERK, replace(LEAD, drive=watching)]
    model = cited_by({"one": "[{}]", "two": "[{}][{}]"}, [])
    async with Workspace(tmp_path / "ws", agents=agents, environ={}, store=MemoryStore()) as ws:
        await ws.run("Report.", system="lead", model=ScriptedModel(model))
    assert not [one for one in named if one.startswith("report_")]
