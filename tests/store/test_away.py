"""A database that is away, answers that are lost, writers whose time is over: nothing lost, nothing doubled."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import ColumnElement
from tests.postgres import Postgres, postgres
from tests.store.proxy import Proxy
from tests.store.support import completed, done, manifest, owner, python, started, store_threads, told

from agentorchestra.core.errors import FencedError, StoreFullError, StoreUnavailableError
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.store import PostgresStore
from agentorchestra.log.store.rows import INLINE_BYTES
from agentorchestra.log.store.sql import SqlStore


@pytest.fixture(scope="module")
def own() -> Iterator[Postgres]:
    """A server that is stopped and started."""
    with postgres() as made:
        yield made


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  # the time limit of the test is the only one
        await asyncio.sleep(0.02)


async def opened(url: str, schema: str, *runs: str, retry_s: float = 60.0) -> PostgresStore:
    store = PostgresStore(url, schema=schema, retry_s=retry_s)
    await store.open()
    for run in runs:
        await store.create_run(run, manifest(), [])
    return store


# --- away, and back -----------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", ["immediate", "fast"])
async def test_nothing_is_lost_or_doubled_while_the_database_is_away(
    own: Postgres, schema: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Three chains, another process's external events and readers go on through a crash of the server."""
    store = await opened(own.tcp(), schema, "run_1", "run_2")
    other = await opened(own.url, schema)
    epoch = await store.claim("run_1", owner(), lease_s=3600)
    assert epoch == 1
    stop = asyncio.Event()
    drawn: dict[str, list[int]] = {}

    async def chain(branch: str) -> None:
        n = 0
        while not stop.is_set():
            value = branch * INLINE_BYTES if n % 7 == 3 else branch
            seqs = await done(store.append("run_1", epoch, [started(n, branch), completed(n, value, branch)]))
            drawn.setdefault(branch, []).extend(seqs)
            n += 1

    async def outside() -> None:
        while not stop.is_set():
            seqs = await done(other.append("run_1", None, [told("from outside")]))
            drawn.setdefault("told", []).extend(seqs)

    async def read() -> None:
        while not stop.is_set():
            assert await store.load("run_1", upto=3) is not None
            await store.heartbeat({"run_1": 1}, lease_s=3600)

    work = [asyncio.ensure_future(one) for one in (chain("/1.x"), chain("/2.x"), chain("/3.x"), outside(), read())]
    with caplog.at_level(logging.WARNING, "agentorchestra.store"):
        for _ in range(2):
            await asyncio.sleep(0.2)
            await asyncio.to_thread(own.stop, how)
            await asyncio.sleep(0.3)
            await asyncio.to_thread(own.start)
        before = sum(map(len, drawn.values()))
        await until(lambda: sum(map(len, drawn.values())) >= before + 20)
    stop.set()
    await asyncio.gather(*work)
    events = await store.load("run_1")
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    for branch, seqs in drawn.items():
        assert seqs == [event.seq for event in events if (event.branch or "told") == branch]
    # What was told waits to be heard, also over the connection that was lost.
    assert await store.changed()
    assert f"the database {store.address.shown} does not answer (" in caplog.text
    assert "answers again after" in caplog.text
    await asyncio.gather(store.close(), other.close())
    assert store_threads() == []


@pytest.mark.long
async def test_after_the_bound_it_is_one_sentence(own: Postgres, schema: str) -> None:
    store = await opened(own.tcp(), schema, "run_1", retry_s=0.3)
    await asyncio.to_thread(own.stop)
    sentence = (
        rf"^the database postgresql://agentorchestra@127.0.0.1:{own.port}/agentorchestra has been away for 0\.3 s "
        r"\(.+\); what was recorded before is safe\. When it is back, resume the run$"
    )
    try:
        future = store.append("run_1", 0, [completed(0)])
        with pytest.raises(StoreUnavailableError, match=sentence):
            await done(future)
        # What follows does not wait again.
        for attempt in (done(store.append("run_1", 0, [completed(1)])), store.load("run_1"), store.changed()):
            with pytest.raises(StoreUnavailableError, match=sentence):
                await attempt
    finally:
        await asyncio.to_thread(own.start)
    assert await store.load("run_1") == []
    assert await done(store.append("run_1", 0, [completed(0)])) == (1,)
    # Back again, and patient again.
    await asyncio.to_thread(own.stop)
    await asyncio.to_thread(own.start)
    assert await done(store.append("run_1", 0, [completed(1)])) == (2,)
    await store.close()


async def test_who_took_over_meanwhile_fences(own: Postgres, schema: str) -> None:
    with Proxy(own.port) as proxy:
        store = await opened(own.tcp().replace(str(own.port), str(proxy.port)), schema, "run_1")
        assert await store.claim("run_1", owner(1), lease_s=0) == 1
        other = await opened(own.url, schema)
        proxy.lose = "commit"
        epochs = [await other.claim("run_1", owner(2), lease_s=60)]
        with pytest.raises(FencedError, match=r"here:2:1\.50 drives it under epoch 2, this process had epoch 1"):
            await done(store.append("run_1", 1, [completed(0)]))
        assert (epochs, proxy.lost) == ([2], 1)
        assert await store.load("run_1") == []
        await asyncio.gather(store.close(), other.close())


# --- answers that are lost ----------------------------------------------------------------------


@pytest.mark.parametrize("lose", ["answer", "commit"])
async def test_what_commit_did_not_answer_is_looked_up(own: Postgres, schema: str, lose: str) -> None:
    """Written again it would be a duplicate, a second claim, or a told event twice."""
    with Proxy(own.port) as proxy:
        store = await opened(own.tcp().replace(str(own.port), str(proxy.port)), schema, "run_1", "run_2")
        proxy.lose = lose
        assert await done(store.append("run_1", 0, [completed(0)], status=RunStatus.RUNNING)) == (1,)
        assert proxy.lost == 1
        proxy.lose = lose
        assert await done(store.append("run_1", None, [told()])) == (2,)
        assert proxy.lost == 2
        proxy.lose = lose
        assert await store.claim("run_1", owner(), lease_s=60) == 1
        assert proxy.lost == 3
        proxy.lose = lose
        await store.create_run("run_3", manifest(), [completed(0)])
        assert proxy.lost == 4
        proxy.lose = lose
        assert await store.get_blob(await store.put_blob(b"x")) == b"x"
        assert [event.type for event in await store.load("run_1")] == ["completed", "told"]
        job = await store.job("run_1")
        assert job is not None and job.epoch == 1
        assert await done(store.append("run_1", 1, [completed(1)])) == (3,)
        await store.close()


# --- writers whose time is over -----------------------------------------------------------------


@pytest.mark.long
async def test_a_stopped_process_holds_its_rows_for_a_while_only_and_is_fenced(server: Postgres, schema: str) -> None:
    """Stopped inside its transaction; somebody else takes the run over; it wakes up and goes on writing."""
    store = await opened(server.url, schema, "run_1", "run_2")
    program = """
import asyncio, sys
from agentorchestra.core.errors import FencedError
from tests.store.support import completed, done, owner
from agentorchestra.log.store import PostgresStore
class Stopping(PostgresStore):
    stopped_s = 1
    stops = False
    def before_commit(self, runs):
        if self.stops:
            self.stops = False
            print("inside", flush=True)
            sys.stdin.readline()
async def main():
    store = Stopping(sys.argv[1], schema=sys.argv[2])
    await store.open()
    epoch = await store.claim("run_1", owner(7), lease_s=0)
    store.stops = True
    try:
        await done(store.append("run_1", epoch, [completed(0, "zombie")]))
    except FencedError as exc:
        print(exc)
    await store.close()
asyncio.run(main())
"""
    process = python(program, server.url, schema)
    assert process.stdout is not None and process.stdin is not None
    assert process.stdout.readline() == "inside\n"
    process.send_signal(signal.SIGSTOP)
    assert await store.load("run_1") == []
    assert await done(store.append("run_2", 0, [completed(0)])) == (1,)  # nobody else waits
    assert await store.claim("run_1", owner(2), lease_s=60) == 2
    assert await done(store.append("run_1", 2, [completed(0, "mine")])) == (1,)
    process.send_signal(signal.SIGCONT)
    out, err = await asyncio.to_thread(process.communicate, "go\n")
    assert (process.returncode, out) == (
        0,
        "run 'run_1' is no longer driven from here: here:2:1.50 drives it under epoch 2, this process had epoch 1; "
        "nothing more was recorded\n",
    ), err
    assert [event.body["outcome"]["value"] for event in await store.load("run_1")] == ["mine"]
    await store.close()


class Back(PostgresStore):
    """Its server's clock was set back by an hour."""

    def _now(self) -> ColumnElement[float]:
        return super()._now() - 3600


async def test_a_clock_that_was_set_back_ends_no_lease_early_and_proof_still_wins(
    server: Postgres, schema: str
) -> None:
    store = await opened(server.url, schema, "run_1")
    assert await store.claim("run_1", owner(1), lease_s=60) == 1
    after: SqlStore = Back(server.url, schema=schema)
    await after.open()
    assert await after.claim("run_1", owner(2), lease_s=60) is None
    assert await after.heartbeat({"run_1": 1}, lease_s=60) == set()
    assert await done(after.append("run_1", 1, [completed(0)])) == (1,)
    # Whoever can prove that the owner is dead needs no clock.
    assert await after.claim("run_1", owner(2), lease_s=60, expect_epoch=1) == 2
    with pytest.raises(FencedError):
        await done(store.append("run_1", 1, [completed(1)]))
    await asyncio.gather(store.close(), after.close())


# --- a full disk --------------------------------------------------------------------------------


@pytest.mark.long
async def test_a_full_disk_is_one_sentence_and_the_others_go_on() -> None:
    """The server's files may not grow over 3 MB and a bit: it says that the disk is full."""
    with postgres(limit_bytes=3 * 2**20 + 1024) as server:
        store = await opened(server.url, "agentorchestra", "run_1", "run_2")
        drawn: list[int] = []
        with pytest.raises(StoreFullError) as raised:
            for n in range(2000):
                (seq,) = await done(store.append("run_1", 0, [completed(n, os.urandom(7000).hex())]))
                drawn.append(seq)
        assert str(raised.value).startswith(
            f"no space left for the log in the database {store.address.shown} (could not"
        )
        assert str(raised.value).endswith("; nothing of this step was recorded. Free space there, then resume the run")
        assert [event.seq for event in await store.load("run_1")] == drawn
        assert len(drawn) > 20
        assert await store.claim("run_2", owner(), lease_s=60) == 1
        await store.close()


def test_threads_of_a_store_that_is_away_end_with_it(own: Postgres, schema: str) -> None:
    """Closing drains: what waits is told how it ended, and nothing stays behind."""

    async def main() -> str:
        store = await opened(own.tcp(), schema, "run_1", retry_s=0.5)
        await asyncio.to_thread(own.stop)
        try:
            future = store.append("run_1", 0, [completed(0)])
            await store.close()
            return str(future.exception(0))
        finally:
            await asyncio.to_thread(own.start)

    assert "has been away for 0.5 s" in asyncio.run(main())
    assert store_threads() == []
