"""`agentorchestra runs`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from agentorchestra.cli.driving import Stop, run_async
from agentorchestra.cli.options import json_option, workspace_option
from agentorchestra.cli.output import clean, emit, emit_json, one_line, say
from agentorchestra.cli.workspaces import exists, opened
from agentorchestra.core.protocols import RunRecord


@click.command(
    short_help="List the runs of the workspace, newest first.",
    epilog="""\b
Examples:
  agentorchestra runs
  agentorchestra runs --limit 5 --json

\b
Exit codes: 0, also for a workspace without runs; 1 if it cannot be read.""",
)
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="At most this many.  [default: all]")
@json_option("a list of objects")
@workspace_option
def runs(limit: int | None, as_json: bool, folder: Path) -> int:
    """List the runs of the workspace, newest first: id, status, start, system, model, task."""

    async def work(stop: Stop) -> int:
        records: list[RunRecord] = []
        if exists(folder):
            async with opened(folder) as workspace:
                records = await workspace.runs(limit=limit)
        if as_json:
            emit_json([_row(one) for one in records])
        elif records:
            emit(clean("\n".join(_line(one) for one in records)))
        else:
            say(f'no runs in {folder} yet; start one with `agentorchestra run "..."`')
        return 0

    return run_async(work)


def _row(record: RunRecord) -> dict[str, Any]:
    manifest = record.manifest
    return {
        "run_id": record.id,
        "status": record.status.value,
        "created": record.created.isoformat(),
        "task": manifest.task,
        "system": manifest.system,
        "model": manifest.model,
        "files": [one.name for one in manifest.files],
        "labels": manifest.labels,
        "parent_run": record.parent_run,
    }


def _line(record: RunRecord) -> str:
    manifest = record.manifest
    created = record.created.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    return (
        f"{record.id}  {record.status.value:<16}  {created}  {manifest.system}  {manifest.model}  "
        f"{one_line(manifest.task, 60)}"
    )
