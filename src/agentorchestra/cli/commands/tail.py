"""`agentorchestra tail`: follow a run that another process drives."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import click

from agentorchestra.cli.driver import async_command
from agentorchestra.cli.options import run_argument, workspace_option
from agentorchestra.cli.output import clean, command, emit, emit_json, question_lines, say, summary_line
from agentorchestra.cli.progress import Progress
from agentorchestra.cli.workspaces import is_abandoned, opened_run
from agentorchestra.core.errors import UnknownRunError
from agentorchestra.core.spec import RunStatus, exit_code

LOOK_S = 1.0  # how often it is asked, without news of the log, whether the process that drives the run is still there

_NOT_OVER = (RunStatus.CREATED, RunStatus.RUNNING)


@async_command(
    epilog="""\b
Examples:
  agentorchestra tail last
  agentorchestra tail run_01K9 --json | jq .type

\b
Exit codes: as for `agentorchestra run`, by how the run ended; 3 also if the
process that drove it is gone; 130 after Ctrl-C, which does not touch the run."""
)
@run_argument
@click.option("--json", "as_json", is_flag=True, help="Print each event of the log as a JSON object in one line.")
@workspace_option
async def tail(run: str, as_json: bool, folder: Path) -> int:
    """Print what RUN did so far, a line for each thing, and what it does from now on, until it ends or waits.

    Everything comes from the log, so any process can follow, and one that comes late misses nothing.
    """
    async with opened_run(folder, run) as (workspace, record):
        with workspace.store.follow(record.id) as news:
            progress = Progress()
            seen = 0
            while True:
                news.clear()
                # The status first: the events that led to it are then in the log.
                now = await workspace.store.get_run(record.id)
                if now is None:
                    raise UnknownRunError(f"run {record.id} is no longer in {folder}")
                dead = await is_abandoned(workspace, now)
                for event in await workspace.log.events(record.id, after=seen):
                    seen = event.seq
                    if as_json:
                        read = emit_json(event.model_dump(mode="json"), indent=None)
                    else:
                        line = progress.line(event)
                        read = line is None or emit(clean(line))
                    if not read:
                        return 0  # whoever read has seen enough
                if now.status not in _NOT_OVER or dead:
                    break
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await news.wait()
        result = await workspace.runs.result(record.id)
    if dead:
        say(f"the process that drove {record.id} is gone; to go on: {command('resume', record.id, folder)}")
        return exit_code(RunStatus.PAUSED)
    if not as_json:
        emit(summary_line(result))
        for line in question_lines(result.questions, record.id, folder):
            say(line)
    return exit_code(result.status)
