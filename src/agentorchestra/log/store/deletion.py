"""Deletion of runs that nobody needs and of blobs that nothing refers to: queries for every database.

A blob is garbage if no run and no component's history names it and nobody put it for a while. Runs and histories are
looked through first, which takes as long as it takes; what is written meanwhile puts its blobs anew, and the deletion
asks when they were put. A run that is forked meanwhile refers to what its parent does: the parent is kept, or the fork
finds it gone. Entries of histories are never deleted, so what one refers to stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, delete, or_, select, tuple_

from agentorchestra.core.protocols import RunState
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.store.references import is_json, references
from agentorchestra.log.store.rows import PENDING
from agentorchestra.log.store.schema import blobs, components, events, is_part, jobs, runs

AT_ONCE = 20  # runs that are deleted by one transaction

_PAGE = 200


def run_states(connection: Connection, now: ColumnElement[float], *, parts: bool) -> list[RunState]:
    statement = (
        select(runs.c.id, runs.c.status, runs.c.created, events.c.ts, runs.c.parent_run, _in_use(now).label("driven"))
        .select_from(
            runs.join(jobs, jobs.c.run == runs.c.id).outerjoin(
                events, (events.c.run == runs.c.id) & (events.c.seq == runs.c.next_seq - 1)
            )
        )
        .order_by(runs.c.created.desc(), runs.c.id.desc())
    )
    statement = statement.where(is_part(runs.c.id)) if parts else statement
    return [
        RunState(
            row.id,
            RunStatus(row.status),
            datetime.fromisoformat(row.created),
            datetime.fromisoformat(row.ts or row.created),
            row.parent_run,
            bool(row.driven),
        )
        for row in connection.execute(statement)
    ]


def _in_use(now: ColumnElement[float]) -> ColumnElement[bool]:
    is_queued = runs.c.accepted.is_not(None) & runs.c.status.in_((RunStatus.CREATED.value, RunStatus.RUNNING.value))
    return or_(jobs.c.owner.is_not(None) & (jobs.c.lease_until > now), is_queued)


def delete_runs(connection: Connection, ids: Sequence[str], now: ColumnElement[float]) -> list[str]:
    """Delete those of the runs that may be, inside a transaction; return their ids."""
    # Whoever claims one of them, appends to it or forks it waits for this transaction, and finds it gone.
    connection.execute(select(jobs.c.run).where(jobs.c.run.in_(ids)).order_by(jobs.c.run).with_for_update()).all()
    connection.execute(select(runs.c.id).where(runs.c.id.in_(ids)).order_by(runs.c.id).with_for_update()).all()
    rows = connection.execute(
        select(runs.c.id, runs.c.status, _in_use(now).label("driven"))
        .select_from(runs.join(jobs, jobs.c.run == runs.c.id))
        .where(runs.c.id.in_(ids))
    )
    free = {row.id for row in rows if not row.driven and RunStatus(row.status) not in PENDING}
    children = connection.execute(select(runs.c.id, runs.c.parent_run).where(runs.c.parent_run.in_(ids))).all()
    while True:
        survivors = {child.parent_run for child in children if child.id not in free}
        if not survivors & free:
            break
        free -= survivors
    for table, column in ((events, events.c.run), (jobs, jobs.c.run), (runs, runs.c.id)):
        connection.execute(delete(table).where(column.in_(sorted(free))))
    return [run for run in ids if run in free]


def garbage(connection: Connection, before: ColumnElement[float], read: Callable[[str], bytes]) -> dict[str, int]:
    """Return the blobs that were put before a time and that nothing refers to, with their sizes in bytes.

    `before` is in the database's time; `read` gives the bytes of a blob that are not in the table.
    """
    statement = select(blobs.c.sha256, blobs.c.size).where(_unused_since(before))
    candidates = {str(sha256): int(size) for sha256, size in connection.execute(statement)}
    if not candidates:
        return {}

    def lookup(names: list[str]) -> Iterator[tuple[str, bytes | None]]:
        rows = connection.execute(
            select(blobs.c.sha256, blobs.c.media_type, blobs.c.data).where(blobs.c.sha256.in_(names))
        ).all()
        for sha256, media_type, data in rows:
            if not is_json(media_type):
                yield sha256, None
            else:
                yield sha256, read(sha256) if data is None else bytes(data)

    used = references(_texts(connection), lookup)
    return {sha256: size for sha256, size in candidates.items() if sha256 not in used}


def _unused_since(before: ColumnElement[float]) -> ColumnElement[bool]:
    return or_(blobs.c.touched.is_(None), blobs.c.touched <= before)


def _texts(connection: Connection) -> Iterator[str]:
    """Yield every manifest, every body of an event and of an entry of a component, as stored."""
    # A run that is created after this list was read has put its blobs just now, or is a fork of one in the list.
    for run in connection.execute(select(runs.c.id)).scalars().all():
        yield from connection.execute(select(runs.c.manifest).where(runs.c.id == run)).scalars()
        last = 0
        while True:
            page = connection.execute(
                select(events.c.seq, events.c.body)
                .where(events.c.run == run, events.c.seq > last)
                .order_by(events.c.seq)
                .limit(_PAGE)
            ).all()
            if not page:
                break
            last = page[-1].seq
            yield from (body for _, body in page)
    yield from _component_bodies(connection)


def _component_bodies(connection: Connection) -> Iterator[str]:
    place = tuple_(components.c.kind, components.c.name, components.c.seq)
    statement = select(components).order_by(*components.primary_key).limit(_PAGE)
    page = connection.execute(statement).all()
    while page:
        yield from (row.body for row in page)
        last = page[-1]
        page = connection.execute(statement.where(place > tuple_(last.kind, last.name, last.seq))).all()


def delete_blobs(connection: Connection, names: Iterable[str], before: ColumnElement[float]) -> list[str]:
    """Delete those that nobody put since; return their hashes."""
    statement = delete(blobs).where(blobs.c.sha256.in_(list(names)), _unused_since(before))
    return list(connection.execute(statement.returning(blobs.c.sha256)).scalars())
