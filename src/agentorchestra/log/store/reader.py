"""A few readers, who see what is committed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, exists, func, or_, select, tuple_

from agentorchestra.core.components import ComponentChange
from agentorchestra.core.effects import OF_AGENTS
from agentorchestra.core.errors import AgentOrchestraError, LogChangedError
from agentorchestra.core.events import Event, RunCreated
from agentorchestra.core.protocols import BlobInfo, RunHead, RunJob, RunRecord, RunState
from agentorchestra.core.query import LogQuery
from agentorchestra.core.spec import ManifestHead, RunStatus
from agentorchestra.log.store import deletion, histories, rows, shared
from agentorchestra.log.store.blobs import check_hash, no_blob
from agentorchestra.log.store.database import AT_ONCE, READERS, Database
from agentorchestra.log.store.inspection import Inspection, inspect
from agentorchestra.log.store.patience import Patience
from agentorchestra.log.store.schema import blobs, components, events, is_part, jobs, runs

T = TypeVar("T")

_COMPONENTS_AT_ONCE = 200  # components that one query looks up (each is two parameters, and a row of a list)
_CARRIERS = 16  # requests to the store of artifacts at the same time

_BLOB_PREFIX = f'{{"{rows.BLOB_KEY}":"'


class Reader(Database):
    """Reads of the log, the jobs, the blobs and the histories of components."""

    async def load(self, run: str, *, after: int = 0, upto: int | None = None, verify: bool = False) -> list[Event]:
        statement = select(*events.c).where(events.c.run == run, events.c.seq > after).order_by(events.c.seq)
        if upto is not None:
            statement = statement.where(events.c.seq <= upto)

        def read(connection: Connection) -> list[Event]:
            page = connection.execute(statement).all()
            if not page and connection.execute(select(runs.c.id).where(runs.c.id == run)).first() is None:
                raise rows.unknown_run(run)
            if verify:
                for place, values in enumerate(page, max(after, 0) + 1):
                    rows.check(values, place)
            return self._events(connection, page, verify=verify)

        return await self._read(read)

    def _events(self, connection: Connection, page: Sequence[Sequence[Any]], *, verify: bool = False) -> list[Event]:
        apart = [_blob_named(values[rows.BODY]) for values in page]
        large = self._large(connection, [name for name in apart if name is not None])
        read = [
            rows.event_of(values, json.loads(values[rows.BODY]) if sha256 is None else rows.body_of(large(sha256)))
            for values, sha256 in zip(page, apart, strict=True)
        ]
        self._restore(connection, [part for event in read for part in shared.shared_parts(event.body)])
        created = {event.run: event for event in read if event.type == RunCreated.type}
        hashes = {run: shared.manifest_hash(event.body) for run, event in created.items()}
        ids = [run for run in created if verify or hashes[run]]
        rows_of = connection.execute(select(*runs.c).where(runs.c.id.in_(ids))).all() if ids else []
        for row, whole in zip(rows_of, self._restore(connection, [row.manifest for row in rows_of]), strict=True):
            if hashes[row.id]:
                created[row.id].body["manifest"] = whole
            if verify:
                shared.check(created[row.id], hashes[row.id], row, whole)
        return read

    def _restore(self, connection: Connection, parts: Sequence[str | dict[str, Any]]) -> list[dict[str, Any]]:
        """Return parts of rows, of which some may be JSON, with what they share in its place."""
        values = [json.loads(part) if isinstance(part, str) else part for part in parts]
        shared.restore(values, lambda names: self._large(connection, names, in_table=True))
        return values

    async def query(
        self,
        query: LogQuery,
        *,
        after: tuple[str, int] | None = None,
        limit: int = 1000,
        newest: bool = False,
        verify: bool = False,
    ) -> list[Event]:
        statement = select(*events.c).where(*_conditions(query)).limit(limit)
        if after is not None:
            statement = statement.where(tuple_(events.c.run, events.c.seq) > after)
        order = (events.c.run.desc(), events.c.seq.desc()) if newest else (events.c.run, events.c.seq)
        statement = statement.order_by(*order)

        def read(connection: Connection) -> list[Event]:
            page = connection.execute(statement).all()
            if verify:
                for values in page:
                    rows.check(values)
            return self._events(connection, page[::-1] if newest else page, verify=verify)

        return await self._read(read)

    async def get_run(self, run: str) -> RunRecord | None:
        def read(connection: Connection) -> RunRecord | None:
            row = connection.execute(select(*runs.c).where(runs.c.id == run)).first()
            if row is None:
                return None
            (manifest,) = self._restore(connection, [row.manifest])
            return RunRecord.model_validate({**row._asdict(), "manifest": manifest})

        return await self._read(read)

    async def list_runs(self, *, limit: int | None = None, session: str | None = None) -> list[RunHead]:
        statement = _runs_query(*(runs.c[name] for name in RunHead.model_fields)).limit(limit)
        if session is not None:
            statement = statement.where(runs.c.session == session)

        def read(connection: Connection) -> list[RunHead]:
            return [
                RunHead.model_validate({**row._asdict(), "manifest": ManifestHead.model_validate_json(row.manifest)})
                for row in connection.execute(statement)
            ]

        return await self._read(read)

    async def run_ids(self, beginning: str = "") -> list[str]:
        statement = _runs_query(runs.c.id).where(runs.c.id >= beginning, runs.c.id < f"{beginning}~")
        return await self._read(lambda connection: [*connection.execute(statement).scalars()])

    async def waiting(self, only: Sequence[str] | None = None) -> list[tuple[Event, bool]]:
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
        if only is not None:
            statement = statement.where(runs.c.id.in_(only))

        def read(connection: Connection) -> list[tuple[Event, bool]]:
            page = connection.execute(statement).all()
            ends = self._events(connection, [row[:-1] for row in page])
            return [(end, end.seq + 1 < row[-1]) for end, row in zip(ends, page, strict=True)]

        return await self._read(read)

    async def job(self, run: str) -> RunJob | None:
        return await self._read(lambda connection: self._job(connection, run))

    async def get_blob(self, sha256: str) -> bytes:
        artifacts = self._artifacts
        if artifacts is None:
            return await self._read(lambda connection: self._blob(connection, sha256))
        # Without a connection: whoever waits for the artifacts keeps nobody from the database.
        data = await self._read(lambda connection: self._in_table(connection, sha256))
        return data if data is not None else await self._carry(lambda: artifacts.read(sha256))

    def _blob(self, connection: Connection, sha256: str, *, anew: bool = False) -> bytes:
        data = self._in_table(connection, sha256)
        return self._bytes_of(sha256, anew=anew) if data is None else data

    @staticmethod
    def _in_table(connection: Connection, sha256: str) -> bytes | None:
        row = connection.execute(select(blobs.c.data).where(blobs.c.sha256 == sha256)).first()
        if row is None:
            raise no_blob(sha256)
        return None if row.data is None else check_hash(sha256, bytes(row.data), "the table `blobs`")

    async def inspect(self) -> Inspection:
        """Look at every event and every blob; return what is damaged."""
        return await self._read(
            lambda connection: inspect(
                connection,
                self._quick_check(connection),
                lambda row: self._events(connection, [row], verify=True),
                lambda sha256: self._blob(connection, sha256, anew=True),
            )
        )

    async def find_blobs(self, names: Sequence[str]) -> dict[str, BlobInfo]:
        def read(connection: Connection) -> dict[str, BlobInfo]:
            infos: dict[str, BlobInfo] = {}
            for start in range(0, len(names), AT_ONCE):
                part = names[start : start + AT_ONCE]
                statement = select(blobs.c.sha256, blobs.c.size, blobs.c.media_type).where(blobs.c.sha256.in_(part))
                infos |= {sha256: BlobInfo(size, kind) for sha256, size, kind in connection.execute(statement)}
            return infos

        return await self._read(read)

    async def component_changes(
        self, components: Sequence[tuple[str, str]] | None = None, *, kind: str | None = None
    ) -> list[ComponentChange]:
        statement = _CHANGES if kind is None else _CHANGES.filter_by(kind=kind)
        keys = None if components is None else sorted(set(components))

        def read(connection: Connection) -> list[ComponentChange]:
            parts = [statement] if keys is None else [statement.where(one_of(part)) for part in parts_of(keys)]
            return [histories.decode(row) for part in parts for row in connection.execute(part)]

        return await self._read(read)

    async def component_heads(self) -> dict[tuple[str, str], int]:
        return await self._read(lambda connection: {(kind, name): seq for kind, name, seq in connection.execute(HEADS)})

    async def component_count(self) -> int:
        return await self._read(lambda connection: int(connection.execute(_COUNT).scalar_one()))

    async def run_states(self, *, parts: bool = False) -> list[RunState]:
        return await self._read(
            lambda connection: deletion.run_states(connection, self._lease_now(jobs.c.owner), parts=parts)
        )

    async def _read(self, read: Callable[[Connection], T]) -> T:
        def task() -> T:
            assert self._read_engine is not None
            patience = Patience(0.0 if self._away else self.retry_s)
            while True:
                try:
                    with self._read_engine.connect() as connection:
                        return read(connection)
                except Exception as exc:
                    if not self._is_lost(exc):
                        raise
                    if not patience.wait(lambda: None):
                        raise self._away_error(exc) from exc

        return await self._in_pool(task)

    async def _carry(self, task: Callable[[], T]) -> T:
        """Do what makes a request of the artifacts' store, which may be away: readers do not wait for it."""
        with self._lock:
            self._check_open()
            if self._carriers is None:
                self._carriers = ThreadPoolExecutor(_CARRIERS, thread_name_prefix="store-artifacts")
            future = self._carriers.submit(task)
        return await asyncio.wrap_future(future)

    async def _in_pool(self, task: Callable[[], T]) -> T:
        def work() -> T:
            try:
                return task()
            except AgentOrchestraError:
                raise
            except json.JSONDecodeError as exc:
                text = f"the log was changed: a row is no JSON ({exc}); `agentorchestra doctor --deep` names its run"
                raise LogChangedError(f"{text}; restore the log from a backup") from exc
            except Exception as exc:
                raise self._translate(exc) from exc

        with self._lock:
            self._check_open()
            if self._readers is None:
                self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="store-reader")
            future = self._readers.submit(work)
        return await asyncio.wrap_future(future)


_KIND = components.c.kind
HEADS = select(_KIND, components.c.name, func.max(components.c.seq)).group_by(_KIND, components.c.name)
_COUNT = select(func.count()).select_from(components)
_CHANGES = select(*components.c).order_by(_KIND, components.c.name, components.c.seq)


def one_of(part: Sequence[histories.Component]) -> ColumnElement[bool]:
    return tuple_(_KIND, components.c.name).in_(part)


def parts_of(components: Sequence[histories.Component]) -> list[Sequence[histories.Component]]:
    return [components[start : start + _COMPONENTS_AT_ONCE] for start in range(0, len(components), _COMPONENTS_AT_ONCE)]


def _conditions(query: LogQuery) -> list[ColumnElement[bool]]:
    """Return a log query as SQL, the same in every database."""
    conditions: list[ColumnElement[bool]] = []
    conditions.append(~is_part(events.c.run) if query.runs is None else events.c.run.in_(query.runs))
    if query.session is not None:
        conditions.append(events.c.run.in_(select(runs.c.id).where(runs.c.session == query.session)))
    if query.record is not None:
        conditions.append(_of_record(query))
    if query.first is not None:
        conditions.append(events.c.seq >= query.first)
    if query.last is not None:
        conditions.append(events.c.seq <= query.last)
    if query.types:
        conditions.append(events.c.type.in_(query.types))
    if query.actor is not None:
        conditions.append(events.c.actor == query.actor)
    if query.since is not None:
        conditions.append(events.c.ts >= rows.stamp(query.since))
    conditions += [_has(events.c.body, hold) for hold in query.holds]
    return [*conditions, _is_paid()] if query.paid else conditions


def _has(body: ColumnElement[str], text: str) -> ColumnElement[bool]:
    # Not LIKE, see below; and not instr, which PostgreSQL calls otherwise.
    return func.replace(body, text, "") != body


def _is_paid() -> ColumnElement[bool]:
    """Return a condition that holds for all events that costs are counted from (`LogQuery.paid`)."""
    cost = events.alias()
    same = [cost.c[name] == events.c[name] for name in ("run", "branch", "n")]
    # What lies apart no query sees.
    of_cost = exists().where(*same, _has(cost.c.body, '"usage":{') | _has(cost.c.body, _BLOB_PREFIX))
    agents = [_has(events.c.body, f'"kind":"{kind.value}"') for kind in OF_AGENTS]
    return or_(events.c.type == "forked", of_cost, *agents)


def _of_record(query: LogQuery) -> ColumnElement[bool]:
    key = query.key
    if key is not None:
        return (events.c.branch == key.branch) & (events.c.n == key.n)
    # Not LIKE, which takes no account of case in SQLite.
    return or_(
        events.c.branch == query.record,
        *(func.substr(events.c.branch, 1, len(start)) == start for start in query.beginnings),
    )


def _blob_named(text: str) -> str | None:
    """Return the hash that a stored body stands for, None for a body that stands for itself."""
    if not text.startswith(_BLOB_PREFIX):
        return None
    sha256: str = json.loads(text)[rows.BLOB_KEY]
    return sha256


def _runs_query(*columns: ColumnElement[Any]) -> Select[Any]:
    """Return a query of runs, newest first, without parts of runs."""
    return select(*columns).where(~is_part(runs.c.id)).order_by(runs.c.created.desc(), runs.c.id.desc())
