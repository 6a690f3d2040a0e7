"""What is SQLite's own: the folder, the database, its format, group commit, large bodies in files."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import sqlite3
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine
from tests.store.support import (
    HeldStore,
    completed,
    created,
    done,
    finish,
    manifest,
    owner,
    python,
    started,
    store_threads,
    told,
)

from agentorchestra.core.errors import (
    AgentOrchestraError,
    DuplicateEventError,
    FencedError,
    StoreError,
    StoreFullError,
    UnknownRunError,
    WorkspaceCorruptError,
    WorkspaceNewerError,
    WorkspaceNotWritableError,
)
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.store import SqliteStore, sqlite
from agentorchestra.log.store.machine import since_boot
from agentorchestra.log.store.rows import INLINE_BYTES
from agentorchestra.log.store.schema import REVISIONS, create, metadata
from agentorchestra.runtime.engine import this_process

LARGE = "x" * (INLINE_BYTES + 1)


@contextmanager
def database(folder: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(folder / "workspace.db", isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


async def make(folder: Path) -> None:
    """A workspace with a run."""
    store = SqliteStore(folder)
    await store.open()
    await store.create_run("run_1", manifest(), [created(), completed(0)])
    await store.close()


async def test_a_new_database_appears_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blank = sqlite._blank

    def before_it_is_there() -> bytes:
        assert not (tmp_path / "workspace.db").exists(), "another process would find an empty database"
        return blank()

    monkeypatch.setattr(sqlite, "_blank", before_it_is_there)
    await make(tmp_path)
    assert stat.S_IMODE((tmp_path / "workspace.db").stat().st_mode) == 0o600


async def refused(folder: Path, error: type[AgentOrchestraError], sentence: str) -> None:
    store = SqliteStore(folder)
    with pytest.raises(error, match=sentence):
        await store.open()
    # Whoever could not open it need not close it, but may.
    assert store_threads() == []
    await store.close()
    assert store_threads() == []


# --- opening ------------------------------------------------------------------------------------


async def test_nothing_happens_before_open(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "ws")
    with pytest.raises(StoreError, match="is not open; call `open` first"):
        store.append("run_1", 0, [completed(0)])
    await store.close()
    assert not (tmp_path / "ws").exists()


async def test_the_workspace_is_private_whatever_the_umask(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        await make(tmp_path / "a" / "ws")
        store = SqliteStore(tmp_path / "a" / "ws")
        await store.open()
        await store.put_blob(LARGE.encode())
        await done(store.append("run_1", 0, [completed(1)]))
        modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "a" / "ws").iterdir()}
        await store.close()
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a" / "ws").stat().st_mode) == 0o700
    assert modes == {"workspace.db": 0o600, "workspace.db-wal": 0o600, "workspace.db-shm": 0o600, "blobs": 0o700}


async def test_a_folder_that_was_there_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir(mode=0o755)
    (tmp_path / "ws").chmod(0o755)
    await make(tmp_path / "ws")
    assert stat.S_IMODE((tmp_path / "ws").stat().st_mode) == 0o755


@pytest.mark.parametrize("name", ["a b", "ünï ☃", "what?#100%25&mode=ro", "$(x)'\""])
async def test_any_folder_name_will_do(tmp_path: Path, name: str) -> None:
    await make(tmp_path / name)
    assert sorted(p.name for p in (tmp_path / name).iterdir()) == ["blobs", "workspace.db"]
    assert [p.name for p in tmp_path.iterdir()] == [name]


async def test_a_relative_folder_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    store = SqliteStore(Path("ws"))
    monkeypatch.chdir(tmp_path / "elsewhere")
    await store.open()
    await store.create_run("run_1", manifest(), [])
    await store.close()
    assert (tmp_path / "ws" / "workspace.db").is_file()


async def test_wal_with_full_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SqliteStore, "_connect", inspect.unwrap(SqliteStore._connect))  # without `unsynced`
    store = SqliteStore(tmp_path)
    await store.open()
    for connection in (store._connect_writer(), store._connect_reader()):
        pragmas = [connection.execute(f"PRAGMA {name}").fetchone() for name in ("journal_mode", "synchronous")]
        assert pragmas == [("wal",), (2,)]
        assert connection.execute("PRAGMA busy_timeout").fetchone() == (30_000,)
        connection.close()
    reader = store._connect_reader()
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader.execute("DELETE FROM events")
    reader.close()
    await store.close()


async def test_a_reopened_workspace_has_everything(tmp_path: Path) -> None:
    await make(tmp_path)
    store = SqliteStore(tmp_path)
    await store.open()
    assert await store.claim("run_1", owner(), lease_s=3600) == 1
    assert await done(store.append("run_1", 1, [completed(1, LARGE)], status=RunStatus.PAUSED)) == (3,)
    before = await store.load("run_1")
    await store.close()

    again = SqliteStore(tmp_path)
    await again.open()
    assert await again.load("run_1") == before
    record = await again.get_run("run_1")
    assert record is not None
    assert (record.status, record.next_seq) == (RunStatus.PAUSED, 4)
    assert await again.claim("run_1", owner(2), lease_s=1) is None
    await again.close()


async def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "ws").write_text("a file")
    sentence = (
        rf"^cannot write to the workspace {re.escape(str(tmp_path / 'ws'))} \(it is a file, not a folder\); "
        "make it writable, or choose another --workspace$"
    )
    await refused(tmp_path / "ws", WorkspaceNotWritableError, sentence)
    await refused(tmp_path / "ws" / "below", WorkspaceNotWritableError, r"\(Not a directory\)")


async def test_a_folder_in_place_of_the_database(tmp_path: Path) -> None:
    (tmp_path / "workspace.db").mkdir()
    await refused(tmp_path, WorkspaceNotWritableError, r"\(workspace.db is a folder\)")


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A folder that other users can reach (pytest's own are private)."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


async def test_a_folder_that_cannot_be_written(open_path: Path) -> None:
    closed, made = open_path / "closed", open_path / "made"
    closed.mkdir()
    await make(made)
    made.chmod(0o555)
    closed.chmod(0o555)
    program = """
import asyncio, os, sys
from pathlib import Path
from agentorchestra.core.errors import WorkspaceNotWritableError
from agentorchestra.log.store.sqlite import SqliteStore
import agentorchestra.log.store.migrations
if os.getuid() == 0:  # for root nothing is closed
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
for folder in sys.argv[1:]:
    try:
        asyncio.run(SqliteStore(Path(folder)).open())
    except WorkspaceNotWritableError as exc:
        print(exc)
"""
    out = finish(python(program, closed, closed / "new", made))
    assert out.splitlines() == [
        f"cannot write to the workspace {folder} ({reason}); make it writable, or choose another --workspace"
        for folder, reason in (
            (closed, "closed cannot be written"),
            (closed / "new", "Permission denied"),
            (made, "made cannot be written"),
        )
    ]


@pytest.mark.parametrize("content", [b"this is no database" * 100, b"SQLite format 3\0" + b"\xff" * 8000])
async def test_a_corrupt_database(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "workspace.db").write_bytes(content)
    sentence = (
        rf"^{re.escape(str(tmp_path))}/workspace.db cannot be read as a workspace's database \(.*\); "
        "restore it from a backup, or choose another --workspace$"
    )
    await refused(tmp_path, WorkspaceCorruptError, sentence)
    assert (tmp_path / "workspace.db").read_bytes() == content


async def test_a_database_that_lost_its_end(tmp_path: Path) -> None:
    await make(tmp_path)
    data = (tmp_path / "workspace.db").read_bytes()
    (tmp_path / "workspace.db").write_bytes(data[:4096])
    store = SqliteStore(tmp_path)
    with pytest.raises(WorkspaceCorruptError, match=r"\(database disk image is malformed\)"):
        await store.open()
        await store.load("run_1")
    await store.close()


async def test_a_page_that_was_overwritten_is_found_when_it_is_read(tmp_path: Path) -> None:
    await make(tmp_path)
    with database(tmp_path) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'events'").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    with (tmp_path / "workspace.db").open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    store = SqliteStore(tmp_path)
    await store.open()
    with pytest.raises(WorkspaceCorruptError):
        await store.load("run_1")
    with pytest.raises(WorkspaceCorruptError):
        await done(store.append("run_1", 0, [completed(1)]))
    assert len(await store.list_runs()) == 1
    await store.close()


@pytest.mark.parametrize(
    ("statements", "reason"),
    [
        (["CREATE TABLE songs (id)"], "it holds other tables: songs"),
        (["CREATE TABLE alembic_version (version_num)"], "its format is not recorded"),
        (
            ["CREATE TABLE alembic_version (version_num)", f"INSERT INTO alembic_version VALUES ('{REVISIONS[-1]}')"],
            "the tables blobs, components, events, jobs, runs, writers are missing",
        ),
    ],
)
async def test_a_database_of_something_else(tmp_path: Path, statements: list[str], reason: str) -> None:
    with database(tmp_path) as connection:
        for statement in statements:
            connection.execute(statement)
    await refused(tmp_path, WorkspaceCorruptError, re.escape(reason))


async def test_a_workspace_of_a_later_version(tmp_path: Path) -> None:
    await make(tmp_path)
    with database(tmp_path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    sentence = (
        f"^the workspace {re.escape(str(tmp_path))} was written by a later version of agentorchestra "
        rf"\(format '9999', this version knows up to '{REVISIONS[-1]}'\); upgrade, or choose another --workspace$"
    )
    await refused(tmp_path, WorkspaceNewerError, sentence)


async def test_a_database_that_vanishes_is_not_made_anew(tmp_path: Path) -> None:
    await make(tmp_path)
    store = SqliteStore(tmp_path)
    await store.open()
    (tmp_path / "workspace.db").unlink()
    with pytest.raises(WorkspaceNotWritableError, match="was removed or replaced while it was open"):
        await done(store.append("run_1", 0, [completed(1)]))
    await store.close()
    assert not (tmp_path / "workspace.db").exists()


# --- the format ---------------------------------------------------------------------------------


async def test_the_revisions_make_the_tables(tmp_path: Path) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    from agentorchestra.log.store.migrations import script_directory, upgrade

    engine = create_engine(f"sqlite:///{tmp_path}/workspace.db")
    with engine.begin() as connection:
        upgrade(connection)
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, metadata) == []
    engine.dispose()
    with database(tmp_path) as connection, sqlite3.connect(":memory:") as other:
        memory = create_engine("sqlite://", creator=lambda: other)
        with memory.begin() as connected:
            create(connected)
        pragmas = ["table_info", "foreign_key_list", "index_list"]
        for table in (*metadata.tables, "alembic_version"):
            for pragma in pragmas:
                query = f"PRAGMA {pragma}({table})"
                found, wanted = (one.execute(query).fetchall() for one in (connection, other))
                if pragma == "index_list":  # in the order in which they were made
                    found, wanted = (sorted(row[1:] for row in rows) for rows in (found, wanted))
                assert found == wanted, query
        said = "SELECT * FROM alembic_version"
        assert connection.execute(said).fetchall() == other.execute(said).fetchall() == [(REVISIONS[-1],)]
    memory.dispose()
    other.close()
    assert [script.revision for script in reversed(list(script_directory().walk_revisions()))] == list(REVISIONS)


@pytest.mark.long
async def test_opening_is_quiet_and_needs_no_alembic(tmp_path: Path) -> None:
    program = """
import asyncio, logging, sys
from pathlib import Path
import agentorchestra.log.store
assert "sqlalchemy" not in sys.modules
from agentorchestra.log.store import SqliteStore, sqlite
async def main():
    store = SqliteStore(Path(sys.argv[1]))
    await store.open()
    await store.close()
asyncio.run(main())
names = ["", "alembic", "alembic.runtime.migration", "sqlalchemy", "sqlalchemy.engine"]
assert [h for n in names for h in logging.getLogger(n).handlers if not isinstance(h, logging.NullHandler)] == []
assert logging.getLogger().level == logging.WARNING
assert [logging.getLogger(n).disabled for n in names] == [False] * 5
print("alembic" in sys.modules)
"""
    assert finish(python(program, tmp_path / "ws", cwd=tmp_path)) == "False\n"  # makes the tables
    assert finish(python(program, tmp_path / "ws", cwd=tmp_path)) == "False\n"


# --- group commit -------------------------------------------------------------------------------


async def test_what_waits_is_written_in_one_transaction(held: HeldStore) -> None:
    runs = [f"run_{i:02}" for i in range(50)]
    for run in runs:
        await held.create_run(run, manifest(), [])
    with held.held(runs[0]):
        futures = [held.append(run, 0, [started(n), completed(n)]) for n in range(4) for run in runs]
    for future in futures:
        await done(future)
    assert held.batches[1:] == [runs]
    for run in runs[1:]:
        assert [(e.seq, e.n, e.type) for e in await held.load(run)] == [
            (2 * n + i + 1, n, kind) for n in range(4) for i, kind in enumerate(("started", "completed"))
        ]


async def test_in_a_batch_everyone_fails_alone(held: HeldStore) -> None:
    for run in ("run_1", "run_2", "run_3", "run_4"):
        await held.create_run(run, manifest(), [started(0)])
    assert await held.claim("run_2", owner(), lease_s=3600) == 1
    with held.held("run_4"):
        cases: list[tuple[Any, type[Exception] | tuple[int, ...]]] = [
            (held.append("run_1", 0, [completed(0)]), (2,)),
            (held.append("run_2", 0, [completed(0)]), FencedError),
            (held.append("run_2", 1, [completed(0)], status=RunStatus.RUNNING), (2,)),
            (held.append("run_3", 0, [completed(0), completed(0)], status=RunStatus.FAILED), DuplicateEventError),
            (held.append("run_x", 0, [completed(0)]), UnknownRunError),
            (held.append("run_3", 0, [completed(1)]), (2,)),
            (held.append("run_3", None, [told()]), (3,)),
            (held.append("run_3", 0, [completed(2), completed(3)]), (4, 5)),
            (held.append("run_1", 0, [started(0)]), DuplicateEventError),
            (held.append("run_1", 0, [completed(2**70)]), StoreError),
            (held.append("run_1", 0, [completed(1)]), (3,)),
            (held.append("run_\ud800", 0, [completed(1)]), StoreError),
            (held.append("run_1", 0, [completed(9, branch="/\ud800")]), StoreError),
        ]
    for future, expected in cases:
        if isinstance(expected, tuple):
            assert await done(future) == expected
        else:
            with pytest.raises(expected):
                await done(future)
    assert len(held.batches) == 2
    assert [e.seq for e in await held.load("run_1")] == [1, 2, 3]
    assert [e.seq for e in await held.load("run_2")] == [1, 2]
    assert [(e.seq, e.type) for e in await held.load("run_3")] == [
        (1, "started"),
        (2, "completed"),
        (3, "told"),
        (4, "completed"),
        (5, "completed"),
    ]
    record = await held.get_run("run_3")
    assert record is not None
    assert record.status is RunStatus.CREATED


async def test_a_take_over_in_a_batch_divides_it(held: HeldStore) -> None:
    await held.create_run("run_1", manifest(), [])
    await held.create_run("run_2", manifest(), [])
    with held.held("run_2"):
        before = held.append("run_1", 0, [completed(0)])
        claim = asyncio.ensure_future(held.claim("run_1", owner(), lease_s=3600))
        await asyncio.sleep(0)  # its first step puts it into the queue
        after = held.append("run_1", 0, [completed(1)])
        new = held.append("run_1", 1, [completed(1)])
    assert await claim == 1
    assert await done(before) == (1,)
    with pytest.raises(FencedError):
        await done(after)
    assert await done(new) == (2,)
    assert len(held.batches) == 2


async def test_what_is_read_is_durable(held: HeldStore) -> None:
    await held.create_run("run_1", manifest(), [])
    with held.held("run_1"):
        # Inside the transaction: written, not committed.
        future = held.append("run_1", 0, [completed(0)])
        assert await held.load("run_1") == []
        assert not future.done()
    assert await done(future) == (2,)
    assert [event.seq for event in await held.load("run_1")] == [1, 2]


class FailingStore(SqliteStore):
    fail = ""

    def before_commit(self, runs: list[str]) -> None:
        if self.fail == "before":
            raise RuntimeError(f"before {runs}")

    def after_commit(self, runs: list[str]) -> None:
        if self.fail == "after":
            raise RuntimeError(f"after {runs}")


async def test_a_hook_that_raises_fails_the_batch_and_not_the_store(tmp_path: Path) -> None:
    store = FailingStore(tmp_path)
    await store.open()
    await store.create_run("run_1", manifest(), [])
    store.fail = "before"
    with pytest.raises(StoreError, match=r"RuntimeError: before \['run_1'\]"):
        await done(store.append("run_1", 0, [completed(0)]))
    store.fail = "after"
    with pytest.raises(StoreError, match=r"RuntimeError: after \['run_1'\]"):
        await done(store.append("run_1", 0, [completed(1)]))
    store.fail = ""
    assert await done(store.append("run_1", 0, [completed(2)])) == (2,)
    assert [event.n for event in await store.load("run_1")] == [1, 2]
    await store.close()


async def test_the_threads_are_few_and_the_writer_starts_when_it_is_needed(tmp_path: Path) -> None:
    await make(tmp_path)
    store = SqliteStore(tmp_path)
    await store.open()
    await asyncio.gather(*(store.load("run_1") for _ in range(100)))
    assert set(store_threads()) <= {f"store-reader_{i}" for i in range(4)}
    await done(store.append("run_1", 0, [completed(1)]))
    assert [name for name in store_threads() if "reader" not in name] == ["store-writer"]
    await store.close()
    assert store_threads() == []


async def test_close_from_another_loop_waits_for_the_same_end(held: HeldStore) -> None:
    await held.create_run("run_1", manifest(), [])
    with held.held("run_1"):
        future = held.append("run_1", 0, [completed(0)])
        closing = asyncio.ensure_future(held.close())
        thread = threading.Thread(target=lambda: asyncio.run(held.close()))
        thread.start()
        await asyncio.sleep(0)
        with pytest.raises(StoreError, match="is closed"):
            held.append("run_1", 0, [completed(1)])
        assert not closing.done()
    await closing
    await asyncio.to_thread(thread.join)
    assert future.result(0) == (2,)


# --- files --------------------------------------------------------------------------------------


def files(folder: Path) -> list[Path]:
    return sorted(p for p in (folder / "blobs").rglob("*") if p.is_file())


async def test_only_large_bodies_and_blobs_are_files(held: HeldStore) -> None:
    await held.create_run("run_1", manifest(), [])
    overhead = len('{"outcome":{"value":""},"fingerprint":"f"}')
    await done(held.append("run_1", 0, [completed(0, "x" * (INLINE_BYTES - overhead))]))
    await held.put_blob(b"x" * INLINE_BYTES)
    assert files(held.folder) == []
    await done(held.append("run_1", 0, [completed(1, "x" * (INLINE_BYTES - overhead + 1))]))
    sha256 = await held.put_blob(b"y" * (INLINE_BYTES + 1), "text/plain")
    with database(held.folder) as connection:
        (body,) = connection.execute("SELECT body FROM events WHERE n = 1").fetchone()
        rows = connection.execute("SELECT sha256, size, media_type FROM blobs WHERE data IS NULL ORDER BY 3").fetchall()
    assert rows[1] == (sha256, INLINE_BYTES + 1, "text/plain")
    assert rows[0][1:] == (INLINE_BYTES + 1, "application/json")
    assert body == f'{{"$blob":"{rows[0][0]}"}}'
    assert files(held.folder) == sorted(held.folder / "blobs" / row[0][:2] / row[0] for row in rows)
    assert b"x" * 1000 in await held.get_blob(rows[0][0])


async def test_the_manifest_of_a_run_is_no_file(held: HeldStore) -> None:
    task = "x" * (20 * INLINE_BYTES)
    await held.create_run("run_1", manifest(task), [created(task)])
    assert files(held.folder) == []
    (event,) = await held.load("run_1")
    assert event.body["manifest"]["task"] == task


async def test_the_file_is_there_before_the_commit(tmp_path: Path) -> None:
    seen: list[int] = []

    class Watching(SqliteStore):
        def before_commit(self, runs: list[str]) -> None:
            seen.append(len(files(self.folder)))

    store = Watching(tmp_path)
    await store.open()
    await store.create_run("run_1", manifest(), [])
    await done(store.append("run_1", 0, [completed(0, LARGE)]))
    await store.put_blob(b"x" + LARGE.encode())
    await store.close()
    assert seen == [0, 1, 2]


@pytest.mark.parametrize("text", ["half \ud83d", "halves \ud83d\ude00"])
async def test_a_small_body_without_utf8_is_a_file(held: HeldStore, text: str) -> None:
    await held.create_run("run_1", manifest(), [])
    await done(held.append("run_1", 0, [completed(0, text)]))
    assert len(files(held.folder)) == 1
    assert (await held.load("run_1"))[0].body["outcome"]["value"] == text


async def test_a_file_that_was_changed_or_lost_is_named(held: HeldStore) -> None:
    await held.create_run("run_1", manifest(), [])
    await done(held.append("run_1", 0, [completed(0, LARGE)]))
    (body,) = files(held.folder)
    data = body.read_bytes()
    body.write_bytes(data[:-1] + b" ")
    changed = rf"^the blob {body.name} was changed after it was written: {re.escape(str(body))} holds {len(data)} bytes"
    with pytest.raises(StoreError, match=changed):
        await held.load("run_1")
    with pytest.raises(StoreError, match=changed):
        await held.get_blob(body.name)
    body.unlink()
    lost = (
        rf"^the workspace refers to the blob {body.name}, but its file {re.escape(str(body))} cannot be read "
        r"\(No such file or directory\); restore it from a backup$"
    )
    with pytest.raises(StoreError, match=lost):
        await held.load("run_1")
    # Whoever keeps the same bytes again mends it.
    await held.put_blob(data)
    assert (await held.load("run_1"))[0].body["outcome"]["value"] == LARGE
    body.write_bytes(b"wrong")
    await done(held.append("run_1", 0, [completed(1, LARGE)]))
    assert len(await held.load("run_1")) == 2


async def test_a_blob_in_the_table_that_was_changed_is_named(held: HeldStore) -> None:
    sha256 = await held.put_blob(b"small")
    with database(held.folder) as connection:
        connection.execute("UPDATE blobs SET data = x'00'")
    with pytest.raises(StoreError, match=f"^the blob {sha256} was changed after it was written: the table `blobs`"):
        await held.get_blob(sha256)


async def test_half_written_files_of_long_ago_are_removed(tmp_path: Path) -> None:
    await make(tmp_path)
    old, new = tmp_path / "blobs" / "tmp" / "old", tmp_path / "blobs" / "tmp" / "new"
    for path in (old, new):
        path.write_text("half")
    os.utime(old, (1, 1))
    store = SqliteStore(tmp_path)
    await store.open()
    await store.close()
    assert files(tmp_path) == [new]


# --- full ---------------------------------------------------------------------------------------


async def fill(store: SqliteStore, run: str, size: int = 8000) -> tuple[list[int], StoreFullError]:
    """Append until it is full; the sequences that were acknowledged, and the error."""
    drawn: list[int] = []
    for n in range(10_000):
        try:
            seqs = await done(store.append(run, 0, [completed(n, "x" * size)]))
            drawn.extend(seqs)
        except StoreFullError as exc:
            return drawn, exc
    raise AssertionError("it never was full")


async def test_a_full_database_says_so_and_stays_usable(tmp_path: Path) -> None:
    store = HeldStore(tmp_path, max_bytes=1_024_096)
    await store.open()
    await store.create_run("run_1", manifest(), [])
    await store.create_run("run_2", manifest(), [])
    drawn, error = await fill(store, "run_1", 12_000)  # small events have room in what is left
    assert str(error) == (
        f"no space left for the log in the workspace {tmp_path} (database or disk is full); nothing of this step was "
        "recorded. Free space there, or raise its limit of 1024096 bytes, then resume the run"
    )
    assert len(drawn) > 30
    events = await store.load("run_1")
    assert [event.seq for event in events] == drawn
    with pytest.raises(StoreFullError):
        await store.put_blob(b"x" * 15_000)

    # In a batch only what does not fit fails.
    with store.held("run_2"):
        large = store.append("run_1", 0, [completed(None, "x" * 8000) for _ in range(20)], status=RunStatus.FAILED)
        small = store.append("run_2", 0, [completed(0)])
    with pytest.raises(StoreFullError):
        await done(large)
    assert await done(small) == (2,)
    assert [event.seq for event in await store.load("run_1")] == drawn
    await store.close()

    roomy = SqliteStore(tmp_path)
    await roomy.open()
    assert await roomy.load("run_1") == events
    assert await done(roomy.append("run_1", 0, [completed(None, "x" * 8000)])) == (len(drawn) + 1,)
    record = await roomy.get_run("run_1")
    assert record is not None
    assert record.status is RunStatus.CREATED
    await roomy.close()


async def test_a_workspace_too_small_for_its_tables(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path, max_bytes=8192)
    with pytest.raises(StoreFullError, match="raise its limit of 8192 bytes"):
        await store.open()
    await store.close()
    # What was begun there is no obstacle.
    await make(tmp_path)


async def test_a_run_that_an_earlier_version_released_under_a_later_clock_is_free(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "ws")
    await store.open()
    await store.create_run("run_1", manifest(), [created()])
    assert await store.claim("run_1", owner(1), lease_s=60) == 1
    await store.release("run_1", 1)
    with closing(sqlite3.connect(store.database)) as connection, connection:
        connection.execute("UPDATE jobs SET lease_until = 99999999999")  # released, then the clock went back
    assert await store.claim("run_1", owner(2), lease_s=60) == 2
    await store.close()


@pytest.mark.parametrize("jump_s", [86_400.0, -86_400.0])
async def test_a_clock_that_is_set_neither_ends_a_lease_nor_makes_it_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump_s: float
) -> None:
    first, second = this_process(), this_process().model_copy(update={"pid": 1})
    store = SqliteStore(tmp_path)
    await store.open()
    await store.create_run("run_1", manifest(), [])
    assert await store.claim("run_1", first, lease_s=60) == 1
    at = time.time()
    monkeypatch.setattr("agentorchestra.log.store.machine.time.time", lambda: at + jump_s)
    assert await store.claim("run_1", second, lease_s=60) is None
    assert await store.heartbeat({"run_1": 1}, lease_s=60) == set()
    assert await store.claim("run_1", second, lease_s=60) is None
    assert [one.is_held for one in await store.unfinished_runs()] == [True]
    assert [one.is_driven for one in await store.run_states()] == [True]
    since = since_boot()
    monkeypatch.setattr("agentorchestra.log.store.sqlite.since_boot", lambda: since + 61)
    assert [one.is_held for one in await store.unfinished_runs()] == [False]
    assert await store.claim("run_1", second, lease_s=60) == 2
    await store.close()


async def test_an_owner_that_noted_no_boot_is_judged_by_the_machines_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of an earlier version, of another machine, or of a system that does not tell."""
    store = SqliteStore(tmp_path)
    await store.open()
    at = time.time()
    earlier = this_process().model_copy(update={"booted": None})
    for n, one in enumerate((earlier, this_process().model_copy(update={"boot": "another"}), owner())):
        monkeypatch.setattr("agentorchestra.log.store.machine.time.time", lambda: at)
        await store.create_run(f"run_{n}", manifest(), [])
        assert await store.claim(f"run_{n}", one, lease_s=60) == 1
        assert await store.claim(f"run_{n}", owner(2), lease_s=60) is None
        monkeypatch.setattr("agentorchestra.log.store.machine.time.time", lambda: at + 61)
        assert await store.claim(f"run_{n}", owner(2), lease_s=60) == 2
    await store.close()
