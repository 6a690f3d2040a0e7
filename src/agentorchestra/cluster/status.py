"""How the queue, the workers and the jobs of a database stand."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from dbos import WorkflowStatus
from pydantic import BaseModel

from agentorchestra.cluster.jobs import Jobs, database_of, dbos_schema, run_of
from agentorchestra.cluster.members import members_of
from agentorchestra.core.ids import PART
from agentorchestra.workspace import Workspace


class WorkerStanding(BaseModel, frozen=True):
    """A worker.

    Attributes:
        alive: whether it holds its lock, and has answered within its lease; a dead one is gone as soon as another
            worker has taken its runs over.
        silent_s: for how long it has not answered, where several of its beats did not come; else None.
        lease_s: for how long it may be silent.
        runs: that it has taken.
    """

    id: str
    kind: str
    host: str
    pid: int
    version: str
    concurrency: int | None
    tags: tuple[str, ...]
    since_s: float
    alive: bool
    silent_s: float | None = None
    lease_s: float
    runs: tuple[str, ...]


class QueuedRun(BaseModel, frozen=True):
    """A run whose job is queued."""

    run_id: str
    queue: str
    priority: int
    waiting_s: float


class RefusedRun(BaseModel, frozen=True):
    """A run that no worker could drive; `agentorchestra submit --again RUN` queues it once more."""

    run_id: str
    error: str
    error_type: str


class Standing(BaseModel, frozen=True):
    """What `agentorchestra status` shows.

    Attributes:
        queued: in the order in which they are taken, the first of them.
        queues: how many runs are queued, by queue.
        statuses: how many runs there are, by status.
        refused: the last jobs that could not drive their run.
        no_worker: how many queued runs are for code that no worker has, by its version.
    """

    workers: tuple[WorkerStanding, ...]
    queued: tuple[QueuedRun, ...]
    queues: dict[str, int]
    statuses: dict[str, int]
    refused: tuple[RefusedRun, ...]
    no_worker: dict[str, int] = {}


async def standing(ws: Workspace[Any], jobs: Jobs, *, most: int = 20) -> Standing:
    """Return how everything stands; `most` runs of the queue by name."""
    store = database_of(ws)
    members = await asyncio.to_thread(members_of, store, dbos_schema(store))
    under_way = await jobs.under_way()
    queue = sorted((job for job in under_way if job.status == "ENQUEUED"), key=_order)
    now = datetime.now(UTC).timestamp() * 1000
    codes = {member.about.get("code") for member in members if member.alive}
    results = await jobs.past_jobs(limit=200)
    statuses = Counter(run.status.value for run in await ws.store.run_states() if not run.id.startswith(PART))
    return Standing(
        workers=tuple(
            WorkerStanding(
                id=member.id,
                since_s=round(member.since_s, 1),
                alive=member.alive,
                silent_s=round(member.silent_s, 1) if member.missing else None,
                lease_s=member.lease_s,
                runs=tuple(
                    run_of(job.workflow_id)
                    for job in under_way
                    if job.status == "PENDING" and job.executor_id == member.id
                ),
                **{name: member.about[name] for name in ("kind", "host", "pid", "version", "concurrency", "tags")},
            )
            for member in members
        ),
        queued=tuple(
            QueuedRun(
                run_id=run_of(job.workflow_id),
                queue=str(job.queue_name),
                priority=job.priority or 0,
                waiting_s=round(max(0.0, now - (job.created_at or now)) / 1000, 1),
            )
            for job in queue[:most]
        ),
        queues=dict(sorted(Counter(str(job.queue_name) for job in queue).items())),
        statuses=dict(sorted(statuses.items())),
        refused=tuple(
            RefusedRun(run_id=run_of(job.workflow_id), **failure)
            for job in results
            if (failure := _error(job)) is not None
        )[:most],
        no_worker=dict(sorted(Counter(str(job.app_version) for job in queue if job.app_version not in codes).items())),
    )


def _order(job: WorkflowStatus) -> tuple[int, int]:
    return (job.priority or 0, job.created_at or 0)


def _error(job: WorkflowStatus) -> dict[str, str] | None:
    """Return why a job did not drive its run: what the worker said, or a bug that DBOS noted."""
    if isinstance(job.output, dict) and "error" in job.output:
        return {"error": str(job.output["error"]), "error_type": str(job.output["error_type"])}
    return None if job.error is None else {"error": str(job.error), "error_type": type(job.error).__name__}
