"""Sources of answers: what is held, what is struck out, and which figures are looked at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.agents.outputs import ToolOutput, unproven
from agentorchestra.core.content import Source, Trust
from agentorchestra.core.events import Event
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.spec import RunResult, RunStatus
from agentorchestra.log.store import MemoryStore
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import ScriptedModel, call, decide, say
from agentorchestra.workspace import Workspace
from tests.site import served
from tests.support.team import done, requests_of, results, team
from tests.systems.support import seen
from tests.systems.tower import settings

SALES = "Ferries to the islands by year\nyear | ferries\n1999 | 41\n2004 | 23\n"
TASK = "How many ferries went to the islands altogether?"
GHOST = {"source": "ghost.csv", "place": "row 3", "quote": "all of the ferries are blue"}
PAGE = {"source": "https://nowhere.example/ferries", "place": "line 4", "quote": "all of the ferries are blue"}
NOT_HERE = "This run has no such source"


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    (tmp_path / "sales.txt").write_text(SALES)
    return tmp_path / "sales.txt"


def of(system: str, script: Any, **others: Any) -> ScriptedModel:
    return ScriptedModel(script) if system == "react" else team(script, **others)


def purposes(events: list[Event]) -> list[str]:
    return [purpose for _, purpose in requests_of(events)]


async def played(
    folder: Path,
    system: str,
    script: Any,
    files: Any = (),
    *,
    task: str = "Which colour?",
    given: Any = (),
    **more: Any,
) -> tuple[RunResult, list[str]]:
    """The result of a run, which a replay gives again, and what models were asked for."""
    async with Workspace(folder / "ws", tools=list(given)) as ws:
        result = await ws.run(task, files=list(files), model=of(system, script, **more), system=system)
        assert (await ws.replay(result.run_id)).answer == result.answer_text
        return result, purposes(await ws.log.events(result.run_id))


# -- unknown -----------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("invented", [GHOST, PAGE], ids=["file", "page"])
@pytest.mark.parametrize("system", ["react", "agentorchestra"])
async def test_an_invented_source_is_told_of_once_and_struck_out(
    tmp_path: Path, sales: Path, system: str, invented: dict[str, str]
) -> None:
    heard = []

    def insisting(request: ModelRequest) -> ModelResponse:
        heard.append(request.messages[-1].text)
        return done("Blue.", invented)

    result, asked = await played(tmp_path, system, insisting, [sales])
    assert [NOT_HERE in one for one in heard] == [False, True] and invented["source"] in heard[1]
    assert (result.status, result.answer, result.sources) == (RunStatus.COMPLETED, "Blue.", ())
    assert f"left out because they could not be confirmed:\n- {invented['source']}" in result.report
    assert asked.count("decision") == 2 and "judge" not in asked
    assert json.loads(result.model_dump_json())["sources"] == []


@pytest.mark.parametrize("system", ["react", "agentorchestra"])
async def test_one_without_a_quote_is_struck_out_and_costs_no_request(tmp_path: Path, sales: Path, system: str) -> None:
    script = lambda request: done("Blue.", {"source": "ghost.csv"}, {"source": "https://nowhere.example/"})  # noqa: E731
    result, asked = await played(tmp_path, system, script, [sales])
    assert (result.answer, result.sources) == ("Blue.", ()) and "ghost.csv" in result.report
    assert asked.count("decision") == 1


async def test_a_source_that_a_sub_agent_invents_reaches_nobody(tmp_path: Path, sales: Path) -> None:
    shown = []

    def planner(request: ModelRequest) -> ModelResponse:
        shown.extend(results(request))
        return done("Blue.") if shown else decide(calls=[call("deep_analyzer", task="Look at the ferries.")])

    worker = lambda request: done("It is blue.", GHOST)  # noqa: E731
    result, _ = await played(tmp_path, "agentorchestra", planner, [sales], analyzer=worker, worker=worker)
    assert result.sources == () and json.loads(shown[0])["sources"] == []


# -- held --------------------------------------------------------------------------------------------------------------


async def test_true_sources_hold_under_the_names_that_models_give_them(tmp_path: Path, sales: Path) -> None:
    """Each is true, and none costs a request, whatever it is called."""

    @tool(effect="read")
    def harbour() -> str:
        """The harbour's register."""
        return "The harbour of Arn has 12 berths."

    named = [
        ({"source": "sales.txt, line 3", "quote": "1999 | 41"}, "sales.txt", "line 3"),
        ({"source": "file:SALES.TXT", "place": "line 4", "quote": "2004 | 23"}, "sales.txt", "line 4"),
        ({"source": "the ferry table", "quote": "Ferries to the islands by year"}, "sales.txt", ""),
        ({"source": "calculation", "quote": "64"}, "python", ""),
        ({"source": "python"}, "python", ""),
        ({"source": "tool:harbour", "quote": "12 berths"}, "harbour", ""),
        ({"source": "the register of Arn", "quote": "has 12 berths"}, "harbour", ""),
        ({"source": "the user's request", "quote": "How many ferries"}, "task", ""),
    ]

    def reader(request: ModelRequest) -> ModelResponse:
        if not results(request):
            return decide(calls=[call("python", code="print(41 + 23)"), call("harbour")])
        return done("64", *(cited for cited, _, _ in named))

    result, asked = await played(tmp_path, "react", reader, [sales], task=TASK, given=[harbour])
    assert [(one.source, one.place) for one in result.sources] == [(name, place) for _, name, place in named]
    assert result.report == "" and len(asked) == 2


async def test_a_page_holds_by_its_address_and_by_the_one_that_led_there() -> None:
    quote = "The shop at the harbour gives cash against a card."
    async with served() as site:
        asked = f"{site.address}/trap/redirect?to=%2Ffaq"
        named = [asked, f"{site.address}/faq", f"{site.address}/faq#bank"]

        def reader(request: ModelRequest) -> ModelResponse:
            if not results(request):
                return decide(calls=[call("fetch", url=asked)])
            return done("A shop.", *({"source": one, "quote": quote} for one in named), {"source": asked})

        async with Workspace(store=MemoryStore(), settings=settings(site.address)) as ws:
            result = await ws.run(f"Where is cash on {asked}?", model=ScriptedModel(reader), system="react")
            assert len(purposes(await ws.log.events(result.run_id))) == 2
    assert [one.source for one in result.sources] == [*named, asked] and result.report == ""


# -- figures -----------------------------------------------------------------------------------------------------------

IRRELEVANT = {"source": "sales.txt", "place": "line 1", "quote": "Ferries to the islands by year"}


def judging(request: ModelRequest) -> ModelResponse:
    """Adds up the column as it stands in its prompt."""
    rows = [line.partition(" | ")[2] for line in seen(request).splitlines() if line[:7] in ("1999 | ", "2004 | ")]
    right = f"<answer>\n{sum(map(int, rows))}\n" in seen(request)
    return say(json.dumps({"reason": f"the rows make {sum(map(int, rows))}", "settle": "", "supported": right}))


async def test_a_lone_planners_figure_beside_an_irrelevant_quote_is_judged(tmp_path: Path, sales: Path) -> None:
    heard = []

    def insisting(request: ModelRequest) -> ModelResponse:
        heard.append(request.messages[-1].text)
        return done("1999", IRRELEVANT)

    result, asked = await played(tmp_path, "agentorchestra", insisting, [sales], task=TASK, judge=judging)
    assert "stand in nothing that you cite, and in no result: 1999" in heard[1] and "judge" in asked
    assert result.status is RunStatus.PARTIAL and "the rows make 64" in result.report


async def test_a_lone_planner_that_is_asked_computes_it(tmp_path: Path, sales: Path) -> None:
    def planner(request: ModelRequest) -> ModelResponse:
        if results(request) and "64" in results(request)[-1]:
            return done("64", IRRELEVANT)
        told = "in no result: 1999" in request.messages[-1].text
        return decide(calls=[call("python", code="print(41 + 23)")]) if told else done("1999", IRRELEVANT)

    def unasked(request: ModelRequest) -> ModelResponse:
        raise AssertionError("the judge was asked although a program printed the answer")

    result, asked = await played(tmp_path, "agentorchestra", planner, [sales], task=TASK, judge=unasked)
    assert (result.status, result.answer, result.report) == (RunStatus.COMPLETED, "64", "")
    assert asked.count("decision") == 3


@pytest.mark.sampled(3)
@pytest.mark.parametrize("system", ["react", "agentorchestra"])
@pytest.mark.parametrize("proof", ["the quote", "the row", "cells", "a program"])
async def test_what_code_can_prove_costs_no_request(tmp_path: Path, sales: Path, system: str, proof: str) -> None:
    def script(request: ModelRequest) -> ModelResponse:
        if proof == "a program":
            computed = bool(results(request))
            return done("64") if computed else decide(calls=[call("python", code="print(41 + 23)")])
        quote = {"the quote": "1999 | 41", "the row": "1999", "cells": "1999,41"}[proof]
        name, place = ("sales.csv", "row 2") if proof == "cells" else ("sales.txt", "line 3")
        return done("41", {"source": name, "place": place, "quote": quote})

    (tmp_path / "sales.csv").write_text("year,ferries\n1999,41\n2004,23\n")
    files = [sales, tmp_path / "sales.csv"]
    result, asked = await played(tmp_path, system, script, files, task="How many ferries went in 1999?")
    assert (result.status, result.report) == (RunStatus.COMPLETED, "")
    assert [one for one in asked if one != "formatter"] == ["decision"] * (2 if proof == "a program" else 1)


@pytest.mark.parametrize(("sources", "requests"), [((IRRELEVANT,), 2), ((), 1)], ids=["cited", "not cited"])
async def test_react_is_asked_once_about_a_figure_that_it_does_not_cite(
    tmp_path: Path, sales: Path, sources: Any, requests: int
) -> None:
    result, asked = await played(tmp_path, "react", lambda request: done("1999", *sources), [sales], task=TASK)
    assert (result.status, result.answer, len(asked)) == (RunStatus.COMPLETED, "1999", requests)


async def test_where_nothing_was_given_no_figure_is_asked_about(tmp_path: Path) -> None:
    result, asked = await played(tmp_path, "agentorchestra", lambda request: done("1945"), task="When did it end?")
    assert result.answer == "1945" and asked.count("decision") == 1 and "judge" not in asked


def test_figures_that_a_program_prints_in_a_line_are_two() -> None:
    def output(text: str) -> ToolOutput:
        return ToolOutput(
            "", 1, "python", "print(a)", text, Trust.UNTRUSTED, pieces=((Source(kind="tool", ref="python"), text),)
        )

    for printed in ("1283 153.96", "153.96 256.6", "1283.3999999999999 153.96"):
        shown = [output(printed)]
        assert unproven("It is 153.96 euros.", (), shown) == [], printed
    assert unproven("It is 153.96 euros.", (), [output("154.96")]) == ["153.96"]
    assert unproven("It is 1 250 euros.", (), [output("1250")]) == []
