"""What is deleted, and what never is."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.postgres import Postgres
from tests.store.support import TS, answered, completed, created, done, manifest, owner, told

from agentorchestra.core.errors import StoreError, UnknownRunError
from agentorchestra.core.protocols import Acceptance, Store
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.store import PostgresStore, SqliteStore, deletion, writer
from agentorchestra.log.store.rows import INLINE_BYTES


@pytest.fixture
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was put a moment ago may go."""
    monkeypatch.setattr(writer, "TOUCHED_S", 0.0)


def data(name: str, size: int = 100) -> bytes:
    return (name.encode() * size)[: max(size, len(name))]


# --- runs ---------------------------------------------------------------------------------------


async def test_how_runs_stand(store: Store) -> None:
    later = TS + timedelta(days=1)
    await store.create_run("run_1", manifest(), [created()])
    await store.create_run("run_2", manifest(created=later, parent_run="run_1", fork_seq=1), [])
    assert await store.claim("run_1", owner(), lease_s=3600) == 1
    await done(store.append("run_1", 1, [completed(0)], status=RunStatus.RUNNING))
    fork, parent = await store.run_states()
    assert fork == ("run_2", RunStatus.CREATED, later, later, "run_1", False)
    assert parent == ("run_1", RunStatus.RUNNING, TS, TS, None, True)
    await store.release("run_1", 1)
    assert not (await store.run_states())[1].is_driven


@pytest.mark.sampled(2)
async def test_a_deleted_run_is_gone_and_the_others_are_not(store: Store) -> None:
    for i in range(50):
        await store.create_run(f"run_{i}", manifest(), [created(), completed(0)])
    wanted = [f"run_{i}" for i in range(0, 50, 2)]
    assert sorted(await store.delete_runs([*wanted, "run_x"])) == sorted(wanted)
    assert len(await store.list_runs()) == 25
    assert await store.get_run("run_0") is None and await store.job("run_0") is None
    with pytest.raises(UnknownRunError):
        await store.load("run_0")
    with pytest.raises(UnknownRunError):
        await done(store.append("run_0", None, [told()]))
    assert [event.seq for event in await store.load("run_1")] == [1, 2]
    await store.create_run("run_0", manifest(), [])
    assert await store.load("run_0") == []
    assert await store.delete_runs([]) == []


async def test_runs_that_somebody_needs_are_kept(store: Store) -> None:
    for name in ("driven", "waiting", "paused", "parent", "free", "over"):
        await store.create_run(f"run_{name}", manifest(), [])
    fork = manifest(created=TS + timedelta(seconds=1), parent_run="run_parent", fork_seq=0)
    await store.create_run("run_fork", fork, [])
    await store.create_run("run_queued", manifest(), [], acceptance=Acceptance(TS))
    assert await store.claim("run_driven", owner(), lease_s=3600) == 1
    assert await store.claim("run_over", owner(), lease_s=0) == 1
    await done(store.append("run_waiting", 0, [answered()], status=RunStatus.WAITING))
    await done(store.append("run_paused", 0, [], status=RunStatus.PAUSED))
    every = [state.id for state in await store.run_states() if state.id != "run_fork"]
    assert sorted(await store.delete_runs(every)) == ["run_free", "run_over"]
    assert sorted(await store.delete_runs(["run_parent", "run_fork"])) == ["run_fork", "run_parent"]


async def test_forks_of_forks_are_deleted_from_the_end(store: Store) -> None:
    for i in range(30):
        extra: dict[str, Any] = {"parent_run": f"run_{i - 1:02}", "fork_seq": 0} if i else {}
        await store.create_run(f"run_{i:02}", manifest(created=TS + timedelta(seconds=i), **extra), [])
    assert await store.claim("run_25", owner(), lease_s=3600) == 1
    deleted = await store.delete_runs([f"run_{i:02}" for i in range(30)])
    assert sorted(deleted) == [f"run_{i}" for i in range(26, 30)]


async def test_a_fork_of_a_run_that_is_gone_is_refused(store: Store) -> None:
    with pytest.raises(UnknownRunError, match="no run 'run_0' in this workspace"):
        await store.create_run("run_1", manifest(parent_run="run_0", fork_seq=3), [])
    assert await store.get_run("run_1") is None


@pytest.mark.sampled(2)
async def test_a_fork_and_a_deletion_at_once(store: Store) -> None:
    """Whoever is first: never a fork without its parent."""
    for i in range(20):
        await store.create_run(f"run_{i:02}", manifest(), [completed(0)])

    async def fork(i: int) -> bool:
        try:
            await store.create_run(f"fork_{i:02}", manifest(parent_run=f"run_{i:02}", fork_seq=1), [completed(0)])
        except UnknownRunError:
            return False
        return True

    forking = asyncio.gather(*map(fork, range(20)))
    deleted = await asyncio.gather(*(store.delete_runs([f"run_{i:02}"]) for i in range(20)))
    forked = await forking
    for i in range(20):
        assert (deleted[i] == []) is forked[i]


# --- blobs --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_grace")
async def test_only_blobs_that_no_run_names_go(store: Store) -> None:
    large = INLINE_BYTES * 2
    pinned, artifact, inner, media, free, freed = [
        await store.put_blob(data(name, size), "text/plain")
        for name, size in (("pin", 9), ("art", large), ("inner", 50), ("media", large), ("free", large), ("freed", 7))
    ]
    outer = await store.put_blob(json.dumps({"state": inner}).encode(), "application/json")
    named = await store.put_blob(f"not JSON: {free}".encode(), "text/plain")
    await store.create_run("run_1", manifest(labels={"pin": pinned}), [completed(0, {"sha256": artifact})])
    # Named in a body that is itself a blob, and in the JSON of one that this names.
    await done(store.append("run_1", 0, [completed(1, ["x" * large, media, outer, named])]))
    await store.create_run("run_2", manifest(), [completed(0, freed), completed(1, "y" * large)])

    assert await store.sweep_blobs(grace_s=0, dry_run=True) == (1, large)
    assert await store.get_blob(free) == data("free", large)
    assert await store.sweep_blobs(grace_s=0) == (1, large)
    assert await store.delete_runs(["run_2"]) == ["run_2"]
    swept = await store.sweep_blobs(grace_s=0)
    assert (swept.blobs, swept.size > 7) in ((2, True), (1, False))  # bodies of the memory store are in their rows
    for sha256 in (free, freed):
        with pytest.raises(StoreError):
            await store.get_blob(sha256)
    for sha256 in (pinned, artifact, inner, media, outer, named):
        assert hashlib.sha256(await store.get_blob(sha256)).hexdigest() == sha256
    assert [event.seq for event in await store.load("run_1")] == [1, 2]
    assert await store.sweep_blobs(grace_s=0) == (0, 0)
    # What is put again is there again.
    assert await store.get_blob(await store.put_blob(data("free", large))) == data("free", large)


async def test_what_was_put_a_moment_ago_stays(store: Store) -> None:
    sha256 = await store.put_blob(b"about to be named")
    assert await store.sweep_blobs(grace_s=3600) == (0, 0)
    assert await store.get_blob(sha256) == b"about to be named"


def age(store: SqliteStore | PostgresStore, server: Postgres | None) -> None:
    """Let every blob have been put two days ago."""
    statement = "update {}blobs set touched = touched - 172800"
    if server is not None:
        assert isinstance(store, PostgresStore)
        server.sql(statement.format(f"{store.schema}."))
        return
    import sqlite3

    assert isinstance(store, SqliteStore)
    with sqlite3.connect(store.database) as connection:
        connection.execute(statement.format(""))
    connection.close()
    for path in (store.folder / "blobs").glob("??/*"):
        os.utime(path, (time.time() - 172800,) * 2)


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
async def test_what_is_put_again_while_garbage_is_looked_for_stays(
    database: str, tmp_path: Path, server: Postgres, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run is created between the search and the deletion: its blob has the bytes of an old one."""
    sqlite = database == "sqlite"
    store = SqliteStore(tmp_path) if sqlite else PostgresStore(server.url, schema=schema)
    other = SqliteStore(tmp_path) if sqlite else PostgresStore(server.url, schema=schema)
    await asyncio.gather(store.open(), other.open())
    small, large, gone = [await store.put_blob(one) for one in (b"small", b"l" * 40_000, b"g" * 40_000)]
    age(store, None if sqlite else server)
    searched, put = threading.Event(), threading.Event()

    garbage = deletion.garbage

    def then_wait(*arguments: Any) -> dict[str, int]:
        found = garbage(*arguments)
        assert set(found) == {small, large, gone}
        searched.set()
        assert put.wait(60)
        return found

    monkeypatch.setattr(deletion, "garbage", then_wait)
    sweep = asyncio.ensure_future(store.sweep_blobs(grace_s=86_400))
    await asyncio.to_thread(searched.wait, 60)
    await other.put_blob(b"small")
    await other.create_run("run_1", manifest(labels={"pin": small}), [completed(0, "l" * 39_000), completed(1, large)])
    await other.put_blob(b"l" * 40_000)
    put.set()
    assert await sweep == (1, 40_000)
    assert await store.get_blob(small) == b"small"
    assert await store.get_blob(large) == b"l" * 40_000
    assert len(await store.load("run_1")) == 2
    with pytest.raises(StoreError):
        await store.get_blob(gone)
    if sqlite:
        assert not (tmp_path / "blobs" / gone[:2] / gone).exists()
    await asyncio.gather(store.close(), other.close())


async def test_files_that_no_row_names_go_when_they_are_old(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    await store.open()
    kept = await store.put_blob(b"k" * 40_000)
    await store.create_run("run_1", manifest(labels={"pin": kept}), [])
    old, new = hashlib.sha256(b"old").hexdigest(), hashlib.sha256(b"new").hexdigest()
    assert store._files is not None
    store._files.write(old, b"old")
    age(store, None)
    store._files.write(new, b"new")
    assert await store.sweep_blobs(grace_s=86_400, dry_run=True) == (1, 3)
    assert store._files.path(old).exists()
    assert await store.sweep_blobs(grace_s=86_400) == (1, 3)
    assert not store._files.path(old).exists()
    assert store._files.path(new).exists()
    assert await store.get_blob(kept) == b"k" * 40_000
    await store.close()
