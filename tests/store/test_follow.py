"""Followers of runs are told of what others append."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event as sqlalchemy_event
from tests.postgres import Postgres, postgres
from tests.store.support import completed, done, finish, manifest, python, store_at, store_threads, told
from tests.support.patience import LONGEST_S

from agentorchestra.core.errors import StoreError
from agentorchestra.core.protocols import Store
from agentorchestra.log.store import SqliteStore, sqlite
from agentorchestra.log.store.sql import SqlStore

WRITER = """
import asyncio, sys
from tests.store.support import done, store_at, told
async def main():
    store = store_at(sys.argv[1])
    await store.open()
    for line in sys.stdin:
        for run in line.split():
            await done(store.append(run, None, [told("from elsewhere")]))
        print("written", flush=True)
    await store.close()
asyncio.run(main())
"""


@asynccontextmanager
async def opened(place: str, *runs: str, kind: type[SqlStore] | None = None) -> AsyncIterator[Any]:
    store = store_at(place, kind)
    await store.open()
    for run in runs:
        await store.create_run(run, manifest(), [])
    try:
        yield store
    finally:
        await store.close()
        assert "store-watcher" not in store_threads()


@contextmanager
def writing(place: str, *, quiet: bool = True) -> Iterator[Callable[..., None]]:
    """Another process; what it gives makes it append an event to each of some runs. If `quiet` it says nothing else."""
    process: subprocess.Popen[str] = python(WRITER, place)
    assert process.stdin is not None and process.stdout is not None

    def write(*runs: str) -> None:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(" ".join(runs) + "\n")
        process.stdin.flush()
        assert process.stdout.readline() == "written\n"

    write()  # it is open
    yield write
    process.stdin.close()
    process.stdin = None
    if quiet:
        finish(process)
    else:
        process.communicate(timeout=LONGEST_S)


async def seen(store: Store, run: str, news: asyncio.Event, last: int) -> list[int]:
    """The sequences of a run's events, read only when there is news, until the last one is there."""
    while True:
        news.clear()
        found = [event.seq for event in await store.load(run)]
        if found and found[-1] >= last:
            return found
        await news.wait()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  # the time limit of the test is the only one
        await asyncio.sleep(0.02)


async def test_a_follower_is_told_of_every_append(store: Store) -> None:
    await store.create_run("run_1", manifest(), [])
    with store.follow("run_1") as news:
        for last in range(1, 6, 2):
            await done(store.append("run_1", None, [told()]))
            await done(store.append("run_1", 0, [completed(last)]))
            assert await seen(store, "run_1", news, last + 1) == list(range(1, last + 2))


async def test_two_event_loops_follow_one_run(store: Store) -> None:
    await store.create_run("run_1", manifest(), [])
    found: list[list[int]] = []
    reads = threading.Barrier(3)

    async def follow() -> None:
        with store.follow("run_1") as news:
            reads.wait(60)
            found.append(await seen(store, "run_1", news, 1))

    threads = [threading.Thread(target=asyncio.run, args=(follow(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    await asyncio.to_thread(reads.wait, 60)
    await done(store.append("run_1", None, [told()]))
    for thread in threads:
        await asyncio.to_thread(thread.join, 60)
    assert found == [[1], [1]]


async def test_who_follows_when_the_store_is_closed_is_told(store: Store) -> None:
    await store.create_run("run_1", manifest(), [])
    with store.follow("run_1") as news:
        await store.close()
        await news.wait()
    with pytest.raises(StoreError, match="closed"), store.follow("run_1"):
        pass
    assert store_threads() == []


@pytest.mark.sampled(2)
async def test_another_process_is_heard(place: str) -> None:
    async with opened(place, "run_1") as store:
        with writing(place) as write, store.follow("run_1") as news:
            for last in range(1, 9):
                await asyncio.to_thread(write, "run_1")
                assert await seen(store, "run_1", news, last) == list(range(1, last + 1))


@pytest.mark.sampled(2)
async def test_nothing_is_missed_when_following_begins(place: str) -> None:
    """Each follower begins while the other process writes, and reads nothing without being told."""
    async with opened(place, "run_1") as store:
        with writing(place) as write:
            for last in range(1, 13):
                written = asyncio.create_task(asyncio.to_thread(write, "run_1"))
                await asyncio.sleep(0)
                with store.follow("run_1") as news:
                    assert (await seen(store, "run_1", news, last))[-1] == last
                await written


@pytest.mark.long
async def test_many_runs_are_followed_by_one_thread_and_one_connection(place: str, server: Postgres) -> None:
    names = [f"run_{i:03}" for i in range(200)]
    remote = place.startswith("postgresql://")
    async with opened(place, *names) as store:
        await asyncio.gather(*(store.load(name) for name in names))  # readers have their connections
        with writing(place) as write:
            with ExitStack() as stack:
                news = {name: stack.enter_context(store.follow(name)) for name in names}
                await asyncio.to_thread(write, *names)
                for name in names:
                    assert await seen(store, name, news[name], 1) == [1]
                assert [one for one in store_threads() if "watcher" in one] == ["store-watcher"]
                if remote:
                    await until(lambda: connections(server) <= 8)  # those of tests before end by themselves
            await until(lambda: "store-watcher" not in store_threads())


def connections(server: Postgres) -> int:
    """Of this store: the writer's, four readers' and the watcher's; and two of the other process."""
    return int(server.sql("select count(*) from pg_stat_activity where application_name = 'agentorchestra'"))


# --- PostgreSQL ---------------------------------------------------------------------------------


@pytest.mark.long
async def test_a_watcher_whose_connection_is_ended_goes_on(server: Postgres, schema: str) -> None:
    place = f"{server.url}#{schema}"
    async with opened(place, "run_1") as store:
        with writing(place) as write, store.follow("run_1") as news:
            for last in range(1, 4):
                await asyncio.to_thread(write, "run_1")
                assert await seen(store, "run_1", news, last) == list(range(1, last + 1))
                server.sql(
                    "select pg_terminate_backend(pid) from pg_stat_activity "
                    "where application_name = 'agentorchestra' and query like 'SELECT runs.id, runs.next_seq%'"
                )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", ["immediate", "fast"])
async def test_a_follower_outlives_a_restart_of_the_database(schema: str, how: str) -> None:
    with postgres() as own:
        place = f"{own.url}#{schema}"
        async with opened(place, "run_1") as store:
            with writing(place, quiet=False) as write, store.follow("run_1") as news:
                await asyncio.to_thread(write, "run_1")
                assert await seen(store, "run_1", news, 1) == [1]
                await asyncio.to_thread(own.stop, how)
                await asyncio.to_thread(own.start)
                await asyncio.to_thread(write, "run_1")
                assert await seen(store, "run_1", news, 2) == [1, 2]
                await asyncio.to_thread(write, "run_1")
                assert await seen(store, "run_1", news, 3) == [1, 2, 3]


@pytest.mark.long
async def test_followers_meet_the_error_of_a_database_that_stays_away(schema: str) -> None:
    with postgres() as own:
        async with opened(f"{own.url}#{schema}", "run_1") as store:
            store.retry_s = 0.5
            with store.follow("run_1") as news:
                await until(news.is_set)
                news.clear()
                await asyncio.to_thread(own.stop)
                await news.wait()
                with pytest.raises(StoreError, match=r"has been away for 0\.5 s"):
                    await store.load("run_1")


@pytest.mark.long
async def test_a_follower_that_may_only_read(server: Postgres, schema: str) -> None:
    place = f"{server.url}#{schema}"
    async with opened(place, "run_1"):
        pass
    role = f"reader_{schema}"
    server.sql(f"create role {role} login password 'reader-pass'; grant usage on schema {schema} to {role}")
    server.sql(f"grant select on all tables in schema {schema} to {role}")
    async with opened(f"{server.tcp(user=role, password='reader-pass')}#{schema}") as store:
        with writing(place) as write, store.follow("run_1") as news:
            for last in range(1, 4):
                await asyncio.to_thread(write, "run_1")
                assert await seen(store, "run_1", news, last) == list(range(1, last + 1))


@pytest.mark.long
async def test_a_follower_on_a_standby(server: Postgres, schema: str) -> None:
    async with opened(f"{server.url}#{schema}", "run_1") as writer:
        with postgres(primary=server) as standby:
            async with opened(f"{standby.url}#{schema}") as store:
                with store.follow("run_1") as news:
                    for last in range(1, 4):
                        await done(writer.append("run_1", None, [told()]))
                        assert await seen(store, "run_1", news, last) == list(range(1, last + 1))


# --- SQLite -------------------------------------------------------------------------------------


async def test_an_idle_follower_reads_no_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    real = sqlite._data_version

    def counted(connection: Any) -> int:
        nonlocal asked
        asked += 1
        return real(connection)

    monkeypatch.setattr(sqlite, "_data_version", counted)
    monkeypatch.setattr(SqliteStore, "look_s", 0.001)
    async with opened(str(tmp_path), "run_1") as store:
        statements: list[str] = []
        sqlalchemy_event.listen(store._read_engine, "before_cursor_execute", lambda *seen: statements.append(seen[2]))
        with store.follow("run_1") as news:
            await until(news.is_set)
            before = asked
            await until(lambda: asked > before + 100)
            assert len(statements) == 1  # the first look
            await done(store.append("run_1", None, [told()]))
            assert await seen(store, "run_1", news, 1) == [1]


async def test_a_follower_of_a_database_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(str(tmp_path), "run_1") as store:
        failing = True
        real = SqliteStore._connect_reader

        def fails(self: SqliteStore) -> Any:
            if failing and threading.current_thread().name == "store-watcher":
                raise OSError(5, "Input/output error")
            return real(self)

        monkeypatch.setattr(SqliteStore, "_connect_reader", fails)
        store._read_engine.dispose()
        with store.follow("run_1") as news:
            await news.wait()
            assert await store.load("run_1") == []
            failing = False
            await done(store.append("run_1", None, [told()]))
            assert await seen(store, "run_1", news, 1) == [1]
