"""Ends the process it runs in with SIGKILL at one point of one effect, through the public interfaces only.

The environment variable KILL_AT names the point: `after_mark:/1.react#2`; KILL_RUN how the id of its run begins.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NoReturn

from sqlalchemy import select

from agentorchestra.core.budget import Bound
from agentorchestra.core.effects import Effect, EffectKind, Mode, Outcome
from agentorchestra.core.events import NewEvent
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.protocols import Handler
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.store import PostgresStore, SqliteStore
from agentorchestra.log.store.factory import store_for
from agentorchestra.log.store.schema import events as rows
from agentorchestra.log.store.sql import SqlStore
from agentorchestra.workspace import load_settings

MARK_POINTS = ("in_mark", "after_mark")
"""Inside the commit of the started row, and as soon as it is durable: effects that are not pure."""

POINTS = ("before", "after", "in_record", "after_record")
"""Before and after the handler executes, inside the commit of the completed row, and as soon as it is durable."""

RUN_EVENTS = ("driving_started", "run_ended")
"""In place of a key: `in_mark:run_ended` and `after_mark:run_ended` are the commit of the end of the job."""

KILL_AT = "KILL_AT"


def die() -> NoReturn:
    """No handler, no `finally`, no flush."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


class Killing(SqlStore):
    """Dies in the writer thread, in or after the commit that holds the row."""

    _point: str
    _key: EffectKey | None
    _type: str
    _met: NewEvent | None = None

    def watch(self, point: str, key: EffectKey | None, type_: str) -> None:
        """Die at this point."""
        self._point, self._key, self._type = point, key, type_

    def append(
        self, run: str, epoch: int | None, events: Sequence[NewEvent], *, status: RunStatus | None = None
    ) -> Future[tuple[int, ...]]:
        """Watch for the row."""
        for event in events if run.startswith(os.environ.get("KILL_RUN", "")) else ():
            if event.type == self._type and self._key in (None, (event.branch, event.n)):
                self._met = event
        future = super().append(run, epoch, events, status=status)
        if self._met is not None and self._met in events and self._point in ("after_mark", "after_record"):
            # Registered before anybody awaits it: nothing in the process has seen the row when it dies.
            future.add_done_callback(lambda _: die())
        return future

    def before_commit(self, runs: list[str]) -> None:
        """Die if the row is in this transaction."""
        if self._met is None or self._point not in ("in_mark", "in_record"):
            return
        assert self._connection is not None
        # The run's own events have their sequence for a number: the newest one is meant.
        wanted = select(rows.c.n).where(
            rows.c.branch == self._met.branch, rows.c.attempt == self._met.attempt, rows.c.type == self._met.type
        )
        if any(self._met.n in (None, n) for n in self._connection.execute(wanted).scalars()):
            die()


class KillingSqlite(Killing, SqliteStore):
    """In a folder."""


class KillingPostgres(Killing, PostgresStore):
    """In a database."""


class KillingHandler:
    """Dies around the execution of the effect."""

    def __init__(self, inner: Handler, point: str, key: EffectKey | None) -> None:
        self._inner = inner
        self._point = point
        self._key = key

    def mode(self, effect: Effect) -> Mode:
        """The inner one's."""
        return self._inner.mode(effect)

    def bound(self, effect: Effect) -> Bound:
        """The inner one's."""
        return self._inner.bound(effect)

    async def execute(self, effect: Effect, ctx: Any) -> Outcome:
        """Die before it or after it."""
        met = ctx.key == self._key
        if met and self._point == "before":
            die()
        outcome = await self._inner.execute(effect, ctx)
        if met and self._point == "after":
            die()
        return outcome


Wrap = Callable[[dict[EffectKind, Handler]], dict[EffectKind, Handler]]


def killing_store(folder: Path) -> Killing:
    """The store that the settings name, with a point to die at."""
    settings = load_settings(folder)
    if settings.database is None:
        return KillingSqlite(folder)
    return KillingPostgres(settings.database.get_secret_value(), schema=settings.database_schema)


def hooks(folder: Path) -> tuple[SqlStore, Wrap]:
    """The store and the wrapping of handlers that KILL_AT asks for."""
    where = os.environ.get(KILL_AT, "")
    if not where:
        return store_for(load_settings(folder), folder), lambda handlers: handlers
    point, _, text = where.partition(":")
    assert point in MARK_POINTS + POINTS, where
    key = None if text in RUN_EVENTS else EffectKey.parse(text)
    type_ = text if key is None else "started" if point in MARK_POINTS else "completed"

    def wrap(handlers: dict[EffectKind, Handler]) -> dict[EffectKind, Handler]:
        return {kind: KillingHandler(handler, point, key) for kind, handler in handlers.items()}

    store = killing_store(folder)
    store.watch(point, key, type_)
    return store, wrap
