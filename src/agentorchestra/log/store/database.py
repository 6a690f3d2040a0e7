"""The common part of writer and reader: connections, opening and closing, and what differs between databases."""

from __future__ import annotations

import asyncio
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sqlalchemy import ColumnElement, Connection, Engine, Table, select
from sqlalchemy.exc import IntegrityError, OperationalError

from agentorchestra.core.errors import (
    AgentOrchestraError,
    StoreError,
    WorkspaceCorruptError,
    WorkspaceNewerError,
    WorkspaceNotWritableError,
)
from agentorchestra.core.protocols import Owner, RunJob
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.store.blobs import BlobFiles, check_hash, no_blob
from agentorchestra.log.store.commits import Landing
from agentorchestra.log.store.patience import Patience
from agentorchestra.log.store.rows import Row
from agentorchestra.log.store.schema import REVISIONS, blobs, create, jobs, metadata

if TYPE_CHECKING:
    from agentorchestra.log.store.artifacts import Artifacts

T = TypeVar("T")

READERS = 4  # threads (and connections) for reading, whatever the number of runs
AT_ONCE = 500  # blobs read by one query


@dataclass(slots=True, eq=False)
class Append:
    """Events of one run in the writer's queue, written together."""

    run: str
    epoch: int | None
    new: tuple[Row, ...]
    status: RunStatus | None
    shared: dict[str, bytes]  # blobs that its events name (`shared.apart`)
    future: Landing[tuple[int, ...]] = field(default_factory=Landing)


@dataclass(eq=False)
class Call(Generic[T]):
    """Any other write, of a run if it has one. It checks before it writes: an AgentOrchestraError wrote nothing."""

    run: str | None
    call: Callable[[Connection], T]
    new: tuple[Row, ...] = ()
    future: Landing[T] = field(default_factory=Landing)


@dataclass(eq=False)
class Put:
    """Blobs in the writer's queue, as rows; those that follow each other are written together."""

    values: list[dict[str, Any]]
    run: None = None
    new: tuple[Row, ...] = ()
    future: Landing[None] = field(default_factory=Landing)


Operation = Append | Call[Any] | Put


@dataclass
class Draw:
    """Neighbouring appends of one run under one epoch, which draw their sequences together."""

    run: str
    epoch: int | None
    members: list[int]  # their places in the batch
    k: int = 0  # how many sequences
    status: str | None = None  # the last one that was set
    next_seq: int | None = None  # after the draw; None where the epoch does not hold


class Database(ABC):
    """A database that is open: the writer's connection, the readers', and what each kind of database does its own way.

    `place` is the store in words, for messages; in those about its format `workspace`, `file` and `option` are the
    workspace, what holds it, and the option for another one.
    """

    retry_s = 0.0  # how long writes and reads wait for a database that is away; 0: not at all

    def __init__(self, place: str, *, workspace: str, file: str, option: str) -> None:
        self.place = place
        self._workspace, self._file, self._option = workspace, file, option
        self.secrets: dict[str, str] = {}  # what must not reach the log, by name
        self._files: BlobFiles | None = None  # of large bytes; where there is none, the table `blobs` holds them all
        self._artifacts: Artifacts | None = None  # of large blobs of machines that share no folder
        # Errors of the driver and of SQLAlchemy: of the disk, the lock or the connection, where it is no use to try
        # again with less; and of a row that does not fit.
        self._operational: tuple[type[Exception], ...] = ()
        self._integrity: tuple[type[Exception], ...] = ()
        self._sealed = ""  # why it can be read and not written
        self._away = False
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._state = "new"
        self._queue: queue.SimpleQueue[Operation | None] = queue.SimpleQueue()
        self._writer: threading.Thread | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._carriers: ThreadPoolExecutor | None = None  # to and from the artifacts
        self._write_engine: Engine | None = None
        self._read_engine: Engine | None = None
        self._connection: Connection | None = None
        self._external = False

    # --- opening and closing ---------------------------------------------------------------------

    async def open(self) -> None:
        """Create the workspace's database or bring it up to date; idempotent. See `Store.open` for the errors."""
        with self._lock:
            if self._state == "open":
                return
            if self._state == "closed":
                raise StoreError(f"the store of {self.place} was closed; make a new one to open it again")
        await _in_thread("store-opener", self._open)

    def _open(self) -> None:
        with self._opening:
            if self._state == "open":
                return
            try:
                self._write_engine = self._make_write_engine()
                self._read_engine = self._make_read_engine()
                driver = self._write_engine.dialect.loaded_dbapi
                self._operational = (OperationalError, driver.OperationalError)
                self._integrity = (IntegrityError, driver.IntegrityError)
                self._prepare()
                with self._lock:
                    if self._state == "closed":
                        raise StoreError(f"the store of {self.place} was closed while it was being opened")
                    self._state = "open"
            except BaseException as exc:
                # Whoever could not open it need not close it.
                self._dispose()
                if isinstance(exc, AgentOrchestraError) or not isinstance(exc, Exception):
                    raise
                raise self._translate(exc) from exc

    async def close(self) -> None:
        with self._lock:
            if self._state != "closed":
                self._state = "closed"
                self._queue.put(None)
        await _in_thread("store-closer", self._close)

    def _close(self) -> None:
        with self._opening:
            for pool in (self._carriers, self._readers):
                if pool is not None:
                    pool.shutdown(wait=True)
            if self._writer is not None:
                self._writer.join()
            if self._connection is not None and not self._away:
                with suppress(Exception):  # a row that is left is removed by others, later
                    self._leave(self._connection)
            self._dispose()

    def _leave(self, connection: Connection) -> None:  # noqa: B027  # a file needs no farewell
        """Called on the writer's connection before it is closed in order."""

    def _dispose(self) -> None:
        self._release()
        for engine in (self._read_engine, self._write_engine):
            if engine is not None:
                engine.dispose()

    def _check_open(self) -> None:
        if self._state != "open":
            raise StoreError(
                f"the store of {self.place} is closed"
                if self._state == "closed"
                else f"the store of {self.place} is not open; call `open` first"
            )

    def _writer_connection(self) -> Connection:
        """Return the writer's connection, made anew where it was lost."""
        if self._connection is None:
            assert self._write_engine is not None
            self._connection = self._write_engine.connect()
        return self._connection

    def _release(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # a connection that broke may not even close
                connection.invalidate()
                connection.close()

    @staticmethod
    def _job(connection: Connection, run: str) -> RunJob | None:
        row = connection.execute(select(*jobs.c).where(jobs.c.run == run)).first()
        if row is None:
            return None
        return RunJob(
            run=row.run,
            owner=None if row.owner is None else Owner.model_validate_json(row.owner),
            epoch=row.epoch,
            lease_until=None if row.lease_until is None else datetime.fromtimestamp(row.lease_until, UTC),
        )

    def _revision(self, connection: Connection) -> str | None:
        """Return the revision of the database, None for an empty one; WorkspaceCorrupt- or WorkspaceNewerError."""
        tables = self._tables(connection)
        if not tables:
            return None
        if "alembic_version" not in tables:
            raise self._corrupt(f"it holds other tables: {', '.join(sorted(tables)[:3])}")
        revision = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
        if revision is None:
            raise self._corrupt("its format is not recorded")
        if revision not in REVISIONS:
            raise WorkspaceNewerError(
                f"the workspace {self._workspace} was written by a later version of agentorchestra "
                f"(format {revision!r}, this version knows up to {REVISIONS[-1]!r}); "
                f"upgrade, or choose another {self._option}"
            )
        missing = set(metadata.tables) - tables
        if revision == REVISIONS[-1] and missing:
            # Another process may have migrated between the two questions; with its revision its tables are there.
            missing -= self._tables(connection)
        if revision == REVISIONS[-1] and missing:
            raise self._corrupt(f"the tables {', '.join(sorted(missing))} are missing")
        return str(revision)

    @staticmethod
    def _bring_up(connection: Connection, revision: str | None) -> None:
        """Make the tables of a database that is empty (None), or bring those of an earlier version up to date."""
        if revision is None:
            create(connection)
        elif revision != REVISIONS[-1]:
            from agentorchestra.log.store.migrations import upgrade  # Alembic takes long to import

            upgrade(connection)

    def _corrupt(self, reason: str) -> WorkspaceCorruptError:
        return WorkspaceCorruptError(
            f"{self._file} cannot be read as a workspace's database ({reason}); "
            f"restore it from a backup, or choose another {self._option}"
        )

    def _translate(self, exc: BaseException) -> AgentOrchestraError:
        """Return the package's error for any other."""
        error = exc if isinstance(exc, AgentOrchestraError) else self._meaning(exc)
        if error is not exc and error.__cause__ is None:
            error.__cause__ = exc
        return error

    # --- what differs between databases ----------------------------------------------------------

    @abstractmethod
    def _make_write_engine(self) -> Engine:
        """For the writer's only connection; its transactions exclude each other from the beginning."""

    @abstractmethod
    def _make_read_engine(self) -> Engine:
        """For at most READERS connections that cannot write and see what is committed."""

    @abstractmethod
    def _prepare(self) -> None:
        """Create or migrate, and begin to watch for changes; a database that only gives reads gets `_sealed`."""

    @abstractmethod
    def _not_writable(self, reason: str) -> WorkspaceNotWritableError:
        """Return the error for a write that is refused."""

    @abstractmethod
    def _tables(self, connection: Connection) -> set[str]:
        """Return the names of the tables that are there."""

    def _quick_check(self, connection: Connection) -> list[str]:
        """Return what the database itself finds damaged; a server has no such check."""
        return []

    def _check_place(self) -> None:  # noqa: B027  # only a database that is a file can vanish
        """Raise if the database is no longer where it was opened; before every transaction."""

    def _bytes_of(self, sha256: str, *, anew: bool = False) -> bytes:
        """Return large bytes whose row has none; `anew` from where they are kept, not from a copy."""
        if self._files is not None:
            return self._files.read(sha256)
        if self._artifacts is not None:
            return self._artifacts.read(sha256, anew=anew)
        raise no_blob(sha256)

    def _large(self, connection: Connection, hashes: list[str], *, in_table: bool = False) -> Callable[[str], bytes]:
        """Return what reads the bytes of the large bodies with these hashes, or of blobs that stand `in_table`."""
        if self._files is not None and not in_table:
            return self._files.read
        contents: dict[str, bytes | None] = {}  # None: the same bytes were put as an artifact before
        for start in range(0, len(hashes), AT_ONCE):
            part = set(hashes[start : start + AT_ONCE])
            rows = connection.execute(select(blobs.c.sha256, blobs.c.data).where(blobs.c.sha256.in_(part)))
            contents |= {sha256: None if data is None else bytes(data) for sha256, data in rows}

        def read(sha256: str) -> bytes:
            if sha256 not in contents:
                raise no_blob(sha256)
            data = contents[sha256]
            return self._bytes_of(sha256) if data is None else check_hash(sha256, data, "the table `blobs`")

        return read

    @abstractmethod
    def _draw(self, connection: Connection, draws: list[Draw]) -> None:
        """Draw the sequences of runs whose epoch holds until the transaction ends: sets `next_seq`."""

    @abstractmethod
    def _insert_events(self, connection: Connection, values: list[tuple[Any, ...]]) -> None:
        """Insert rows in the order of `schema.events`' columns."""

    # A database on another machine can be away, and can take back what it was told (deadlocks); a file cannot.

    def _is_lost(self, exc: BaseException) -> bool:
        """Return True if an error says that the connection is lost or cannot be made: it may come back."""
        return False

    def _is_conflict(self, exc: BaseException) -> bool:
        """Return True if the database took the transaction back because of another one: the same again may work."""
        return False

    def _one_at_a_time(self, connection: Connection, subject: str) -> None:  # noqa: B027  # a file's transactions do anyway
        """Let no other transaction that names the same pass here until this one ends."""

    def _begin(self) -> None:  # noqa: B027
        """Called before each transaction."""

    def _token(self, connection: Connection) -> str | None:
        """Return a name by which `_was_committed` can find this transaction, None if it wrote nothing."""
        return None

    def _was_committed(self, token: str) -> bool:
        """Return True if a transaction whose COMMIT was not answered was carried out."""
        raise NotImplementedError

    def _away_error(self, exc: BaseException) -> AgentOrchestraError:
        """Return the error when the database stayed away for too long."""
        return self._translate(exc)

    def _say_away(self, exc: BaseException) -> None:  # noqa: B027  # only who waits has something to say
        """Tell whoever reads the program's messages that writes are waiting."""

    def _say_back(self, patience: Patience) -> None:  # noqa: B027
        """Tell them that it goes on."""

    @abstractmethod
    def _changed(self, connection: Connection) -> bool:
        """Return True if others committed since this connection was asked last; called in the writer's thread."""

    @abstractmethod
    def _now(self) -> ColumnElement[float]:
        """Return the database's clock: seconds since 1970."""

    def _lease_now(self, owner: ColumnElement[Any]) -> ColumnElement[float]:
        """Return the clock that leases of an owner are counted by, in seconds since 1970."""
        return self._now()

    @abstractmethod
    def _insert(self, table: Table) -> Any:
        """Return the dialect's INSERT, which knows what to do with a row that is there already."""

    @abstractmethod
    def _meaning(self, exc: BaseException) -> AgentOrchestraError:
        """Return the package's error for one of the driver, of SQLAlchemy or of the system."""


@contextmanager
def closed_on_error(connection: Any) -> Iterator[None]:
    """Close a driver's connection that could not be made ready."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


async def _in_thread(name: str, task: Callable[[], None]) -> None:
    """Run the task in a thread of its own, which has ended when this returns (a loop's own threads outlive it)."""
    future: Future[None] = Future()

    def run() -> None:
        try:
            task()
        except BaseException as exc:
            future.set_exception(exc)
        else:
            future.set_result(None)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        await asyncio.wrap_future(future)
    finally:
        if future.done():
            thread.join()
