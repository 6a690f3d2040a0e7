"""`agentorchestra pause`."""

from __future__ import annotations

from pathlib import Path

import click

from agentorchestra.cli.driver import Stop, run_async
from agentorchestra.cli.options import WORDS, run_argument, workspace_option
from agentorchestra.cli.output import command, emit
from agentorchestra.cli.workspaces import opened_run
from agentorchestra.core.spec import FINAL, RunStatus


@click.command(
    short_help="Stop a run before its next step; resume goes on.",
    epilog="""\b
Examples:
  agentorchestra pause last
  agentorchestra pause run_01K9 --reason "after lunch"

\b
Exit codes: 0; 2 if there is no such run.""",
)
@run_argument
@click.option("--reason", metavar="TEXT", type=WORDS, default="", help="Is kept in the log.")
@workspace_option
def pause(run: str, reason: str, folder: Path) -> int:
    """Stop RUN before it asks a model or uses a tool again, wherever it is driven.

    What is under way ends and is recorded: nothing is interrupted, and nothing is paid twice. A run nobody drives is
    paused at once. It stays paused, also when its question is answered, until `agentorchestra resume`.
    """

    async def work(stop: Stop) -> int:
        async with opened_run(folder, run) as (workspace, record):
            now = await workspace.pause(record.id, reason=reason, by="cli")
        go_on = command("resume", record.id, folder)
        if record.status is RunStatus.PAUSED:
            emit(f"{record.id} is paused already; to go on: {go_on}")
        elif now is RunStatus.PAUSED:
            emit(f"{record.id} is paused; to go on: {go_on}")
        elif now in FINAL:
            emit(f"{record.id} is over already ({now.value}); nothing was changed")
        elif now in (RunStatus.RUNNING, RunStatus.WAITING):
            emit(
                f"the process that drives {record.id} was asked to pause: it ends what is under way first; "
                f"see {command('show', record.id, folder)}"
            )
        else:
            emit(f"{record.id} is not under way ({now.value}); nothing was changed; to go on: {go_on}")
        return 0

    return run_async(work)
