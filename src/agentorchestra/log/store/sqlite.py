"""SQLite in the workspace folder: `<folder>/workspace.db` in WAL mode with full sync."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, Double, Engine, Table, create_engine, event, func, literal_column
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool, QueuePool

from agentorchestra.core.errors import (
    AgentOrchestraError,
    BackupError,
    StoreError,
    StoreFullError,
    StoreResourceError,
    WorkspaceNotWritableError,
)
from agentorchestra.core.resources import descriptor_shortage, shortage
from agentorchestra.log.store.blobs import FULL_ERRNOS, BlobFiles, sync_folder
from agentorchestra.log.store.database import READERS, Draw, closed_on_error
from agentorchestra.log.store.machine import boot_clock, boot_clock_of, since_boot, wall
from agentorchestra.log.store.schema import REVISIONS, events
from agentorchestra.log.store.sql import SqlStore

DATABASE = "workspace.db"

BUSY_S = 30.0  # how long a write waits for another process's transaction (they take milliseconds)
_OLDEST = (3, 35)  # RETURNING

# SQLite says SQLITE_FULL for ENOSPC and for max_page_count, but "disk I/O error" for the limit of a file's size and for
# quotas; the extended code tells that it happened while it wrote.
_FULL_CODES = frozenset(
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_TRUNCATE}
)


# The hot path, executed on the driver's cursor: SQLAlchemy's own would double the cost of an event. The epoch is read
# in the same statement that draws the sequence: SQLite's transactions exclude each other.
_DRAW = """
UPDATE runs SET next_seq = next_seq + ?3, status = coalesce(?4, status)
WHERE id = ?1 AND (?2 IS NULL OR EXISTS (SELECT 1 FROM jobs WHERE run = ?1 AND epoch = ?2))
RETURNING next_seq
"""
_INSERT = f"INSERT INTO events ({', '.join(events.c.keys())}) VALUES ({', '.join('?' for _ in events.c)})"


def _data_version(connection: Connection) -> int:
    """Return a number that changes when others commit: another connection, here or in another process."""
    # Past SQLAlchemy, which would begin a transaction, and so wait for a writer in another process.
    raw = connection.connection.driver_connection
    assert isinstance(raw, sqlite3.Connection)
    return int(raw.execute("PRAGMA data_version").fetchone()[0])


def _lease_now(owner: str | None) -> float:
    """Return the time by which the leases of an owner are counted: nobody sets it, as nobody sets a server's.

    It is the machine's clock as it stood when the owner was noted, and goes on with the time since the boot. So a lease
    neither ends nor grows when the clock is set. An owner of another boot or machine, and one of an earlier version,
    noted nothing that this process could go on from.
    """
    record = {} if owner is None else json.loads(owner)
    clock = boot_clock(os.getpid())
    if clock and record.get("booted") is not None and boot_clock_of(record["boot"], record["space"]) == clock:
        return float(record["booted"]) + since_boot()
    return wall()


def _clone(source: str, target: str) -> None:
    if Path(source).is_file() or not Path(source).exists():  # a socket or a pipe holds nothing
        shutil.copy2(source, target)


def _blank() -> bytes:
    """Return the bytes of a database without a table."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute("PRAGMA user_version = 1")
        connection.execute("VACUUM")
        return connection.serialize()


class SqliteStore(SqlStore):
    """The store in a folder; several processes may use one folder at once.

    Args:
        folder: the workspace; created with mode 0700 where it is missing.
        max_bytes: the most the database may take (files of large blobs not counted); appends that do not fit fail
            with StoreFullError.
    """

    look_s = 0.1  # one look reads no row

    def __init__(self, folder: Path, *, max_bytes: int | None = None) -> None:
        self.folder = Path(folder).absolute()
        self.database = self.folder / DATABASE
        place = str(self.folder)
        super().__init__(place, workspace=place, file=str(self.database), option="--workspace")
        self.max_bytes = max_bytes
        self._files = BlobFiles(self.folder / "blobs")
        self._version = 0
        self._inode = 0

    # --- connections -----------------------------------------------------------------------------

    def _connect(self) -> sqlite3.Connection:
        # mode=rw: a database that vanished is an error and not an empty new one. isolation_level None: sqlite3 begins
        # no transactions of its own, SQLAlchemy's `begin` event does.
        mode = "mode=rw" if not self._sealed else "mode=ro"
        if self._sealed and not any(Path(f"{self.database}{end}").exists() for end in ("-wal", "-shm")):
            mode += "&immutable=1"  # nobody has it open: without this SQLite would want to make those files
        connection = sqlite3.connect(
            f"{self.database.as_uri()}?{mode}", uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False
        )
        with closed_on_error(connection):
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.create_function("lease_now", 1, _lease_now)
        return connection

    def _connect_writer(self) -> sqlite3.Connection:
        connection = self._connect()
        if self.max_bytes is not None:
            with closed_on_error(connection):
                (page_size,) = connection.execute("PRAGMA page_size").fetchone()
                connection.execute(f"PRAGMA max_page_count = {max(self.max_bytes // page_size, 1)}").fetchone()
        return connection

    def _connect_reader(self) -> sqlite3.Connection:
        # Not mode=ro: after a crash the first connection must be able to recover the WAL.
        connection = self._connect()
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _make_write_engine(self) -> Engine:
        engine = create_engine("sqlite+pysqlite://", creator=self._connect_writer, poolclass=NullPool)

        @event.listens_for(engine, "begin")
        def begin_immediate(connection: Connection) -> None:
            # The write lock from the beginning: a read that has to become a write could fail in the middle.
            connection.exec_driver_sql("BEGIN IMMEDIATE")

        return engine

    def _make_read_engine(self) -> Engine:
        return create_engine(
            "sqlite+pysqlite://",
            creator=self._connect_reader,
            poolclass=QueuePool,
            pool_size=READERS + 1,  # and the watcher
            max_overflow=0,
        )

    # --- opening ---------------------------------------------------------------------------------

    def _prepare(self) -> None:
        if sqlite3.sqlite_version_info < _OLDEST:
            raise StoreError(
                f"this Python has SQLite {sqlite3.sqlite_version}, which is too old; "
                f"use a Python with SQLite {'.'.join(map(str, _OLDEST))} or later"
            )
        assert self._read_engine is not None
        self._sealed = self._seal_reason()
        if self._sealed:
            with self._read_engine.connect() as connection:
                revision = self._revision(connection)
            if revision != REVISIONS[-1]:
                raise self._not_writable(f"{self._sealed}, and its format {revision} has to be brought up to date")
            return
        self._prepare_folder()
        assert self._write_engine is not None
        self._use_wal()
        # Read by hand, because Alembic takes longer to import than everything else here, and by a reader, so that a
        # workspace can be opened while another process writes.
        with self._read_engine.connect() as connection:
            current = self._revision(connection) == REVISIONS[-1]
        if not current:
            with self._write_engine.begin() as connection:
                # Another process may have been first.
                revision = self._revision(connection)
                if revision is not None and revision != REVISIONS[-1]:
                    self._back_up(revision)
                self._bring_up(connection, revision)
        # The writer's connection, from now on: what others commit after this line is news to it.
        self._connection = self._write_engine.connect()
        self._changed(self._connection)
        self._inode = self.database.stat().st_ino

    def _quick_check(self, connection: Connection) -> list[str]:
        lines = connection.exec_driver_sql("PRAGMA quick_check(5)").scalars().all()
        return [] if lines == ["ok"] else [str(line) for line in lines]

    def _seal_reason(self) -> str:
        """Return why a log that is there can only be read; "" where it can be written, and where there is none."""
        if not self.database.is_file() or not os.access(self.database, os.R_OK):
            return ""
        names = [path.name for path in (self.folder, self.database) if not os.access(path, os.W_OK)]
        return f"{names[0]} cannot be written" if names else ""

    def _prepare_folder(self) -> None:
        try:
            if not self.folder.is_dir():
                new = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
                self.folder.mkdir(mode=0o700, parents=True)
                self.folder.chmod(0o700)
                for path in new:
                    sync_folder(path.parent)
        except FileExistsError:
            # Another process may have made it in between; a file is in the way otherwise.
            if not self.folder.is_dir():
                raise self._not_writable("it is a file, not a folder") from None
        except OSError as exc:
            raise self._translate(exc) from exc
        for path, mode in ((self.folder, os.R_OK | os.W_OK | os.X_OK), (self.database, os.R_OK | os.W_OK)):
            if path.exists() and not os.access(path, mode):
                raise self._not_writable(f"{path.name} cannot be written")
        if self.database.is_dir():
            raise self._not_writable(f"{DATABASE} is a folder")
        if self.database.is_file() and not self.database.stat().st_size:
            raise self._corrupt("it is empty, and what it held is lost")
        if not self.database.exists():
            try:
                self._make_database()
            except FileExistsError:
                pass  # another process was first
            except OSError as exc:
                raise self._translate(exc) from exc
        assert self._files is not None
        self._files.prepare()

    def _make_database(self) -> None:
        """Make a database without a table; it appears whole, so that an empty file is one that lost its content."""
        # By hand, so that nobody else can read what the agents read, whatever the umask.
        descriptor, name = tempfile.mkstemp(prefix=f"{DATABASE}-", dir=self.folder)
        path = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(_blank())
            try:
                self.database.hardlink_to(path)
            except FileExistsError:
                raise
            except OSError:  # a file system without hard links
                path.rename(self.database)
        finally:
            path.unlink(missing_ok=True)

    def _use_wal(self) -> None:
        # Only the first process changes the mode, but for that it must be alone, and SQLite does not wait for it.
        assert self._write_engine is not None
        deadline = time.monotonic() + BUSY_S
        while True:
            try:
                with self._write_engine.connect() as connection:
                    raw = connection.connection.driver_connection
                    assert isinstance(raw, sqlite3.Connection)
                    raw.execute("PRAGMA journal_mode = WAL").fetchone()
                return
            except sqlite3.OperationalError as exc:
                if exc.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.005)

    def _back_up(self, revision: str) -> None:
        """Keep the database as it is beside itself, before it is changed; the write lock is held."""
        self._copy(self.database.with_name(f"{DATABASE}.{revision}.bak"))

    def _copy(self, path: Path) -> None:
        """Copy the database as it is now, with what others have committed, into one file."""
        temporary = path.with_suffix(".tmp")
        temporary.unlink(missing_ok=True)
        os.close(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        try:
            temporary.chmod(0o600)
            with closing(self._connect_reader()) as source, closing(sqlite3.connect(temporary)) as target:
                source.backup(target)
                target.execute("PRAGMA journal_mode = DELETE").fetchone()  # one file, whole by itself
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)

    async def backup(self, target: Path) -> None:
        """Copy the workspace into a new folder while runs go on; its log is as it was at one moment.

        Raises:
            BackupError: if the target is not free, or cannot be written.
        """
        target = target.absolute()
        if target.is_relative_to(self.folder):
            raise BackupError(f"{target} lies in the workspace {self.folder} itself; name a folder outside of it")
        try:
            target.mkdir(mode=0o700, parents=True)
        except FileExistsError:
            raise BackupError(f"{target} is there already; name a folder that is not") from None
        except OSError as exc:
            raise BackupError(f"{target} cannot be made ({exc.strerror or exc}); name another folder") from exc
        try:
            await self._in_pool(lambda: self._copy_folder(target))
        except BaseException as exc:
            shutil.rmtree(target, ignore_errors=True)
            if isinstance(exc, shutil.Error | OSError):
                raise BackupError(f"the copy to {target} failed and was removed: {exc}") from exc
            raise

    def _copy_folder(self, target: Path) -> None:
        assert self._files is not None
        snapshot = target / f"{DATABASE}.copy"
        # No collection removes a blob meanwhile. A blob is there before a row names it, so all that the snapshot
        # names are copied. The snapshot becomes the database last: an unfinished copy is no workspace.
        with self._files.hold():
            self._copy(snapshot)
            try:
                shutil.copytree(
                    self.folder, target, symlinks=True, dirs_exist_ok=True, ignore=self._left_out, copy_function=_clone
                )
            except shutil.Error as exc:
                left = [error for error in exc.args[0] if os.path.lexists(error[0])]  # runs remove files of theirs
                if left:
                    raise BackupError(f"{left[0][0]} cannot be copied ({left[0][2]}); make it readable") from exc
        os.sync()
        snapshot.replace(target / DATABASE)
        sync_folder(target)

    def _left_out(self, folder: str, names: list[str]) -> list[str]:
        """Return what a copy of the workspace does not need: the database, copied by itself, half-written blobs."""
        if Path(folder) == self.folder:
            return [name for name in names if name.startswith(DATABASE)]
        return [name for name in names if name == "tmp" and Path(folder) == self.folder / "blobs"]

    def _tables(self, connection: Connection) -> set[str]:
        return set(connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'").scalars())

    # --- the dialect -----------------------------------------------------------------------------

    def _check_place(self) -> None:
        # SQLite goes on writing to a file that was deleted or replaced, and all of it would be lost.
        try:
            inode = self.database.stat().st_ino
        except OSError:
            inode = -1
        if inode != self._inode:
            raise self._not_writable(f"{self.database.name} was removed or replaced while it was open")

    def _draw(self, connection: Connection, draws: list[Draw]) -> None:
        with closing(connection.connection.cursor()) as cursor:
            for draw in draws:
                row = cursor.execute(_DRAW, (draw.run, draw.epoch, draw.k, draw.status)).fetchone()
                draw.next_seq = None if row is None else row[0]

    def _insert_events(self, connection: Connection, values: list[tuple[Any, ...]]) -> None:
        with closing(connection.connection.cursor()) as cursor:
            cursor.executemany(_INSERT, values)

    def _changed(self, connection: Connection) -> bool:
        version = _data_version(connection)
        # A new connection (after a failed commit) may count differently: that looks like news, and is only looked at.
        changed, self._version = version != self._version, version
        return changed

    def _changes(self, connection: Connection) -> Callable[[], bool]:
        last = 0

        def changed() -> bool:
            nonlocal last
            before, last = last, _data_version(connection)
            return last != before

        return changed

    def _now(self) -> ColumnElement[float]:
        # unixepoch('subsec') needs SQLite 3.42. Milliseconds, which a day number in a double still holds.
        return literal_column("((julianday('now') - 2440587.5) * 86400.0)", Double)

    def _lease_now(self, owner: ColumnElement[Any]) -> ColumnElement[float]:
        return func.lease_now(owner, type_=Double)

    def _insert(self, table: Table) -> sqlite.Insert:
        return sqlite.insert(table)

    # --- errors ----------------------------------------------------------------------------------

    def _meaning(self, exc: BaseException) -> AgentOrchestraError:
        cause: BaseException | None = exc.orig if isinstance(exc, DBAPIError) else exc
        code = getattr(cause, "sqlite_errorcode", None) or 0
        lacking = shortage(cause) or (descriptor_shortage() if code & 0xFF == sqlite3.SQLITE_CANTOPEN else "")
        if lacking:
            return StoreResourceError(
                f"{lacking}: the workspace {self.folder} cannot be used; allow more of it, and try again"
            )
        if isinstance(cause, OSError):
            reason = cause.strerror or str(cause)
            if cause.errno in FULL_ERRNOS:
                return self._full(reason)
            if cause.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.ENOENT):
                return self._not_writable(reason)
        elif isinstance(cause, sqlite3.Error):
            if code in _FULL_CODES:
                return self._full(str(cause))
            match code & 0xFF:
                case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
                    return self._corrupt(str(cause))
                case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
                    return self._not_writable(str(cause))
                case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                    return StoreError(
                        f"another process has kept {self.database} locked for {BUSY_S:.0f} s; nothing was recorded. "
                        "Stop that process and resume the run"
                    )
        return StoreError(f"the workspace {self.folder} refused a write or a read: {type(cause).__name__}: {cause}")

    def _full(self, reason: str) -> StoreFullError:
        limit = "" if self.max_bytes is None else f", or raise its limit of {self.max_bytes} bytes"
        return StoreFullError(
            f"no space left for the log in the workspace {self.folder} ({reason}); nothing of this step was recorded. "
            f"Free space there{limit}, then resume the run"
        )

    def _not_writable(self, reason: str) -> WorkspaceNotWritableError:
        return WorkspaceNotWritableError(
            f"cannot write to the workspace {self.folder} ({reason}); make it writable, or choose another --workspace"
        )
