"""A few readers, who see what is committed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, func, select, tuple_
from sqlalchemy import Row as Result

from agentorchestra.core.components import ComponentChange
from agentorchestra.core.errors import AgentOrchestraError
from agentorchestra.core.events import Event
from agentorchestra.core.protocols import BlobInfo, Job, RunRecord, RunState
from agentorchestra.core.query import LogQuery
from agentorchestra.core.spec import RunManifest, RunStatus
from agentorchestra.log.store import deletion as sweeping
from agentorchestra.log.store import histories, rows
from agentorchestra.log.store.backoff import Patience
from agentorchestra.log.store.blobs import no_blob, verified
from agentorchestra.log.store.database import AT_ONCE, READERS, Database
from agentorchestra.log.store.queries import selected
from agentorchestra.log.store.schema import blobs, components, events, runs

T = TypeVar("T")

_COMPONENTS_AT_ONCE = 200
"""Components that one query looks up (each is two parameters, and a row of a list)."""

_BLOB_PREFIX = f'{{"{rows.BLOB_KEY}":"'


class Reading(Database):
    """What the log, the jobs, the blobs and the histories of components hold."""

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
            for start in range(0, len(names), AT_ONCE):
                part = names[start : start + AT_ONCE]
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
            parts = [statement] if asked is None else [statement.where(one_of(part)) for part in parts_of(asked)]
            return [histories.decode(row) for part in parts for row in connection.execute(part)]

        return await self._read(read)

    async def component_heads(self) -> dict[tuple[str, str], int]:
        """See `Store.component_heads`."""
        return await self._read(lambda connection: {(kind, name): seq for kind, name, seq in connection.execute(HEADS)})

    async def component_count(self) -> int:
        """See `Store.component_count`."""
        return await self._read(lambda connection: int(connection.execute(_COUNT).scalar_one()))

    async def run_states(self) -> list[RunState]:
        """See `Store.run_states`."""
        return await self._read(lambda connection: sweeping.run_states(connection, self._now()))

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


_KIND = components.c.kind
HEADS = select(_KIND, components.c.name, func.max(components.c.seq)).group_by(_KIND, components.c.name)
_COUNT = select(func.count()).select_from(components)
_CHANGES = select(*components.c).order_by(_KIND, components.c.name, components.c.seq)


def one_of(part: Sequence[histories.Component]) -> ColumnElement[bool]:
    return tuple_(_KIND, components.c.name).in_(part)


def parts_of(named: Sequence[histories.Component]) -> list[Sequence[histories.Component]]:
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
