"""The limits of a model hold over all workers, as its server sees it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agentorchestra.cluster.members import Members
from agentorchestra.cluster.requests import RequestLimits
from agentorchestra.core.settings import ModelLimit
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.store import PostgresStore
from tests.chaos.support import until
from tests.cluster.support import ALONE, Model, Site
from tests.postgres import Postgres

pytestmark = pytest.mark.timeout(300)  # several processes, on a machine that may be busy

RUNS = range(ALONE + 1, ALONE + 21)


async def driven(site: Site, concurrency: int = 2) -> set[str]:
    """Let two workers, with so many runs at a time each, drive the runs; who drove them."""
    for _ in range(2):
        await site.worker("--concurrency", str(concurrency))
    runs = await site.submit(RUNS)
    await site.reached(RunStatus.COMPLETED, runs)
    drivers = set()
    for number, run_id in zip(RUNS, runs, strict=True):
        assert (await site.ws.runs.result(run_id)).answer == f"tide {number} described"
        (began,) = [one for one in await site.ws.log.events(run_id) if one.type == "driving_started"]
        drivers.add(str(began.body["owner"]))
    return drivers


@pytest.mark.long
async def test_so_many_runs_of_a_model_at_a_time(tmp_path: Path, database_server: Postgres) -> None:
    settings = ("[cluster.limits.team]", "concurrency = 3")
    async with (
        Model(delay_s=0.2) as model,
        Site(tmp_path / "site", model, database_server.url, "at_a_time", settings) as site,
    ):
        drivers = await driven(site)
        assert model.most == 3
        assert len(drivers) == 2, "both workers had a part"
        assert len(model.asked) == 2 * len(RUNS)


@pytest.mark.long
async def test_so_many_runs_of_a_model_in_a_minute(tmp_path: Path, database_server: Postgres) -> None:
    settings = ("[cluster.limits.team]", "per_minute = 12")
    async with Model() as model, Site(tmp_path / "site", model, database_server.url, "a_minute", settings) as site:
        await driven(site)
        began = sorted(model.first.values())
        # The queue counts from when a run was taken, which is a moment before its first request.
        assert [began[n + 12] - began[n] > 45 for n in range(8)] == [True] * 8
        assert began[11] - began[0] < 45, "a burst is as large as the limit"


@pytest.mark.long
async def test_so_many_requests_to_a_model_at_a_time(tmp_path: Path, database_server: Postgres) -> None:
    """Whoever sends them: a run has two agents at work at the same time."""
    settings = ("[cluster.limits.team]", "requests = 3")
    async with (
        Model(delay_s=0.1) as model,
        Site(tmp_path / "site", model, database_server.url, "requests", settings) as site,
    ):
        for _ in range(2):
            await site.worker("--concurrency", "3")
        runs = dict(enumerate(await site.submit(range(1, 9)), start=1))
        await site.reached(RunStatus.COMPLETED, [*runs.values()])
        assert model.most == 3
        await site.whole(runs)
        owners = set()
        for run_id in runs.values():
            owners |= {one.body["owner"] for one in await site.ws.log.events(run_id) if one.type == "driving_started"}
        assert len(owners) == 2, "one worker has three runs at a time at most"


@pytest.mark.long
async def test_so_many_requests_to_a_model_in_a_minute(tmp_path: Path, database_server: Postgres) -> None:
    settings = ("[cluster.limits.team]", "requests_per_minute = 30")
    async with Model() as model, Site(tmp_path / "site", model, database_server.url, "rate", settings) as site:
        await driven(site, 8)
        began = sorted(at for at, _ in model.asked)
        assert len(began) == 2 * len(RUNS)
        assert [began[n + 30] - began[n] > 45 for n in range(10)] == [True] * 10
        assert began[29] - began[0] < 45, "a burst is as large as the limit"


@pytest.mark.long
async def test_the_places_of_a_dead_worker_are_free_again(tmp_path: Path, database_server: Postgres) -> None:
    settings = ("lease_s = 86400", "[cluster.limits.team]", "requests = 2")
    async with Model() as model, Site(tmp_path / "site", model, database_server.url, "places", settings) as site:
        model.hold = {1}
        first = await site.worker()
        runs = dict(enumerate(await site.submit([1]), start=1))
        await until(lambda: model.held[1] == 2, first)
        await site.worker()
        runs[2] = (await site.submit([2]))[0]
        model.hold = set()
        first.kill()
        await asyncio.to_thread(first.wait)
        await site.reached(RunStatus.COMPLETED, [*runs.values()])
        await site.whole(runs)


async def test_a_cancelled_wait_takes_no_place(database_server: Postgres) -> None:
    store = PostgresStore(database_server.url, schema="waits")
    await store.open()
    about = {"kind": "worker", "tags": [], "version": "1.0", "concurrency": 4, "settings": {}}
    member = Members(store, store.schema, about, lease_s=30)
    await member.join()
    limits = RequestLimits(store, store.schema, member.id, {"dear": ModelLimit(requests=1)})
    entered = []

    async def enter(name: str) -> None:
        async with limits.place(name):
            entered.append(name)

    async with limits.place("dear"):
        waiting = asyncio.create_task(enter("dear"))
        await enter("cheap")
        await asyncio.sleep(0.3)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert entered == ["cheap"]
    await enter("dear")
    assert entered == ["cheap", "dear"]
    await limits.close()
    await member.leave()
    await store.close()
