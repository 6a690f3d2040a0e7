from __future__ import annotations

from pathlib import Path

from agentorchestra.cli.driver import async_command
from agentorchestra.cli.options import json_option, pin_option, run_argument, workspace_option
from agentorchestra.cli.output import emit_either, plural
from agentorchestra.cli.workspaces import opened_run


@async_command(
    epilog="""\b
Examples:
  agentorchestra replay last
  agentorchestra replay run_01K9 --json
  agentorchestra replay last --pin

\b
Exit codes: 0 identical, 1 diverged, 2 wrong usage."""
)
@run_argument
@pin_option
@json_option("one object")
@workspace_option
async def replay(run: str, pin: bool, as_json: bool, folder: Path) -> int:
    """Run today's code and prompts against the recording of RUN, and say whether they ask for the same.

    No model is asked and nothing is done: what the log holds is given back. The first difference is named. With
    --pin the prompts and tools are the ones the run was started with, so that only the rest of the code is tried.
    """
    async with opened_run(folder, run, app=True) as (workspace, record):
        report = await workspace.replay(record.id, pin=pin)
    text = f"identical: {plural(report.keys, 'key')} of {report.run_id} ({report.status.value})"
    emit_either(as_json, {"identical": True, **report.model_dump(mode="json")}, text)
    return 0
