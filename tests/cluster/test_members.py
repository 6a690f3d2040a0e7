"""Who may work on a database together, and who is dead."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agentorchestra.cluster.members import WATCHED_S, Members, digests, members_of
from agentorchestra.core.clock import Clock, SystemClock
from agentorchestra.core.errors import LostLockError, OtherWorkerError
from agentorchestra.core.settings import Settings
from agentorchestra.log.store import PostgresStore
from tests.chaos.support import until
from tests.postgres import Postgres

_NUMBERS = itertools.count(1)
SETTINGS = Settings(model="offline")
LEASE_S = 30.0


def aged(server: Postgres, store: PostgresStore, seconds: float, *members: Members) -> None:
    """Let beats lie so much longer in the past, as if the database's clock had gone on by that."""
    named = ", ".join(f"'{one.id}'" for one in members)
    changed = server.sql(
        f"UPDATE {store.schema}.members SET beat = beat - interval '{seconds} s' WHERE id IN ({named}) RETURNING id"
    )
    assert all(one.id in changed for one in members), changed


@pytest.fixture
async def store(database_server: Postgres) -> AsyncIterator[PostgresStore]:
    made = PostgresStore(database_server.url, schema=f"members_{next(_NUMBERS)}")
    await made.open()
    yield made
    await made.close()


class Hands(SystemClock):
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.s = 1000.0

    def monotonic(self) -> float:
        return self.s


def member(
    store: PostgresStore,
    *,
    version: str = "1.0",
    settings: Settings = SETTINGS,
    concurrency: int | None = 4,
    clock: Clock | None = None,
) -> Members:
    about: dict[str, Any] = {"kind": "worker", "tags": [], "version": version, "concurrency": concurrency}
    return Members(store, store.schema, {**about, "settings": digests(settings)}, lease_s=LEASE_S, clock=clock)


@pytest.fixture
def prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server of the tests has just been started."""
    monkeypatch.setattr("agentorchestra.cluster.members.QUIET_S", 0.0)


async def looked(one: Members) -> list[str]:
    """Whom it takes over, after the two looks that it needs."""
    await one.dead()
    return [found.id for found in await one.dead()]


async def test_another_version_may_work_beside_it(store: PostgresStore) -> None:
    """A setting that only one of them knows is not compared."""
    first, second = member(store), member(store, version="1.1")
    second._about["settings"]["a_later_one"] = "abc"
    await first.join()
    await second.join()
    assert {one.about["version"] for one in members_of(store, store.schema)} == {"1.0", "1.1"}
    await first.leave()
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


@pytest.mark.usefixtures("prompt")
async def test_whoever_does_not_beat_is_taken_over_by_one_though_it_holds_its_lock(
    store: PostgresStore, database_server: Postgres
) -> None:
    clocks = Hands(), Hands()
    stopped = member(store)
    first, second = (member(store, clock=clock) for clock in clocks)
    for one in (stopped, first, second):
        await one.join()
    assert await first.dead() == await second.dead() == []
    aged(database_server, store, LEASE_S, stopped)
    assert await first.dead() == [], "the database's clock may have been set forward: its next beat is waited for"
    for clock in clocks:
        clock.s += WATCHED_S
    (found,) = await first.dead()
    assert (found.id, found.holds_lock, found.alive, found.overdue) == (stopped.id, True, False, True)
    assert found.silent_s >= LEASE_S
    assert await second.dead() == [], "another one has it"
    assert [one.id for one in await first.dead()] == [stopped.id], "until it is buried"
    with pytest.raises(LostLockError, match=r"stopped for longer than its lease \(lease_s, 30 s\) or cut off from the"):
        await stopped.beat()
    assert await stopped.leads() is False
    await stopped.leave()
    assert stopped.id in await first.ids(), "whoever takes it over removes its row, when its runs are queued"
    await first.bury(found)
    assert await first.ids() == {first.id, second.id}
    for one in (first, second):
        await one.leave()


@pytest.mark.usefixtures("prompt")
async def test_whoever_beats_is_not_dead_whatever_the_databases_clock_does(
    store: PostgresStore, database_server: Postgres
) -> None:
    clock = Hands()
    living, looking = member(store), member(store, clock=clock)
    for one in (living, looking):
        await one.join()
    assert await looking.dead() == []
    for hours in (1, -1):
        clock.s += LEASE_S - 1
        aged(database_server, store, hours * 3600, living)  # the clock was set forward, or back
        await living.beat()
        assert await looking.dead() == []
        (row,) = [one for one in members_of(store, store.schema) if one.id == living.id]
        assert row.alive and not row.overdue
    for one in (living, looking):
        await one.leave()


@pytest.mark.usefixtures("prompt")
async def test_a_databases_clock_that_was_set_back_keeps_no_dead_worker_alive(
    store: PostgresStore, database_server: Postgres
) -> None:
    clock = Hands()
    stopped, looking = member(store), member(store, clock=clock)
    for one in (stopped, looking):
        await one.join()
    aged(database_server, store, -3600, stopped)
    assert await looking.dead() == []
    clock.s += LEASE_S - 1
    assert await looking.dead() == []
    clock.s += 1
    assert [one.id for one in await looking.dead()] == [stopped.id]
    for one in (stopped, looking):
        await one.leave()


@pytest.mark.usefixtures("prompt")
async def test_whoever_took_a_dead_one_and_dies_is_followed(store: PostgresStore, database_server: Postgres) -> None:
    clock = Hands()
    stopped, taking, looking = member(store), member(store, clock=clock), member(store, clock=clock)
    for one in (stopped, taking, looking):
        await one.join()
    assert await taking.dead() == await looking.dead() == []
    aged(database_server, store, LEASE_S, stopped)
    clock.s += WATCHED_S
    (found,) = await taking.dead()
    aged(database_server, store, LEASE_S, taking)
    (other,) = await looking.dead()
    assert (found.id, other.id) == (stopped.id, taking.id)
    await looking.bury(other)
    assert [one.id for one in await looking.dead()] == [stopped.id]
    with pytest.raises(LostLockError):
        await taking.dead()
    for one in (stopped, taking, looking):
        await one.leave()


@pytest.mark.usefixtures("prompt")
async def test_another_one_leads_when_the_leader_is_stopped(store: PostgresStore, database_server: Postgres) -> None:
    clock = Hands()
    leader, other = member(store), member(store, clock=clock)
    for one in (leader, other):
        await one.join()
    assert (await leader.leads(), await other.leads(), await leader.leads()) == (True, False, True)
    assert await other.dead() == []
    aged(database_server, store, LEASE_S, leader)
    clock.s += WATCHED_S
    assert [one.id for one in await other.dead()] == [leader.id]
    assert (await leader.leads(), await other.leads()) == (False, True)
    await other.leave()
    assert await leader.leads() is False, "whoever is taken leads nobody"
    await leader.leave()


async def test_whoever_counts_as_dead_keeps_nobody_out(store: PostgresStore, database_server: Postgres) -> None:
    stopped, other = member(store), member(store, concurrency=5)
    await stopped.join()
    with pytest.raises(OtherWorkerError, match="--concurrency 5"):
        await other.join()
    aged(database_server, store, LEASE_S, stopped)
    await other.join()
    assert {row.id: row.alive for row in members_of(store, store.schema)} == {stopped.id: False, other.id: True}
    for one in (stopped, other):
        await one.leave()
