"""Timers: short ones in the process, long ones as a job that ended; beside questions, in branches and sub-agents."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import psutil
import pytest

from agentorchestra.core.errors import ToolError
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.spec import AgentSpec, RunResult, RunStatus
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace
from tests.support.clock import START, FakeClock

DAY = timedelta(days=1)


DONE: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    DONE.clear()


@tool(effect="composite")
async def nap(ctx: RunContext[Any], days: float = 0, seconds: float = 0, name: str = "nap") -> str:
    """Sleep."""
    now = await ctx.sleep(days * 86_400 + seconds)
    DONE.append(name)
    return f"{name} over at {now:%d %H:%M}"


@tool(effect="composite")
async def alarm(ctx: RunContext[Any], at: str, zone: str) -> str:
    """Sleep until a time in a place."""
    now = await ctx.sleep_until(datetime.fromisoformat(at).replace(tzinfo=ZoneInfo(zone)))
    return f"{now:%d %H:%M}"


@tool(effect="composite")
async def ask(ctx: RunContext[Any]) -> str:
    """Ask the user."""
    said = await ctx.ask("Which colour?")
    DONE.append(said)
    return said


@tool(effect="composite")
async def helper(ctx: RunContext[Any], days: float) -> str:
    """Let a sub-agent sleep."""
    spec = AgentSpec(name="sleeper", instruction=f"SLEEP {days}", tools=("nap",))
    return (await ctx.call_agent(spec)).answer


def _model(*calls: Any) -> ScriptedModel:
    """All of the calls in one decision, then the answer; an agent that is told to sleep does."""

    def decided(request: ModelRequest) -> ModelResponse:
        said = [m.text for m in request.messages if m.role == "tool"]
        told = request.messages[1].text
        if said:
            return decide(calls=[call("done", answer=" | ".join(said))])
        slept = re.search(r"SLEEP (\S+)", told)
        return decide(calls=[call("nap", days=float(slept[1]))] if slept else list(calls))

    return ScriptedModel(decided)


@asynccontextmanager
async def workspace(folder: Path, clock: FakeClock | None = None) -> AsyncIterator[Workspace[Any]]:
    async with Workspace(folder, tools=[nap, alarm, ask, helper], clock=clock or FakeClock()) as ws:
        yield ws


async def _run(ws: Workspace[Any], *calls: Any) -> RunResult:
    return await ws.run("Do it.", model=_model(*calls), system="react")


async def test_a_long_wait_ends_the_job_and_goes_on_after_its_time(tmp_path: Path) -> None:
    clock = FakeClock()
    async with workspace(tmp_path, clock) as ws:
        waiting = await _run(ws, call("nap", days=3))
        assert (waiting.status, waiting.until) == (RunStatus.WAITING, START + 3 * DAY)
        assert waiting.error == "waits until 2026-10-27 23:30:00 UTC"
        events = len(await ws.log.events(waiting.run_id))
        clock.time += 2 * DAY
        early = await ws.resume(waiting.run_id)
        assert (early, await ws.runs.due(), len(await ws.log.events(waiting.run_id))) == (waiting, [], events)
        clock.time += DAY
        assert await ws.runs.due() == [waiting.run_id]
        over = await ws.resume(waiting.run_id)
        assert (over.answer, over.until, DONE) == ("nap over at 27 23:30", None, ["nap"])
        assert await ws.runs.due() == []
        assert (await ws.replay(over.run_id)).answer == over.answer  # at once: the test's limit is no three days


async def test_waiting_for_days_costs_nothing(tmp_path: Path) -> None:
    clock = FakeClock()
    process = psutil.Process()
    async with workspace(tmp_path, clock) as ws:
        await _run(ws, call("nap", seconds=0.001))  # threads and tasks of the workspace itself are there now
        before = (threading.active_count(), len(asyncio.all_tasks()), len(process.children()))
        for _ in range(3):
            waiting = await _run(ws, call("nap", days=3))
        assert (len(asyncio.all_tasks()), len(process.children())) == before[1:]
        assert threading.active_count() < before[0] + 3  # the loop's own pool may have got one meanwhile
        job = await ws.store.job(waiting.run_id)
        assert job is not None and job.owner is None
        assert ws.engine.driving == ()
        clock.time += 3 * DAY
        over = await ws.resume(waiting.run_id)
        assert over.status is RunStatus.COMPLETED
        assert waiting.duration_s < 60 and over.duration_s < 60
        assert (await ws.runs.result(waiting.run_id)).duration_s == over.duration_s


async def test_a_short_wait_stays_in_the_process(tmp_path: Path) -> None:
    async with workspace(tmp_path) as ws:
        over = await _run(ws, call("nap", seconds=0.05))
        assert (over.status, DONE) == (RunStatus.COMPLETED, ["nap"])
        assert [e.type for e in await ws.log.events(over.run_id)].count("driving_started") == 1
        await ws.replay(over.run_id)


async def test_two_timers_go_on_one_after_the_other(tmp_path: Path) -> None:
    clock = FakeClock()
    async with workspace(tmp_path, clock) as ws:
        waiting = await _run(ws, call("nap", days=3, name="long"), call("nap", days=1, name="short"))
        assert waiting.until == START + DAY
        clock.time += DAY
        waiting = await ws.resume(waiting.run_id)
        assert (waiting.status, waiting.until, DONE) == (RunStatus.WAITING, START + 3 * DAY, ["short"])
        clock.time += 2 * DAY
        over = await ws.resume(waiting.run_id)
        assert (over.answer, DONE) == ("long over at 27 23:30 | short over at 25 23:30", ["short", "long"])
        await ws.replay(over.run_id)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("first", ["answer", "time"])
async def test_a_timer_beside_a_question(tmp_path: Path, first: str) -> None:
    clock = FakeClock()
    async with workspace(tmp_path, clock) as ws:
        waiting = await _run(ws, call("ask"), call("nap", days=1))
        run = waiting.run_id
        assert (waiting.until, len(waiting.questions)) == (START + DAY, 1)
        for what in ("answer", "time") if first == "answer" else ("time", "answer"):
            if what == "answer":
                await ws.answer(run, "blue")
            else:
                clock.time += DAY
            assert await ws.runs.due() == [run]
            result = await ws.resume(run)
            if what == first:
                assert result.status is RunStatus.WAITING
                assert (["blue"] if first == "answer" else ["nap"]) == DONE
                assert (result.until is None, len(result.questions)) == ((True, 1) if what == "time" else (False, 0))
                assert await ws.runs.due() == []
        assert result.answer == "blue | nap over at 25 23:30"
        assert sorted(DONE) == ["blue", "nap"]
        await ws.replay(run)


async def test_a_timer_inside_a_sub_agent(tmp_path: Path) -> None:
    clock = FakeClock()
    async with workspace(tmp_path, clock) as ws:
        waiting = await _run(ws, call("helper", days=2))
        assert waiting.until == START + 2 * DAY
        clock.time += 2 * DAY
        over = await ws.resume(waiting.run_id)
        assert (over.answer, DONE) == ("nap over at 26 23:30", ["nap"])
        await ws.replay(over.run_id)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", ["cancel", "pause"])
async def test_a_run_that_was_stopped_does_not_start_by_itself(tmp_path: Path, how: str) -> None:
    clock = FakeClock()
    async with workspace(tmp_path, clock) as ws:
        run = (await _run(ws, call("nap", days=1))).run_id
        await (ws.cancel(run) if how == "cancel" else ws.pause(run))
        assert (await ws.runs.result(run)).until == START + DAY
        clock.time += 2 * DAY
        assert await ws.runs.due() == []
        assert (await ws.resume(run)).answer == "nap over at 26 23:30"


async def test_a_timer_of_what_was_stopped_in_time(tmp_path: Path) -> None:
    @tool(effect="composite", timeout_s=0.05)
    async def impatient(ctx: RunContext[Any]) -> str:
        """Sleep for too long."""
        await ctx.sleep(4)
        return "never"

    async with Workspace(tmp_path, tools=[impatient], clock=FakeClock()) as ws:
        over = await _run(ws, call("impatient"))
        assert "was stopped after its time limit of 0.05 s" in over.answer
        assert "interrupted" in [e.type for e in await ws.log.events(over.run_id)]


async def test_the_clock_set_back_and_forward(tmp_path: Path) -> None:
    clock = FakeClock()
    async with workspace(tmp_path, clock) as ws:
        run = (await _run(ws, call("nap", days=1))).run_id
        clock.time -= 30 * DAY
        assert (await ws.runs.due(), (await ws.resume(run)).status) == ([], RunStatus.WAITING)
        clock.time = START + DAY
        assert await ws.runs.due() == [run]
        clock.time += 100 * DAY
        assert (await ws.resume(run)).status is RunStatus.COMPLETED
        ordered = [e.seq for e in await ws.log.events(run)]
        assert ordered == sorted(ordered)


async def test_a_place_whose_clock_is_set_back_in_the_night(tmp_path: Path) -> None:
    clock = FakeClock()
    async with workspace(tmp_path, clock) as ws:
        # 9 o'clock in Berlin is 7 in UTC on the 24th, and 8 on the 25th.
        waiting = await _run(ws, call("alarm", at="2026-10-25T09:00", zone="Europe/Berlin"))
        assert waiting.until == datetime(2026, 10, 25, 8, tzinfo=UTC)
        clock.time = datetime(2026, 10, 25, 7, 59, 59, tzinfo=UTC)
        assert (await ws.resume(waiting.run_id)).status is RunStatus.WAITING
        clock.time += timedelta(seconds=1)
        assert (await ws.resume(waiting.run_id)).answer == "25 08:00"


async def test_a_time_that_is_over_is_not_waited_for(tmp_path: Path) -> None:
    async with workspace(tmp_path) as ws:
        over = await _run(ws, call("alarm", at="1970-01-01T00:00", zone="UTC"), call("nap", seconds=0))
        assert (over.status, over.answer) == (RunStatus.COMPLETED, "24 23:30 | nap over at 24 23:30")


async def test_times_nobody_can_wait_for(tmp_path: Path) -> None:
    @tool(effect="composite")
    async def naive(ctx: RunContext[Any]) -> str:
        """No zone."""
        with pytest.raises(ToolError, match="2027-01-31 00:00:00 has no zone; give an aware one"):
            await ctx.sleep_until(datetime(2027, 1, 31))
        return "refused"

    async with Workspace(tmp_path, tools=[naive, nap, alarm], clock=FakeClock()) as ws:
        calls = [call("nap", seconds=bad) for bad in (-1, 1e300)]
        late = call("alarm", at="9999-12-31T23:59", zone="America/New_York")
        over = await _run(ws, call("naive"), *calls, late)
        said = over.answer.split(" | ")
        assert said[0] == "refused"
        assert "-1 seconds cannot be waited for; wait for 0 to 366 days" in said[1]
        assert "1e+300 seconds cannot be waited for" in said[2]
        assert "366 days" in said[3]


async def test_a_branch_that_works_is_not_kept_waiting_by_one_that_sleeps(tmp_path: Path) -> None:
    """A long timer beside work: the job goes on until only the timer is left, then ends."""
    clock = FakeClock()

    @tool(effect="write")
    async def work() -> str:
        """Work."""
        await asyncio.sleep(0.05)
        DONE.append("worked")
        return "worked"

    async with Workspace(tmp_path, tools=[nap, work], clock=clock) as ws:
        waiting = await _run(ws, call("nap", days=1), call("work"))
        assert (waiting.status, DONE) == (RunStatus.WAITING, ["worked"])
        clock.time += DAY
        over = await ws.resume(waiting.run_id)
        assert DONE == ["worked", "nap"] and over.status is RunStatus.COMPLETED
