"""Queries of the log as SQL, the same in every database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, func, or_, select, tuple_

from agentorchestra.core.query import LogQuery
from agentorchestra.log.store import rows
from agentorchestra.log.store.schema import events, runs


def selected(wanted: LogQuery, *, after: tuple[str, int] | None, limit: int, newest: bool) -> Select[Any]:
    """The rows of `Store.query`; with `newest` in the opposite order."""
    statement = select(*events.c).where(*_conditions(wanted)).limit(limit)
    if after is not None:
        statement = statement.where(tuple_(events.c.run, events.c.seq) > after)
    if newest:
        return statement.order_by(events.c.run.desc(), events.c.seq.desc())
    return statement.order_by(events.c.run, events.c.seq)


def _conditions(wanted: LogQuery) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if wanted.runs is not None:
        found.append(events.c.run.in_(wanted.runs))
    if wanted.session is not None:
        found.append(events.c.run.in_(select(runs.c.id).where(runs.c.session == wanted.session)))
    if wanted.record is not None:
        found.append(_of_record(wanted))
    if wanted.first is not None:
        found.append(events.c.seq >= wanted.first)
    if wanted.last is not None:
        found.append(events.c.seq <= wanted.last)
    if wanted.types:
        found.append(events.c.type.in_(wanted.types))
    if wanted.actor is not None:
        found.append(events.c.actor == wanted.actor)
    if wanted.since is not None:
        found.append(events.c.ts >= rows.stamp(wanted.since))
    # Not LIKE, see below; and not instr, which PostgreSQL calls otherwise.
    found += [func.replace(events.c.body, one, "") != events.c.body for one in wanted.holds]
    return found


def _of_record(wanted: LogQuery) -> ColumnElement[bool]:
    key = wanted.key
    if key is not None:
        return (events.c.branch == key.branch) & (events.c.n == key.n)
    # Not LIKE, which takes no account of case in SQLite.
    return or_(
        events.c.branch == wanted.record,
        *(func.substr(events.c.branch, 1, len(start)) == start for start in wanted.beginnings),
    )


__all__ = ["selected"]
