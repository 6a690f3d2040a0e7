"""Runs that are created here and driven by their id anywhere: what servers and workers do."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.errors import OtherSettingsError, RequestKeyError
from agentorchestra.core.events import DrivingStarted, RunEnded, new_event
from agentorchestra.core.protocols import Acceptance, Owner
from agentorchestra.core.settings import Settings
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.store import MemoryStore
from agentorchestra.runtime.run import wait_for
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace

NOW = datetime(2026, 11, 1, tzinfo=UTC)


def workspace(folder: Path, **options: Any) -> Workspace[Any]:
    model = ScriptedModel(lambda request: decide(calls=[call("done", answer="42")]))
    return Workspace(folder, models={"scripted": model}, settings=Settings(model="scripted", system="react"), **options)


async def died(ws: Workspace[Any], run: str, times: int = 1) -> None:
    """Write what a process leaves that was killed while it drove a run."""
    for _ in range(times):
        epoch = await ws.store.claim(run, Owner(host="elsewhere", pid=1, started=0.0), lease_s=0.0)
        started = new_event(DrivingStarted(owner="elsewhere", epoch=epoch or 0), ts=NOW)
        await wait_for(ws.store.append(run, epoch, [started], status=RunStatus.RUNNING))


async def test_a_run_is_created_here_and_driven_there(tmp_path: Path) -> None:
    async with workspace(tmp_path) as ws:
        run = await ws.create("6 * 7?", accepted=Acceptance(NOW, "answer", "abc"))
        record = await ws.store.get_run(run)
        assert record is not None and (record.status, record.accepted) == (RunStatus.CREATED, NOW)
        assert await ws.runs.accepted_run(Acceptance(NOW, "answer", "abc")) == run
        assert await ws.runs.accepted_run(Acceptance(NOW, "other", "abc")) is None
        # The same request again is the same run, another one under its key is refused.
        assert await ws.create("6 * 7?", accepted=Acceptance(NOW, "answer", "abc")) == run
        with pytest.raises(RequestKeyError, match=f"'answer' was used for another request, which became run {run}"):
            await ws.create("6 * 8?", accepted=Acceptance(NOW, "answer", "abd"))
        assert [one.id for one in await ws.runs.list()] == [run]
    async with workspace(tmp_path) as other:
        result = await other.runs.take_up(run)
        assert (result.status, result.answer) == (RunStatus.COMPLETED, "42")
        assert await other.runs.take_up(run) == await other.runs.result(run)  # it is over


async def test_a_run_that_its_process_died_of_goes_on(tmp_path: Path) -> None:
    async with workspace(tmp_path, store=MemoryStore()) as ws:
        run = await ws.create("6 * 7?")
        await died(ws, run, 2)
        assert (await ws.runs.take_up(run)).status is RunStatus.COMPLETED


async def test_a_run_that_ends_its_driver_again_and_again_fails(tmp_path: Path) -> None:
    async with workspace(tmp_path, store=MemoryStore()) as ws:
        run = await ws.create("6 * 7?")
        await died(ws, run, 3)
        result = await ws.runs.take_up(run)
        assert result.status is RunStatus.FAILED
        assert result.error is not None and result.error.startswith("it ended its driver 3 times, each time before")
        assert f"`agentorchestra resume {run}`" in result.error
        # A person may try again all the same.
        assert (await ws.resume(run)).status is RunStatus.COMPLETED


async def test_a_run_stays_for_a_process_with_its_settings(tmp_path: Path) -> None:
    async with workspace(tmp_path) as ws:
        run = await ws.create("6 * 7?", accepted=Acceptance(NOW))
    async with workspace(tmp_path, preset="paper-000") as other:
        with pytest.raises(OtherSettingsError, match=f"{run} was made with the preset 'none', and this process has"):
            await other.runs.take_up(run)
        record = await other.store.get_run(run)
        assert record is not None and record.status is RunStatus.CREATED


class Overtaken(MemoryStore):
    """Another process ends a run in the moment before this one claims it."""

    ended = ""

    async def claim(self, run: str, owner: Any, **options: Any) -> int | None:
        """Claim it, after the other one."""
        if run == self.ended:
            self.ended = ""
            epoch = await super().claim(run, owner, lease_s=60)
            assert epoch is not None
            stopped = new_event(RunEnded(status=RunStatus.CANCELLED, active_s=0.0), ts=NOW)
            await wait_for(self.append(run, epoch, [stopped], status=RunStatus.CANCELLED))
            await self.release(run, epoch)
        return await super().claim(run, owner, **options)


async def test_a_run_that_was_stopped_in_the_meantime_is_not_taken_up(tmp_path: Path) -> None:
    store = Overtaken()
    model = ScriptedModel([call("done", answer="ok")])
    async with Workspace(tmp_path, store=store, models={"own": model}, settings=Settings(model="own")) as ws:
        run = await ws.create("Say ok.", system="react")
        store.ended = run
        assert (await ws.runs.take_up(run)).status is RunStatus.CANCELLED
        assert not model.requests
        assert (await ws.resume(run)).status is RunStatus.COMPLETED  # a person may
