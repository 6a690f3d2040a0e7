"""NOTIFY for those who follow runs, and only where somebody does.

A transaction that notifies holds a lock of the whole server until it is committed, so that of all writers one commits
at a time; and the server wakes every connection that listens to anything. So who follows a run holds a shared advisory
lock on the run's slot, and who appends notifies only where the slot is held.
"""

from __future__ import annotations

from typing import Any

from agentorchestra.log.store.watcher import Bell

SLOTS = 64
"""Locks that a follower of any number of runs holds at most (a power of 2): a server has room for some thousands."""

NOTIFY = f"""
CASE WHEN pg_try_advisory_lock(%s::int, hashtext(runs.id) & {SLOTS - 1})
THEN pg_advisory_unlock(%s::int, hashtext(runs.id) & {SLOTS - 1})::text
ELSE pg_notify(%s, runs.id)::text END
"""
"""An expression in the statement that changes a row of `runs`: twice the group of the locks, then the channel.

It has to be evaluated after the change: the transaction then has a number, by which `Listener` knows that it is under
way.
"""

_HOLD = f"""
SELECT pg_advisory_lock_shared(%s::int, slot)
FROM (SELECT DISTINCT hashtext(run) & {SLOTS - 1} AS slot FROM unnest(%s::text[]) AS r (run)) AS s
"""

_SETTLE_S = 0.1
"""Time between looks while there are transactions that may not have seen the locks (they take milliseconds)."""


class Listener:
    """The ear over a connection of psycopg.

    Args:
        raw: the connection; nobody else uses it.
        channel: of the notifications.
        group: of the locks.
        bell: ends a wait.
        look_s: the longest wait: a notification may be lost.
    """

    def __init__(self, raw: Any, *, channel: str, group: int, bell: Bell, look_s: float) -> None:
        self._raw, self._group, self._bell, self._look_s = raw, group, bell, look_s
        self._followed: frozenset[str] = frozenset()
        self._until: str | None = None  # transactions before this one may not have seen the locks
        self._told: set[str] = set()
        raw.add_notify_handler(lambda notify: self._told.add(notify.payload))
        raw.execute(f"LISTEN {channel}")

    def hear(self, followed: frozenset[str]) -> set[str] | None:
        if followed != self._followed:
            self._raw.execute("SELECT pg_advisory_unlock_all()")
            self._raw.execute(_HOLD, (self._group, list(followed)))
            (self._until,) = self._raw.execute("SELECT pg_current_xact_id()::text").fetchone()
            self._followed = followed
            return None
        if self._until is not None:
            over = "SELECT pg_snapshot_xmin(pg_current_snapshot()) >= %s::xid8"
            if self._raw.execute(over, (self._until,)).fetchone()[0]:
                self._until = None
            else:
                self._bell.wait(_SETTLE_S)
            return None
        if not self._told:
            self._bell.wait(self._look_s, self._raw.fileno())
            self._raw.execute("SELECT 1")  # what was sent meanwhile comes with the answer
        told, self._told = self._told, set()
        return told or None
