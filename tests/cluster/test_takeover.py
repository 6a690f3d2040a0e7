"""A worker dies or is told to stop: another one goes on with its runs."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from agentorchestra.core.spec import RunStatus
from tests.chaos.support import KILLED, until
from tests.cluster.support import POISONOUS, Model, Site, stopped
from tests.postgres import Postgres

pytestmark = pytest.mark.timeout(240)  # many processes, on a machine that may be busy


async def test_the_runs_of_a_killed_worker_are_taken_over(site: Site, model: Model) -> None:
    model.hold = {1, 2}
    first = await site.worker("--concurrency", "4")
    runs = dict(enumerate(await site.submit([1, 2]), start=1))
    await until(lambda: model.held == {1: 2, 2: 2}, first)
    second = await site.worker("--concurrency", "4")
    assert first.pid in {one.pid for one in (await site.standing()).workers if len(one.runs) == 2}
    first.kill()
    model.release.set()
    runs |= {3: (await site.submit([3]))[0]}
    await site.reached(RunStatus.COMPLETED, [*runs.values()])
    await site.whole(runs)
    assert [await site.begun(run_id) for run_id in runs.values()] == [2, 2, 1]
    assert [one.pid for one in (await site.standing()).workers] == [second.pid]
    assert (await asyncio.to_thread(first.wait)) == KILLED


@pytest.mark.long
async def test_a_worker_that_is_told_to_stop_hands_its_runs_on(site: Site, model: Model) -> None:
    model.hold = {1}
    first = await site.worker()
    runs = dict(enumerate(await site.submit([1]), start=1))
    await until(lambda: model.held[1] == 2, first)
    second = await site.worker()
    stopping = asyncio.create_task(stopped(first, signal.SIGTERM))
    await asyncio.sleep(0.5)
    model.release.set()  # what is under way ends, and is paid once
    code, said = await stopping
    assert code == 0, said
    await site.reached(RunStatus.COMPLETED, [*runs.values()])
    await site.whole(runs)
    assert await site.begun(runs[1]) == 2
    ends = [one.body["status"] for one in await site.ws.log.events(runs[1]) if one.type == "run_ended"]
    assert ends == ["running", "completed"]
    assert len({mark for _, mark in model.asked}) == len(model.asked), "what was handed on was asked once"
    assert second.poll() is None


@pytest.mark.long
async def test_what_takes_too_long_is_given_up_and_done_elsewhere(
    tmp_path: Path, model: Model, database_server: Postgres
) -> None:
    model.hold = {1}
    settings = ("lease_s = 86400", "cluster.hand_on_s = 0.2")
    async with Site(tmp_path / "site", model, database_server.url, "given_up", settings) as site:
        first = await site.worker()
        runs = dict(enumerate(await site.submit([1]), start=1))
        await until(lambda: model.held[1] == 2, first)
        await site.worker()
        model.hold = set()
        code, said = await stopped(first)  # its two requests are still under way
        assert code == 0, said
        await site.reached(RunStatus.COMPLETED, [*runs.values()])
        await site.whole(runs)
        assert await site.begun(runs[1]) == 2


@pytest.mark.long
async def test_a_run_that_ends_its_workers_fails_after_three(site: Site) -> None:
    poisonous, *good = await site.submit([POISONOUS, 1, 2])
    for _ in range(4):  # the first one still records the request that led to it
        worker = await site.worker()
        await asyncio.to_thread(worker.wait)
    await site.worker()
    await site.reached(RunStatus.FAILED, [poisonous])
    await site.reached(RunStatus.COMPLETED, good)
    result = await site.ws.runs.result(poisonous)
    assert result.error is not None and result.error.startswith("it ended its driver 3 times")
    assert await site.begun(poisonous) == 4
