"""Stopped in the middle of three agents at work: by Ctrl-C, from another process, by time, by the budget."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from agentorchestra.core.budget import Budget
from agentorchestra.core.events import Event
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.spec import RunResult
from agentorchestra.testing import ScriptedModel
from agentorchestra.workspace import Workspace
from tests.chaos import team_model, team_program
from tests.chaos.support import python, until
from tests.chaos.team_case import Case, finished

pytestmark = pytest.mark.timeout(600)  # many processes, on a machine that may be busy

SIDES = ("left", "right", "rear")
AGENTS = {f"/1.react/3.team#{n}": side for n, side in enumerate(SIDES, start=1)}
REQUESTS = {f"/1.react/3.team/{n}.{side}#3" for n, side in enumerate(SIDES, start=1)}


def check_log(events: list[Event], status: str) -> None:
    """What was under way says that it was interrupted and how far it had come; the end stands last."""
    interrupted = {e.span: e.body for e in events if e.type == "interrupted"}
    assert set(interrupted) == {"/#1", "/1.react#3", *AGENTS, *REQUESTS}
    for key, side in AGENTS.items():
        partial = interrupted[key]["partial"]
        assert (partial["steps"], partial["memory"]) == (1, f"{side} after 0 steps")
    assert (events[-1].type, events[-1].body["status"]) == ("run_ended", status)
    started = {e.span for e in events if e.type == "started"}
    completed = {e.span for e in events if e.type == "completed"}
    assert started - completed == set(interrupted)


# --- from outside -----------------------------------------------------------------------------------------------------


@pytest.fixture
async def case(tmp_path: Path) -> AsyncIterator[Case]:
    async with team_model.Served(holds=3) as server:
        made = Case(tmp_path / "case", server, environ={"SIDES": " ".join(SIDES)})
        made.lay_out()
        yield made


async def resume(case: Case, *words: str) -> None:
    """Resume it to its end: only the three requests that had no answer are repeated."""
    case.server.release.set()
    before = {team_model.digest(body) for body in case.asked()}
    printed, seen = await case.cli("resume", case.run, *words)
    assert json.loads(printed)["answer"] == team_model.ANSWER_OF_THREE
    again = [team_model.actor_of(body) for body in seen if team_model.digest(body) in before]
    assert sorted(again) == sorted(SIDES)
    assert sorted(x for _, x in case.lines("notes.txt")) == ["left", "rear", "right", "top"]
    await case.cli("replay", case.run)


@pytest.mark.parametrize("how", [pytest.param(one, marks=pytest.mark.long) for one in ("SIGINT", "SIGTERM", "cancel")])
async def test_stopped_from_outside(case: Case, how: str) -> None:
    async with case.held(3) as process:
        children = psutil.Process(process.pid).children(recursive=True)
        if how == "cancel":
            await asyncio.to_thread(python, case.words("cancel", case.run))
        else:
            process.send_signal(signal.Signals[how])
        out, err = await finished(process)
    result = json.loads(out)
    assert (process.returncode, result["status"]) == (130, "cancelled"), err
    assert not any(child.is_running() for child in children)
    check_log(await case.log(), "cancelled")
    await resume(case)


@pytest.mark.long
async def test_the_time_of_a_command_is_over(case: Case) -> None:
    # Long enough for the agents to come to where they are held; then nothing but the clock can end the run.
    before = len(case.server.bodies)
    printed, _ = await case.cli("run", team_model.TASK, "--timeout-s", "20", code=3)
    result = json.loads(printed)
    assert result["status"] == "timed_out"
    assert len(case.server.bodies) - before <= 7  # how far they come in that time is the machine's affair
    case.run = result["run_id"]
    check_log(await case.log(), "timed_out")
    await resume(case, "--timeout-s", "900")


# --- in this process --------------------------------------------------------------------------------------------------


class Held:
    """The team's model; the second requests of some actors wait until they are let go."""

    def __init__(self) -> None:
        self.actors = set(SIDES)
        self.release = asyncio.Event()
        self.waiting = 0
        self.workspaces: list[Workspace[Any]] = []

    async def __call__(self, request: ModelRequest) -> ModelResponse:
        """The same answers."""
        body = team_model.body_of(request)
        if team_model.steps_of(body) == 1 and team_model.actor_of(body) in self.actors:
            self.waiting += 1
            await self.release.wait()
        return team_model.answer(body)


@pytest.fixture
async def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Held]:
    monkeypatch.setattr(team_program, "HERE", tmp_path)
    monkeypatch.setattr(team_program, "SIDES", SIDES)
    made = Held()
    yield made
    # A test that failed half way must not leave its threads to the tests after it.
    for ws in made.workspaces:
        await ws.close()


def _workspace(held: Held) -> Workspace[Any]:
    ws = team_program.workspace()
    ws.own.models["team"] = ScriptedModel(held, name="team")
    held.workspaces.append(ws)
    return ws


async def _nothing_left(ws: Workspace[Any], threads: int) -> None:
    assert ws.engine.driving == ()
    await ws.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert [t.name for t in threading.enumerate() if not t.name.startswith("asyncio_")][threads:] == []


async def _resumed(held: Held, run: str, **options: Any) -> RunResult:
    held.release.set()
    ws = _workspace(held)
    async with ws:
        result = await ws.resume(run, **options)
        assert (await ws.replay(run)).answer == result.answer_text
        return result


async def test_a_cancelled_task_leaves_nothing_behind(held: Held) -> None:
    threads = threading.active_count()
    ws = _workspace(held)
    await ws.open()
    work = asyncio.create_task(ws.run(team_model.TASK, model="team", system="react"))
    await until(lambda: held.waiting == 3)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    (record,) = await ws.runs.list()
    check_log(await ws.log.events(record.id), "cancelled")
    await _nothing_left(ws, threads)
    assert (await _resumed(held, record.id)).answer == team_model.ANSWER_OF_THREE


async def test_a_workspace_that_is_closed_stops_its_runs(held: Held) -> None:
    threads = threading.active_count()
    ws = _workspace(held)
    await ws.open()
    work = asyncio.create_task(ws.run(team_model.TASK, model="team", system="react"))
    await until(lambda: held.waiting == 3)
    (record,) = await ws.runs.list()
    await ws.close()
    await asyncio.gather(work, return_exceptions=True)
    await _nothing_left(ws, threads)
    assert (await _resumed(held, record.id)).answer == team_model.ANSWER_OF_THREE


async def test_how_far_the_top_agent_had_come_is_kept(held: Held) -> None:
    held.actors = {"top"}
    ws = _workspace(held)
    async with ws:
        work = asyncio.create_task(ws.run(team_model.TASK, model="team", system="react"))
        await until(lambda: held.waiting == 1)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        (record,) = await ws.runs.list()
        ended = (await ws.log.events(record.id))[-1].body
    assert ended["status"] == "cancelled"
    assert ended["result"] == {"status": "cancelled", "steps": 1, "memory": "top after 0 steps"}


@pytest.mark.long
async def test_the_time_is_over(held: Held) -> None:
    threads = threading.active_count()
    ws = _workspace(held)
    await ws.open()
    result = await ws.run(team_model.TASK, model="team", budget=Budget(active_s=5), system="react")
    assert (result.status, held.waiting) == ("timed_out", 3)
    check_log(await ws.log.events(result.run_id), "timed_out")
    await _nothing_left(ws, threads)
    again = await _resumed(held, result.run_id, budget=Budget(active_s=900))
    assert (again.status, again.answer) == ("completed", team_model.ANSWER_OF_THREE)


@pytest.mark.long
async def test_the_budget_is_over(held: Held) -> None:
    held.release.set()
    threads = threading.active_count()
    ws = _workspace(held)
    await ws.open()
    result = await ws.run(team_model.TASK, model="team", budget=Budget(steps=6), system="react")
    assert result.status == "budget_exhausted"
    # Every specialist was refused a decision, and the one at the top still gave its answer with what was left.
    outcomes = {e.span: e.body["outcome"] for e in await ws.log.events(result.run_id) if e.type == "completed"}
    assert {key: outcomes[key]["status"] for key in AGENTS} == dict.fromkeys(AGENTS, "limited")
    assert sorted(outcomes[key]["value"]["steps"] for key in AGENTS) == [1, 1, 2]
    assert ("/#1" in outcomes, result.steps) == (True, 6)
    await _nothing_left(ws, threads)
    again = await _resumed(held, result.run_id, budget=Budget(steps=100))
    assert (again.status, again.answer) == ("completed", team_model.ANSWER_OF_THREE)
    assert again.steps == 13  # the early answer was paid too; what else was recorded was not decided again
    notes = [line.split()[1] for line in team_program.HERE.joinpath("notes.txt").read_text().splitlines()]
    assert sorted(notes) == ["left", "rear", "right", "top"]
