"""Agents that write to each other, each of whose turns is a job: who drives it, what is left when a worker dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.events import Event
from agentorchestra.core.ids import PART
from agentorchestra.core.spec import RunStatus
from tests.chaos.killing import KILL_AT
from tests.chaos.support import KILLED, until
from tests.cluster.sides import IMPATIENT, JOBS, NOTED, ROUNDS, SIDES, Circle, asked_once, sides
from tests.cluster.support import stopped
from tests.postgres import Postgres

pytestmark = pytest.mark.timeout(240)  # many processes, on a machine that may be busy


def of_members(events: list[Event]) -> list[Any]:
    """What the agents did; how often the orchestrator waits for them depends on time."""
    return sorted((one.branch, one.n, one.attempt, one.type) for one in events if "_side" in one.branch)


@pytest.fixture
async def model() -> AsyncIterator[Circle]:
    """The model of the runs."""
    async with Circle() as made:
        yield made


@pytest.mark.long
async def test_two_workers_share_the_turns_of_a_society(
    tmp_path: Path, model: Circle, database_server: Postgres
) -> None:
    async with sides(tmp_path, model, database_server, JOBS, NOTED) as site:
        workers = [await site.worker("--concurrency", "1") for _ in range(2)]
        run = await site.begin(1)
        ended = asyncio.create_task(site.reached(RunStatus.COMPLETED, [run]))
        while not ended.done():
            assert {one.id for one in await site.ws.runs.list()} == {run}
            await asyncio.sleep(0.05)
        await ended
        await site.whole({1: run})
        assert asked_once(model)
        await site.no_parts()
        assert await site.jobs_of_parts() == {"blocked": 3 * ROUNDS}, "each turn ends where its agent waits"
        events = await site.ws.log.events(run)
        (driving,) = [one for one in events if one.type == "driving_started"]
        (other,) = {*site.places().values()}
        assert {int(driving.body["owner"].split(":")[1]), other} == {one.pid for one in workers}
        report = await site.ws.replay(run)
        assert report.keys == len({one.span for one in events if one.span})
    async with sides(tmp_path, model, database_server, JOBS[:1], NOTED) as here:
        await here.worker("--concurrency", "1")
        alone = await here.begin(1)
        await here.reached(RunStatus.COMPLETED, [alone])
        assert of_members(events) == of_members(await here.ws.log.events(alone))


@pytest.mark.long
async def test_a_society_ends_where_no_worker_is_free(tmp_path: Path, model: Circle, database_server: Postgres) -> None:
    async with sides(tmp_path, model, database_server, JOBS, NOTED) as site:
        await site.worker("--concurrency", "1", environ={"BEGIN_S": "1"})
        run = await site.begin(1)
        await site.reached(RunStatus.COMPLETED, [run])
        await site.whole({1: run})
        await site.no_parts()
        assert {*await site.jobs_of_parts()} == {"CANCELLED"}


@pytest.mark.long
@pytest.mark.parametrize("which", [(0,), (1,), (0, 1)], ids=["of the run", "of its turns", "both"])
async def test_a_worker_is_killed(
    tmp_path: Path, model: Circle, database_server: Postgres, which: tuple[int, ...]
) -> None:
    async with sides(tmp_path, model, database_server, JOBS, NOTED) as site:
        await site.ends_without(model, which)


LEFT = "/1.circle/2.left_side"


@pytest.mark.long
@pytest.mark.parametrize(
    ("point", "whose"),
    [
        (f"in_record:{LEFT}#1", "run_"),  # the mention is read, and not recorded
        (f"after_record:{LEFT}#1", "run_"),  # the part may not be made yet
        (f"in_record:{LEFT}#2", PART),
        (f"after:{LEFT}#3", PART),  # noted, and not recorded
        (f"after_record:{LEFT}#3", PART),
        (f"in_record:{LEFT}#2", "run_"),  # what the part did is not taken over
        (f"after_record:{LEFT}#2", "run_"),  # it is, and the part is still there
        (f"in_record:{LEFT}#7", "run_"),  # the reply
    ],
)
async def test_a_worker_dies_on_the_way(
    tmp_path: Path, model: Circle, database_server: Postgres, point: str, whose: str
) -> None:
    async with sides(tmp_path, model, database_server, JOBS, NOTED) as site:
        first = await site.worker("--concurrency", "6", environ={KILL_AT: point, "KILL_RUN": whose})
        run = await site.begin(1)
        assert await asyncio.to_thread(first.wait) == KILLED
        await site.worker("--concurrency", "6")
        await site.reached(RunStatus.COMPLETED, [run])
        await site.whole({1: run}, uncertain=True)
        await site.ws.replay(run)
        await site.no_parts()
        assert [one.id for one in await site.ws.runs.list()] == [run]


@pytest.mark.long
async def test_a_turn_under_way_ends_with_its_run(tmp_path: Path, model: Circle, database_server: Postgres) -> None:
    async with sides(tmp_path, model, database_server, JOBS, NOTED) as site:
        await site.worker("--concurrency", "4")
        model.hold = {IMPATIENT}
        run = await site.begin(IMPATIENT)
        await until(lambda: model.held[IMPATIENT] == 3)
        model.release.set()  # the request of one of them is never answered
        await site.reached(RunStatus.COMPLETED, [run])
        assert (await site.ws.runs.result(run)).answer == f"tide {IMPATIENT} described"
        await site.no_parts()
        assert asked_once(model)
        assert site.notes() == {f"{side}0-{IMPATIENT}": 1 for side in SIDES}, "what the part did is in the log"
        noted = [one for one in await site.ws.log.events(run) if one.type == "completed" and "rear_side" in one.branch]
        assert len(noted) >= 3
        await site.ws.replay(run)


@pytest.mark.long
@pytest.mark.parametrize("how", ["cancel", "pause", "stop"])
async def test_what_stops_a_run_stops_its_turns(
    tmp_path: Path, model: Circle, database_server: Postgres, how: str
) -> None:
    async with sides(tmp_path, model, database_server, JOBS, NOTED) as site:
        run, workers = await site.two(model, 1)
        stopping = None
        if how == "cancel":
            await site.ws.cancel(run)
            await site.reached(RunStatus.CANCELLED, [run])
        elif how == "pause":
            await site.ws.pause(run)
        else:
            stopping = asyncio.create_task(stopped(workers[0]))
        await asyncio.sleep(0.5)
        model.release.set()
        if stopping is not None:  # the turns that another worker has go on
            code, said = await stopping
            assert code == 0, said
        else:
            await site.reached(RunStatus.CANCELLED if how == "cancel" else RunStatus.PAUSED, [run])
            await site.no_parts()
            await site.ws.runs.enqueue(run)
            await site.jobs.submit(run)
        await site.reached(RunStatus.COMPLETED, [run])
        await site.whole({1: run})
        assert how == "cancel" or asked_once(model)
        await site.no_parts()
        await site.ws.replay(run)
