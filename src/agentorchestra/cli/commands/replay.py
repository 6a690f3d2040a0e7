"""`agentorchestra replay`."""

from __future__ import annotations

from pathlib import Path

import click

from agentorchestra.cli.driving import Stop, run_async
from agentorchestra.cli.options import json_option, run_argument, workspace_option
from agentorchestra.cli.output import emit, emit_json, plural
from agentorchestra.cli.workspaces import opened_run


@click.command(
    short_help="Check that today's code and prompts repeat a recorded run.",
    epilog="""\b
Examples:
  agentorchestra replay last
  agentorchestra replay run_01K9 --json

\b
Exit codes: 0 identical, 1 diverged, 2 wrong usage.""",
)
@run_argument
@json_option("one object")
@workspace_option
def replay(run: str, as_json: bool, folder: Path) -> int:
    """Run today's code and prompts against the recording of RUN, and say whether they ask for the same.

    No model is asked and nothing is done: what the log holds is given back. The first difference is named.
    """

    async def work(stop: Stop) -> int:
        async with opened_run(folder, run, app=True) as (workspace, record):
            report = await workspace.replay(record.id)
        if as_json:
            emit_json({"identical": True, **report.model_dump(mode="json")})
        else:
            emit(f"identical: {plural(report.keys, 'key')} of {report.run_id} ({report.status.value})")
        return 0

    return run_async(work)
