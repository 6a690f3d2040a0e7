"""The queue of the server: how many runs are driven, in which order, which posts are the same, what is refused."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.events import DrivingStarted, new_event
from agentorchestra.core.protocols import Acceptance, Owner
from agentorchestra.core.settings import ServeSettings, Settings
from agentorchestra.core.spec import AgentResult, RunStatus
from agentorchestra.runtime.run import wait_for
from agentorchestra.testing import ScriptedModel
from agentorchestra.web.server import bind
from agentorchestra.web.shared import SharedRead
from agentorchestra.workspace import Workspace
from tests.postgres import Postgres, postgres
from tests.support.patience import LONGEST_S
from tests.web.support import TOKEN, Served, script, served


async def started(web: Served, run_id: str) -> list[datetime]:
    """When a run was begun, each time."""
    return [one.ts for one in await web.ws.log.events(run_id) if one.type == "driving_started"]


async def health(web: Served, **wanted: Any) -> Any:
    """What /health says, once it says this."""
    async with asyncio.timeout(LONGEST_S):
        while True:
            found = await web.get("/health")
            if wanted.items() <= found.items():
                return found
            await asyncio.sleep(0.01)


async def post(web: Served, body: Any, key: str, *, status: int = 202) -> tuple[Any, Any]:
    """The answer to a post under a key, and its head."""
    async with web.http.post(f"{web.address}/runs", json=body, headers={"Idempotency-Key": key}) as answer:
        found = await answer.json()
        assert answer.status == status, (answer.status, found)
        return found, answer.headers


# --- how many, in which order -------------------------------------------------------------------


@pytest.mark.long
async def test_they_are_begun_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    async with served(tmp_path, serve=ServeSettings(max_runs=1)) as web:
        runs = [await web.submit(f"PLAN gate {number}") for number in range(4)]
        web.gate.open.set()
        for run in runs:
            await web.until(run, "completed")
        times = [time for run in runs for time in await started(web, run)]
        assert len(times) == 4 and times == sorted(times)


@pytest.mark.long
async def test_so_many_are_driven_at_a_time(tmp_path: Path) -> None:
    async with served(tmp_path, serve=ServeSettings(max_runs=2)) as web:
        runs = [await web.submit(f"PLAN gate {number}") for number in range(5)]
        found = await health(web, driving=2, driven=2, queued=3)
        assert found["places"] == 2 and found["ready"] and found["oldest_lease"] is not None
        about = [await web.get(f"/runs/{run}") for run in runs]
        assert [one["queued"] for one in about] == [False, False, True, True, True]
        listed = (await web.get("/runs"))["runs"]
        assert [one["run_id"] for one in listed if one["queued"]] == runs[:1:-1]
        web.gate.open.set()
        for run in runs:
            await web.until(run, "completed")
        assert [len(await started(web, run)) for run in runs] == [1] * 5


@pytest.mark.long
async def test_a_run_that_waits_leaves_its_place(tmp_path: Path) -> None:
    async with served(tmp_path, serve=ServeSettings(max_runs=1)) as web:
        asks, other = await web.submit("PLAN ask"), await web.submit("PLAN gate")
        await web.until(asks, "waiting")
        await web.gate.reached()
        await web.post(f"/runs/{asks}/answer", {"answer": "blue"})
        await health(web, driving=1)
        assert (await web.get(f"/runs/{asks}"))["status"] == "waiting"  # it is its turn when there is a place
        web.gate.open.set()
        await web.until(other, "completed")
        await web.until(asks, "completed")


async def test_a_queued_run_can_be_cancelled_and_resumed(tmp_path: Path) -> None:
    async with served(tmp_path, serve=ServeSettings(max_runs=1)) as web:
        first, second = await web.submit("PLAN gate"), await web.submit("6 * 7?")
        await web.gate.reached()
        assert (await web.post(f"/runs/{second}/cancel"))["status"] == "cancelled"
        assert (await web.post(f"/runs/{second}/resume", {"budget": {"steps": 9}}))["status"] == "running"
        found = await web.get(f"/runs/{second}")
        assert found["queued"] and not found["abandoned"]
        assert await started(web, second) == []
        web.gate.open.set()
        await web.until(first, "completed")
        await web.until(second, "completed")


async def test_the_figures_of_a_server(tmp_path: Path) -> None:
    async with served(tmp_path, serve=ServeSettings(max_runs=1, max_queued=1)) as web:
        await web.submit("PLAN gate")
        await web.gate.reached()
        await post(web, {"task": "6 * 7?"}, "one")
        await post(web, {"task": "6 * 7?"}, "one")
        await post(web, {"task": "6 * 7?"}, "two", status=429)
        async with web.http.get(f"{web.address}/metrics") as answer:
            assert answer.status == 200 and answer.content_type == "text/plain"
            lines = (await answer.text()).splitlines()
        figures = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        for name, value in {
            "runs_accepted_total": 2,
            "runs_repeated_total": 1,
            "runs_turned_away_total": 1,
            "accept_seconds_count": 4,
            'runs{standing="driven"}': 1,
            'runs{standing="queued"}': 1,
            'server_runs{what="places"}': 1,
        }.items():
            assert float(figures[f"agentorchestra_{name}"]) == value, name
        web.gate.open.set()


# --- the same request again ---------------------------------------------------------------------


async def test_the_same_request_again_is_the_same_run(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        body = {"task": "6 * 7?", "labels": {"a": "b"}}
        found = await asyncio.gather(*(post(web, body, "answer-1") for _ in range(8)))
        assert len({one["run_id"] for one, _ in found}) == 1
        run_id = found[0][0]["run_id"]
        await web.until(run_id, "completed")
        again, head = await post(web, body, "answer-1")
        assert (again["run_id"], again["status"], head["Location"]) == (run_id, "completed", f"/runs/{run_id}")
        assert [one.id for one in await web.ws.runs.list()] == [run_id] and len(await started(web, run_id)) == 1
        other, _ = await post(web, body, "answer-2")
        assert other["run_id"] != run_id


async def test_a_key_stands_for_one_request(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        made, _ = await post(web, {"task": "6 * 7?"}, "answer-1")
        refused, _ = await post(web, {"task": "6 * 8?"}, "answer-1", status=422)
        assert refused["error_type"] == "RequestKeyError"
        assert f"'answer-1' was used for another request, which became run {made['run_id']}" in refused["error"]
        for key in ("two words", "x" * 201, ""):
            refused, _ = await post(web, {"task": "6 * 7?"}, key, status=400)
            assert "is none; send 1 to 200 letters, digits or signs without spaces" in refused["error"]
        # What is refused leaves no key behind.
        await post(web, {"task": ""}, "answer-2", status=422)
        await post(web, {"task": "6 * 7?"}, "answer-2")
        assert len(await web.ws.runs.list()) == 2


async def test_a_client_that_hangs_up_while_it_is_answered(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        body = json.dumps({"task": "6 * 7?"})
        head = (
            f"POST /runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nIdempotency-Key: answer\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        _, writer = await asyncio.open_connection("127.0.0.1", int(web.address.rpartition(":")[2]))
        writer.write((head + body).encode())
        await writer.drain()
        writer.transport.abort()
        made = [await post(web, json.loads(body), "answer") for _ in range(2)]
        # The same bytes are sent again: the run is the one that nobody heard of, or the first that was heard of.
        await web.until(made[0][0]["run_id"], "completed")
        assert len({one["run_id"] for one, _ in made}) == len(await web.ws.runs.list()) == 1


async def test_a_full_queue_says_when_to_come_back(tmp_path: Path) -> None:
    async with served(tmp_path, serve=ServeSettings(max_runs=1, max_queued=2)) as web:
        await web.submit("PLAN gate")
        await web.gate.reached()
        queued = [(await post(web, {"task": "6 * 7?"}, f"n{number}"))[0]["run_id"] for number in range(2)]
        refused, head = await post(web, {"task": "6 * 7?"}, "n2", status=429)
        assert head["Retry-After"] == "5"
        assert refused["error"].startswith("2 runs wait for their beginning, which is the most; send the request again")
        # What is in it already is answered all the same.
        assert (await post(web, {"task": "6 * 7?"}, "n1"))[0]["run_id"] == queued[1]
        web.gate.open.set()
        await web.until(queued[1], "completed")
        await post(web, {"task": "6 * 7?"}, "n2")


async def test_clients_that_found_no_place_come_back_one_after_the_other(tmp_path: Path) -> None:
    async with served(tmp_path, serve=ServeSettings(max_runs=2, max_queued=1)) as web:
        waits = [web.app._queue.retry_after() for _ in range(2000)]
    assert waits[0] == 5 and waits == sorted(waits)
    assert waits[200] > 60, "two places and no run ended yet: two clients a second"
    assert waits[-1] == 600


async def test_of_many_at_once_as_many_are_accepted_as_there_is_room_for(tmp_path: Path) -> None:
    async with served(tmp_path, serve=ServeSettings(max_runs=0, max_queued=5)) as web:

        async def status(number: int) -> int:
            body, key = {"task": f"{number} * 7?"}, {"Idempotency-Key": f"n{number}"}
            async with web.http.post(f"{web.address}/runs", json=body, headers=key) as answer:
                return answer.status

        found = await asyncio.gather(*(status(number) for number in range(20)))
        assert sorted(found) == [202] * 5 + [429] * 15
        assert len(await web.ws.runs.list()) == 5


@pytest.mark.long
async def test_no_run_is_begun_while_a_request_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentorchestra.web.queue.HOLD_S", 3600.0)
    async with served(tmp_path) as web:
        with web.app._queue.accepting():
            runs = [await web.submit("6 * 7?") for _ in range(3)]
            assert (await health(web, queued=3))["driven"] == 0
        for run in runs:
            await web.until(run, "completed")


@pytest.mark.long
async def test_accepting_does_not_hold_runs_up_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentorchestra.web.queue.HOLD_S", 0.05)
    async with served(tmp_path) as web:
        with web.app._queue.accepting():
            await web.until(await web.submit("6 * 7?"), "completed")


async def test_a_shared_read_begins_after_it_was_asked_for() -> None:
    begun: list[int] = []
    first_begun, may_end = asyncio.Event(), asyncio.Event()

    async def read() -> int:
        begun.append(len(begun) + 1)
        mine = begun[-1]
        first_begun.set()
        await may_end.wait()
        return mine

    shared = SharedRead(read)
    first = asyncio.create_task(shared())
    await first_begun.wait()
    others = [asyncio.create_task(shared()) for _ in range(5)]
    given_up = asyncio.create_task(shared())
    await asyncio.sleep(0)
    given_up.cancel()  # a client that hangs up ends nobody else's
    may_end.set()
    assert await first == 1
    assert await asyncio.gather(*others) == [2] * 5 and begun == [1, 2]


async def test_the_end_of_an_answer_is_sent_at_once() -> None:
    with bind("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_the_texts_of_many_runs_are_kept_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(tmp_path, serve=ServeSettings(max_runs=0)) as web:
        put, kept = web.ws.store.put_blob, []

        async def counted(data: bytes, media_type: str = "") -> str:
            kept.append(data)
            return await put(data, media_type)

        monkeypatch.setattr(web.ws.store, "put_blob", counted)
        await asyncio.gather(*(web.submit(f"{number} * 7?") for number in range(10)))
        assert kept and len(kept) == len(set(kept))


# --- runs of others, and of earlier servers -----------------------------------------------------


def theirs(folder: Path) -> Workspace[Any]:
    """The same workspace with a system that the server does not have."""

    async def system(spec: Any, session: Any, kit: Any) -> AgentResult:
        return AgentResult(status=RunStatus.COMPLETED, answer="theirs")

    return Workspace(
        folder / "ws",
        systems={"theirs": system},
        models={"scripted": ScriptedModel(script)},
        settings=Settings(model="scripted", system="theirs"),
    )


async def died(ws: Workspace[Any], run: str) -> None:
    """Write what a process leaves that was killed while it drove a run."""
    epoch = await ws.store.claim(run, Owner(host="elsewhere", pid=1, started=0.0), lease_s=0.0)
    event = new_event(DrivingStarted(owner="elsewhere", epoch=epoch or 0), ts=datetime.now(UTC))
    await wait_for(ws.store.append(run, epoch, [event], status=RunStatus.RUNNING))


@pytest.mark.long
async def test_runs_that_cannot_go_on_here_do_not_hold_up_the_others(tmp_path: Path) -> None:
    async with theirs(tmp_path) as ws:
        strange = [await ws.create("6 * 7?", accepted=Acceptance(datetime.now(UTC))) for _ in range(12)]
    async with served(tmp_path, serve=ServeSettings(max_runs=2)) as web:
        own = await web.submit("6 * 7?")
        await web.until(own, "completed")
        await health(web, refused=12, queued=12, driving=0)
        found = await web.get(f"/runs/{strange[0]}")
        assert found["status"] == "created" and found["queued"] and "theirs" in found["refused"]
    async with theirs(tmp_path) as ws:  # they are there for who can
        assert (await ws.runs.take_up(strange[0])).answer == "theirs"


async def test_a_restarted_server_goes_on_with_what_was_accepted(tmp_path: Path) -> None:
    async with served(tmp_path) as web:
        ws = web.ws
        created, running = [await ws.create("6 * 7?", accepted=Acceptance(datetime.now(UTC))) for _ in range(2)]
        await died(ws, running)
        abandoned, unbegun = await ws.create("6 * 7?"), await ws.create("6 * 7?")
        await died(ws, abandoned)
    async with served(tmp_path) as web:
        for run in (created, running):
            await web.until(run, "completed")
        assert len(await started(web, running)) == 2
        found = await web.get(f"/runs/{abandoned}")
        assert (found["status"], found["abandoned"], found["queued"]) == ("running", True, False)
        assert (await web.get("/health"))["abandoned"] == 1
        assert (await web.get(f"/runs/{unbegun}"))["status"] == "created"
    async with served(tmp_path, serve=ServeSettings(take_up="all")) as web:
        await web.until(abandoned, "completed")
        record = await web.ws.store.get_run(abandoned)
        assert record is not None and record.accepted is not None
        assert (await web.get(f"/runs/{unbegun}"))["status"] == "created"  # whoever made it may be about to begin


@pytest.mark.long
async def test_a_run_that_ended_its_driver_three_times_fails(tmp_path: Path) -> None:
    async with served(tmp_path, serve=ServeSettings(max_runs=0)) as web:
        run = await web.ws.create("6 * 7?", accepted=Acceptance(datetime.now(UTC)))
        for _ in range(3):
            await died(web.ws, run)
    async with served(tmp_path) as web:
        found = await web.until(run, "failed")
        assert found["result"]["error"].startswith("it ended its driver 3 times")


@pytest.mark.long
async def test_effects_under_way_end_before_a_run_is_handed_on(tmp_path: Path) -> None:
    async with served(tmp_path, serve=ServeSettings(stop_s=60)) as web:
        run = await web.submit("PLAN gate")
        await web.gate.reached()
        web.app.stop()
        refused, head = await post(web, {"task": "6 * 7?"}, "late", status=503)
        assert "about to stop" in refused["error"] and head["Retry-After"] == "5"
        assert (await web.get("/health", status=503))["ready"] is False
        web.gate.open.set()
    async with served(tmp_path) as web:
        await web.until(run, "completed")
        # The tool was called once: its end was recorded before the run was handed on.
        assert not web.gate.entered.is_set() and len(await started(web, run)) == 2


# --- a database that is away --------------------------------------------------------------------


@pytest.fixture(scope="module")
def own() -> Iterator[Postgres]:
    """A server that is stopped and started."""
    with postgres() as made:
        yield made


@pytest.mark.long
async def test_nothing_is_lost_while_the_database_is_away(tmp_path: Path, own: Postgres) -> None:
    async with served(tmp_path, database=own.tcp()) as web:
        before = await web.submit("PLAN gate")
        await web.gate.reached()
        await asyncio.to_thread(own.stop)
        for _ in range(2):
            refused, head = await post(web, {"task": "6 * 7?"}, "answer", status=503)
            assert refused["error_type"] == "StoreUnavailableError" and head["Retry-After"] == "5"
            assert "nothing was done: send the request again" in refused["error"]
        assert (await web.get("/health", status=503))["error_type"] == "StoreUnavailableError"
        web.gate.open.set()
        await asyncio.to_thread(own.start)
        async with asyncio.timeout(LONGEST_S):
            while True:
                async with web.http.get(f"{web.address}/health") as answer:
                    if answer.status == 200:
                        break
        made = [(await post(web, {"task": "6 * 7?"}, "answer"))[0]["run_id"] for _ in range(2)]
        for run in (before, made[0]):
            await web.until(run, "completed")
            assert len(await started(web, run)) == 1
        assert {one.id for one in await web.ws.runs.list()} == {before, *made} and len({*made}) == 1
