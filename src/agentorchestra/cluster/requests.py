"""Limits of a model's requests over all workers: a request takes a row of the database, and gives it back.

The row of a worker that died counts as given back as soon as another one has taken its runs over (members.py).
"""

from __future__ import annotations

import asyncio
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any

import psycopg

from agentorchestra.cluster.members import ANSWER_S
from agentorchestra.core.errors import StoreError
from agentorchestra.core.settings import ModelLimit
from agentorchestra.log.store import PostgresStore

LOOK_S = 0.1  # time between two looks for room; of all requests of a model that wait in one worker, one looks
_AGAIN_S = 1.0  # time between two attempts to reach a database that is away

# Two statements of one transaction: the second one sees what was committed while the first one waited.
_TURN = "SELECT pg_advisory_xact_lock(hashtextextended(%(schema)s || ' requests ' || %(model)s, 0))"
_TAKE = """
WITH old AS (
    DELETE FROM {schema}.requests
    WHERE model = %(model)s AND began < clock_timestamp() - interval '1 minute'
    AND (over OR NOT EXISTS (SELECT 1 FROM {schema}.members m WHERE m.id = member))
)
INSERT INTO {schema}.requests (id, model, member, began)
SELECT %(id)s, %(model)s, %(member)s, clock_timestamp()
WHERE (%(most)s::bigint IS NULL OR %(most)s > (
    SELECT count(*) FROM {schema}.requests r JOIN {schema}.members m ON m.id = r.member
    WHERE r.model = %(model)s AND NOT r.over AND r.id <> %(id)s
)) AND (%(rate)s::bigint IS NULL OR %(rate)s > (
    SELECT count(*) FROM {schema}.requests r
    WHERE r.model = %(model)s AND r.began > clock_timestamp() - interval '1 minute' AND r.id <> %(id)s
))
ON CONFLICT (id) DO UPDATE SET began = excluded.began
RETURNING id
"""


class RequestLimits:
    """Lets the requests of limited models through, so many at a time or in a minute over all workers.

    Args:
        store: open.
        schema: of the members' tables.
        limits: by the model's name.
    """

    def __init__(self, store: PostgresStore, schema: str, member: str, limits: Mapping[str, ModelLimit]) -> None:
        self._store = store
        self._schema = schema
        self._member = member
        self._limits = {name: limit for name, limit in limits.items() if limit.of_requests}
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="requests")
        self._connection: psycopg.Connection[Any] | None = None
        self._over: list[str] = []  # requests whose rows are to be given back
        self._giving: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def place(self, model: str) -> AsyncIterator[None]:
        """Wait until a request of a model may begin; it ends with the block."""
        limit = self._limits.get(model)
        if limit is None:
            yield
            return
        request_id = uuid.uuid4().hex
        try:
            async with self._turns[model]:
                while not await self._take(request_id, model, limit):  # noqa: ASYNC110  # room comes from other processes
                    await asyncio.sleep(LOOK_S)
            yield
        finally:
            # Also where it was cancelled: the row may be there. The thread takes it first, then gives it back.
            self._over.append(request_id)
            if self._giving is None or self._giving.done():
                self._giving = asyncio.create_task(self._give_back(), name="cluster:requests")

    async def close(self) -> None:
        """Disconnect. What is not given back is so when this worker has left."""
        if self._giving is not None:
            self._giving.cancel()
            await asyncio.gather(self._giving, return_exceptions=True)
        self._thread.submit(self._drop)
        self._thread.shutdown(wait=False)

    async def _take(self, request_id: str, model: str, limit: ModelLimit) -> bool:
        about = {
            "schema": self._schema,
            "model": model,
            "id": request_id,
            "member": self._member,
            "most": limit.requests,
            "rate": limit.requests_per_minute,
        }

        def take(connection: psycopg.Connection[Any]) -> bool:
            with connection.transaction():
                connection.execute(_TURN, about)
                return connection.execute(_TAKE.format(schema=self._schema), about).fetchone() is not None

        return await self._done(take)

    async def _give_back(self) -> None:
        while self._over:
            ids = [*self._over]

            def give(connection: psycopg.Connection[Any], ids: list[str] = ids) -> bool:
                connection.execute(f"UPDATE {self._schema}.requests SET over = true WHERE id = ANY(%s)", (ids,))
                return True

            if await self._done(give):
                del self._over[: len(ids)]

    async def _done(self, work: Callable[[psycopg.Connection[Any]], bool]) -> bool:
        """Return what a piece of work gives; False, after a while, where the database did not answer."""

        def attempt() -> bool:
            try:
                return work(self._connect())
            except BaseException:
                self._drop()
                raise

        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, attempt)
        except (psycopg.OperationalError, psycopg.InterfaceError, StoreError):
            await asyncio.sleep(_AGAIN_S)
            return False

    def _connect(self) -> psycopg.Connection[Any]:
        if self._connection is None:
            connection: psycopg.Connection[Any] = self._store.connect()
            connection.autocommit = True
            connection.execute(f"SET statement_timeout TO '{ANSWER_S:g}s'")
            self._connection = connection
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()
