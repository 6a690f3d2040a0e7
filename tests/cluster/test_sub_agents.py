"""Sub-agents as jobs of their own: who drives them, what is handed back, what is left when workers die."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.budget import Budget
from agentorchestra.core.ids import PART
from agentorchestra.core.messages import ModelResponse
from agentorchestra.core.spec import RunStatus
from agentorchestra.testing import call, decide
from tests.chaos.killing import KILL_AT
from tests.chaos.support import KILLED, until
from tests.chaos.team_model import actor_of, digest, steps_of
from tests.cluster.sides import JOBS, asked_once, sides
from tests.cluster.support import Model, number_of, stopped
from tests.postgres import Postgres

pytestmark = pytest.mark.timeout(240)  # many processes, on a machine that may be busy

PAYS, LONG = 71, 72
"""Runs of these numbers: their left side pays at its end; each of their sides would make six steps."""


class Team(Model):
    """Sides that do more than those of the others."""

    def answer(self, body: dict[str, Any]) -> ModelResponse:
        """The next decision of whoever asks."""
        actor, steps, number, mark = actor_of(body), steps_of(body), number_of(body), digest(body)
        if actor == "top" or number not in (PAYS, LONG):
            return super().answer(body)
        ways = [call("note", x=f"{actor}-{number}"), call("lookup", word=actor)]
        if number == LONG:
            ways = [call("note", x=f"{actor}-{number}-{step}") for step in range(5)]
        elif actor == "left":
            ways.append(call("pay", amount="7"))
        ways.append(call("done", answer=f"{actor} of {number}"))
        chosen = ways[min(steps, len(ways) - 1)]
        return decide(thinking=mark, calls=[chosen.model_copy(update={"id": f"call_{mark[:12]}"})])


@pytest.fixture
async def model() -> AsyncIterator[Team]:
    """The model of the runs."""
    async with Team() as made:
        yield made


@pytest.mark.long
async def test_two_workers_share_the_sub_agents_of_a_run(
    tmp_path: Path, model: Team, database_server: Postgres
) -> None:
    async with sides(tmp_path, model, database_server) as site:
        for _ in range(2):
            await site.worker("--concurrency", "4", environ={"BEGIN_S": "1"})  # some may be taken back
        numbers = range(1, 5)
        runs = dict(zip(numbers, await site.submit(numbers), strict=True))
        ended = asyncio.create_task(site.reached(RunStatus.COMPLETED, [*runs.values()]))
        while not ended.done():
            assert {one.id for one in await site.ws.runs.list()} == {*runs.values()}
            assert sum((await site.standing()).statuses.values()) == len(runs)
            await asyncio.sleep(0.05)
        await ended
        await site.whole(runs)
        assert asked_once(model)
        await site.no_parts()
        ended_parts = await site.jobs_of_parts()
        assert ended_parts, "nothing was a job of its own"
        assert {*ended_parts} <= {"completed", "CANCELLED", "cancelled", "removed"}, ended_parts
        for run in runs.values():
            events = await site.ws.log.events(run)
            assert [one.type for one in events].count("driving_started") == 1
            assert "forked" not in {one.type for one in events}
            report = await site.ws.replay(run)
            assert report.keys == len({one.span for one in events if one.span})
        cost = {number: (await site.ws.runs.result(run)).usage for number, run in runs.items()}
        steps = {number: (await site.ws.runs.result(run)).steps for number, run in runs.items()}
    async with sides(tmp_path, model, database_server, ("lease_s = 86400",)) as here:
        await here.worker("--concurrency", "4")
        alone = dict(zip(numbers, await here.submit(numbers), strict=True))
        await here.reached(RunStatus.COMPLETED, [*alone.values()])
        assert {number: (await here.ws.runs.result(run)).usage for number, run in alone.items()} == cost
        assert {number: (await here.ws.runs.result(run)).steps for number, run in alone.items()} == steps


@pytest.mark.long
async def test_the_worker_that_has_a_place_takes_the_sub_agents(
    tmp_path: Path, model: Team, database_server: Postgres
) -> None:
    async with sides(tmp_path, model, database_server) as site:
        workers = [await site.worker("--concurrency", "1") for _ in range(2)]
        (run,) = await site.submit([1])
        await site.reached(RunStatus.COMPLETED, [run])
        await site.whole({1: run})
        places = site.places()
        top = places.pop("top-1")
        (other,) = {*places.values()}
        assert {top, other} == {one.pid for one in workers}
        await site.no_parts()
        assert await site.jobs_of_parts() == {"completed": 3}


@pytest.mark.long
async def test_a_run_ends_where_no_worker_is_free_for_its_sub_agents(
    tmp_path: Path, model: Team, database_server: Postgres
) -> None:
    async with sides(tmp_path, model, database_server) as site:
        await site.worker("--concurrency", "1", environ={"BEGIN_S": "1"})
        runs = {1: (await site.submit([1]))[0]}
        await site.reached(RunStatus.COMPLETED, [runs[1]])
        await site.whole(runs)
        await site.no_parts()
        assert await site.jobs_of_parts() == {"CANCELLED": 3}
        assert (await site.standing()).queues == {}


@pytest.mark.long
@pytest.mark.parametrize(
    "which",
    [
        pytest.param((0,), id="of the run"),
        pytest.param((1,), id="of its parts", marks=pytest.mark.long),
        pytest.param((0, 1), id="both", marks=pytest.mark.long),
    ],
)
async def test_a_worker_is_killed(
    tmp_path: Path, model: Team, database_server: Postgres, which: tuple[int, ...]
) -> None:
    async with sides(tmp_path, model, database_server) as site:
        await site.ends_without(model, which)


DELEGATION = "/1.react/3.team#2"


@pytest.mark.long
@pytest.mark.parametrize(
    ("point", "whose"),
    [
        (f"in_mark:{DELEGATION}", "run_"),
        (f"after_mark:{DELEGATION}", "run_"),  # the part may not be made yet
        ("after_mark:/1.react/3.team/2.right#2", PART),
        ("after:/1.react/3.team/2.right#2", PART),  # noted, and not recorded
        (f"in_record:{DELEGATION}", PART),
        (f"after_record:{DELEGATION}", PART),
        (f"in_record:{DELEGATION}", "run_"),  # what the part did is not taken over
        (f"after_record:{DELEGATION}", "run_"),  # it is, and the part is still there
    ],
)
async def test_a_worker_dies_on_the_way(
    tmp_path: Path, model: Team, database_server: Postgres, point: str, whose: str
) -> None:
    async with sides(tmp_path, model, database_server) as site:
        first = await site.worker("--concurrency", "6", environ={KILL_AT: point, "KILL_RUN": whose})
        (run,) = await site.submit([1])
        assert await asyncio.to_thread(first.wait) == KILLED
        await site.worker("--concurrency", "6")
        await site.reached(RunStatus.COMPLETED, [run])
        await site.whole({1: run}, uncertain="right" in point)
        await site.ws.replay(run)
        await site.no_parts()
        assert [one.id for one in await site.ws.runs.list()] == [run]


@pytest.mark.long
async def test_parts_of_a_dead_worker_are_taken_back_where_nobody_is_free(
    tmp_path: Path, model: Team, database_server: Postgres
) -> None:
    async with sides(tmp_path, model, database_server) as site:
        run, workers = await site.two(model, 1)
        workers[1].kill()
        # Its two parts were in the middle of requests; the one that is left has a part too, which waits.
        await until(lambda: model.held[1] >= 5, workers[0])
        model.release.set()
        await site.reached(RunStatus.COMPLETED, [run])
        await site.whole({1: run})
        await site.no_parts()


@pytest.mark.long
async def test_a_worker_that_is_told_to_stop_leaves_the_parts_at_work(
    tmp_path: Path, model: Team, database_server: Postgres
) -> None:
    async with sides(tmp_path, model, database_server) as site:
        run, workers = await site.two(model, 1)
        stopping = asyncio.create_task(stopped(workers[0]))
        await asyncio.sleep(0.5)
        model.release.set()
        code, said = await stopping
        assert code == 0, said
        await site.reached(RunStatus.COMPLETED, [run])
        await site.whole({1: run})
        assert asked_once(model)
        await site.no_parts()


@pytest.mark.long
@pytest.mark.parametrize("how", ["cancel", "pause"])
async def test_what_stops_a_run_stops_its_parts(
    tmp_path: Path, model: Team, database_server: Postgres, how: str
) -> None:
    async with sides(tmp_path, model, database_server) as site:
        run, _ = await site.two(model, 1)
        if how == "cancel":
            await site.ws.cancel(run)
            await site.reached(RunStatus.CANCELLED, [run])
        else:
            await site.ws.pause(run)
            await asyncio.sleep(0.5)
        model.release.set()
        await site.reached(RunStatus.CANCELLED if how == "cancel" else RunStatus.PAUSED, [run])
        await site.no_parts()
        await asyncio.sleep(1)
        assert len(model.asked) == 1 + 3 + 3, "something ran on"
        assert {one.partition("-")[0] for one in site.notes()} == {"left", "right", "rear"}
        await site.ws.runs.enqueue(run)
        await site.jobs.submit(run)
        await site.reached(RunStatus.COMPLETED, [run])
        await site.whole({1: run})
        assert how == "cancel" or asked_once(model)  # what was under way at the pause was recorded
        await site.ws.replay(run)


@pytest.mark.long
async def test_parts_are_taken_over_where_no_more_are_made(
    tmp_path: Path, model: Team, database_server: Postgres
) -> None:
    async with sides(tmp_path, model, database_server) as site:
        run, workers = await site.two(model, 1)
        for one in workers:
            one.kill()
        settings = site.folder / "agentorchestra.toml"
        settings.write_text(settings.read_text().replace('"jobs"', '"here"'))
        model.release.set()
        await site.worker("--concurrency", "4")
        await site.reached(RunStatus.COMPLETED, [run])
        await site.whole({1: run})
        await site.no_parts()


@pytest.mark.long
async def test_a_run_that_is_cancelled_while_nobody_drives_it_takes_its_parts_along(
    tmp_path: Path, model: Team, database_server: Postgres
) -> None:
    async with sides(tmp_path, model, database_server) as site:
        run, workers = await site.two(model, 1)
        workers[0].kill()
        # Until it is gone it drives the run, and the other worker has no place to end that for it.
        await asyncio.to_thread(workers[0].wait)
        await site.ws.cancel(run)
        await site.reached(RunStatus.CANCELLED, [run])
        while True:
            if not await site.ws.store.unfinished_runs(parts=True):
                break
            await asyncio.sleep(0.1)
        model.release.set()
        await site.ws.runs.enqueue(run)  # what the parts did before is there
        await site.jobs.submit(run)
        await site.reached(RunStatus.COMPLETED, [run])
        await site.whole({1: run})
        await site.no_parts()


@pytest.mark.long
async def test_a_sensitive_call_is_asked_about_once_and_made_by_the_run(
    tmp_path: Path, model: Team, database_server: Postgres
) -> None:
    async with sides(tmp_path, model, database_server, (*JOBS, 'policy.plan = "off"')) as site:
        for _ in range(2):
            await site.worker("--concurrency", "4")
        (run,) = await site.submit([PAYS])
        await site.reached(RunStatus.WAITING, [run])
        await site.no_parts()
        assert not (site.folder / "paid.txt").exists()
        (question,) = (await site.ws.runs.result(run)).questions
        assert question.kind == "approval" and "/1.left" in question.key, question
        assert (await site.jobs_of_parts())["blocked"] == 1, "the part handed it back"
        await site.ws.approve(run)
        await site.reached(RunStatus.COMPLETED, [run])
        await site.whole({PAYS: run})
        paid = (site.folder / "paid.txt").read_text().splitlines()
        (_, last) = [one for one in await site.ws.log.events(run) if one.type == "driving_started"]
        assert len(paid) == 1 and paid[0].split()[2] == last.body["owner"].split(":")[1]
        assert asked_once(model)
        await site.ws.replay(run)


@pytest.mark.long
async def test_parts_at_the_same_time_do_not_overshoot_the_budget(
    tmp_path: Path, model: Team, database_server: Postgres
) -> None:
    async with sides(tmp_path, model, database_server) as site:
        for _ in range(2):
            await site.worker("--concurrency", "4")
        run = await site.ws.create(f"Describe tide {LONG}.", budget=Budget(steps=14))
        await site.jobs.submit(run)
        await site.over(run)
        assert (await site.jobs_of_parts())["blocked"] == 3, "each came to the end of its share"
        result = await site.ws.runs.result(run)
        assert 12 <= result.steps <= 14 and len(model.asked) <= 14, result
        await site.ws.replay(run)
