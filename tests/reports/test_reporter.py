"""The reporter in a team: it writes from what agents answered and from what they added; the model reads its prompt."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.agents.agent import Agent
from agentorchestra.agents.kit import Kit
from agentorchestra.agents.reporter import MOST_SHOWN, wanted_file
from agentorchestra.agents.reporting import add_to_report
from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.spec import AgentResult, AgentSpec, Citation, FileRef, RunResult
from agentorchestra.runtime.session import Session
from agentorchestra.runtime.store import MemoryStore
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace
from tests.reports.support import in_folder

DEPTH = Citation(source="https://e.org/depth?utm_source=x", place="line 4", quote="The beds lie 3 m deep.")


async def dig(spec: AgentSpec, session: Session[Any], kit: Kit) -> AgentResult:
    """Adds what it found, and answers next to nothing."""
    await add_to_report(session, "There are 42 beds [1](https://e.org/beds).", title="Beds")
    await add_to_report(session, "They lie 3 m deep [1].", title="Depth", citations=[DEPTH])
    return AgentResult(answer="It is in the report.")


async def ask(spec: AgentSpec, session: Session[Any], kit: Kit) -> AgentResult:
    """Answers with its source, and adds nothing."""
    return AgentResult(answer="The rent is 900.", sources=(Citation(source="https://E.org/rent/", quote="900 a year"),))


DIGGER = Agent(name="digger", description="Digs.", tools=(), prompt="worker", environments=("report",), drive=dig)
CLERK = Agent(name="clerk", description="Asks.", tools=(), prompt="worker", drive=ask)


async def lead(spec: AgentSpec, session: Session[Any], kit: Kit) -> AgentResult:
    """Lets both work, then has the report written, as a planner does."""
    await session.call_agent(AgentSpec(name="digger", instruction="Go.", system="digger", tools=("report",)))
    await session.call_agent(AgentSpec(name="clerk", instruction="Go.", system="clerk"))
    tools = ("report", "python")
    asked = AgentSpec(name="reporter", instruction=spec.instruction, system="reporter", tools=tools, max_steps=3)
    return await session.call_agent(asked)


LEAD = Agent(
    name="lead", description="Leads.", tools=("python",), prompt="worker", environments=("report",), drive=lead
)


def reporter(request: ModelRequest) -> Any:
    """A sentence for each piece of evidence, from its quote or from the item in which its mark stands."""
    assert [one.name for one in request.tools] == ["done", "python"], "no action on the report is offered"
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
        assert (await ws.replay(result.run_id)).answer == result.answer
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


async def test_what_the_reporter_is_shown_has_a_bound(tmp_path: Path) -> None:
    shown: list[str] = []

    async def at_length(spec: AgentSpec, session: Session[Any], kit: Kit) -> AgentResult:
        for number in range(3):
            cited = [Citation(source=f"https://e.org/{number}/{one}", quote="so " * 300) for one in range(200)]
            await add_to_report(session, f"Item {number} {'and so on ' * 3_000}[1]", citations=cited)
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
