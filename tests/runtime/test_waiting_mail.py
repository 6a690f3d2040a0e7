"""Mail from outside: a run whose agents all wait for it ends its job, and the message starts it again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.errors import UnknownComponentError
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.spec import RunResult, RunStatus
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace
from tests.support.clock import FakeClock
from tests.support.runtime_waiting_mail import await_mail, two_clerks


def _model(*calls: Any) -> ScriptedModel:
    def decided(request: ModelRequest) -> ModelResponse:
        said = [m.text for m in request.messages if m.role == "tool"]
        if said:
            return decide(calls=[call("done", answer=said[-1])])
        offered = [one.name for one in request.tools]
        return decide(calls=list(calls) if "two_clerks" in offered else [call("await_mail")])

    return ScriptedModel(decided)


@asynccontextmanager
async def workspace(folder: Path, clock: FakeClock | None = None) -> AsyncIterator[Workspace[Any]]:
    async with Workspace(folder, tools=[await_mail, two_clerks], clock=clock or FakeClock()) as ws:
        yield ws


async def _run(ws: Workspace[Any], *calls: Any) -> RunResult:
    return await ws.run("Wait.", model=_model(*calls), system="react")


async def test_a_message_starts_the_run_again(tmp_path: Path) -> None:
    async with workspace(tmp_path) as ws:
        waiting = await _run(ws, call("await_mail"))
        run = waiting.run_id
        assert (waiting.status, waiting.error) == (RunStatus.WAITING, "react waits for mail from outside")
        job = await ws.store.job(run)
        assert job is not None and job.owner is None
        await ws.tell(run, "for the task, not for the mailbox")
        assert await ws.runs.due() == []
        with pytest.raises(UnknownComponentError, match="has no agent 'bob' yet; its agents: react"):
            await ws.tell(run, "hello", to="bob")
        await ws.tell(run, "the parcel is here", to="react", by="ann")
        assert await ws.runs.due() == [run]
        over = await ws.resume(run)
        assert over.answer == "ann: the parcel is here"
        assert "for the task" in str([e.body for e in await ws.log.events(run) if e.type == "completed"])
        await ws.replay(run)


async def test_two_agents_wait_and_each_gets_its_own(tmp_path: Path) -> None:
    async with workspace(tmp_path) as ws:
        waiting = await _run(ws, call("two_clerks"))
        run = waiting.run_id
        assert waiting.status is RunStatus.WAITING
        await ws.tell(run, "for bob", to="bob")
        still = await ws.resume(run)
        assert (still.status, still.error) == (RunStatus.WAITING, "ann waits for mail from outside")
        assert await ws.runs.due() == []
        await ws.tell(run, "for ann", to="ann")
        assert (await ws.resume(run)).answer == "somebody: for ann | somebody: for bob"
        await ws.replay(run)


async def test_mail_or_a_time_whichever_comes_first(tmp_path: Path) -> None:
    for first in ("mail", "time"):
        clock = FakeClock()
        async with workspace(tmp_path / first, clock) as ws:
            waiting = await _run(ws, call("await_mail", days=2))
            assert waiting.until == clock.time + timedelta(days=2)
            if first == "mail":
                await ws.tell(waiting.run_id, "hello", to="react")
            else:
                clock.time += timedelta(days=2)
            assert await ws.runs.due() == [waiting.run_id]
            over = await ws.resume(waiting.run_id)
            assert over.answer == ("somebody: hello" if first == "mail" else "nothing came")
            await ws.replay(over.run_id)


async def test_mail_that_comes_while_somebody_is_at_work_is_taken_in_the_same_job(tmp_path: Path) -> None:
    busy, may_end = asyncio.Event(), asyncio.Event()

    @tool(effect="write")
    async def work() -> str:
        """Work until the test has sent its mail."""
        busy.set()
        await may_end.wait()
        return "worked"

    async with Workspace(tmp_path, tools=[await_mail, two_clerks, work], clock=FakeClock()) as ws:
        run = await ws.create("Wait.", model=_model(call("await_mail"), call("work")), system="react")
        task = asyncio.create_task(ws.resume(run))
        await busy.wait()
        await ws.tell(run, "hello", to="react")
        may_end.set()
        over = await task
        assert over.status is RunStatus.COMPLETED
        assert [e.type for e in await ws.log.events(run)].count("driving_started") == 1
        assert any("somebody: hello" in str(e.body) for e in await ws.log.events(run) if e.type == "completed")
        await ws.replay(run)
