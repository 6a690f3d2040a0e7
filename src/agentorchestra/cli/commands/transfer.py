from __future__ import annotations

from pathlib import Path

import click

from agentorchestra.cli.driver import async_command
from agentorchestra.cli.options import FilePath, json_option, run_argument, workspace_option
from agentorchestra.cli.output import clean, emit, emit_either, emit_json, plural, say
from agentorchestra.cli.workspaces import opened_run, opening
from agentorchestra.core.errors import UsageError
from agentorchestra.core.spec import RunStatus


@async_command(
    epilog="""\b
Examples:
  agentorchestra export last
  agentorchestra export run_01K9 --out offer.zip
  agentorchestra export last --no-files --json
  agentorchestra export last --folder results

\b
Exit codes: 0; 1 if the log cannot be read; 2 if there is no such run, the
file or folder is there already, or it would hold a secret."""
)
@run_argument
@click.option("--out", metavar="FILE", type=FilePath(), help="The file; it must not be there yet.  [default: RUN.zip]")
@click.option(
    "--files/--no-files", default=True, help="Whether the files given with the task go along.  [default: they do]"
)
@click.option(
    "--folder",
    "target",
    metavar="DIR",
    type=FilePath(),
    help="Write the folder that the run worked on into the new folder DIR, in place of a file with everything.",
)
@json_option("one object")
@workspace_option
async def export(run: str, out: Path | None, files: bool, target: Path | None, as_json: bool, folder: Path) -> int:
    """Write RUN with everything that a replay on another machine needs into one file.

    Its events, blobs, prompts, the texts of its tools, the files given with the task, what it is pinned to, the
    settings and versions of this machine. Only you can read the file. It is not written if the value of a known
    secret would be in it; what the task, its files and results say is in it.

    With --folder it writes what the run's environments (files, terminal, git) left in its folder, as the log has it:
    on any machine that has the log, whichever drove the run.
    """
    if target is not None:
        if out is not None or not files:
            raise UsageError("--folder writes the run's folder and no file: leave out --out and --no-files")
        async with opened_run(folder, run) as (workspace, record):
            copy = await workspace.files.export(record.id, target)
        emit_either(as_json, {**copy._asdict(), "path": str(copy.path)}, str(copy.path))
        if not as_json:
            say(f"{record.id}: {plural(copy.files, 'file')}")
            for name in copy.left_out:
                say(clean(f"{name} was too large for the log: it lies where the run was driven"))
        return 0
    async with opened_run(folder, run) as (workspace, record):
        done = await workspace.log.export(record.id, out, files=files)
    emit_either(as_json, {**done._asdict(), "path": str(done.path)}, str(done.path))
    if not as_json:
        say(
            f"{done.run_id}: {plural(done.events, 'event')}, {plural(done.blobs, 'blob')}, "
            f"{plural(done.files, 'file')}, {plural(done.size, 'byte')}, SHA-256 {done.sha256}"
        )
    if record.status is RunStatus.RUNNING:
        say(f"the run was under way: the bundle ends with event {done.events}")
    if record.parent_run:
        say(f"forked from {record.parent_run} at event {record.fork_seq}; what it needs of it is in its own log")
    return 0


@async_command(
    name="import",
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
async def import_(file: Path, as_json: bool, folder: Path) -> int:
    """Take the run of a bundle, or whole logs that `log --jsonl` wrote, into this workspace.

    Everything in FILE is checked before anything is written, and nothing in it is executed: an imported run can be
    shown and replayed without the tools it used. To go on with it (`resume`), they must be here.
    """
    async with opening(folder, app=False) as workspace:
        done = await workspace.log.import_file(file)
    if as_json:
        emit_json([entry._asdict() for entry in done])
        return 0
    for entry in done:
        if entry.identical:
            emit(f"{entry.run_id} is here already, with the same {plural(entry.events, 'event')}: nothing to do")
        else:
            origin = f", forked from {entry.parent_run}" if entry.parent_run else ""
            emit(f"{entry.run_id}  {entry.status.value}  {plural(entry.events, 'event')}{origin}")
    return 0
