from __future__ import annotations

from pathlib import Path

import click

from agentorchestra.cli.driver import async_command
from agentorchestra.cli.options import FilePath, json_option, run_argument, workspace_option
from agentorchestra.cli.output import clean, emit, emit_json, one_line, plural, say, table
from agentorchestra.cli.workspaces import opened_run
from agentorchestra.core.spec import RunFile


@async_command(
    epilog="""\b
Examples:
  agentorchestra files last
  agentorchestra files run_01K9 --save results
  agentorchestra files last --json

\b
Exit codes: 0, also for a run without files; 1 if a file cannot be read from
the workspace; 2 if there is no such run, or DIR cannot be written."""
)
@run_argument
@click.option(
    "--save",
    "out",
    metavar="DIR",
    type=FilePath(),
    help="Write them into the folder DIR by their names; what is there is not written over.",
)
@json_option("one object with the files")
@workspace_option
async def files(run: str, out: Path | None, as_json: bool, folder: Path) -> int:
    """List the files that RUN made for its user: name, size, media type, and what made it.

    These are what tools, programs and environments made, and what was made or changed in the folder that the run
    worked on; nothing that the run keeps for itself, such as the text of a page. `show` lists all of its artifacts.
    """
    missing: tuple[str, ...] = ()
    async with opened_run(folder, run) as (workspace, record):
        entries = await workspace.files.of(record.id)
        made_in = workspace.files.folder(record.id)
        if out is not None:
            copy = await workspace.files.save(record.id, out)
            entries, missing = copy.files, copy.missing
    if as_json:
        lies = str(made_in) if made_in.is_dir() else None
        emit_json({"run_id": record.id, "folder": lies, "files": entries, "missing": list(missing)})
    elif not entries and not missing:
        say(f"{record.id} made no file")
    else:
        emit(clean("\n".join(_lines(entries))))
        if out is not None:
            say(f"{plural(len(entries), 'file')} in {out}")
    for name in missing:
        say(f"error: {one_line(name)} was not written: the workspace does not have it")
    return 1 if missing else 0


def _lines(files: tuple[RunFile, ...]) -> list[str]:
    rows = [[one_line(m.path or m.name), plural(m.size, "byte"), m.media_type, m.made_by or "-"] for m in files]
    return table(None, rows, words=4)
