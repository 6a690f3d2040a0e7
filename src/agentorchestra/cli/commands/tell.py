"""`agentorchestra tell`."""

from __future__ import annotations

from pathlib import Path

import click

from agentorchestra.cli.driving import Stop, run_async
from agentorchestra.cli.options import WORDS, run_argument, workspace_option
from agentorchestra.cli.output import command, emit
from agentorchestra.cli.workspaces import abandoned, opened_run
from agentorchestra.core.errors import UsageError
from agentorchestra.core.spec import FINAL, RunStatus


@click.command(
    short_help="Add to the task of a run; it is read at the next step.",
    epilog="""\b
Examples:
  agentorchestra tell last "only count the open ones"

\b
Exit codes: 0; 2 if there is no such run, or it is over.""",
)
@run_argument
@click.argument("text", metavar="TEXT", type=WORDS)
@workspace_option
def tell(run: str, text: str, folder: Path) -> int:
    """Tell RUN something while it works: TEXT counts as your own words, like the task.

    The top agent reads it at its next step. If nobody drives the run, it is read after a resume.
    """

    async def work(stop: Stop) -> int:
        async with opened_run(folder, run) as (workspace, record):
            if record.status in FINAL:
                raise UsageError(f"run {record.id} is over ({record.status.value}) and reads nothing; start a new run")
            await workspace.tell(record.id, text, by="cli")
            gone = await abandoned(workspace, record)
        if record.status is RunStatus.RUNNING and not gone:
            emit(f"told {record.id}; it is read at the next step")
        else:
            emit(f"told {record.id}; it is read when the run goes on: {command('resume', record.id, folder)}")
        return 0

    return run_async(work)
