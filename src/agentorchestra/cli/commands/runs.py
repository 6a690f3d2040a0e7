from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from agentorchestra.cli.driver import async_command
from agentorchestra.cli.options import COUNT, json_option, option, workspace_option
from agentorchestra.cli.output import clean, command, emit, emit_json, local_time, one_line, say
from agentorchestra.cli.workspaces import exists, opening
from agentorchestra.core.protocols import RunHead
from agentorchestra.runtime.waits import Standing


@async_command(
    epilog="""\b
Examples:
  agentorchestra runs
  agentorchestra runs --limit 5 --json
  agentorchestra runs --session offers

\b
Exit codes: 0, also for a workspace without runs; 1 if it cannot be read."""
)
@option("--limit", metavar="N", type=COUNT, help="At most this many.  [default: all]")
@option("--session", metavar="S", help="Only those of this session.")
@json_option("a list of objects")
@workspace_option
async def runs(limit: int | None, session: str | None, as_json: bool, folder: Path) -> int:
    """List the runs of the workspace, newest first: id, status, start, system, model, task.

    "abandoned" is a run whose process died, also before it began: nobody drives it until it is resumed. "queued" is
    one that a server took on, and that waits for a place there, or for the next server.
    """
    records: Sequence[RunHead] = []
    standings: dict[str, Standing] = {}
    until: dict[str, datetime] = {}
    if exists(folder):
        async with opening(folder, app=False) as workspace:
            if session is not None:
                records = (await workspace.session(session).turns())[::-1][:limit]
            else:
                records = await workspace.runs.list(limit=limit)
            names = [head.id for head in records] if len(records) <= 1000 else None  # of more, all at once
            standings, until = await workspace.runs.standings(names), await workspace.runs.waiting_until(names)
    if as_json:
        emit_json([_row(head, standings.get(head.id), until=until.get(head.id)) for head in records])
    elif records:
        emit(clean("\n".join(_line(head, standings.get(head.id), until=until.get(head.id)) for head in records)))
        ids = [head.id for head in records if standings.get(head.id) == "abandoned"]
        if len(ids) == 1:
            say(f"the process of {ids[0]} is gone; to go on: {command('resume', ids[0], folder)}")
        elif ids:
            on = command("resume", "--abandoned", folder)
            say(f"the processes of {len(ids)} runs are gone; to go on: {on}")
    elif session is not None:
        say(f"no runs of the session {session!r} in {folder}")
    else:
        say(f'no runs in {folder} yet; start one with `agentorchestra run "..."`')
    return 0


def _row(record: RunHead, standing: Standing | None, *, until: datetime | None) -> dict[str, Any]:
    manifest = record.manifest
    return {
        "run_id": record.id,
        "status": record.status.value,
        "queued": standing == "queued",
        "abandoned": standing == "abandoned",
        "until": None if until is None else until.isoformat(),
        "created": record.created.isoformat(),
        "task": manifest.task,
        "system": manifest.system,
        "model": manifest.model,
        "files": [file.name for file in manifest.files],
        "labels": manifest.labels,
        "session": manifest.session,
        "previous": manifest.previous,
        "parent_run": record.parent_run,
    }


def _line(record: RunHead, standing: Standing | None, *, until: datetime | None) -> str:
    manifest = record.manifest
    status = standing if standing in ("queued", "abandoned") else record.status.value
    created = record.created.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    line = f"{record.id}  {status:<16}  {created}  {manifest.system}  {manifest.model}  {one_line(manifest.task, 60)}"
    return line if until is None else f"{line}  (until {local_time(until)})"
