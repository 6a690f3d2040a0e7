"""`agentorchestra submit`, `worker` and `status`: runs of many machines."""

from __future__ import annotations

import asyncio
import os
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentorchestra.cli.driver import async_command, logs_in_lines
from agentorchestra.cli.options import (
    WORDS,
    json_option,
    option,
    task_in,
    unsafe_option,
    workspace_option,
    workspace_options,
)
from agentorchestra.cli.output import clean, emit, emit_either, emit_json, plural, say
from agentorchestra.cli.start import spec_of, spec_options
from agentorchestra.cli.workspaces import find_run, opening
from agentorchestra.core.errors import UsageError
from agentorchestra.core.protocols import Acceptance

if TYPE_CHECKING:
    from agentorchestra.cluster import WorkerStanding
    from agentorchestra.workspace import Workspace

_DATABASE = "AGENTORCHESTRA_DATABASE"


def _use(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        os.environ[_DATABASE] = value  # where the settings look for it


database_option = option(
    "--database",
    metavar="URL",
    expose_value=False,
    callback=_use,
    help="postgresql://user@host:5432/name. Others on this machine can see arguments: keep a password in PGPASSWORD, "
    ".pgpass or the settings.  [default: from the settings]",
)


@async_command(
    epilog="""\b
Examples:
  agentorchestra submit "What is the notice period?" --file contract.pdf
  agentorchestra submit "Check the site" --tag browser --priority 2
  agentorchestra submit --again run_01K9
  run=$(agentorchestra submit "How many?" --file data.csv)
  agentorchestra tail "$run"

\b
Needs the extra `cluster` and a database: docs/cluster.md.
Exit codes: 0 when it is queued; 2 wrong usage; 1 if the database cannot be used."""
)
@click.argument("task", metavar="[TASK]", type=WORDS, required=False)
@option("--again", metavar="RUN", help="Queue a run that stopped, to go on with it.")
@spec_options
@option("--tag", "tags", multiple=True, metavar="TAG", help="What its worker must have, e.g. gpu.")
@click.option("--priority", metavar="N", type=click.IntRange(1, 9), help="1 is the first, 9 the last.  [default: 5]")
@json_option("one object with the run's id")
@database_option
@workspace_options
async def submit(
    task: str | None,
    again: str | None,
    tags: tuple[str, ...],
    priority: int | None,
    as_json: bool,
    folder: Path,
    **fields: Any,
) -> int:
    """Queue TASK for the workers of the database, and print the id of its run; a TASK of - is read from stdin."""
    from agentorchestra.cluster import Jobs
    from agentorchestra.cluster.jobs import PRIORITY, TAGS, check_tags, queue_of

    if (task is None) == (again is None):
        raise UsageError("give a TASK or --again RUN, one of the two")
    spec = spec_of((task_in() if task == "-" else task) or "", **fields)
    own = dict(spec.labels)
    if tags:
        own[TAGS] = ",".join(check_tags(tags))
    if priority is not None:
        own[PRIORITY] = str(priority)
    async with opening(folder) as workspace, Jobs(workspace) as jobs:
        if again is not None:
            run_id = (await find_run(workspace, again)).id
            await workspace.runs.enqueue(run_id, budget=spec.budget)
            await jobs.submit(run_id)
        else:
            spec = spec.model_copy(update={"labels": own})
            queue_of(
                spec.labels, spec.model or workspace.settings.model, workspace.settings
            )  # refused before it is made
            run_id = await workspace.create(spec, accepted=Acceptance(datetime.now(UTC)))
            await jobs.submit(run_id)
    emit_either(as_json, {"run_id": run_id}, run_id)
    return 0


@click.command(
    epilog="""\b
Examples:
  agentorchestra worker
  agentorchestra worker --concurrency 16 --tags browser,gpu

\b
Needs the extra `cluster` and a database: docs/cluster.md.
Exit codes: 0 when it was stopped (Ctrl-C, SIGTERM); 1 if it lost its lock or the
database cannot be used; 2 wrong usage (other workers with other settings)."""
)
@option(
    "--concurrency",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=8,
    help="Runs at the same time, of each queue; the same for all workers of a database.",
)
@option("--tags", metavar="A,B", default="", help="What this machine has: runs may ask for it.")
@unsafe_option
@database_option
@workspace_options
def worker(concurrency: int, tags: str, unsafe_local: bool, folder: Path) -> int:
    """Drive the runs that are queued in the database, until Ctrl-C or SIGTERM.

    When it is told to stop, what is under way ends within `cluster.hand_on_s` seconds, and other workers go on with its
    runs. When it dies, stops or hangs, they do too. While the database is away, also at the start, it waits for
    `database_retry_s` seconds.
    """
    from agentorchestra.cluster import Worker, until_reached

    async def work() -> None:
        async def open_(workspace: Workspace[Any]) -> None:
            await until_reached(workspace.open, lambda: workspace.settings.database_retry_s)

        async with opening(folder, unsafe_local=unsafe_local, open_=open_) as workspace:
            driver = Worker(workspace, concurrency=concurrency, tags=tags.split(","))
            loop = asyncio.get_running_loop()
            for signum in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(signum, driver.stop)
            started = asyncio.Event()
            running = asyncio.create_task(driver.run(started))
            waiting = asyncio.create_task(started.wait())
            await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if started.is_set():
                emit(f"worker {driver.id}")
                say(f"driving runs of {workspace.folder}; Ctrl-C stops it")
            await running

    with logs_in_lines("agentorchestra.cluster", "dbos"):
        asyncio.run(work())
    return 0


@async_command(
    epilog="""\b
Examples:
  agentorchestra status
  agentorchestra status --json | jq .queues

\b
Needs the extra `cluster` and a database: docs/cluster.md.
Exit codes: 0; 1 if the database cannot be used; 2 wrong usage."""
)
@json_option("one object with workers, queues and runs")
@database_option
@workspace_option
async def status(as_json: bool, folder: Path) -> int:
    """Show the workers of the database, what is queued, and how its runs stand."""
    from agentorchestra.cluster import Jobs, standing

    async with opening(folder, app=False) as workspace, Jobs(workspace) as jobs:
        report = await standing(workspace, jobs)
    if as_json:
        emit_json(report)
        return 0
    emit(plural(sum(peer.alive for peer in report.workers), "worker"))
    for peer in report.workers:
        label = f"{peer.kind} {peer.host}:{peer.pid} {peer.version}"
        tags = f", tags {', '.join(peer.tags)}" if peer.tags else ""
        emit(clean(f"  {label}: {plural(len(peer.runs), 'run')} of {peer.concurrency} a queue{tags}{_liveness(peer)}"))
    emit(f"{plural(sum(report.queues.values()), 'run')} queued")
    for queue, count in report.queues.items():
        emit(clean(f"  {queue}: {count}"))
    for version, count in report.no_worker.items() if report.workers else ():
        emit(clean(f"  {plural(count, 'run')} for code {version}, which no worker has: start one of that version"))
    emit("runs: " + (", ".join(f"{count} {name}" for name, count in report.statuses.items()) or "none"))
    for refusal in report.refused:
        emit(clean(f"{refusal.run_id} could not be driven: {refusal.error}"))
    return 0


def _liveness(worker: WorkerStanding) -> str:
    """Return what is wrong with a worker, "" for one that lives."""
    follows = "its runs are about to be taken over"
    silent = "" if worker.silent_s is None else f", has not answered for {worker.silent_s:.0f} s"
    if worker.alive:
        when = f": its runs are taken over {worker.lease_s:g} s after its last beat"
        return f"{silent}{when}" if worker.silent_s is not None else ""
    return f"{silent}: {follows}" if silent else f", gone: {follows}"


__all__ = ["status", "submit", "worker"]
