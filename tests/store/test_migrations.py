"""Workspaces that an earlier version wrote: migrated, with a backup where the database is a file."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, create_engine, event, text
from tests.postgres import Postgres
from tests.store.support import TS, completed, created, done, finish, manifest, python, store_at, told

from agentorchestra.core.components import ComponentChange
from agentorchestra.core.events import Event
from agentorchestra.log.store import SqliteStore
from agentorchestra.log.store.migrations import upgrade
from agentorchestra.log.store.rows import INLINE_BYTES
from agentorchestra.log.store.schema import REVISIONS, metadata

OLD = REVISIONS[0]
COLUMNS = {
    "runs": "id, parent_run, fork_seq, manifest, status, next_seq, created",
    "jobs": "run, owner, epoch, lease_until",
    "events": "run, seq, branch, n, attempt, type, v, ts, span, parent_span, actor, body",
    "blobs": "sha256, size, media_type, data",
}
"""Of the first format."""

_SECOND = {"runs": "session, imported", "blobs": "touched"}
SINCE = dict.fromkeys(("0002", "0003", "0004", "0005"), _SECOND)
"""Columns that later formats have besides."""


def columns_of(revision: str) -> dict[str, str]:
    """The columns of a format, by table."""
    added = SINCE.get(revision, {})
    return {table: ", ".join(filter(None, [names, added.get(table)])) for table, names in COLUMNS.items()}


def old_tables(engine_url: str, revision: str = OLD, **options: Any) -> None:
    """The tables as an earlier format's revisions make them."""
    engine = create_engine(engine_url, **options)
    if engine.dialect.name == "sqlite":

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    with engine.begin() as connection:
        upgrade(connection, revision)
    engine.dispose()


async def filled(place: str) -> dict[str, list[Event]]:
    """Two runs, one in a session, with large bodies; what their logs hold."""
    store = store_at(place)
    await store.open()
    await store.create_run("run_1", manifest(session="offers"), [created(session="offers")])
    await store.create_run("run_2", manifest("other"), [created("other")])
    await done(store.append("run_1", 0, [completed(0, "x" * (INLINE_BYTES + 1)), completed(1)]))
    await done(store.append("run_2", None, [told()]))
    found = {run: await store.load(run) for run in ("run_1", "run_2")}
    await store.close()
    return found


def make_old(folder: Path, revision: str = OLD) -> None:
    """Turn a workspace's database into one of an earlier format."""
    new, old = folder / "workspace.db", folder / "old.db"
    old_tables("sqlite+pysqlite://", revision, creator=lambda: sqlite3.connect(old, isolation_level=None))
    with closing(sqlite3.connect(old)) as connection, connection:
        connection.execute("ATTACH ? AS new", (str(new),))
        for table, columns in columns_of(revision).items():
            connection.execute(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM new.{table}")
    old.replace(new)


def tables_of(path: Path) -> dict[str, Any]:
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        found: dict[str, Any] = {
            table: connection.execute(f"SELECT {columns} FROM {table} ORDER BY 1, 2").fetchall()
            for table, columns in COLUMNS.items()
        }
        found["revision"] = connection.execute("SELECT version_num FROM alembic_version").fetchone()[0]
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    return found


@pytest.mark.parametrize("revision", REVISIONS[:-1])
async def test_an_older_workspace_is_migrated_and_kept(tmp_path: Path, revision: str) -> None:
    logs = await filled(str(tmp_path))
    make_old(tmp_path, revision)
    before = tables_of(tmp_path / "workspace.db")
    assert before["revision"] == revision
    umask = os.umask(0)
    try:
        store = SqliteStore(tmp_path)
        await store.open()
    finally:
        os.umask(umask)
    assert {run: await store.load(run) for run in logs} == logs
    assert await done(store.append("run_1", 0, [completed(2)])) == (4,)
    first = ComponentChange(kind="tool", name="search", seq=1, ts=TS, type="registered", body={"source": "x"})
    assert await store.component_changes() == []
    await store.record_components([first])
    assert await store.component_changes() == [first]
    found = await store.inspect()
    assert (found.events, found.unchecked, found.damage) == (6, 5, [])
    await store.load("run_1", verify=True)
    await store.close()
    kept = tmp_path / f"workspace.db.{revision}.bak"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blobs", "workspace.db", kept.name]
    assert tables_of(kept) == before
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert tables_of(tmp_path / "workspace.db")["revision"] == REVISIONS[-1]
    with closing(sqlite3.connect(tmp_path / "workspace.db")) as connection:
        assert connection.execute("SELECT session FROM runs ORDER BY id").fetchall() == [("offers",), (None,)]
    # The backup is a workspace too: put back in place it is migrated again.
    kept.replace(tmp_path / "workspace.db")
    again = SqliteStore(tmp_path)
    await again.open()
    assert {run: await again.load(run) for run in logs} == logs
    await again.close()


@pytest.mark.long
async def test_processes_that_open_an_older_workspace_at_once(tmp_path: Path) -> None:
    logs = await filled(str(tmp_path))
    make_old(tmp_path)
    program = """
import asyncio, sys
from tests.store.support import store_at
import agentorchestra.log.store.migrations, agentorchestra.log.store.sqlite
async def main():
    store = store_at(sys.argv[1])
    print("ready", flush=True)
    sys.stdin.readline()
    await store.open()
    print(len(await store.load("run_1")))
    await store.close()
asyncio.run(main())
"""
    processes = [python(program, tmp_path) for _ in range(3)]
    for process in processes:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [finish(process) for process in processes] == ["3\n"] * 3
    assert tables_of(tmp_path / f"workspace.db.{OLD}.bak")["revision"] == OLD
    assert len(logs["run_1"]) == 3


async def test_no_space_for_the_backup_leaves_everything_as_it_was(tmp_path: Path) -> None:
    await filled(str(tmp_path))
    make_old(tmp_path)
    before = tables_of(tmp_path / "workspace.db")
    program = """
import asyncio, resource, signal, sys
from pathlib import Path
from agentorchestra.core.errors import StoreFullError
from agentorchestra.log.store import SqliteStore
import agentorchestra.log.store.migrations
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, resource.RLIM_INFINITY))
try:
    asyncio.run(SqliteStore(Path(sys.argv[1])).open())
except StoreFullError as exc:
    print(exc)
"""
    out = finish(python(program, tmp_path))
    assert out.startswith(f"no space left for the log in the workspace {tmp_path} (")
    assert tables_of(tmp_path / "workspace.db") == before
    assert [path.name for path in tmp_path.iterdir() if path.suffix in (".bak", ".tmp")] == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("revision", REVISIONS[:-1])
async def test_an_older_schema_is_migrated(server: Postgres, schema: str, revision: str) -> None:
    place = f"{server.url}#{schema}"
    logs = await filled(place)
    old = f"{schema}_old"
    server.sql(f"create schema {old}")
    url = f"postgresql+psycopg://{server.url.removeprefix('postgresql://')}"
    old_tables(url, revision, connect_args={"options": f"-c search_path={old}"})
    for table, columns in columns_of(revision).items():
        server.sql(f"insert into {old}.{table} ({columns}) select {columns} from {schema}.{table}")
    stores = [store_at(f"{server.url}#{old}") for _ in range(3)]
    await asyncio.gather(*(store.open() for store in stores))
    for store in stores:
        assert {run: await store.load(run, verify=True) for run in logs} == logs
    assert await done(stores[0].append("run_1", 0, [completed(2)])) == (4,)
    inspected = await stores[0].inspect()
    assert (inspected.events, inspected.unchecked, inspected.damage) == (6, 5, [])
    for store in stores:
        await store.close()
    assert server.sql(f"select version_num from {old}.alembic_version") == REVISIONS[-1]
    assert server.sql(f"select session from {old}.runs order by id limit 1") == "offers"
    engine = create_engine(url, connect_args={"options": f"-c search_path={old}"})
    with engine.connect() as connection:
        for made in metadata.tables.values():
            names = [column.name for column in made.columns]
            query = text(
                "SELECT column_name FROM information_schema.columns WHERE table_schema = :s AND table_name = :t"
            )
            found = connection.execute(query, {"s": old, "t": made.name}).scalars()
            assert sorted(found) == sorted(names)
    engine.dispose()


async def test_another_process_migrates_between_two_questions(server: Postgres, schema: str) -> None:
    old = f"{schema}_old"
    server.sql(f"create schema {old}")
    url = f"postgresql+psycopg://{server.url.removeprefix('postgresql://')}"
    old_tables(url, REVISIONS[-2], connect_args={"options": f"-c search_path={old}"})
    place = f"{server.url}#{old}"
    migrated: list[str] = []

    def meanwhile(*executed: Any) -> None:
        if "pg_tables" in str(executed[2]) and not migrated:
            migrated.append(place)
            other = store_at(place)
            with ThreadPoolExecutor(1) as thread:
                thread.submit(asyncio.run, other.open()).result()
                thread.submit(asyncio.run, other.close()).result()

    event.listen(Engine, "after_cursor_execute", meanwhile)
    try:
        store = store_at(place)
        await store.open()
        await store.close()
    finally:
        event.remove(Engine, "after_cursor_execute", meanwhile)
    assert migrated
