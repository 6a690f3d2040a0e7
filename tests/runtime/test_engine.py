"""Who drives which run: claims, proof of death, leases, lost runs, requests from outside."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.effects import Effect, Mode
from agentorchestra.core.errors import FencedError, LeaseError
from agentorchestra.core.protocols import Owner
from agentorchestra.core.settings import Settings
from agentorchestra.core.spec import RunResult, RunStatus
from agentorchestra.log.store import SqliteStore
from agentorchestra.runtime import job
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.engine import LocalEngine, check_lease, is_dead, owner_of, this_process
from agentorchestra.runtime.run import Run
from agentorchestra.workspace import Workspace
from tests.runtime.support import Bench, tool
from tests.support.patience import LONGEST_S

_UNSHARE = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
_NAMESPACES = shutil.which("unshare") is not None and subprocess.run([*_UNSHARE, "true"], check=False).returncode == 0


def _child() -> subprocess.Popen[bytes]:
    """A process that lives until it is killed."""
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


def test_death_is_proved_by_pid_and_start_time() -> None:
    own = this_process()
    assert not is_dead(own)
    assert own.ticks is not None
    assert is_dead(own.model_copy(update={"ticks": own.ticks - 1000}))  # the pid was given to another process
    child = _child()
    owner = owner_of(child.pid)
    assert not is_dead(owner)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_dead(owner)  # a zombie drives nothing
    child.wait()
    assert is_dead(owner)
    for unproved in ({"boot": "before"}, {"boot": ""}, {"space": "pid:[1] time:[1]"}):
        assert not is_dead(owner.model_copy(update=unproved))
    assert not is_dead(owner.model_copy(update={"host": "another-host"}))
    assert child.stdin is not None
    child.stdin.close()


def test_a_living_process_stays_alive_when_the_boot_time_is_reckoned_anew() -> None:
    """What /proc says of the boot moves by seconds when the clock is set."""
    own = this_process()
    assert not is_dead(own.model_copy(update={"started": own.started - 5}))


@pytest.mark.skipif(not _NAMESPACES, reason="this user may not make PID namespaces")
def test_a_process_of_another_pid_namespace_is_not_declared_dead() -> None:
    """Under the same host name: its number means nothing here, and this one's means nothing there."""
    script = (
        "import sys\n"
        "from agentorchestra.core.protocols import Owner\n"
        "from agentorchestra.runtime.engine import is_dead, this_process\n"
        "print(this_process().model_dump_json(), flush=True)\n"
        "print(is_dead(Owner.model_validate_json(sys.stdin.readline())), flush=True)\n"
        "sys.stdin.readline()\n"
    )
    started = subprocess.Popen(
        [*_UNSHARE, sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with started as child:
        assert child.stdin is not None
        assert child.stdout is not None
        inside = Owner.model_validate_json(child.stdout.readline())
        assert inside.host == this_process().host
        assert not is_dead(inside)
        # Numbers that are in use there by other processes, or by none.
        assert not is_dead(inside.model_copy(update={"pid": 4_000_000}))
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as outside:
            child.stdin.write(owner_of(outside.pid).model_dump_json() + "\n")
            child.stdin.flush()
            assert child.stdout.readline() == "False\n"


async def test_a_run_driven_by_a_live_process_is_refused_and_a_dead_owner_is_replaced(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    await store.open()
    bench = Bench(store, {})
    await bench.create("run_1")
    child = _child()
    other = owner_of(child.pid)
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
    done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED, timeout=LONGEST_S)
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

    async def slow(effect: Effect, ctx: BranchContext[Any]) -> Any:
        started.set()
        await asyncio.sleep(60)

    bench = Bench(store, {"slow": slow})
    manifest = await bench.create("run_1")
    engine = LocalEngine(store, lease_s=0.6)

    async def drive(epoch: int) -> RunResult:
        run = Run(bench.services, "run_1", manifest, await store.load("run_1"), epoch=epoch)
        engine.attach(run)

        async def main(root: BranchContext[Any]) -> Any:
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

    async def slow(effect: Effect, ctx: BranchContext[Any]) -> Any:
        ctx.partial = {"memory": "half way"}
        started.set()
        await asyncio.sleep(60)

    bench = Bench(store, {"slow": slow})
    manifest = await bench.create("run_1")
    engine = LocalEngine(store)

    async def drive(epoch: int) -> RunResult:
        run = Run(bench.services, "run_1", manifest, await store.load("run_1"), epoch=epoch)
        engine.attach(run)

        async def main(root: BranchContext[Any]) -> Any:
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


@pytest.mark.parametrize("lease_s", [0.01, 0.999])
async def test_a_lease_shorter_than_a_commit_is_refused(tmp_path: Path, lease_s: float) -> None:
    with pytest.raises(LeaseError) as refused:
        async with Workspace(tmp_path / "ws", settings=Settings(lease_s=lease_s)):
            pass
    assert str(refused.value) == (
        f"lease_s = {lease_s:g} is shorter than a commit may take: runs would be taken from drivers that live; set it "
        "to 1 or more, or leave it out (30)"
    )
    assert not (tmp_path / "ws").exists()
    assert check_lease(1.0) == 1.0
