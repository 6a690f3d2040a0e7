"""Damage in a log is found and named."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from tests.postgres import Postgres
from tests.store.support import completed, created, manifest

from agentorchestra.cli.commands.doctor import examine
from agentorchestra.core.errors import LogChangedError
from agentorchestra.core.events import NewEvent
from agentorchestra.log.store import PostgresStore, SqliteStore
from agentorchestra.log.store.rows import INLINE_BYTES


def _log() -> list[NewEvent]:
    return [created(), completed(0), completed(1, "x" * INLINE_BYTES), completed(2)]


async def _filled(store: SqliteStore | PostgresStore) -> None:
    await store.open()
    for run in ("run_1", "run_2", "run_3"):
        await store.create_run(run, manifest(), _log())


async def test_a_whole_log_is_read(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    await _filled(store)
    found = await store.inspect()
    await store.close()
    assert (found.runs, found.events, found.blobs, found.damage) == (3, 12, 1, [])


async def test_missing_and_unreadable_events_are_named(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    await _filled(store)
    with closing(sqlite3.connect(store.database)) as connection, connection:
        connection.execute("DELETE FROM events WHERE run = 'run_1' AND seq IN (2, 4)")
        connection.execute("UPDATE events SET body = '{' WHERE run = 'run_2' AND seq = 2")
    one, two = (await store.inspect()).damage
    await store.close()
    assert one == "run run_1: event 2 is missing; event 4 to 4 are missing; events 1 to 1 can be read"
    assert two.startswith("run run_2: event 2 cannot be read (")
    assert two.endswith("events 1 to 1 can be read")


async def test_a_changed_blob_is_named_with_its_runs(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    await _filled(store)
    (blob,) = (one for one in (tmp_path / "blobs").glob("??/*") if one.parent.name != "tmp")
    blob.write_bytes(b"other")
    damage = (await store.inspect()).damage
    await store.close()
    assert [one.partition(" (")[0] for one in damage[:3]] == [f"run run_{n}: event 3 cannot be read" for n in (1, 2, 3)]
    assert damage[3].startswith(f"the blob {blob.name} was changed after it was written")
    assert damage[3].endswith("; named by run_1, run_2, run_3")


async def test_damage_in_postgresql_is_named(server: Postgres, schema: str) -> None:
    store = PostgresStore(server.url, schema=schema)
    await _filled(store)
    assert (await store.inspect()).damage == []
    with psycopg.connect(server.url) as connection:
        connection.execute(f"DELETE FROM {schema}.events WHERE run = 'run_1' AND seq = 1")
        connection.execute(f"UPDATE {schema}.blobs SET data = 'other'")
        connection.execute(f"UPDATE {schema}.events SET body = replace(body, 'ok', 'no') WHERE run = 'run_1'")
    damage = (await store.inspect()).damage
    with pytest.raises(LogChangedError, match="event 1 of run run_1 is missing"):
        await store.load("run_1", verify=True)
    await store.close()
    assert damage[0].startswith("run run_1: event 1 is missing; event 2 was changed after it was recorded; ")
    assert "; event 3 cannot be read (the blob " in damage[0]
    assert damage[0].endswith("; event 4 was changed after it was recorded; nothing before it")
    assert damage[3].endswith("; named by run_1, run_2, run_3")


def _edited(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / "workspace.db")) as connection, connection:
        assert connection.execute(statement).rowcount == 1


@pytest.mark.parametrize(
    "change",
    ["body = replace(body, '\"ok\"', '\"no\"')", "actor = 'b'", "ts = replace(ts, '2026', '2025')", "span = ''"],
)
async def test_a_changed_event_is_named(tmp_path: Path, change: str) -> None:
    store = SqliteStore(tmp_path)
    await _filled(store)
    _edited(tmp_path, f"UPDATE events SET {change} WHERE run = 'run_2' AND seq = 4")
    found = await store.inspect()
    assert found.damage == ["run run_2: event 4 was changed after it was recorded; events 1 to 3 can be read"]
    assert found.unchecked == 0
    assert len(await store.load("run_2")) == 4
    assert len(await store.load("run_2", upto=3, verify=True)) == 3
    with pytest.raises(LogChangedError) as raised:
        await store.load("run_2", verify=True)
    assert str(raised.value) == (
        "the log was changed: event 4 of run run_2 is not the one that was recorded. "
        "`agentorchestra doctor --deep` names all that is damaged; restore the log from a backup; "
        "to go on from before it: `agentorchestra fork run_2 --at 3`"
    )
    assert len(await store.load("run_1", verify=True)) == 4
    await store.close()


async def test_an_event_in_the_place_of_another_was_changed(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    await _filled(store)
    _edited(tmp_path, "DELETE FROM events WHERE run = 'run_2' AND seq = 2")
    _edited(tmp_path, "UPDATE events SET run = 'run_2', n = 0 WHERE run = 'run_1' AND seq = 2")
    _, two = (await store.inspect()).damage
    await store.close()
    assert two == "run run_2: event 2 was changed after it was recorded; events 1 to 1 can be read"


async def test_a_removed_event_and_a_broken_row_are_said_to_be_of_the_log(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    await _filled(store)
    _edited(tmp_path, "DELETE FROM events WHERE run = 'run_1' AND seq = 2")
    with pytest.raises(LogChangedError, match=r"event 2 of run run_1 is missing.*doctor --deep.*fork run_1 --at 1"):
        await store.load("run_1", verify=True)
    _edited(tmp_path, "UPDATE runs SET manifest = '{' WHERE id = 'run_2'")
    with pytest.raises(LogChangedError, match=r"a row is no JSON .*doctor --deep.*backup"):
        await store.get_run("run_2")
    await store.close()


def test_an_event_without_a_checksum_is_not_checked(tmp_path: Path) -> None:
    asyncio.run(_made(tmp_path))
    _edited(tmp_path, "UPDATE events SET checksum = NULL, actor = 'b' WHERE run = 'run_2' AND seq = 4")
    (log,) = (one for one in examine(tmp_path, deep=True) if one.name == "log")
    said = "3 runs, 12 events and 1 blobs were read; 1 events of an earlier version have no checksum: "
    assert (log.status, log.detail) == ("ok", f"{said}not checked for changes")


async def _made(folder: Path) -> None:
    store = SqliteStore(folder)
    await _filled(store)
    await store.close()


def test_doctor_says_what_is_damaged(tmp_path: Path) -> None:
    assert [one.detail for one in examine(tmp_path / "none", deep=True) if one.name == "log"] == ["there is none yet"]
    asyncio.run(_made(tmp_path / "ws"))
    (log,) = (one for one in examine(tmp_path / "ws", deep=True) if one.name == "log")
    assert (log.status, log.detail) == ("ok", "3 runs, 12 events and 1 blobs were read")
    with closing(sqlite3.connect(tmp_path / "ws" / "workspace.db")) as connection, connection:
        connection.execute("DELETE FROM events WHERE run = 'run_1' AND seq = 2")
    (log,) = (one for one in examine(tmp_path / "ws", deep=True) if one.name == "log")
    assert log.status == "fail"
    assert log.detail.startswith("run run_1: event 2 is missing")
    assert not [one for one in examine(tmp_path / "ws") if one.name == "log"]


def test_doctor_leaves_a_log_of_an_earlier_format_alone(tmp_path: Path) -> None:
    asyncio.run(_made(tmp_path))
    with closing(sqlite3.connect(tmp_path / "workspace.db")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '0002'")
    (log,) = (one for one in examine(tmp_path, deep=True) if one.name == "log")
    assert (log.status, log.detail) == ("warn", "not read: its format is an earlier one")
    assert not list(tmp_path.glob("*.bak"))


def test_damaged_pages_are_a_finding(tmp_path: Path) -> None:
    asyncio.run(_made(tmp_path))
    path = tmp_path / "workspace.db"
    with closing(sqlite3.connect(path)) as connection:
        (page,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'uq_events_key' OR "
            "name = 'sqlite_autoindex_events_1' LIMIT 1"
        ).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    found = [one for one in examine(tmp_path, deep=True) if one.name == "log"]
    assert [one.status for one in found] == ["fail"] * len(found)
    assert "malformed" in found[0].detail or "own check says" in found[0].detail
