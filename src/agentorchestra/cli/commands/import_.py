"""`agentorchestra import`."""

from __future__ import annotations

from pathlib import Path

import click

from agentorchestra.cli.driver import Stop, run_async
from agentorchestra.cli.options import FilePath, json_option, workspace_option
from agentorchestra.cli.output import emit, emit_json, plural
from agentorchestra.cli.workspaces import opened


@click.command(
    name="import",
    short_help="Take a run that another machine exported into this workspace.",
    epilog="""\b
Examples:
  agentorchestra import run_01K9.zip
  agentorchestra import events.jsonl --json

\b
Exit codes: 0, also for a run that is here already with the same events;
2 if the file is refused: nothing was imported then.""",
)
@click.argument("file", metavar="FILE", type=FilePath())
@json_option("a list of objects")
@workspace_option
def import_(file: Path, as_json: bool, folder: Path) -> int:
    """Take the run of a bundle, or whole logs that `log --jsonl` wrote, into this workspace.

    Everything in FILE is checked before anything is written, and nothing in it is executed: an imported run can be
    shown and replayed without the tools it used. To go on with it (`resume`), they must be here.
    """

    async def work(stop: Stop) -> int:
        async with opened(folder, app=False) as workspace:
            done = await workspace.import_file(file)
        if as_json:
            emit_json([{**one._asdict(), "status": one.status.value} for one in done])
            return 0
        for one in done:
            if one.identical:
                emit(f"{one.run_id} is here already, with the same {plural(one.events, 'event')}: nothing to do")
            else:
                forked = f", forked from {one.parent_run}" if one.parent_run else ""
                emit(f"{one.run_id}  {one.status.value}  {plural(one.events, 'event')}{forked}")
        return 0

    return run_async(work)
