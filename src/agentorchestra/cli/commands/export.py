"""`agentorchestra export`."""

from __future__ import annotations

from pathlib import Path

import click

from agentorchestra.cli.driver import Stop, run_async
from agentorchestra.cli.options import FilePath, json_option, run_argument, workspace_option
from agentorchestra.cli.output import emit, emit_json, plural, say
from agentorchestra.cli.workspaces import opened_run
from agentorchestra.core.spec import RunStatus


@click.command(
    short_help="Write a run into one file that another machine can import.",
    epilog="""\b
Examples:
  agentorchestra export last
  agentorchestra export run_01K9 --out offer.zip
  agentorchestra export last --no-files --json

\b
Exit codes: 0; 1 if the log cannot be read; 2 if there is no such run, the
file is there already, or it would hold a secret.""",
)
@run_argument
@click.option("--out", metavar="FILE", type=FilePath(), help="The file; it must not be there yet.  [default: RUN.zip]")
@click.option(
    "--files/--no-files", default=True, help="Whether the files given with the task go along.  [default: they do]"
)
@json_option("one object")
@workspace_option
def export(run: str, out: Path | None, files: bool, as_json: bool, folder: Path) -> int:
    """Write RUN with everything that a replay on another machine needs into one file.

    Its events, blobs, prompts, the texts of its tools, the files given with the task, what it is pinned to, the
    settings and versions of this machine. Only you can read the file. It is not written if the value of a known
    secret would be in it; what the task, its files and results say is in it.
    """

    async def work(stop: Stop) -> int:
        async with opened_run(folder, run) as (workspace, record):
            done = await workspace.export(record.id, out, files=files)
        if as_json:
            emit_json({**done._asdict(), "path": str(done.path)})
        else:
            emit(str(done.path))
            say(
                f"{done.run_id}: {plural(done.events, 'event')}, {plural(done.blobs, 'blob')}, "
                f"{plural(done.files, 'file')}, {plural(done.size, 'byte')}, SHA-256 {done.sha256}"
            )
        if record.status is RunStatus.RUNNING:
            say(f"the run was under way: the bundle ends with event {done.events}")
        if record.parent_run:
            say(f"forked from {record.parent_run} at event {record.fork_seq}; what it needs of it is in its own log")
        return 0

    return run_async(work)
