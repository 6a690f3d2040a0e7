"""Sub-agents as jobs of their own: who drives them, what is handed back, what is left when workers die."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.ids import PART
from agentorchestra.core.spec import RunStatus
from tests.chaos.support import until
from tests.cluster.support import Model, Site
from tests.postgres import Postgres

pytestmark = pytest.mark.timeout(240)  # many processes, on a machine that may be busy

_NUMBERS = itertools.count(1)
JOBS = ("lease_s = 86400", 'cluster.sub_agents = "jobs"')


class Sides(Site):
    """A workspace whose team has three sides."""

    sides = ("left", "right", "rear", "top")

    def places(self) -> dict[str, int]:
        """The processes that noted what."""
        lines = [line.split() for line in (self.folder / "notes.txt").read_text().splitlines()]
        return {what: int(process) for _, what, process in lines}

    async def parts(self) -> list[str]:
        """The parts that are there."""
        return [one.id for one in await self.ws.store.run_states() if one.id.startswith(PART)]

    async def no_parts(self) -> None:
        """Wait until no part is there any more."""
        while await self.parts():
            await asyncio.sleep(0.05)

    async def driver(self, beginning: str) -> int:
        """The process that drives the first run whose id begins so."""
        while True:
            for worker in (await self.standing()).workers:
                if any(run.startswith(beginning) for run in worker.runs):
                    return worker.pid
            await asyncio.sleep(0.05)


@asynccontextmanager
async def sides(
    tmp_path: Path, model: Model, database: Postgres, settings: Sequence[str] = JOBS
) -> AsyncIterator[Sides]:
    """A workspace without a worker yet."""
    number = next(_NUMBERS)
    program = "sub_agents_program.py"
    async with Sides(tmp_path / f"s{number}", model, database.url, f"sides_{number}", settings, program) as site:
        yield site


async def test_two_workers_share_the_sub_agents_of_a_run(
    tmp_path: Path, model: Model, database_server: Postgres
) -> None:
    async with sides(tmp_path, model, database_server) as site:
        workers = [await site.worker("--concurrency", "4") for _ in range(2)]
        numbers = range(1, 5)
        runs = dict(zip(numbers, await site.submit(numbers), strict=True))
        seen: set[str] = set()
        ended = asyncio.create_task(site.reached(RunStatus.COMPLETED, [*runs.values()]))
        while not ended.done():
            seen |= {*await site.parts()}
            assert {one.id for one in await site.ws.runs()} == {*runs.values()}
            assert sum((await site.standing()).statuses.values()) == len(runs)
            await asyncio.sleep(0.05)
        await ended
        await site.whole(runs)
        assert seen, "nothing was a job of its own"
        places = site.places()
        elsewhere = [side for side in places if places[side] != places[f"top-{side.rpartition('-')[2]}"]]
        assert elsewhere, places
        assert {*places.values()} == {one.pid for one in workers}
        assert len({mark for _, mark in model.asked}) == len(model.asked), "a request was made twice"
        await site.no_parts()
        for run in runs.values():
            events = await site.ws.events(run)
            assert [one.type for one in events].count("driving_started") == 1
            assert "forked" not in {one.type for one in events}
            report = await site.ws.replay(run)
            assert report.keys == len({one.span for one in events if one.span})
        cost = {number: (await site.ws.result(run)).usage for number, run in runs.items()}
        steps = {number: (await site.ws.result(run)).steps for number, run in runs.items()}
    async with sides(tmp_path, model, database_server, ("lease_s = 86400",)) as here:
        await here.worker("--concurrency", "4")
        alone = dict(zip(numbers, await here.submit(numbers), strict=True))
        await here.reached(RunStatus.COMPLETED, [*alone.values()])
        assert {number: (await here.ws.result(run)).usage for number, run in alone.items()} == cost
        assert {number: (await here.ws.result(run)).steps for number, run in alone.items()} == steps


async def test_a_run_ends_where_no_worker_is_free_for_its_sub_agents(
    tmp_path: Path, model: Model, database_server: Postgres
) -> None:
    async with sides(tmp_path, model, database_server) as site:
        await site.worker("--concurrency", "1")
        runs = {1: (await site.submit([1]))[0]}
        await site.reached(RunStatus.COMPLETED, [runs[1]])
        await site.whole(runs)
        await site.no_parts()
        assert (await site.standing()).queues == {}
