"""One writer thread with group commit: everything that waits, in one transaction.

append ─┐                          stage files ─ BEGIN ─ UPDATE next_seq per run ─ INSERT all rows
claim  ─┼─> queue ─> writer thread ─┘                     │ (an error: again, op by op, under savepoints)
put_blob┘   (FIFO)                                        before_commit ─ COMMIT ─ after_commit ─ futures
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cached_property
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, case, or_, select

from agentorchestra.core.errors import AgentOrchestraError, StoreError, StoreFullError
from agentorchestra.core.events import NewEvent
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.store import rows, shared
from agentorchestra.log.store.commits import Landing, land
from agentorchestra.log.store.database import Append, Call, Database, Draw, Operation, Put
from agentorchestra.log.store.patience import Patience
from agentorchestra.log.store.references import TASK_FILE
from agentorchestra.log.store.rows import Row
from agentorchestra.log.store.schema import blobs, events, runs

T = TypeVar("T")

TOUCHED_S = 600.0  # how exactly it is known when a blob was last put; far less than any grace


class UnansweredError(Exception):
    """The connection was lost while COMMIT was under way: whether it was carried out is to be looked up."""

    def __init__(self, token: str, results: list[Any]) -> None:
        super().__init__(token)
        self.token = token  # names the transaction to the database
        self.results = results  # what its operations gave


class Writer(Database):
    """Appends and other writes, in the order in which they came; tests of crashes override the two hooks."""

    def before_commit(self, runs: list[str]) -> None:
        """Called in the writer thread before COMMIT, with the runs it writes to; an exception rolls it back."""

    def after_commit(self, runs: list[str]) -> None:
        """Called in the writer thread before any future resolves; an exception fails them although all was written."""

    def append(
        self, run: str, epoch: int | None, events: Sequence[NewEvent], *, status: RunStatus | None = None
    ) -> Future[tuple[int, ...]]:
        # The bodies are read before this returns.
        try:
            events, blobs = shared.apart(events)
            new = rows.encode_append(epoch, events, status)
        except StoreError as exc:
            self._check_open()
            failed: Future[tuple[int, ...]] = Future()
            failed.set_exception(exc)
            return failed
        if epoch is None:
            self._external = True
        operation = Append(run, epoch, new, status, blobs)
        self._put(operation)
        return operation.future

    def _put(self, operation: Operation) -> None:
        with self._lock:
            self._check_open()
            if self._sealed:
                raise self._not_writable(self._sealed)
            if self._writer is None:
                # A daemon: a process that ends without closing loses what was not acknowledged, and does not hang.
                self._writer = threading.Thread(target=self._write, name="store-writer", daemon=True)
                self._writer.start()
            self._queue.put(operation)

    def _write(self) -> None:
        """Write everything that waits in one transaction, again and again until closed."""
        while True:
            batch: list[Operation] = []
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

    def _write_batch(self, batch: list[Operation]) -> None:
        operations: list[Operation] = []
        for operation in batch:
            try:
                self._stage(operation)
            except Exception as exc:
                self._fail([operation], self._translate(exc))
            else:
                operations.append(operation)
        if operations:
            self._commit(operations)

    def _stage(self, operation: Operation) -> None:
        """Put references in the place of large bodies, and their bytes where they are kept, before the transaction."""
        for row in operation.new:
            if row.large is not None:
                data = row.to_blob()
                if self._files is not None:
                    self._files.write(row.sha256, data)

    def _commit(self, batch: list[Operation]) -> None:
        run_ids = list(dict.fromkeys(op.run for op in batch if op.run is not None))
        try:
            results = self._carry_out(batch, run_ids)
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
            self.after_commit(run_ids)
        except Exception as exc:
            self._fail(batch, self._translate(exc))
            return
        land(
            (operation.future, None, result) if isinstance(result, Exception) else (operation.future, result, None)
            for operation, result in zip(batch, results, strict=True)
        )

    def _carry_out(self, batch: list[Operation], run_ids: list[str]) -> list[Any]:
        """Return what the operations gave, once the transaction is durable; waits for a database that is away."""
        patience = Patience(0.0 if self._away else self.retry_s)
        lost_commit: UnansweredError | None = None
        while True:
            try:
                if lost_commit is not None and self._was_committed(lost_commit.token):
                    results = lost_commit.results
                else:
                    lost_commit = None
                    results = self._attempt(batch, run_ids)
                if self._away or patience.began is not None:
                    self._away = False
                    self._say_back(patience)
                return results
            except Exception as exc:
                if isinstance(exc, UnansweredError):
                    lost_commit = exc
                elif not self._is_lost(exc):
                    if self._is_conflict(exc) and patience.again():
                        continue
                    raise
                cause = exc.__cause__ if isinstance(exc, UnansweredError) and exc.__cause__ is not None else exc
                self._release()
                if not patience.wait(lambda cause=cause: self._say_away(cause)):  # type: ignore[misc]
                    self._away = self.retry_s > 0
                    raise self._away_error(cause) from cause

    def _attempt(self, batch: list[Operation], run_ids: list[str]) -> list[Any]:
        try:
            return self._transaction(batch, run_ids, self._apply_all)
        except UnansweredError:
            raise
        except self._operational:
            raise
        except Exception:
            # Something in the batch does not fit: a key that is there already, a value the database refuses. Find
            # out whose it is, without touching the others.
            return self._transaction(batch, run_ids, self._apply_each)

    @staticmethod
    def _fail(batch: Sequence[Operation], error: AgentOrchestraError) -> None:
        failed: list[tuple[Landing[Any], None, AgentOrchestraError]] = []
        for operation in batch:
            if not operation.future.done():
                own = type(error)(*error.args)
                own.__cause__ = error.__cause__
                failed.append((operation.future, None, own))
        land(failed)

    def _transaction(
        self, batch: list[Operation], run_ids: list[str], apply: Callable[[Connection, list[Operation]], list[Any]]
    ) -> list[Any]:
        self._check_place()
        connection = self._writer_connection()
        self._begin()
        transaction = connection.begin()
        token: str | None = None
        results: list[Any] = []
        try:
            results = apply(connection, batch)
            self.before_commit(run_ids)
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

    async def _do(self, operation: Call[T]) -> T:
        self._put(operation)
        return await operation.future.waiter()

    def _apply_all(self, connection: Connection, batch: list[Operation]) -> list[Any]:
        """Apply the whole batch in order, neighbours of one sort together; an exception undoes everything."""
        results: list[Any] = []
        for _, neighbours in itertools.groupby(batch, type):
            same = [*neighbours]
            appends = [append for append in same if isinstance(append, Append)]
            puts = [row for put in same if isinstance(put, Put) for row in put.values]
            if appends:
                results += self._apply_appends(connection, appends)
            if puts:
                self._insert_blobs(connection, puts)
                results += [None] * len(same)
            for operation in same:
                if isinstance(operation, Call):
                    try:
                        results.append(operation.call(connection))
                    except AgentOrchestraError as exc:
                        results.append(exc)
        return results

    def _apply_each(self, connection: Connection, batch: list[Operation]) -> list[Any]:
        """Apply the batch one by one: what fails fails alone."""
        results: list[Any] = []
        for operation in batch:
            savepoint = connection.begin_nested()
            try:
                result = self._apply_all(connection, [operation])[0]
            except self._operational:
                raise
            except Exception as exc:
                savepoint.rollback()
                result = self._row_error(connection, operation, exc)
            else:
                savepoint.commit()
            results.append(result)
        return results

    def _apply_appends(self, connection: Connection, appends: list[Append]) -> list[Any]:
        draws: list[Draw] = []
        last: dict[str, Draw] = {}
        for i, append in enumerate(appends):
            draw = last.get(append.run)
            if draw is None or draw.epoch != append.epoch:
                last[append.run] = draw = Draw(append.run, append.epoch, [])
                draws.append(draw)
            draw.members.append(i)
            draw.k += len(append.new)
            if append.status is not None:
                draw.status = append.status.value
        left = draws
        while left:
            # One statement changes a row once: further draws of the same run wait for their turn.
            turn = {draw.run: draw for draw in reversed(left)}
            self._draw(connection, list(turn.values())[::-1])
            left = [draw for draw in left if turn[draw.run] is not draw]
        results: list[Any] = [None] * len(appends)
        values: list[tuple[Any, ...]] = []
        new_rows: list[Row] = []
        for draw in draws:
            if draw.next_seq is None:
                for i in draw.members:
                    results[i] = self._draw_error(connection, draw.run, draw.epoch)
                continue
            seq = draw.next_seq - draw.k
            for i in draw.members:
                append = appends[i]
                first = seq
                for row in append.new:
                    values.append(row.checked_values(draw.run, seq))
                    seq += 1
                results[i] = tuple(range(first, seq))
                new_rows += append.new
        self._insert_shared(connection, {name: data for append in appends for name, data in append.shared.items()})
        self._insert_large(connection, new_rows)
        if values:
            self._insert_events(connection, values)
        return results

    def _insert_large(self, connection: Connection, new: Sequence[Row]) -> None:
        values = [
            {
                "sha256": row.sha256,
                "size": len(row.large),
                "media_type": rows.BODY_MEDIA_TYPE,
                "data": row.large if self._files is None else None,
            }
            for row in new
            if row.large is not None
        ]
        if values:
            self._insert_blobs(connection, values)

    def _insert_shared(self, connection: Connection, data: dict[str, bytes]) -> None:
        """Insert what many runs name; what was put just now is not even locked."""
        if not data:
            return
        fresh = select(blobs.c.sha256).where(blobs.c.sha256.in_(data), ~self._stale)
        kind = rows.BODY_MEDIA_TYPE
        for sha256 in sorted(data.keys() - connection.execute(fresh).scalars()):
            values = {"sha256": sha256, "size": len(data[sha256]), "media_type": kind, "data": data[sha256]}
            self._insert_blobs(connection, [values])

    def _insert_blobs(self, connection: Connection, values: list[dict[str, Any]]) -> None:
        """Insert blobs; those that are there already count as put now, so that no collection takes them."""
        connection.execute(self._blob_insert, values)

    @property
    def _stale(self) -> ColumnElement[bool]:
        return or_(blobs.c.touched.is_(None), blobs.c.touched < self._now() - TOUCHED_S)

    @cached_property
    def _blob_insert(self) -> Any:
        insert = self._insert(blobs).values(touched=self._now())
        # The content of a given file that a run makes itself is a blob like any other from then on.
        is_made = (blobs.c.media_type == TASK_FILE) & (insert.excluded.media_type != TASK_FILE)
        kind = case((is_made, insert.excluded.media_type), else_=blobs.c.media_type)
        return insert.on_conflict_do_update(
            index_elements=[blobs.c.sha256],
            set_={"touched": self._now(), "media_type": kind},
            where=or_(self._stale, is_made),
        )

    def _draw_error(self, connection: Connection, run: str, epoch: int | None) -> AgentOrchestraError:
        job = self._job(connection, run)
        if job is None or epoch is None:
            return rows.unknown_run(run)
        return rows.fence_error(run, epoch, job.epoch, job.owner)

    def _row_error(self, connection: Connection, operation: Operation, exc: Exception) -> Exception:
        """Return why the database refused a single operation."""
        if isinstance(exc, self._integrity) and operation.run is not None:
            first = connection.execute(select(runs.c.next_seq).where(runs.c.id == operation.run)).scalar() or 1
            seen: set[tuple[str, int, int, str]] = set()
            for seq, row in enumerate(operation.new, first):
                key = row.key(seq)
                query = select(events.c.seq).where(
                    events.c.run == operation.run,
                    events.c.branch == key[0],
                    events.c.n == key[1],
                    events.c.attempt == key[2],
                    events.c.type == key[3],
                )
                if key in seen or connection.execute(query).first() is not None:
                    error = rows.duplicate(operation.run, key)
                    error.__cause__ = exc
                    return error
                seen.add(key)
        refusal = self._translate(exc)
        refusal.__cause__ = exc
        return refusal
