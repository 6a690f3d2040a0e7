from __future__ import annotations

from pathlib import Path

import click

from agentorchestra.cli.driver import async_command
from agentorchestra.cli.options import json_option, workspace_option
from agentorchestra.cli.output import emit_either
from agentorchestra.cli.workspaces import exists, opening
from agentorchestra.core.errors import NoWorkspaceError


@async_command(
    epilog="""\b
Examples:
  agentorchestra backup /backups/monday
  agentorchestra runs --workspace /backups/monday

\b
Exit codes: 0; 1 if the workspace cannot be read; 2 if DEST is there already or cannot be written."""
)
@click.argument("dest", metavar="DEST", type=click.Path(path_type=Path))
@json_option("one object with the folder's path")
@workspace_option
async def backup(dest: Path, as_json: bool, folder: Path) -> int:
    """Copy the workspace into the new folder DEST, also while runs go on.

    The log and what it refers to are as they were at one moment; files that runs are writing are copied as they are
    found, and `resume` puts them back to the last recorded action. The copy is a workspace: it can be shown, replayed
    and gone on with. A log in PostgreSQL is copied with pg_dump, and then what lies at `artifacts`.
    """
    if not exists(folder):
        raise NoWorkspaceError(f"{folder} holds no workspace yet; name the one to copy with --workspace")
    async with opening(folder, app=False) as workspace:
        await workspace.log.backup(dest)
    emit_either(as_json, {"path": str(dest)}, str(dest))
    return 0
