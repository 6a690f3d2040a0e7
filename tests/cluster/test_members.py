"""Who may work on a database together, and who is dead."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agentorchestra.cluster.members import Members, digests, members_of
from agentorchestra.core.errors import LostLockError, OtherWorkerError
from agentorchestra.core.settings import Settings
from agentorchestra.log.store import PostgresStore
from tests.chaos.support import until
from tests.postgres import Postgres

_NUMBERS = itertools.count(1)
SETTINGS = Settings(model="offline")


@pytest.fixture
async def store(database_server: Postgres) -> AsyncIterator[PostgresStore]:
    made = PostgresStore(database_server.url, schema=f"members_{next(_NUMBERS)}")
    await made.open()
    yield made
    await made.close()


def member(
    store: PostgresStore, *, version: str = "1.0", settings: Settings = SETTINGS, concurrency: int | None = 4
) -> Members:
    about: dict[str, Any] = {"kind": "worker", "tags": [], "version": version, "concurrency": concurrency}
    return Members(store, store.schema, {**about, "settings": digests(settings)}, lease_s=30)


async def looked(one: Members) -> list[str]:
    """Whom it takes over, after the two looks that it needs."""
    await one.dead()
    return [found.id for found in await one.dead()]


async def test_another_version_is_refused_by_name(store: PostgresStore) -> None:
    first, second = member(store), member(store, version="1.1")
    await first.join()
    with pytest.raises(OtherWorkerError) as refused:
        await second.join()
    (there,) = members_of(store, store.schema)
    assert str(refused.value) == (
        f"this is version 1.1, and worker {there.about['host']}:{there.about['pid']} of the same database is 1.0; "
        "stop the workers of the other version first, then start this one"
    )
    await first.leave()
    await second.join()
    await second.leave()
    assert members_of(store, store.schema) == []


async def test_other_settings_are_refused_by_name(store: PostgresStore) -> None:
    first = member(store)
    await first.join()
    other = member(store, settings=Settings(model="openai:gpt-5", max_steps=7, lease_s=5))
    with pytest.raises(OtherWorkerError, match=r"they differ in max_steps, model\. Give all workers and servers one"):
        await other.join()
    more = member(store, concurrency=8)
    with pytest.raises(OtherWorkerError, match=r"--concurrency 8 is not that of worker .* \(4\)"):
        await more.join()
    alike = member(store, settings=Settings(model="offline", lease_s=5))
    await alike.join()
    for one in (other, more, alike, first):
        await one.leave()


async def test_whoever_is_gone_is_taken_over_by_one(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentorchestra.cluster.members.QUIET_S", 0.0)
    gone, first, second = member(store), member(store), member(store)
    for one in (gone, first, second):
        await one.join()
    assert await looked(first) == []
    await gone._call(gone._drop)  # as the end of its process does
    await until(lambda: [one.alive for one in members_of(store, store.schema)].count(True) == 2)  # the server saw it
    assert await looked(first) == [gone.id]
    assert await looked(second) == [], "another one has it"
    await first.bury((await first._call(first._look))[0])
    assert {one.id for one in members_of(store, store.schema)} == {first.id, second.id}
    with pytest.raises(LostLockError, match="cut off from the database and its runs were taken over by others"):
        await gone.dead()
    for one in (gone, first, second):
        await one.leave()


async def test_whoever_comes_back_in_time_goes_on(
    store: PostgresStore, database_server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentorchestra.cluster.members.QUIET_S", 0.0)
    first, second = member(store), member(store)
    for one in (first, second):
        await one.join()
    killed = f"SELECT pg_terminate_backend({first._connection.info.backend_pid})"  # type: ignore[union-attr]
    database_server.sql(killed)
    assert await second.dead() == [], "one look is no proof"
    with pytest.raises(ConnectionError):
        await first.dead()
    assert await first.dead() == []
    assert await looked(second) == []
    assert {(one.id, one.alive) for one in members_of(store, store.schema)} == {(first.id, True), (second.id, True)}
    for one in (first, second):
        await one.leave()


async def test_nobody_is_taken_over_while_all_come_back(store: PostgresStore, database_server: Postgres) -> None:
    first, second = member(store), member(store)
    for one in (first, second):
        await one.join()
    for one in (first, second):
        database_server.sql(f"SELECT pg_terminate_backend({one._connection.info.backend_pid})")  # type: ignore[union-attr]
    with pytest.raises(ConnectionError):
        await first.dead()
    assert await looked(first) == await looked(first) == [], "the other one is still away"
    with pytest.raises(ConnectionError):
        await second.dead()
    assert await second.dead() == []
    for one in (first, second):
        await one.leave()
