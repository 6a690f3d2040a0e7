"""The jobs "drive this run", which DBOS keeps in the workspace's database: one queue for each set of tags."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from types import TracebackType
from typing import Any, Self

import psycopg
import sqlalchemy
from dbos import DBOS, DBOSClient, DBOSPortableJSONSerializer, EnqueueOptions, WorkflowStatus

from agentorchestra.core.errors import ClusterError, UnknownRunError, UsageError
from agentorchestra.core.events import DrivingStarted
from agentorchestra.core.protocols import RunRecord
from agentorchestra.core.settings import ModelLimit, Settings
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.store import PostgresStore
from agentorchestra.workspace import Workspace
from agentorchestra.workspace.catalog import code_digest

TAGS = "queue.tags"  # the label of a run that names what its worker must have, separated by commas
PRIORITY = "queue.priority"  # the label of a run with its priority: 1 is the first, 9 the last
NAME = "agentorchestra"  # the application, as DBOS knows it
FORMAT = "2"  # the version of a job's arguments, with which DBOS's application version begins
DRIVE = "drive"  # the name of the workflow

UNDER_WAY = ["ENQUEUED", "PENDING"]

POLL_S = 0.2  # how often a worker looks at a queue

MIDDLE = 5
_PRIORITIES = range(1, 10)
_MOST_TAGS = 6


def database_of(ws: Workspace[Any]) -> PostgresStore:
    """Return the store of a workspace that lies in a database; raise UsageError if it does not."""
    if not isinstance(ws.store, PostgresStore):
        raise UsageError(
            "a queue needs a database that all machines reach, and this workspace lies in its folder; set "
            '`database = "postgresql://..."` in agentorchestra.toml (docs/stores.md), or give --database'
        )
    return ws.store


def dbos_schema(store: PostgresStore) -> str:
    return f"{store.schema}_dbos"


def engine_of(store: PostgresStore) -> sqlalchemy.Engine:
    # With Address.url in place of a SQLAlchemy URL, libpq reads passwords and services as everywhere.
    return sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=store.connect, pool_size=5, max_overflow=5, pool_pre_ping=True
    )


def check_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return tags in order, each once; raise UsageError for one that is no word, or too many."""
    names = tuple(sorted({tag.strip() for tag in tags} - {""}))
    for tag in names:
        if not tag.replace("-", "").replace("_", "").isalnum() or not tag.isascii():
            raise UsageError(f"the tag {tag!r} is no word; a tag has letters, digits, - and _")
    if len(names) > _MOST_TAGS:
        raise UsageError(f"{len(names)} tags are given ({', '.join(names)}); {_MOST_TAGS} at most")
    return names


def check_priority(text: str) -> int:
    """Return a priority; UsageError if it is none."""
    if not (text.isascii() and text.isdecimal() and int(text) in _PRIORITIES):
        raise UsageError(f"the priority is {text!r}; it is from 1 (first) to 9 (last), and {MIDDLE} if none is given")
    return int(text)


def queue_name(tags: Sequence[str], model: str = "") -> str:
    """Return the queue of runs with these tags, or of a model whose runs are limited."""
    return f"runs@{model}" if model else "+".join(("runs", *tags))


def queue_of(labels: Mapping[str, str], model: str, settings: Settings) -> tuple[str, int]:
    """Return the queue that a run of these labels and this model belongs to, and its priority.

    Raises:
        UsageError: for labels that are no tags or no priority, or tags beside a limited model.
    """
    tags = check_tags(labels.get(TAGS, "").split(","))
    priority = check_priority(labels.get(PRIORITY, str(MIDDLE)))
    scarce = model if model in _limits_of_runs(settings) else ""
    if scarce and tags:
        raise UsageError(
            f"runs of the model {scarce!r} are limited over all workers (cluster.limits), and cannot ask for workers "
            f"with tags ({', '.join(tags)}); leave the tags or the limit out"
        )
    return queue_name(tags, scarce), priority


def queues_of(tags: Sequence[str], settings: Settings) -> dict[str, ModelLimit | None]:
    every = [subset for size in range(len(tags) + 1) for subset in combinations(tags, size)]
    names: dict[str, ModelLimit | None] = {queue_name(subset): None for subset in every}
    return names | {queue_name((), model): limit for model, limit in _limits_of_runs(settings).items()}


def _limits_of_runs(settings: Settings) -> dict[str, ModelLimit]:
    return {model: limit for model, limit in settings.cluster.limits.items() if limit.of_runs}


def version_of(code: str) -> str:
    """Return DBOS's application version of workers with this code (`code_digest`): they take the jobs of theirs."""
    return f"{FORMAT}.{code}"


_OLD_VERSIONS = """
SELECT DISTINCT application_version FROM {schema}.workflow_status WHERE status = 'ENQUEUED' AND name = %(name)s
"""
_HAND_OVER = """
UPDATE {schema}.workflow_status SET application_version = %(to)s
WHERE status = 'ENQUEUED' AND name = %(name)s AND application_version IS NOT DISTINCT FROM %(version)s
"""


@contextlib.contextmanager
def connection_errors() -> Iterator[None]:
    """Raise ConnectionError for what the driver, and DBOS where it does not try again, raise without a database."""
    away = (psycopg.OperationalError, psycopg.InterfaceError)
    try:
        yield
    except (*away, sqlalchemy.exc.OperationalError, sqlalchemy.exc.InterfaceError) as exc:
        raise ConnectionError(str(exc)) from None


class Jobs:
    """The queues of a workspace: what is submitted here, some worker drives.

    Args:
        ws: open, in a database.

    Raises:
        UsageError: if it lies elsewhere.
    """

    def __init__(self, ws: Workspace[Any]) -> None:
        self._ws = ws
        self._store = database_of(ws)
        self._client: DBOSClient | None = None
        self._engine: sqlalchemy.Engine | None = None
        self._known: set[str] = set()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect; make DBOS's tables. StoreUnavailableError without a database, ClusterError without rights."""
        await asyncio.to_thread(self._open)

    def _open(self) -> None:
        quieten()
        schema = dbos_schema(self._store)
        self._engine = engine_of(self._store)
        try:
            url = self._store.address.url
            DBOS.migrate("postgresql://" + url.split("://", 1)[1], schema=schema)
            self._client = DBOSClient(
                system_database_engine=self._engine,
                dbos_system_schema=schema,
                serializer=DBOSPortableJSONSerializer(),
                application_name=NAME,
            )
        except sqlalchemy.exc.SQLAlchemyError as exc:
            self._engine.dispose()
            if (away := self._store.away(exc)) is not None:
                raise away from None
            reason = str(getattr(exc, "orig", exc)).splitlines()[0]
            raise ClusterError(
                f"the queue in {self._store.address.shown} cannot be opened ({reason}); the user needs the right to "
                f"create the schema {schema}"
            ) from None

    async def close(self) -> None:
        client, self._client = self._client, None
        engine, self._engine = self._engine, None
        if client is not None:
            await asyncio.to_thread(client.destroy)
        if engine is not None:
            engine.dispose()

    @property
    def _open_client(self) -> DBOSClient:
        assert self._client is not None, "open the jobs first"
        return self._client

    async def register(self, queues: dict[str, ModelLimit | None], *, concurrency: int | None) -> None:
        """Make queues, with what each worker drives at a time, and the limits over all workers."""
        for name, limit in queues.items():
            over_all = limit.concurrency if limit is not None else None
            rate = limit.per_minute if limit is not None else None
            here = concurrency if over_all is None or concurrency is None else min(concurrency, over_all)
            await self._open_client.register_queue_async(
                name,
                global_concurrency=over_all,
                worker_concurrency=here,
                limiter=None if rate is None else {"limit": rate, "period": 60.0},
                polling_interval_sec=POLL_S,
                on_conflict="always_update" if concurrency is not None else "never_update",
                application_name=NAME,
            )

    async def submit(self, run_id: str) -> None:
        """Queue the job to drive a run that goes on by itself; nothing happens where it is queued or driven already.

        A run that stopped (paused, cancelled, failed, out of budget) is queued after `Workspace.enqueue`.

        Workers take it that have the code which drove the run last. When there are none any more, the leading worker
        hands it to those of later code (`hand_over`).

        Args:
            run_id: the run; its labels name its tags and its priority.

        Raises:
            UnknownRunError, UsageError.
        """
        record = await self.record(run_id)
        queue, priority = queue_of(record.manifest.labels, record.manifest.model, self._ws.settings)
        if queue not in self._known:
            limit = _limits_of_runs(self._ws.settings).get(record.manifest.model)
            await self.register({queue: limit}, concurrency=None)
            self._known.add(queue)
        first = record.status is RunStatus.CREATED
        options: EnqueueOptions = {
            "workflow_name": DRIVE,
            "queue_name": queue,
            "workflow_id": run_id if first else f"{run_id}:{uuid.uuid4().hex[:12]}",
            "deduplication_id": run_id,
            "duplication_policy": "return-existing",
            "priority": priority,
            "app_version": version_of(await self._code_of(record)),
        }
        await self._open_client.enqueue_async(options, run_id)

    async def _code_of(self, record: RunRecord) -> str:
        """Return the code that drove a run last, this process's for one that nobody drove."""
        own = await asyncio.to_thread(code_digest)
        if record.status is RunStatus.CREATED and record.manifest.part_of is None:
            return own
        starts = (event.data for event in await self._store.load(record.id) if event.type == "driving_started")
        codes = [body.code for body in starts if isinstance(body, DrivingStarted) and body.code]
        return codes[-1] if codes else own

    async def hand_over(self, living: Iterable[str]) -> dict[str, int]:
        """Hand queued jobs of code that no worker has any more to workers of later code; return how many by version.

        A run that a worker drove never goes back to earlier code, which may not understand what was recorded. The order
        of code is that in which workers first had it; code that no worker ever had (of a command, a server) has no
        place in it, and its runs are for any worker.

        Args:
            living: the application versions of the workers that are there.
        """
        versions = await self._open_client.list_application_versions_async()
        order = {version["version_name"]: version["created_at"] for version in versions}
        workers = sorted((version for version in living if version in order), key=lambda version: order[version])
        if not workers:
            return {}

        def move() -> dict[str, int]:
            schema, counts = dbos_schema(self._store), {}
            with self._store.connect() as connection:
                rows = connection.execute(_OLD_VERSIONS.format(schema=schema), {"name": DRIVE}).fetchall()
                for (version,) in rows:
                    later = version not in order or order[version] < order[workers[-1]]
                    if version not in workers and later:
                        values = {"to": workers[-1], "name": DRIVE, "version": version}
                        counts[str(version)] = connection.execute(_HAND_OVER.format(schema=schema), values).rowcount
            return counts

        return await asyncio.to_thread(move)

    async def record(self, run_id: str) -> RunRecord:
        record = await self._store.get_run(run_id)
        if record is None:
            raise UnknownRunError(f"no run {run_id!r} in this workspace; `agentorchestra runs` lists them")
        return record

    async def under_way(self, *, limit: int | None = None) -> list[WorkflowStatus]:
        return await self._open_client.list_workflows_async(
            status=UNDER_WAY, application_name=NAME, limit=limit, load_input=False, load_output=False
        )

    async def past_jobs(self, *, limit: int) -> list[WorkflowStatus]:
        """Return the last jobs that ended, newest first."""
        return await self._open_client.list_workflows_async(
            status=["SUCCESS", "ERROR"], application_name=NAME, limit=limit, sort_desc=True
        )

    async def takers(self) -> frozenset[str]:
        pending = await self._open_client.list_workflows_async(
            status="PENDING", application_name=NAME, load_input=False, load_output=False
        )
        return frozenset(job.executor_id for job in pending if job.executor_id)

    async def put_back(self, executor: str, *, job: str | None = None) -> list[str]:
        """Queue again the jobs, or only `job`, of a worker that is dead or gives them up; return their runs."""
        # Only those at work: a job that was cancelled would be begun again.
        pending = await self._open_client.list_workflows_async(
            status="PENDING", executor_id=executor, application_name=NAME, load_input=False, load_output=False
        )
        jobs = [status for status in pending if job in (None, status.workflow_id)]
        for queue in sorted({str(job.queue_name) for job in jobs}):
            ids = [job.workflow_id for job in jobs if job.queue_name == queue]
            await self._open_client.resume_workflows_async(ids, queue_name=queue)
        return [run_of(job.workflow_id) for job in jobs]

    async def drop(self, run_id: str) -> None:
        """Take the first job of a run, which has ended, out of its queue."""
        await self._open_client.cancel_workflow_async(run_id)

    async def forget(self, before: str, *, limit: int = 1000) -> int:
        """Delete jobs that ended before a time (ISO 8601); return how many."""
        old = await self._open_client.list_workflows_async(
            status=["SUCCESS", "ERROR"],
            completed_before=before,
            application_name=NAME,
            limit=limit,
            load_input=False,
            load_output=False,
        )
        if old:
            await self._open_client.delete_workflows_async([job.workflow_id for job in old])
        return len(old)


def run_of(job: str) -> str:
    return job.partition(":")[0]


def quieten() -> None:
    """Let DBOS say only what went wrong, to whoever listens to its logger."""
    logger = logging.getLogger("dbos")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    logger.setLevel(logging.WARNING)
