"""Which workers live. Each holds a lock of the database as long as its connection lasts; nothing here is timed.

A worker whose lock is free is dead, or cut off: another one takes its jobs over, and removes its row. Whoever comes
back and finds its row gone has lost its runs and ends itself. What a driver that is only cut off still writes is
refused by the log, which goes by epochs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import psycopg

from agentorchestra.core.errors import LostLockError, OtherWorkerError, StoreError
from agentorchestra.core.ids import sha256_json
from agentorchestra.core.settings import Settings
from agentorchestra.log.store import PostgresStore

T = TypeVar("T")

LOOK_S = 0.25
"""Time between two looks at the others' locks."""

ANSWER_S = 5.0
"""How long the database may take for an answer until the connection counts as lost."""

QUIET_S = 5.0
"""After the database was away nobody is taken over for so long: the others are just coming back too."""

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

_TABLES = """
CREATE TABLE IF NOT EXISTS {schema}.members (
    id text PRIMARY KEY, about jsonb NOT NULL, since timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS {schema}.requests (
    id text PRIMARY KEY, model text NOT NULL, member text NOT NULL, began timestamptz NOT NULL,
    over boolean NOT NULL DEFAULT false
);
CREATE INDEX IF NOT EXISTS requests_of_models ON {schema}.requests (model, began)
"""

_ALIVE = """
SELECT m.id, m.about, extract(epoch FROM now() - m.since), EXISTS (
    SELECT 1 FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND ((l.classid::bigint << 32) | l.objid::bigint) = hashtextextended(m.id, 0)
), extract(epoch FROM now() - pg_postmaster_start_time())
FROM {schema}.members m ORDER BY m.since, m.id
"""


class Member(NamedTuple):
    """A worker or a server of a database.

    Attributes:
        id: of this process; the queue knows it by this.
        about: host, pid, kind, version, concurrency, tags, and a digest of each setting.
        since_s: for how long.
        alive: whether it holds its lock.
    """

    id: str
    about: dict[str, Any]
    since_s: float
    alive: bool

    @property
    def name(self) -> str:
        """What people call it."""
        return f"{self.about['kind']} {self.about['host']}:{self.about['pid']}"


def digests(settings: Settings) -> dict[str, str]:
    """Return a digest of each setting that all workers of a database must have alike."""
    values = settings.model_dump(mode="json", exclude=set(OWN_SETTINGS))
    return {name: sha256_json(value)[:12] for name, value in values.items()}


class Members:
    """This process among those that work on a database.

    Args:
        store: open.
        schema: of DBOS's tables.
        about: see Member.
        lease_s: after how long the server notices that a machine has vanished.
    """

    def __init__(self, store: PostgresStore, schema: str, about: dict[str, Any], *, lease_s: float) -> None:
        self.id = uuid.uuid4().hex
        self._store = store
        self._schema = schema
        self._lease_s = lease_s
        self._about = {"host": socket.gethostname(), "pid": os.getpid(), **about}
        self._connection: psycopg.Connection[Any] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="members")
        self._free: dict[str, int] = {}
        self._quiet_until = 0.0
        self._leads = False
        self._up_s = 0.0  # how long the server is up

    # -- life ------------------------------------------------------------------------------------------------------

    async def join(self) -> None:
        """Take the lock, and note that this process is there.

        Raises:
            OtherWorkerError: if those that are there have another version or other settings.
        """
        await self._call(self._join)

    def _join(self) -> None:
        connection = self._connected()
        with connection.transaction():
            # One at a time, or two could pass each other by.
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"{self._schema} members",))
            connection.execute(_TABLES.format(schema=self._schema))
            for other in self._look():
                if other.alive:
                    _compare(self._about, other)
            query = f"INSERT INTO {self._schema}.members (id, about) VALUES (%s, %s)"
            connection.execute(query, (self.id, json.dumps(self._about)))

    async def leave(self) -> None:
        """Give the lock back."""
        with contextlib.suppress(OSError, psycopg.Error, TimeoutError):  # the server sees the end of the connection
            await self._call(self._leave)
        self._thread.shutdown(wait=False)

    def _leave(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.execute(f"DELETE FROM {self._schema}.members WHERE id = %s", (self.id,))
            finally:
                connection.close()

    # -- watching --------------------------------------------------------------------------------------------------

    async def dead(self) -> list[Member]:
        """Return the members that are dead; each belongs to this process now, until `buried`.

        Raises:
            LostLockError: if this one counts as dead with the others.
            ConnectionError: while the database is away; ask again.
        """
        return await self._asked(self._dead)

    def _dead(self) -> list[Member]:
        away = self._connection is None
        connection = self._connected()
        rows = self._look()
        if all(row.id != self.id for row in rows):
            raise LostLockError(
                "this worker was cut off from the database and its runs were taken over by others; it ends. Start it "
                "again: nothing is lost"
            )
        if away or self._up_s < QUIET_S:
            self._quiet_until = time.monotonic() + QUIET_S
        if time.monotonic() < self._quiet_until:
            self._free.clear()
            return []
        # Twice in a row: a connection that broke alone is made again within one look.
        self._free = {row.id: self._free.get(row.id, 0) + 1 for row in rows if not row.alive}
        found = []
        for row in rows:
            if self._free.get(row.id, 0) < 2:
                continue
            taken = connection.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", (row.id,)).fetchone()
            if taken is not None and taken[0]:
                found.append(row)
        return found

    async def bury(self, member: Member) -> None:
        """Remove a dead member whose jobs are queued again.

        Raises:
            ConnectionError: if the database is away; it is dead still when that is back.
        """
        await self._asked(lambda: self._bury(member.id))

    def _bury(self, member: str) -> None:
        connection = self._connected()
        connection.execute(f"DELETE FROM {self._schema}.members WHERE id = %s", (member,))
        connection.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", (member,))
        self._free.pop(member, None)

    async def leads(self) -> bool:
        """Return True in one of the members at a time: it does what is to be done once for all of them."""
        try:
            return await self._call(self._lead)
        except (psycopg.Error, TimeoutError, OSError):
            return False

    def _lead(self) -> bool:
        if self._connection is None:
            return False  # whoever comes back does so in `dead`
        if not self._leads:
            query = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
            taken = self._connection.execute(query, (f"{self._schema} leader",)).fetchone()
            self._leads = bool(taken is not None and taken[0])
        return self._leads

    # -- the connection --------------------------------------------------------------------------------------------

    async def _call(self, work: Callable[[], T]) -> T:
        async with asyncio.timeout(ANSWER_S * 4):
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _asked(self, work: Callable[[], T]) -> T:
        try:
            return await self._call(work)
        except (psycopg.OperationalError, psycopg.InterfaceError, StoreError, TimeoutError) as exc:
            self._drop()
            raise ConnectionError(str(exc)) from None

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is not None:
            return self._connection
        connection: psycopg.Connection[Any] = self._store.connect()
        try:
            connection.autocommit = True
            connection.execute(f"SET statement_timeout TO '{ANSWER_S:g}s'")
            # The server gives the lock of a machine that vanished free within the lease of its runs.
            idle, step = max(1, round(self._lease_s / 2)), max(1, round(self._lease_s / 10))
            for name, value in (("idle", idle), ("interval", step), ("count", 3)):
                connection.execute(f"SET tcp_keepalives_{name} TO {value}")
            connection.execute(f"SET tcp_user_timeout TO '{max(1, round(self._lease_s * 0.8))}s'")
            taken = connection.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", (self.id,)).fetchone()
            if taken is None or not taken[0]:
                # The server has not noticed yet that the old connection is gone, or somebody takes this one over.
                raise psycopg.OperationalError("the lock is not free yet")
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        self._leads = False
        return connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _look(self) -> list[Member]:
        assert self._connection is not None
        rows = self._connection.execute(_ALIVE.format(schema=self._schema)).fetchall()
        self._up_s = float(rows[0][4]) if rows else 0.0
        return [Member(str(row[0]), row[1], float(row[2]), bool(row[3])) for row in rows]


def members_of(store: PostgresStore, schema: str) -> list[Member]:
    """Return who works on a database now."""
    with store.connect() as connection:
        connection.autocommit = True
        if connection.execute("SELECT to_regclass(%s)", (f"{schema}.members",)).fetchone()[0] is None:
            return []
        rows = connection.execute(_ALIVE.format(schema=schema)).fetchall()
    return [Member(str(row[0]), row[1], float(row[2]), bool(row[3])) for row in rows]


def _compare(own: dict[str, Any], other: Member) -> None:
    """Raise OtherWorkerError where two members cannot work on one database."""
    theirs = other.about
    if own["version"] != theirs["version"]:
        raise OtherWorkerError(
            f"this is version {own['version'] or 'unknown'}, and {other.name} of the same database is "
            f"{theirs['version'] or 'unknown'}; stop the workers of the other version first, then start this one"
        )
    differ = sorted(name for name in own["settings"] if own["settings"][name] != theirs["settings"].get(name))
    if differ:
        raise OtherWorkerError(
            f"the settings here are not those of {other.name}, which works on the same database; they differ in "
            f"{', '.join(differ)}. Give all workers and servers one agentorchestra.toml"
        )
    if own["concurrency"] != theirs["concurrency"] and None not in (own["concurrency"], theirs["concurrency"]):
        raise OtherWorkerError(
            f"--concurrency {own['concurrency']} is not that of {other.name} ({theirs['concurrency']}); all workers of "
            "a database drive equally many runs: on a larger machine start several of them"
        )
