"""The store over SQLAlchemy Core: one writer thread with group commit, a few readers.

What differs between databases is in the methods at the end of `SqlStore`, which sqlite.py and postgres.py fill in.

    append ─┐                          stage files ─ BEGIN ─ UPDATE next_seq per run ─ INSERT all rows
    claim  ─┼─> queue ─> writer thread ─┘                     │ (an error: again, op by op, under savepoints)
    put_blob┘   (FIFO)                                        before_commit ─ COMMIT ─ after_commit ─ futures
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Table,
    bindparam,
    func,
    insert,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy import (
    Row as Result,
)
from sqlalchemy.exc import IntegrityError, OperationalError

from agentorchestra.core.components import ComponentChange
from agentorchestra.core.errors import AgentOrchestraError, StoreError, StoreFullError
from agentorchestra.core.events import Event, NewEvent
from agentorchestra.core.protocols import BlobInfo, Job, Owner, RunRecord, RunState, Swept
from agentorchestra.core.query import LogQuery
from agentorchestra.core.spec import RunManifest, RunStatus
from agentorchestra.runtime.store import histories, rows, sweeping
from agentorchestra.runtime.store.blobs import no_blob, verified
from agentorchestra.runtime.store.landing import Landing, land
from agentorchestra.runtime.store.patience import Patience
from agentorchestra.runtime.store.rows import Row
from agentorchestra.runtime.store.schema import blobs, components, events, jobs, runs
from agentorchestra.runtime.store.selecting import selected

T = TypeVar("T")

READERS = 4
"""Threads (and connections) for reading, whatever the number of runs."""

_TOUCHED_S = 600.0
"""How exactly it is known when a blob was last put; far less than any grace."""

_AT_ONCE = 500
"""Blobs read by one query."""

_COMPONENTS_AT_ONCE = 200
"""Components that one query looks up (each is two parameters, and a row of a list)."""

_BLOB_PREFIX = f'{{"{rows.BLOB_KEY}":"'


class Operation(Generic[T]):
    """What waits in the writer's queue.

    Attributes:
        run: the run it writes to, if it is one's.
        new: the events it adds.
        large: those whose body is in a file, once staged.
    """

    def __init__(self, run: str | None, new: tuple[Row, ...] = ()) -> None:
        self.run = run
        self.new = new
        self.large: tuple[Row, ...] = ()
        self.future: Landing[T] = Landing()


class Errors:
    """The driver's errors and SQLAlchemy's, by what they mean.

    Attributes:
        operational: errors of the disk, the lock or the connection: no use in trying again with less.
        integrity: a row does not fit.
    """

    def __init__(self, engine: Engine) -> None:
        driver = engine.dialect.loaded_dbapi
        self.operational: tuple[type[Exception], ...] = (OperationalError, driver.OperationalError)
        self.integrity: tuple[type[Exception], ...] = (IntegrityError, driver.IntegrityError)


class Append(Operation[tuple[int, ...]]):
    """Events of one run, written together."""

    def __init__(self, run: str, epoch: int | None, new: tuple[Row, ...], status: RunStatus | None) -> None:
        super().__init__(run, new)
        self.id = run
        self.epoch = epoch
        self.status = status


class Call(Operation[T]):
    """Any other write. It checks before it writes: when it raises an AgentOrchestraError, it has written nothing."""

    def __init__(self, run: str | None, call: Callable[[Connection, Call[T]], T], new: tuple[Row, ...] = ()) -> None:
        super().__init__(run, new)
        self.call = call


@dataclass
class Draw:
    """Neighbouring appends of one run under one epoch, which draw their sequences together.

    Attributes:
        members: their places in the batch.
        k: how many sequences.
        status: the last one that was set.
        next_seq: the run's next sequence after the draw; None where the epoch does not hold.
    """

    run: str
    epoch: int | None
    members: list[int]
    k: int = 0
    status: str | None = None
    next_seq: int | None = None


class UnansweredError(Exception):
    """The connection was lost while COMMIT was under way: whether it was carried out is to be looked up.

    Attributes:
        token: names the transaction to the database.
        results: what its operations gave.
    """

    def __init__(self, token: str, results: list[Any]) -> None:
        super().__init__(token)
        self.token = token
        self.results = results


class SqlStore(ABC):
    """`core.protocols.Store` over a database.

    Usable from any thread and from several event loops at once. Reads never see an append before it is durable.

    For tests of crashes, subclasses override `before_commit` and `after_commit`.

    Attributes:
        place: the store in words, for messages.
        retry_s: how long writes and reads wait for a database that is away; 0: not at all.
        secrets: what must not reach the log, by name.
    """

    retry_s = 0.0

    def __init__(self, place: str) -> None:
        self.place = place
        self.secrets: dict[str, str] = {}
        self._errors: Errors | None = None
        self._away = False
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._state = "new"
        self._queue: queue.SimpleQueue[Operation[Any] | None] = queue.SimpleQueue()
        self._writer: threading.Thread | None = None
        self._readers: ThreadPoolExecutor | None = None
        self._write_engine: Engine | None = None
        self._read_engine: Engine | None = None
        self._connection: Connection | None = None
        self._external = False

    # --- opening and closing ---------------------------------------------------------------------

    async def open(self) -> None:
        """Create the workspace's database or bring it up to date; idempotent.

        Raises:
            WorkspaceNotWritableError, WorkspaceNewerError, WorkspaceCorruptError, StoreFullError, StoreError.
        """
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
                self._errors = Errors(self._write_engine)
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
        """Write what was appended, then release threads, connections and files; idempotent."""
        with self._lock:
            if self._state != "closed":
                self._state = "closed"
                self._queue.put(None)
        await _in_thread("store-closer", self._close)

    def _close(self) -> None:
        with self._opening:
            if self._readers is not None:
                self._readers.shutdown(wait=True)
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

    # --- writing ---------------------------------------------------------------------------------

    def before_commit(self, runs: list[str]) -> None:  # noqa: B027  # a hook, not a duty
        """Called in the writer thread inside the transaction, just before COMMIT. For tests of crashes.

        An exception rolls the transaction back and fails its futures with StoreError.

        Args:
            runs: the runs that this transaction writes to.
        """

    def after_commit(self, runs: list[str]) -> None:  # noqa: B027  # a hook, not a duty
        """Called in the writer thread after COMMIT, before any future resolves. For tests of crashes.

        An exception fails the futures with StoreError although everything was written.

        Args:
            runs: the runs that this transaction wrote to.
        """

    def append(
        self, run: str, epoch: int | None, events: Sequence[NewEvent], *, status: RunStatus | None = None
    ) -> Future[tuple[int, ...]]:
        """See `Store.append`. The bodies are read before this returns.

        Raises:
            StoreError: at once, if the store is not open.
        """
        try:
            new = rows.encode_append(epoch, events, status)
        except StoreError as exc:
            self._check_open()
            failed: Future[tuple[int, ...]] = Future()
            failed.set_exception(exc)
            return failed
        if epoch is None:
            self._external = True
        return self._put(Append(run, epoch, new, status))

    def _put(self, operation: Operation[T]) -> Landing[T]:
        with self._lock:
            self._check_open()
            if self._writer is None:
                # A daemon: a process that ends without closing loses what was not acknowledged, and does not hang.
                self._writer = threading.Thread(target=self._write, name="store-writer", daemon=True)
                self._writer.start()
            self._queue.put(operation)
        return operation.future

    def _check_open(self) -> None:
        if self._state != "open":
            raise StoreError(
                f"the store of {self.place} is closed"
                if self._state == "closed"
                else f"the store of {self.place} is not open; call `open` first"
            )

    def _write(self) -> None:
        """The writer thread: everything that waits, in one transaction; again until closed."""
        while True:
            batch: list[Operation[Any]] = []
            operation = self._queue.get()
            while operation is not None:
                batch.append(operation)
                try:
                    operation = self._queue.get_nowait()
                except queue.Empty:
                    break
            if batch:
                try:
                    self._write_batch(batch)
                except BaseException as exc:  # the thread must outlive whatever a subclass raises
                    self._fail(batch, self._translate(exc))
            if operation is None:
                return

    def _write_batch(self, batch: list[Operation[Any]]) -> None:
        staged: list[Operation[Any]] = []
        for operation in batch:
            try:
                self._stage(operation)
            except Exception as exc:
                self._fail([operation], self._translate(exc))
            else:
                staged.append(operation)
        if staged:
            self._commit(staged)

    def _commit(self, batch: list[Operation[Any]]) -> None:
        touched = list(dict.fromkeys(op.run for op in batch if op.run is not None))
        try:
            results = self._written(batch, touched)
        except Exception as exc:
            error = self._translate(exc)
            if isinstance(error, StoreFullError) and len(batch) > 1:
                # One of them may be what does not fit.
                for operation in batch:
                    self._commit([operation])
            else:
                self._fail(batch, error)
            return
        try:
            self.after_commit(touched)
        except Exception as exc:
            self._fail(batch, self._translate(exc))
            return
        land(
            (operation.future, None, result) if isinstance(result, Exception) else (operation.future, result, None)
            for operation, result in zip(batch, results, strict=True)
        )

    def _written(self, batch: list[Operation[Any]], touched: list[str]) -> list[Any]:
        """What the operations gave, once the transaction is durable; waits for a database that is away.

        What waits stays what it is: an epoch that another process took over meanwhile fences it.
        """
        patience = Patience(0.0 if self._away else self.retry_s)
        unanswered: UnansweredError | None = None
        while True:
            try:
                if unanswered is not None and self._was_committed(unanswered.token, patience):
                    results = unanswered.results
                else:
                    unanswered = None
                    results = self._attempt(batch, touched)
                if self._away or patience.began is not None:
                    self._away = False
                    self._say_back(patience)
                return results
            except Exception as exc:
                if isinstance(exc, UnansweredError):
                    unanswered = exc
                elif not self._is_lost(exc):
                    if self._is_conflict(exc) and patience.again():
                        continue
                    raise
                cause = exc.__cause__ if isinstance(exc, UnansweredError) and exc.__cause__ is not None else exc
                self._release()
                if not patience.wait(lambda cause=cause: self._say_away(cause)):  # type: ignore[misc]
                    self._away = self.retry_s > 0
                    raise self._gone(cause) from cause

    def _attempt(self, batch: list[Operation[Any]], touched: list[str]) -> list[Any]:
        try:
            return self._transaction(batch, touched, self._apply_all)
        except UnansweredError:
            raise
        except self._kinds().operational:
            raise
        except Exception:
            # Something in the batch does not fit: a key that is there already, a value the database refuses. Find
            # out whose it is, without touching the others.
            return self._transaction(batch, touched, self._apply_each)

    @staticmethod
    def _fail(batch: Sequence[Operation[Any]], error: AgentOrchestraError) -> None:
        failed: list[tuple[Landing[Any], None, AgentOrchestraError]] = []
        for operation in batch:
            if not operation.future.done():
                own = type(error)(*error.args)
                own.__cause__ = error.__cause__
                failed.append((operation.future, None, own))
        land(failed)

    def _transaction(
        self,
        batch: list[Operation[Any]],
        touched: list[str],
        apply: Callable[[Connection, list[Operation[Any]]], list[Any]],
    ) -> list[Any]:
        self._check_place()
        connection = self._connected()
        self._begun()
        transaction = connection.begin()
        token: str | None = None
        results: list[Any] = []
        try:
            results = apply(connection, batch)
            self.before_commit(touched)
            token = self._token(connection)
            transaction.commit()
        except BaseException as exc:
            try:
                transaction.rollback()
                # After a COMMIT that failed SQLAlchemy holds the transaction for ended; the driver may not.
                connection.connection.rollback()
            except Exception:
                self._release()  # the next transaction gets a new connection
            if token is not None and self._is_lost(exc):
                raise UnansweredError(token, results) from exc
            raise
        return results

    def _connected(self) -> Connection:
        """The writer's connection, made anew where it was lost."""
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

    def _apply_all(self, connection: Connection, batch: list[Operation[Any]]) -> list[Any]:
        """The whole batch in order, appends that follow each other together; an exception undoes everything."""
        results: list[Any] = []
        appends: list[Append] = []
        for operation in batch:
            if isinstance(operation, Append):
                appends.append(operation)
                continue
            if appends:
                results += self._apply_appends(connection, appends)
                appends = []
            results.append(self._apply_call(connection, operation))
        if appends:
            results += self._apply_appends(connection, appends)
        return results

    def _apply_each(self, connection: Connection, batch: list[Operation[Any]]) -> list[Any]:
        """The batch one by one: what fails fails alone."""
        results: list[Any] = []
        for operation in batch:
            savepoint = connection.begin_nested()
            try:
                result = self._apply_all(connection, [operation])[0]
            except self._kinds().operational:
                raise
            except Exception as exc:
                savepoint.rollback()
                result = self._refused(connection, operation, exc)
            else:
                savepoint.commit()
            results.append(result)
        return results

    @staticmethod
    def _apply_call(connection: Connection, operation: Operation[Any]) -> Any:
        assert isinstance(operation, Call)
        try:
            return operation.call(connection, operation)
        except AgentOrchestraError as exc:
            return exc

    def _apply_appends(self, connection: Connection, appends: list[Append]) -> list[Any]:
        draws: list[Draw] = []
        last: dict[str, Draw] = {}
        for i, append in enumerate(appends):
            draw = last.get(append.id)
            if draw is None or draw.epoch != append.epoch:
                last[append.id] = draw = Draw(append.id, append.epoch, [])
                draws.append(draw)
            draw.members.append(i)
            draw.k += len(append.new)
            if append.status is not None:
                draw.status = append.status.value
        left = draws
        while left:
            # One statement changes a row once: further draws of the same run wait for their turn.
            turn = {draw.run: draw for draw in reversed(left)}
            if len(turn) < len(left):
                later = [draw for draw in left if turn[draw.run] is not draw]
                now = [draw for draw in left if turn[draw.run] is draw]
            else:
                now, later = left, []
            self._draw(connection, now)
            left = later
        results: list[Any] = [None] * len(appends)
        values: list[tuple[Any, ...]] = []
        large: list[Row] = []
        for draw in draws:
            if draw.next_seq is None:
                for i in draw.members:
                    results[i] = self._not_drawn(connection, draw.run, draw.epoch)
                continue
            seq = draw.next_seq - draw.k
            for i in draw.members:
                append = appends[i]
                first = seq
                for row in append.new:
                    values.append(row.values(draw.run, seq))
                    seq += 1
                results[i] = tuple(range(first, seq))
                large += append.large
        self._insert_large(connection, large)
        if values:
            self._insert_events(connection, values)
        return results

    def _insert_large(self, connection: Connection, large: Sequence[Row]) -> None:
        if not large:
            return
        self._insert_blobs(
            connection,
            [
                {
                    "sha256": row.sha256,
                    "size": len(row.large or b""),
                    "media_type": rows.BODY_MEDIA_TYPE,
                    "data": row.large if self.keeps_large else None,
                }
                for row in large
            ],
        )

    def _insert_blobs(self, connection: Connection, values: list[dict[str, Any]]) -> None:
        """Blobs that are there already count as put now: a collection of garbage leaves them where they are."""
        statement = self._insert(blobs).values(touched=self._now())
        stale = or_(blobs.c.touched.is_(None), blobs.c.touched < self._now() - _TOUCHED_S)
        statement = statement.on_conflict_do_update(
            index_elements=[blobs.c.sha256], set_={"touched": self._now()}, where=stale
        )
        connection.execute(statement, values)

    def _not_drawn(self, connection: Connection, run: str, epoch: int | None) -> AgentOrchestraError:
        job = self._job(connection, run)
        if job is None or epoch is None:
            return rows.unknown_run(run)
        return rows.fenced(run, epoch, job.epoch, job.owner)

    def _refused(self, connection: Connection, operation: Operation[Any], exc: Exception) -> Exception:
        """Why the database refused a single operation."""
        if isinstance(exc, self._kinds().integrity) and operation.run is not None:
            first = connection.execute(select(runs.c.next_seq).where(runs.c.id == operation.run)).scalar() or 1
            seen: set[tuple[str, int, int, str]] = set()
            for seq, row in enumerate(operation.new, first):
                key = row.key(seq)
                there = select(events.c.seq).where(
                    events.c.run == operation.run,
                    events.c.branch == key[0],
                    events.c.n == key[1],
                    events.c.attempt == key[2],
                    events.c.type == key[3],
                )
                if key in seen or connection.execute(there).first() is not None:
                    error = rows.duplicate(operation.run, key)
                    error.__cause__ = exc
                    return error
                seen.add(key)
        translated = self._translate(exc)
        translated.__cause__ = exc
        return translated

    # --- the other writes ------------------------------------------------------------------------

    async def create_run(self, run: str, manifest: RunManifest, events: Sequence[NewEvent]) -> None:
        """See `Store.create_run`."""
        new = rows.encode_append(0, events, None)
        record = RunRecord(
            id=run,
            status=RunStatus.CREATED,
            manifest=manifest,
            next_seq=1 + len(new),
            created=manifest.created,
            parent_run=manifest.parent_run,
            fork_seq=manifest.fork_seq,
        )
        await self._add_run(record, new, epoch=0)

    async def import_run(self, record: RunRecord, events: Sequence[Event], *, epoch: int) -> None:
        """See `Store.import_run`."""
        await self._add_run(record, rows.encode_import(record, events), epoch=epoch)

    async def _add_run(self, record: RunRecord, new: tuple[Row, ...], *, epoch: int) -> None:
        run = record.id
        values = {
            "id": run,
            "parent_run": record.parent_run,
            "fork_seq": record.fork_seq,
            "manifest": rows.manifest_json(record.manifest),
            "status": record.status.value,
            "next_seq": record.next_seq,
            "created": rows.stamp(record.created),
            "session": record.manifest.session,
            "imported": None if record.imported is None else rows.stamp(record.imported),
        }

        def create(connection: Connection, operation: Call[None]) -> None:
            if record.fork_seq is not None and record.imported is None:
                # Its log refers to what the other one's does: it must not be deleted at this moment.
                there = (
                    select(runs.c.id).where(runs.c.id == record.parent_run).with_for_update(key_share=True, read=True)
                )
                if connection.execute(there).first() is None:
                    raise rows.unknown_run(str(record.parent_run))
            if (
                connection.execute(self._insert(runs).on_conflict_do_nothing().returning(runs.c.id), values).first()
                is None
            ):
                raise rows.existing_run(run)
            connection.execute(insert(jobs), {"run": run, "owner": None, "epoch": epoch, "lease_until": None})
            self._insert_large(connection, operation.large)
            if new:
                self._insert_events(connection, [row.values(run, seq) for seq, row in enumerate(new, 1)])

        await self._do(Call(run, create, new))

    async def claim(self, run: str, owner: Owner, *, lease_s: float, expect_epoch: int | None = None) -> int | None:
        """See `Store.claim`.

        Raises:
            UnknownRunError: if there is no such run.
        """
        held = jobs.c.run == run
        if expect_epoch is None:
            held &= or_(jobs.c.lease_until.is_(None), jobs.c.lease_until <= self._now())
        else:
            held &= jobs.c.epoch == expect_epoch
        statement = (
            update(jobs)
            .where(held)
            .values(epoch=jobs.c.epoch + 1, owner=owner.model_dump_json(), lease_until=self._now() + lease_s)
            .returning(jobs.c.epoch)
        )

        def take(connection: Connection, _operation: Call[int | None]) -> int | None:
            epoch: int | None = connection.execute(statement).scalar()
            if epoch is None and self._job(connection, run) is None:
                raise rows.unknown_run(run)
            return epoch

        return await self._do(Call(run, take))

    async def heartbeat(self, epochs: Mapping[str, int], *, lease_s: float) -> set[str]:
        """See `Store.heartbeat`. A run released under its epoch is neither prolonged nor lost."""
        held = dict(epochs)

        prolonged = (
            update(jobs)
            .where(jobs.c.run == bindparam("held"), jobs.c.epoch == bindparam("under"), jobs.c.owner.is_not(None))
            .values(lease_until=self._now() + lease_s)
        )

        def prolong(connection: Connection, _operation: Call[set[str]]) -> set[str]:
            found = connection.execute(select(jobs.c.run, jobs.c.epoch).where(jobs.c.run.in_(held)))
            ours = {run for run, epoch in found if held[run] == epoch}
            if ours:
                connection.execute(prolonged, [{"held": run, "under": held[run]} for run in ours])
            return set(held) - ours

        return await self._do(Call(None, prolong)) if held else set()

    async def release(self, run: str, epoch: int) -> None:
        """See `Store.release`."""
        statement = (
            update(jobs).where(jobs.c.run == run, jobs.c.epoch == epoch).values(owner=None, lease_until=self._now())
        )

        def give_back(connection: Connection, _operation: Call[None]) -> None:
            connection.execute(statement)

        await self._do(Call(run, give_back))

    async def put_blob(self, data: bytes, media_type: str = "application/octet-stream") -> str:
        """See `Store.put_blob`. Where the database does not keep large ones, they lie in files."""
        inline = self.keeps_large or len(data) <= rows.INLINE_BYTES

        def stage() -> str:
            sha256 = hashlib.sha256(data).hexdigest()
            if not inline:
                self._keep_bytes(sha256, data)
            return sha256

        sha256 = await self._in_pool(stage)
        values = {
            "sha256": sha256,
            "size": len(data),
            "media_type": media_type,
            "data": data if inline else None,
        }

        def keep(connection: Connection, _operation: Call[None]) -> None:
            self._insert_blobs(connection, [values])

        await self._do(Call(None, keep))
        return sha256

    async def record_components(self, changes: Sequence[ComponentChange]) -> None:
        """See `Store.record_components`."""
        new = histories.encode(changes)
        if not new:
            return
        named = histories.components_of(new)
        values = [dict(zip(components.c.keys(), row, strict=True)) for row in new]

        def record(connection: Connection, _operation: Call[None]) -> None:
            self._one_recorder(connection)
            histories.check_places(new, self._heads(connection, named))
            # Should another process be first all the same, the key refuses the rows, and the second look (in
            # `_apply_each`) says so.
            connection.execute(insert(components), values)

        await self._do(Call(None, record))

    @staticmethod
    def _heads(connection: Connection, named: Sequence[histories.Component]) -> dict[histories.Component, int]:
        heads: dict[histories.Component, int] = {}
        for part in _parts(named):
            found = connection.execute(_HEADS.where(_one_of(part)))
            heads |= {(kind, name): seq for kind, name, seq in found}
        return heads

    async def _do(self, operation: Operation[T]) -> T:
        return await self._put(operation).waiter()

    def _kinds(self) -> Errors:
        assert self._errors is not None
        return self._errors

    # --- reading ---------------------------------------------------------------------------------

    async def load(self, run: str, *, after: int = 0, upto: int | None = None) -> list[Event]:
        """See `Store.load`.

        Raises:
            UnknownRunError: if there is no such run.
            StoreError: if a blob is missing or was changed.
        """
        statement = select(*events.c).where(events.c.run == run, events.c.seq > after).order_by(events.c.seq)
        if upto is not None:
            statement = statement.where(events.c.seq <= upto)

        def read(connection: Connection) -> list[Event]:
            found = connection.execute(statement).all()
            if not found and connection.execute(select(runs.c.id).where(runs.c.id == run)).first() is None:
                raise rows.unknown_run(run)
            return self._events(connection, found)

        return await self._read(read)

    def _events(self, connection: Connection, found: Sequence[Sequence[Any]]) -> list[Event]:
        named = [_blob_named(values[-1]) for values in found]
        large = self._large(connection, [one for one in named if one is not None])
        return [
            rows.event_of(values, json.loads(values[-1]) if sha256 is None else rows.body_of(large(sha256)))
            for values, sha256 in zip(found, named, strict=True)
        ]

    async def query(
        self, wanted: LogQuery, *, after: tuple[str, int] | None = None, limit: int = 1000, newest: bool = False
    ) -> list[Event]:
        """See `Store.query`."""
        statement = selected(wanted, after=after, limit=limit, newest=newest)

        def read(connection: Connection) -> list[Event]:
            found = connection.execute(statement).all()
            return self._events(connection, found[::-1] if newest else found)

        return await self._read(read)

    async def get_run(self, run: str) -> RunRecord | None:
        """See `Store.get_run`."""

        def read(connection: Connection) -> RunRecord | None:
            found = connection.execute(select(*runs.c).where(runs.c.id == run)).first()
            return None if found is None else _record(found)

        return await self._read(read)

    async def list_runs(self, *, limit: int | None = None) -> list[RunRecord]:
        """See `Store.list_runs`."""
        statement = select(*runs.c).order_by(runs.c.created.desc(), runs.c.id.desc())
        if limit is not None:
            statement = statement.limit(limit)
        return await self._read(lambda connection: [_record(found) for found in connection.execute(statement)])

    async def waiting(self) -> list[tuple[Event, bool]]:
        """See `Store.waiting`."""
        later = events.alias()
        last = (
            select(later.c.seq)
            .where(later.c.run == runs.c.id, later.c.type == "run_ended")
            .order_by(later.c.seq.desc())
            .limit(1)
            .scalar_subquery()
        )
        # The comparison with the next sequence comes last: `_events` reads the columns of an event by their places.
        statement = (
            select(*events.c, runs.c.next_seq)
            .select_from(runs.join(events, (events.c.run == runs.c.id) & (events.c.seq == last)))
            .where(runs.c.status == RunStatus.WAITING.value)
            .order_by(runs.c.id)
        )

        def read(connection: Connection) -> list[tuple[Event, bool]]:
            found = connection.execute(statement).all()
            ends = self._events(connection, [row[:-1] for row in found])
            return [(end, end.seq + 1 < row[-1]) for end, row in zip(ends, found, strict=True)]

        return await self._read(read)

    async def job(self, run: str) -> Job | None:
        """See `Store.job`."""
        return await self._read(lambda connection: self._job(connection, run))

    @staticmethod
    def _job(connection: Connection, run: str) -> Job | None:
        found = connection.execute(select(*jobs.c).where(jobs.c.run == run)).first()
        if found is None:
            return None
        return Job(
            run=found.run,
            owner=None if found.owner is None else Owner.model_validate_json(found.owner),
            epoch=found.epoch,
            lease_until=None if found.lease_until is None else datetime.fromtimestamp(found.lease_until, UTC),
        )

    async def get_blob(self, sha256: str) -> bytes:
        """See `Store.get_blob`."""
        statement = select(blobs.c.size, blobs.c.data).where(blobs.c.sha256 == sha256)

        def read(connection: Connection) -> bytes:
            found = connection.execute(statement).first()
            if found is None:
                raise no_blob(sha256)
            if found.data is None:
                return self._bytes_of(sha256)
            return verified(sha256, bytes(found.data), "the table `blobs`")

        return await self._read(read)

    async def find_blobs(self, names: Sequence[str]) -> dict[str, BlobInfo]:
        """See `Store.find_blobs`."""

        def read(connection: Connection) -> dict[str, BlobInfo]:
            held: dict[str, BlobInfo] = {}
            for start in range(0, len(names), _AT_ONCE):
                part = names[start : start + _AT_ONCE]
                statement = select(blobs.c.sha256, blobs.c.size, blobs.c.media_type).where(blobs.c.sha256.in_(part))
                held |= {sha256: BlobInfo(size, kind) for sha256, size, kind in connection.execute(statement)}
            return held

        return await self._read(read)

    async def component_changes(
        self, components: Sequence[tuple[str, str]] | None = None, *, kind: str | None = None
    ) -> list[ComponentChange]:
        """See `Store.component_changes`."""
        statement = _CHANGES if kind is None else _CHANGES.filter_by(kind=kind)
        asked = None if components is None else sorted(set(components))

        def read(connection: Connection) -> list[ComponentChange]:
            parts = [statement] if asked is None else [statement.where(_one_of(part)) for part in _parts(asked)]
            return [histories.decode(row) for part in parts for row in connection.execute(part)]

        return await self._read(read)

    async def component_heads(self) -> dict[tuple[str, str], int]:
        """See `Store.component_heads`."""
        return await self._read(
            lambda connection: {(kind, name): seq for kind, name, seq in connection.execute(_HEADS)}
        )

    async def component_count(self) -> int:
        """See `Store.component_count`."""
        return await self._read(lambda connection: int(connection.execute(_COUNT).scalar_one()))

    async def run_states(self) -> list[RunState]:
        """See `Store.run_states`."""
        return await self._read(lambda connection: sweeping.run_states(connection, self._now()))

    async def delete_runs(self, runs: Sequence[str]) -> list[str]:
        """See `Store.delete_runs`."""
        # Newest first: forks before what they were forked from, which may stand in another transaction.
        order = [one.id for one in await self.run_states() if one.id in set(runs)]
        deleted: list[str] = []
        for start in range(0, len(order), sweeping.AT_ONCE):
            part = order[start : start + sweeping.AT_ONCE]

            def remove(connection: Connection, _operation: Call[list[str]], part: list[str] = part) -> list[str]:
                return sweeping.delete_runs(connection, part, self._now())

            removed: list[str] = await self._do(Call(None, remove))
            deleted += removed
        return deleted

    async def sweep_blobs(self, *, grace_s: float, dry_run: bool = False) -> Swept:
        """See `Store.sweep_blobs`."""
        grace_s = max(grace_s, 2 * _TOUCHED_S)
        before = self._now() - grace_s
        found = await self._read(lambda connection: sweeping.garbage(connection, before, self._bytes_of))
        gone = list(found)
        if not dry_run:
            gone = []
            names = list(found)
            for start in range(0, len(names), _AT_ONCE):
                part = names[start : start + _AT_ONCE]

                def remove(connection: Connection, _operation: Call[list[str]], part: list[str] = part) -> list[str]:
                    deleted = sweeping.delete_blobs(connection, part, before)
                    # Inside the transaction: nobody puts one of them at the same time.
                    if not self.keeps_large:
                        self._forget_bytes(deleted, grace_s)
                    return deleted

                removed: list[str] = await self._do(Call(None, remove))
                gone += removed
        lost = await self._sweep_bytes(grace_s, dry_run=dry_run)
        return Swept(len(gone) + lost.blobs, sum(found[sha256] for sha256 in gone) + lost.size)

    async def _sweep_bytes(self, grace_s: float, *, dry_run: bool) -> Swept:
        """Remove large bytes that no row names: a process died before it wrote one."""
        return Swept(0, 0)

    async def changed(self) -> bool:
        """Whether another process, or anyone without an epoch, wrote since the last call; own driving does not count.

        Asked on the writer's own connection: a database tells a connection of the commits of all others only, so that
        a busy writer does not wake its own watcher with every commit.
        """
        told, self._external = self._external, False
        return await self._do(Call(None, lambda connection, _operation: self._changed(connection))) or told

    async def _read(self, read: Callable[[Connection], T]) -> T:
        def once() -> T:
            assert self._read_engine is not None
            with self._read_engine.connect() as connection:
                return read(connection)

        def task() -> T:
            patience = Patience(0.0 if self._away else self.retry_s)
            while True:
                try:
                    return once()
                except Exception as exc:
                    if not self._is_lost(exc):
                        raise
                    if not patience.wait(lambda: None):
                        raise self._gone(exc) from exc

        return await self._in_pool(task)

    async def _in_pool(self, task: Callable[[], T]) -> T:
        def translated() -> T:
            try:
                return task()
            except AgentOrchestraError:
                raise
            except Exception as exc:
                raise self._translate(exc) from exc

        with self._lock:
            self._check_open()
            future = self._pool().submit(translated)
        return await asyncio.wrap_future(future)

    def _pool(self) -> ThreadPoolExecutor:
        if self._readers is None:
            self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="store-reader")
        return self._readers

    # --- what differs between databases ----------------------------------------------------------

    @abstractmethod
    def _make_write_engine(self) -> Engine:
        """For the writer's only connection; its transactions exclude each other from the beginning."""

    @abstractmethod
    def _make_read_engine(self) -> Engine:
        """For at most READERS connections that cannot write and see what is committed."""

    @abstractmethod
    def _prepare(self) -> None:
        """Create or migrate, and begin to watch for changes."""

    def _check_place(self) -> None:  # noqa: B027  # only a database that is a file can vanish
        """Raise if the database is no longer where it was opened; before every transaction."""

    def _stage(self, operation: Operation[Any]) -> None:
        """Put references in the place of large bodies, and their bytes where they are kept, before the transaction."""
        operation.large = tuple([row for row in operation.new if row.large is not None])
        for row in operation.large:
            data = row.to_blob()
            if not self.keeps_large:
                self._keep_bytes(row.sha256, data)

    keeps_large = True
    """Whether the table `blobs` holds all bytes; else `_keep_bytes` and `_bytes_of` hold the large ones."""

    def _keep_bytes(self, sha256: str, data: bytes) -> None:
        """Keep large bytes durably, before the row that names them is written."""
        raise NotImplementedError

    def _forget_bytes(self, names: list[str], grace_s: float) -> None:
        """Remove large bytes that nobody kept again within the grace, in seconds."""
        raise NotImplementedError

    def _bytes_of(self, sha256: str) -> bytes:
        """Large bytes whose row has none."""
        raise no_blob(sha256)

    def _large(self, connection: Connection, named: list[str]) -> Callable[[str], bytes]:
        """The bytes of the large bodies with these hashes."""
        if not self.keeps_large:
            return self._bytes_of
        held: dict[str, bytes] = {}
        for start in range(0, len(named), _AT_ONCE):
            part = set(named[start : start + _AT_ONCE])
            found = connection.execute(select(blobs.c.sha256, blobs.c.data).where(blobs.c.sha256.in_(part)))
            held |= {sha256: bytes(data) for sha256, data in found}

        def read(sha256: str) -> bytes:
            if sha256 not in held:
                raise no_blob(sha256)
            return verified(sha256, held[sha256], "the table `blobs`")

        return read

    @abstractmethod
    def _draw(self, connection: Connection, draws: list[Draw]) -> None:
        """Draw the sequences of runs whose epoch holds until the transaction ends: sets `next_seq`."""

    @abstractmethod
    def _insert_events(self, connection: Connection, values: list[tuple[Any, ...]]) -> None:
        """Insert rows in the order of `schema.events`' columns."""

    # A database on another machine can be away, and can take back what it was told (deadlocks); a file cannot.

    def _is_lost(self, exc: BaseException) -> bool:
        """Whether an error says that the connection is lost or cannot be made: it may come back."""
        return False

    def _is_conflict(self, exc: BaseException) -> bool:
        """Whether the database took the transaction back because of another one: the same again may work."""
        return False

    def _one_recorder(self, connection: Connection) -> None:  # noqa: B027  # a file's transactions take turns anyway
        """Let nobody else add to histories until the transaction ends: several at once would lock each other out."""

    def _begun(self) -> None:  # noqa: B027
        """Called before each transaction."""

    def _token(self, connection: Connection) -> str | None:
        """A name by which `_was_committed` can find this transaction later, None if it wrote nothing."""
        return None

    def _was_committed(self, token: str, patience: Patience) -> bool:
        """Whether a transaction whose COMMIT was not answered was carried out."""
        raise NotImplementedError

    def _gone(self, exc: BaseException) -> AgentOrchestraError:
        """The error when the database stayed away for too long."""
        return self._translate(exc)

    def _say_away(self, exc: BaseException) -> None:  # noqa: B027  # only who waits has something to say
        """Tell whoever reads the program's messages that writes are waiting."""

    def _say_back(self, patience: Patience) -> None:  # noqa: B027
        """Tell them that it goes on."""

    @abstractmethod
    def _changed(self, connection: Connection) -> bool:
        """Whether others committed since this connection was asked last; called in the writer's thread."""

    @abstractmethod
    def _now(self) -> ColumnElement[float]:
        """The database's clock: seconds since 1970."""

    @abstractmethod
    def _insert(self, table: Table) -> Any:
        """The dialect's INSERT, which knows what to do with a row that is there already."""

    @abstractmethod
    def _translate(self, exc: BaseException) -> AgentOrchestraError:
        """The package's error for any other."""


_KIND = components.c.kind
_HEADS = select(_KIND, components.c.name, func.max(components.c.seq)).group_by(_KIND, components.c.name)
_COUNT = select(func.count()).select_from(components)
_CHANGES = select(*components.c).order_by(_KIND, components.c.name, components.c.seq)


def _one_of(part: Sequence[histories.Component]) -> ColumnElement[bool]:
    return tuple_(_KIND, components.c.name).in_(part)


def _parts(named: Sequence[histories.Component]) -> list[Sequence[histories.Component]]:
    return [named[start : start + _COMPONENTS_AT_ONCE] for start in range(0, len(named), _COMPONENTS_AT_ONCE)]


def _blob_named(text: str) -> str | None:
    """The hash that a stored body stands for, None for a body that stands for itself."""
    if not text.startswith(_BLOB_PREFIX):
        return None
    sha256: str = json.loads(text)[rows.BLOB_KEY]
    return sha256


def _record(found: Result[Any]) -> RunRecord:
    return RunRecord(
        id=found.id,
        status=RunStatus(found.status),
        manifest=RunManifest.model_validate_json(found.manifest),
        next_seq=found.next_seq,
        created=datetime.fromisoformat(found.created),
        parent_run=found.parent_run,
        fork_seq=found.fork_seq,
        imported=None if found.imported is None else datetime.fromisoformat(found.imported),
    )


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
