"""A worker that is stopped or hangs, and keeps its connections: another one goes on with its runs, and it is fenced.

Time is moved in the database's rows (`Site.silent`); the leases themselves hold for a day.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
from pathlib import Path

import pytest

from agentorchestra.core.spec import RunStatus
from agentorchestra.log.ledger import Ledger
from tests.chaos.support import until
from tests.cluster.support import HANGING, SLOW, Model, Site, ask
from tests.cluster.test_commands import ended
from tests.postgres import Postgres

pytestmark = pytest.mark.timeout(400)  # many processes, on a machine that may be busy

DAY_S = 86400
LOST = "this worker was stopped for longer than its lease (lease_s, 86400 s) or cut off from the database"


async def returned(process: subprocess.Popen[str]) -> str:
    """Let a stopped worker go on, and wait for its end; what it said."""
    process.send_signal(signal.SIGCONT)
    _, said = await asyncio.to_thread(process.communicate)
    assert process.returncode == 1, said
    assert LOST in said and "Traceback" not in said
    return said


async def shown_as_silent(site: Site, process: subprocess.Popen[str]) -> None:
    """Wait until `status` says that a worker does not answer."""
    while True:
        (found,) = [one for one in (await site.standing()).workers if one.pid == process.pid]
        if found.silent_s is not None:
            assert found.alive
            return
        await asyncio.sleep(0.1)


@pytest.mark.long
async def test_the_runs_of_a_stopped_worker_are_taken_over_and_it_is_fenced(site: Site, model: Model) -> None:
    model.hold = set(range(1, 7))
    first = await site.worker("--concurrency", "8")
    runs = dict(enumerate(await site.submit(range(1, 7)), start=1))
    await until(lambda: sum(model.held.values()) == 12, first)
    first.send_signal(signal.SIGSTOP)
    await shown_as_silent(site, first)
    second = await site.worker("--concurrency", "8")
    model.hold = set()
    await site.silent(first, DAY_S)
    await site.reached(RunStatus.COMPLETED, [*runs.values()])
    before = {run_id: await site.ws.log.events(run_id) for run_id in runs.values()}
    model.release.set()  # now the first one has its answers too
    await returned(first)
    assert {run_id: await site.ws.log.events(run_id) for run_id in runs.values()} == before
    await site.whole(runs)
    assert {await site.begun(run_id) for run_id in runs.values()} == {2}
    assert [one.pid for one in (await site.standing()).workers] == [second.pid]


@pytest.mark.long
async def test_runs_that_had_recorded_nothing_are_taken_over_together(site: Site, model: Model) -> None:
    """One of them may have ended its worker, but a first time holds nobody up."""
    model.hold = set(range(101, 107))
    model.waits = lambda body: True  # type: ignore[method-assign]
    first = await site.worker()
    runs = await site.submit(range(101, 107))
    await until(lambda: sum(model.held.values()) == 6, first)
    first.send_signal(signal.SIGSTOP)
    await site.worker()
    await site.silent(first, DAY_S)
    await until(lambda: sum(model.held.values()) == 12)  # all are asked again, none of them is answered
    model.release.set()
    await site.reached(RunStatus.COMPLETED, runs)
    await returned(first)
    assert [await site.begun(run_id) for run_id in runs] == [2] * 6


@pytest.mark.long
async def test_a_worker_stopped_in_the_middle_of_a_call_that_acts_once(site: Site) -> None:
    first = await site.worker()
    (run_id,) = await site.submit([SLOW])
    await until((site.folder / "slow.txt").exists, first)
    first.send_signal(signal.SIGSTOP)
    await site.worker()
    await site.silent(first, DAY_S)
    await site.reached(RunStatus.COMPLETED, [run_id])
    before = await site.ws.log.events(run_id)
    (site.folder / "go").touch()  # its call ends, and is recorded nowhere
    await returned(first)
    assert await site.ws.log.events(run_id) == before
    assert (site.folder / "slow.txt").read_text() == "acted\n"
    outcomes = [one.outcome.status for one in Ledger.of(before).records.values() if one.outcome is not None]
    assert outcomes.count("uncertain") == 1


@pytest.mark.long
async def test_a_worker_whose_loop_hangs_keeps_no_runs(site: Site, model: Model) -> None:
    """Its threads go on: the queue is asked, and what they take is queued again."""
    model.hold = {1}
    first = await site.worker("--concurrency", "2")
    (held,) = await site.submit([1])
    await until(lambda: model.held[1] == 2, first)
    (hanging,) = await site.submit([HANGING])
    await until((site.folder / "hangs").exists, first)
    await site.worker("--concurrency", "2")
    model.hold = set()
    await site.silent(first, DAY_S)
    await site.reached(RunStatus.COMPLETED, [held, hanging])
    more = await site.submit(range(101, 109))
    await site.reached(RunStatus.COMPLETED, more)
    (site.folder / "go").touch()
    model.release.set()
    _, said = await asyncio.to_thread(first.communicate)
    assert first.returncode == 1 and LOST in said and "Traceback" not in said, said
    await site.whole({1: held})


@pytest.mark.long
async def test_status_says_since_when_a_worker_does_not_answer(site: Site) -> None:
    only = await site.worker()
    there = ("--workspace", site.folder / "ws")
    only.send_signal(signal.SIGSTOP)
    await shown_as_silent(site, only)
    _, out, _ = await asyncio.to_thread(ended, "status", *there)
    assert f":{only.pid} " in out and "has not answered for" in out, out
    assert "its runs are taken over 86400 s after its last beat" in out, out
    assert "1 worker\n" in out
    await site.silent(only, DAY_S)
    _, out, _ = await asyncio.to_thread(ended, "status", *there)
    assert "0 workers\n" in out and "has not answered for 864" in out, out
    assert "its runs are about to be taken over" in out, out
    # Nobody took it over: it goes on.
    only.send_signal(signal.SIGCONT)
    (run_id,) = await site.submit([101])
    await site.reached(RunStatus.COMPLETED, [run_id])
    assert only.poll() is None


@pytest.mark.long
async def test_another_worker_leads_when_the_leader_is_stopped(
    tmp_path: Path, model: Model, database_server: Postgres
) -> None:
    settings = ("lease_s = 86400", "[serve]", "max_runs = 0")
    async with Site(tmp_path / "site", model, database_server.url, "leader", settings) as site:
        address = await site.server()
        first = await site.worker()
        for number, stops in ((101, True), (102, False)):  # what a server accepted, whoever leads queues
            task = {"task": f"Describe tide {number}."}
            _, answered = await asyncio.to_thread(ask, address, "/runs", task)
            await site.reached(RunStatus.COMPLETED, [answered["run_id"]])
            if stops:
                first.send_signal(signal.SIGSTOP)
                await site.worker()
                await site.silent(first, DAY_S)
        await returned(first)
