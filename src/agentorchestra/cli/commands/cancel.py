"""`agentorchestra cancel`."""

from __future__ import annotations

from pathlib import Path

import click

from agentorchestra.cli.driver import Stop, run_async
from agentorchestra.cli.options import WORDS, run_argument, workspace_option
from agentorchestra.cli.output import command, emit
from agentorchestra.cli.workspaces import opened_run
from agentorchestra.core.spec import FINAL, RunStatus


@click.command(
    short_help="Stop a run, wherever it is driven.",
    epilog="""\b
Examples:
  agentorchestra cancel last
  agentorchestra cancel run_01K9 --reason "wrong file"

\b
Exit codes: 0; 2 if there is no such run.""",
)
@run_argument
@click.option("--reason", metavar="TEXT", type=WORDS, default="", help="Is kept in the log.")
@workspace_option
def cancel(run: str, reason: str, folder: Path) -> int:
    """Stop RUN. The process that drives it stops at once; a run nobody drives is marked as cancelled.

    What is recorded stays: `agentorchestra resume` can still go on.
    """

    async def work(stop: Stop) -> int:
        async with opened_run(folder, run) as (workspace, record):
            if record.status in FINAL or record.status is RunStatus.CANCELLED:
                emit(f"{record.id} is over already ({record.status.value}); nothing was changed")
                return 0
            await workspace.cancel(record.id, reason=reason, by="cli")
            now = await workspace.result(record.id)
        if now.status is RunStatus.CANCELLED:
            emit(f"{record.id} is cancelled; to go on after all: {command('resume', record.id, folder)}")
        else:
            emit(f"the process that drives {record.id} was asked to stop; see {command('show', record.id, folder)}")
        return 0

    return run_async(work)
