"""Who drives which run: claims, proof of death, leases, lost runs, requests from outside."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from agentorchestra.core.effects import Effect, Mode
from agentorchestra.core.errors import FencedError
from agentorchestra.core.protocols import Owner
from agentorchestra.core.spec import RunResult, RunStatus
from agentorchestra.log.store import SqliteStore
from agentorchestra.runtime import job
from agentorchestra.runtime.engine import LocalEngine, is_dead, this_process
from agentorchestra.runtime.run import Run
from agentorchestra.runtime.session import Session
from tests.runtime.support import Bench, tool


def _child() -> subprocess.Popen[bytes]:
    """A process that lives until it is killed."""
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


def test_death_is_proved_by_pid_and_start_time() -> None:
    own = this_process()
    assert not is_dead(own)
    assert is_dead(own.model_copy(update={"started": own.started - 1000}))  # the pid was given to another process
    child = _child()
    owner = Owner(host=own.host, pid=child.pid, started=psutil.Process(child.pid).create_time())
    assert not is_dead(owner)
    child.kill()
    child.wait()
    assert is_dead(owner)
    assert not is_dead(owner.model_copy(update={"host": "another-host"}))
    assert child.stdin is not None
    child.stdin.close()


async def test_a_run_driven_by_a_live_process_is_refused_and_a_dead_owner_is_replaced(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    await store.open()
    bench = Bench(store, {})
    await bench.create("run_1")
    child = _child()
    own = this_process()
    other = Owner(host=own.host, pid=child.pid, started=psutil.Process(child.pid).create_time())
    assert await store.claim("run_1", other, lease_s=60) == 1
    engine = LocalEngine(store)
    with pytest.raises(FencedError, match=rf"run run_1 is being driven by another process \(.*, pid {child.pid}\)"):
        await engine.claim("run_1")
    child.kill()
    child.wait()
    assert child.stdin is not None
    child.stdin.close()
    assert await engine.claim("run_1") == 2
    await engine.release("run_1", 2)
    await engine.close()
    await store.close()


async def test_of_two_that_drive_a_run_at_the_same_moment_only_one_gets_it(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    await store.open()
    bench = Bench(store, {})
    await bench.create("run_1")
    engine = LocalEngine(store)
    gate = asyncio.Event()
    epochs: list[int] = []

    async def drive(epoch: int) -> int:
        epochs.append(epoch)
        await gate.wait()
        return epoch

    both = [asyncio.create_task(engine.submit("run_1", drive)) for _ in range(2)]
    done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED, timeout=60)
    (refused,) = done
    with pytest.raises(FencedError, match="run run_1 is already being driven by this process"):
        await refused
    gate.set()
    assert await both[1 - both.index(refused)] == 1
    assert epochs == [1] and engine.driving == ()
    assert await engine.submit("run_1", drive) == 2
    await engine.close()
    await store.close()


async def test_a_run_that_was_taken_over_stops_here(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    await store.open()
    started = asyncio.Event()

    async def slow(effect: Effect, ctx: Session[Any]) -> Any:
        started.set()
        await asyncio.sleep(60)

    bench = Bench(store, {"slow": slow})
    manifest = await bench.create("run_1")
    engine = LocalEngine(store, lease_s=0.6)

    async def drive(epoch: int) -> RunResult:
        run = Run(bench.services, "run_1", manifest, await store.load("run_1"), epoch=epoch)
        engine.attach(run)

        async def main(root: Session[Any]) -> Any:
            await root.perform(tool("slow", Mode.REPEATABLE))

        return await job.drive(run, main)

    task = asyncio.create_task(engine.submit("run_1", drive))
    await started.wait()
    thief = this_process().model_copy(update={"host": "another-host"})
    assert await store.claim("run_1", thief, lease_s=60, expect_epoch=1) == 2
    with pytest.raises(FencedError):
        await task
    assert engine.driving == ()
    events = await store.load("run_1")
    assert "run_ended" not in [event.type for event in events]  # a zombie writes nothing
    await engine.close()
    await store.close()
    assert len(asyncio.all_tasks()) == 1


async def test_a_request_to_cancel_from_another_process_is_seen(tmp_path: Path) -> None:
    store, other = SqliteStore(tmp_path), SqliteStore(tmp_path)
    await store.open()
    await other.open()
    started = asyncio.Event()

    async def slow(effect: Effect, ctx: Session[Any]) -> Any:
        ctx.partial = {"memory": "half way"}
        started.set()
        await asyncio.sleep(60)

    bench = Bench(store, {"slow": slow})
    manifest = await bench.create("run_1")
    engine = LocalEngine(store)

    async def drive(epoch: int) -> RunResult:
        run = Run(bench.services, "run_1", manifest, await store.load("run_1"), epoch=epoch)
        engine.attach(run)

        async def main(root: Session[Any]) -> Any:
            await root.perform(tool("slow", Mode.REPEATABLE))

        return await job.drive(run, main)

    task = asyncio.create_task(engine.submit("run_1", drive))
    await started.wait()
    await LocalEngine(other).cancel("run_1", reason="enough", by="test")
    result = await task
    assert result.status is RunStatus.CANCELLED
    interrupted = [event for event in await store.load("run_1") if event.type == "interrupted"]
    assert [event.body["partial"] for event in interrupted] == [{"memory": "half way"}]
    row = await store.job("run_1")
    assert row is not None and row.owner is None  # released
    await engine.close()
    await store.close()
    await other.close()
