"""Which workers live: each holds a lock of the database as long as its connection lasts, and beats in its row.

A worker whose lock is free is dead, or cut off. One whose last beat is older than its lease is stopped, or hangs: its
own event loop makes the beats, so its connection proves nothing. Either way another worker takes its jobs over, and
removes its row. Whoever comes back and finds its row taken has lost its runs and ends itself. What it still writes is
refused by the log, which goes by epochs.

Beats are in the database's time, so no worker's clock matters. The database's own clock may be set: forward, and nobody
is dead before its next beat was waited for; back, and whoever is silent for its lease by the clock of the one who
looks, is dead.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import psycopg

from agentorchestra.core.clock import Clock, SystemClock
from agentorchestra.core.errors import LostLockError, OtherWorkerError, StoreError
from agentorchestra.core.ids import sha256_json
from agentorchestra.core.settings import Settings
from agentorchestra.log.store import PostgresStore

T = TypeVar("T")

LOOK_S = 0.25  # time between two looks at the others' locks and beats
BEAT_S = 1.0  # time between two beats, at most a third of the lease
MISSING_BEATS = 3  # beats that a worker has missed when `status` says that it does not answer
WATCHED_S = 5.0  # a worker whose beat is too old must have been watched for so long, or half its lease, without a beat
ANSWER_S = 5.0  # how long the database may take for an answer until the connection counts as lost
QUIET_S = 5.0  # after the database was away nobody is taken over for so long: the others are just coming back too

OWN_SETTINGS = frozenset(
    {
        "app",
        "artifacts_options",
        "browser",
        "computer",
        "database",
        "database_retry_s",
        "lease_s",
        "max_bytes",
        "sandbox",
        "serve",
        "terminal",
    }
)
"""Settings in which workers may differ: they are about one machine. Runs name their application themselves."""

VANISHED_S = 30.0
"""After how long the server ends the connection of a machine that vanished, or after the lease if that is shorter."""

_TABLES = """
CREATE TABLE IF NOT EXISTS {schema}.members (
    id text PRIMARY KEY, about jsonb NOT NULL, since timestamptz NOT NULL DEFAULT now(),
    beats bigint NOT NULL, beat timestamptz NOT NULL, lease_s double precision NOT NULL, taker text
);
CREATE TABLE IF NOT EXISTS {schema}.leader (place integer PRIMARY KEY, member text NOT NULL);
CREATE TABLE IF NOT EXISTS {schema}.requests (
    id text PRIMARY KEY, model text NOT NULL, member text NOT NULL, began timestamptz NOT NULL,
    over boolean NOT NULL DEFAULT false
);
CREATE INDEX IF NOT EXISTS requests_of_models ON {schema}.requests (model, began)
"""

_JOIN = """
INSERT INTO {schema}.members (id, about, beats, beat, lease_s)
VALUES (%(id)s, %(about)s, 1, clock_timestamp(), %(lease_s)s)
"""

_BEAT = """
UPDATE {schema}.members SET beats = beats + 1, beat = clock_timestamp() WHERE id = %s AND taker IS NULL RETURNING id
"""

_PRESENCE = "SELECT id FROM {schema}.members WHERE id = %s AND taker IS NULL"

# Of two that take at the same time the second one waits for the first one's commit, and then finds the row taken. A
# beat that comes in between counts. Whoever is taken itself takes nobody.
_TAKE = """
UPDATE {schema}.members m SET taker = %(taker)s
WHERE m.id = %(id)s AND m.beats = %(beats)s
AND (m.taker IS NULL OR m.taker = %(taker)s OR NOT EXISTS (SELECT 1 FROM {schema}.members t WHERE t.id = m.taker))
AND EXISTS (SELECT 1 FROM {schema}.members o WHERE o.id = %(taker)s AND o.taker IS NULL)
RETURNING m.id
"""

_LEADS = """
SELECT EXISTS (SELECT 1 FROM {schema}.members m WHERE m.id = %(id)s AND m.taker IS NULL)
AND EXISTS (SELECT 1 FROM {schema}.leader l WHERE l.member = %(id)s)
"""

# A leader leads as long as it is a member: whoever takes its runs over takes that from it too.
_LEAD = """
INSERT INTO {schema}.leader AS l (place, member)
SELECT 1, m.id FROM {schema}.members m WHERE m.id = %(id)s AND m.taker IS NULL
ON CONFLICT (place) DO UPDATE SET member = excluded.member
WHERE NOT EXISTS (SELECT 1 FROM {schema}.members o WHERE o.id = l.member AND o.taker IS NULL)
RETURNING l.member
"""

_LOOK = """
SELECT m.id, m.about, extract(epoch FROM now() - m.since), EXISTS (
    SELECT 1 FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND ((l.classid::bigint << 32) | l.objid::bigint) = hashtextextended(m.id, 0)
), m.beats, extract(epoch FROM now() - m.beat), m.lease_s, m.taker,
extract(epoch FROM now() - pg_postmaster_start_time())
FROM {schema}.members m ORDER BY m.since, m.id
"""


class ClusterMember(NamedTuple):
    id: str  # of this process; the queue knows it by this
    about: dict[str, Any]  # host, pid, kind, version, code, concurrency, tags, and a digest of each setting
    since_s: float  # for how long
    holds_lock: bool  # whether it holds its lock
    beats: int  # how many it has made
    silent_s: float  # how old its last beat is
    lease_s: float  # how old that may be
    taker: str | None  # who takes its runs over

    @property
    def overdue(self) -> bool:
        return self.silent_s >= self.lease_s

    @property
    def missing(self) -> bool:
        """Return True if several of its beats did not come: it is stopped, hangs, or its machine is very busy."""
        return self.silent_s >= MISSING_BEATS * beat_s(self.lease_s)

    @property
    def alive(self) -> bool:
        return self.holds_lock and not self.overdue and self.taker is None

    @property
    def name(self) -> str:
        return f"{self.about['kind']} {self.about['host']}:{self.about['pid']}"


def beat_s(lease_s: float) -> float:
    return min(lease_s / 3, BEAT_S)


def digests(settings: Settings) -> dict[str, str]:
    values = settings.model_dump(mode="json", exclude=set(OWN_SETTINGS))
    return {name: sha256_json(value)[:12] for name, value in values.items()}


class Members:
    """This process among those that work on a database.

    Args:
        store: open.
        schema: of DBOS's tables.
        about: see ClusterMember.
        lease_s: for how long it may be silent until others take its runs over.
        clock: its own, by which it watches the others.
    """

    def __init__(
        self, store: PostgresStore, schema: str, about: dict[str, Any], *, lease_s: float, clock: Clock | None = None
    ) -> None:
        self.id = uuid.uuid4().hex
        self._store = store
        self._schema = schema
        self._lease_s = lease_s
        self._about = {"host": socket.gethostname(), "pid": os.getpid(), **about}
        self._connection: psycopg.Connection[Any] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="members")
        self._clock = clock or SystemClock()
        self._free: dict[str, int] = {}
        self._heard: dict[str, tuple[int, float]] = {}  # the last beat of each other one, and when it was seen
        self._locks: set[str] = set()  # of the dead that this process takes over
        self._joined = False
        self._returned = False  # the connection is a new one, and nobody has looked yet
        self._quiet_until = 0.0
        self._up_s = 0.0  # how long the server is up

    # -- life ------------------------------------------------------------------------------------------------------

    async def join(self) -> None:
        """Take the lock, and note that this process is there; OtherWorkerError if others have other settings."""
        await self._call(self._join)

    def _join(self) -> None:
        connection = self._connect()
        self._returned = False
        with connection.transaction():
            # One at a time, or two could pass each other by.
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"{self._schema} members",))
            connection.execute(_TABLES.format(schema=self._schema))
            for other in self._look():
                if other.alive:
                    _compare(self._about, other)
            row = {"id": self.id, "about": json.dumps(self._about), "lease_s": self._lease_s}
            connection.execute(_JOIN.format(schema=self._schema), row)
        self._joined = True

    async def leave(self) -> None:
        with contextlib.suppress(OSError, psycopg.Error, TimeoutError):  # the server sees the end of the connection
            await self._call(self._leave)
        self._thread.shutdown(wait=False)

    def _leave(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                # Whoever takes this one over removes the row itself, when the runs are queued again.
                query = f"DELETE FROM {self._schema}.members WHERE id = %s AND taker IS NULL"
                connection.execute(query, (self.id,))
            finally:
                connection.close()

    # -- watching --------------------------------------------------------------------------------------------------

    async def beat(self) -> None:
        """Note that the event loop of this process goes on; nothing happens while the connection is lost.

        Raises:
            LostLockError: if this one counts as dead with the others.
            ConnectionError: if the database is away.
        """
        await self._ask(self._beat)

    def _beat(self) -> None:
        if self._connection is None:
            return  # whoever comes back does so in `dead`, which beats too
        if self._connection.execute(_BEAT.format(schema=self._schema), (self.id,)).fetchone() is None:
            raise self._loss()

    async def dead(self) -> list[ClusterMember]:
        """Return the members that are dead; each belongs to this process now, until `buried`.

        Raises:
            LostLockError: if this one counts as dead with the others.
            ConnectionError: while the database is away; ask again.
        """
        return await self._ask(self._dead)

    def _dead(self) -> list[ClusterMember]:
        self._connect()
        back, self._returned = self._returned, False
        if back:
            self._beat()
        rows = self._look()
        if all(row.id != self.id or row.taker is not None for row in rows):
            raise self._loss()
        now = self._clock.monotonic()
        if back or self._up_s < QUIET_S:
            self._quiet_until = now + QUIET_S
        if now < self._quiet_until:
            self._free.clear()
            self._heard.clear()
            return []
        neighbours = [row for row in rows if row.id != self.id]
        # Twice in a row: a connection that broke alone is made again within one look.
        self._free = {row.id: self._free.get(row.id, 0) + 1 for row in neighbours if not row.holds_lock}
        self._heard = {row.id: self._hear(row, now) for row in neighbours}
        living = {row.id for row in neighbours}
        return [
            row for row in neighbours if (row.taker is None or row.taker not in living) and self._is_taken(row, now)
        ]

    def _hear(self, row: ClusterMember, now: float) -> tuple[int, float]:
        before = self._heard.get(row.id)
        return before if before is not None and before[0] == row.beats else (row.beats, now)

    def _is_silent(self, row: ClusterMember, now: float) -> bool:
        watched_s = now - self._heard[row.id][1]
        return watched_s >= row.lease_s or (row.overdue and watched_s >= min(row.lease_s / 2, WATCHED_S))

    def _is_taken(self, row: ClusterMember, now: float) -> bool:
        assert self._connection is not None
        free = row.id in self._locks or self._free.get(row.id, 0) >= 2
        if not (self._is_silent(row, now) or (free and self._lock(row.id))):
            return False
        values = {"taker": self.id, "id": row.id, "beats": row.beats}
        if self._connection.execute(_TAKE.format(schema=self._schema), values).fetchone() is not None:
            return True
        self._unlock(row.id)
        return False

    def _loss(self) -> LostLockError:
        return LostLockError(
            f"this worker was stopped for longer than its lease (lease_s, {self._lease_s:g} s) or cut off from the "
            "database and its runs were taken over by others; it ends. Start it again: nothing is lost"
        )

    async def bury(self, member: ClusterMember) -> None:
        """Remove a dead member whose jobs are queued again; ConnectionError (it is dead still) without a database."""
        await self._ask(lambda: self._bury(member.id))

    def _bury(self, member: str) -> None:
        self._connect().execute(f"DELETE FROM {self._schema}.members WHERE id = %s", (member,))
        self._unlock(member)
        self._free.pop(member, None)
        self._heard.pop(member, None)

    def _lock(self, member: str) -> bool:
        """Take the lock of a dead member: it must not come back until it is buried."""
        assert self._connection is not None
        query = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
        if member not in self._locks and self._connection.execute(query, (member,)).fetchone() == (True,):
            self._locks.add(member)
        return member in self._locks

    def _unlock(self, member: str) -> None:
        assert self._connection is not None
        if member in self._locks:
            self._connection.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", (member,))
            self._locks.discard(member)

    async def ids(self) -> frozenset[str]:
        """Return who is there, dead or alive; ConnectionError while the database is away."""
        return await self._ask(lambda: frozenset(row.id for row in self._view()))

    async def codes(self) -> frozenset[str]:
        """Return the application versions of those that live; ConnectionError while the database is away."""
        rows = await self._ask(self._view)
        return frozenset(str(row.about["code"]) for row in rows if row.alive and "code" in row.about)

    async def leads(self) -> bool:
        """Return True in one of the members at a time: it does what is to be done once for all of them."""
        try:
            return await self._call(self._lead)
        except (psycopg.Error, TimeoutError, OSError):
            return False

    def _lead(self) -> bool:
        if self._connection is None:
            return False  # whoever comes back does so in `dead`
        about = {"id": self.id}
        if self._connection.execute(_LEADS.format(schema=self._schema), about).fetchone() == (True,):
            return True
        return self._connection.execute(_LEAD.format(schema=self._schema), about).fetchone() is not None

    # -- the connection --------------------------------------------------------------------------------------------

    async def _call(self, work: Callable[[], T]) -> T:
        async with asyncio.timeout(ANSWER_S * 4):
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _ask(self, work: Callable[[], T]) -> T:
        try:
            return await self._call(work)
        except (psycopg.OperationalError, psycopg.InterfaceError, StoreError, TimeoutError) as exc:
            self._drop()
            raise ConnectionError(str(exc)) from None

    def _connect(self) -> psycopg.Connection[Any]:
        if self._connection is not None:
            return self._connection
        connection: psycopg.Connection[Any] = self._store.connect()
        try:
            connection.autocommit = True
            connection.execute(f"SET statement_timeout TO '{ANSWER_S:g}s'")
            # The server gives the lock of a machine that vanished free within this time: it may come back.
            vanished_s = min(self._lease_s, VANISHED_S)
            idle, step = max(1, round(vanished_s / 2)), max(1, round(vanished_s / 10))
            for name, value in (("idle", idle), ("interval", step), ("count", 3)):
                connection.execute(f"SET tcp_keepalives_{name} TO {value}")
            connection.execute(f"SET tcp_user_timeout TO '{max(1, round(vanished_s * 0.8))}s'")
            lock_row = connection.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", (self.id,)).fetchone()
            if lock_row is None or not lock_row[0]:
                if self._joined and self._is_gone(connection):
                    raise self._loss()
                # The server has not noticed yet that the old connection is gone, or somebody takes this one over.
                raise psycopg.OperationalError("the lock is not free yet")
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        self._returned = True
        return connection

    def _is_gone(self, connection: psycopg.Connection[Any]) -> bool:
        return connection.execute(_PRESENCE.format(schema=self._schema), (self.id,)).fetchone() is None

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        self._locks.clear()
        if connection is not None:
            connection.close()

    def _view(self) -> list[ClusterMember]:
        self._connect()
        return self._look()

    def _look(self) -> list[ClusterMember]:
        assert self._connection is not None
        rows = self._connection.execute(_LOOK.format(schema=self._schema)).fetchall()
        self._up_s = float(rows[0][-1]) if rows else 0.0
        return [_member(row) for row in rows]


def _member(row: tuple[Any, ...]) -> ClusterMember:
    member, about, since_s, has_lock, beats, silent_s, lease_s, taker, _ = row
    return ClusterMember(str(member), about, float(since_s), bool(has_lock), beats, float(silent_s), lease_s, taker)


def members_of(store: PostgresStore, schema: str) -> list[ClusterMember]:
    with store.connect() as connection:
        connection.autocommit = True
        if connection.execute("SELECT to_regclass(%s)", (f"{schema}.members",)).fetchone()[0] is None:
            return []
        return [_member(row) for row in connection.execute(_LOOK.format(schema=schema)).fetchall()]


def _compare(own: dict[str, Any], other: ClusterMember) -> None:
    """Raise OtherWorkerError where two members cannot work on one database."""
    about = other.about
    # Another version of the package may have other settings: those that both know must be alike.
    common = own["settings"].keys() & about["settings"].keys()
    differ = sorted(name for name in common if own["settings"][name] != about["settings"][name])
    if differ:
        raise OtherWorkerError(
            f"the settings here are not those of {other.name}, which works on the same database; they differ in "
            f"{', '.join(differ)}. Give all workers and servers one agentorchestra.toml"
        )
    if own["concurrency"] != about["concurrency"] and None not in (own["concurrency"], about["concurrency"]):
        raise OtherWorkerError(
            f"--concurrency {own['concurrency']} is not that of {other.name} ({about['concurrency']}); all workers of "
            "a database drive equally many runs: on a larger machine start several of them"
        )
