from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from agentorchestra.cli.delivery import Out
from agentorchestra.cli.driver import async_command
from agentorchestra.cli.options import (
    COUNT,
    WORDS,
    GivenPath,
    budget_options,
    json_option,
    model_option,
    on_ask_option,
    option,
    run_argument,
    task_in,
    workspace_option,
)
from agentorchestra.cli.output import emit_json, say
from agentorchestra.cli.project import (
    ApplyOptions,
    applied_line,
    branch_option,
    exit_code_of_code,
    finish,
    landing_options,
    show_diff,
)
from agentorchestra.cli.start import drive_new, spec_of
from agentorchestra.cli.workspaces import opened_run, opening

SYSTEM = "mini_swe"
"""One agent with a shell: of the packaged systems the one with the fewest tokens for this work."""


@async_command(
    epilog="""\b
Examples:
  agentorchestra code . "Fix the failing test" --tests "pytest -q"
  agentorchestra code ~/shop "Add a --json option to list" --apply
  agentorchestra code . - --tests "npm test" --branch fix --json \\
      --budget-usd 2 < issue.md

\b
Exit codes: 0 solved (the tests pass, or without --tests the run completed), 1 the tests still
fail, the run failed or its changes could not be applied, 2 wrong usage, 3 any other end (partial,
blocked), 4 out of budget or time, 5 waiting or paused, 130 cancelled."""
)
@click.argument("project", metavar="DIR", type=GivenPath())
@click.argument("task", metavar="TASK", type=WORDS)
@option(
    "--tests",
    metavar="CMD",
    default="",
    help="A command that is run in the copy when the agent has ended; exit code 0 says that the task is solved.",
)
@landing_options
@option("--system", "-s", metavar="NAME", default=SYSTEM, help="How agents work on it.")
@model_option
@budget_options
@option("--max-steps", metavar="N", type=COUNT, default=50, help="Decisions of the agent; the last one must answer.")
@on_ask_option("run", 5)
@json_option("one object with the result, its diff and what was applied")
@workspace_option
async def code(project: Path, task: str, landing: ApplyOptions, as_json: bool, folder: Path, **fields: Any) -> int:
    """Let an agent with a terminal work on a copy of DIR, and bring back what it changed.

    TASK says what is to be done; a TASK of - is read from stdin. At the end the diff is shown, and at a terminal you
    are asked whether to apply it. A file that was changed in DIR meanwhile is never overwritten: then nothing is
    applied. With --apply or --branch nothing is applied while the tests fail. `agentorchestra apply` does it later.
    """
    await landing.check(project)
    spec = spec_of(task_in() if task == "-" else task, project=project, **fields)
    async with opening(folder) as workspace:
        result = await drive_new(workspace, spec, folder=folder, as_json=as_json)
        return await finish(workspace, result, landing, folder, Out(), as_json=as_json, code_of=exit_code_of_code)


@async_command(
    epilog="""\b
Examples:
  agentorchestra apply last
  agentorchestra apply run_01K9 --branch fix-tests
  agentorchestra apply last --dry-run

\b
Exit codes: 0, also where all is applied already; 2 if there is no such run, it works on no folder
of yours, or something that it changed was changed there meanwhile."""
)
@run_argument
@branch_option
@click.option("--dry-run", is_flag=True, help="Only show the diff, or that DIR has all of it already.")
@json_option("one object with what was applied, or with --dry-run the diff")
@workspace_option
async def apply(run: str, branch: str | None, dry_run: bool, as_json: bool, folder: Path) -> int:
    """Bring what RUN changed in its copy of a folder into that folder: all of it, or nothing.

    Each file has to be as it was when the run began. A second time changes nothing more. Where the command was killed,
    the next one brings it to its end.
    """
    from agentorchestra.workspace.changes import Applied, is_applied

    async with opened_run(folder, run) as (workspace, record):
        if dry_run:
            changes = await workspace.files.changes(record.id)
            done = await asyncio.to_thread(is_applied, changes, workspace.files.folder(record.id))
            diff = await asyncio.to_thread(changes.diff)
            if as_json:
                emit_json({"run_id": record.id, "diff": diff, "is_applied": done})
            elif done:
                say(applied_line(Applied(Path(changes.project.path), tuple(file.path for file in changes.files))))
            else:
                show_diff(diff)
            return 0
        outcome = await workspace.files.apply(record.id, branch=branch)
    if as_json:
        emit_json({"run_id": record.id, **outcome._asdict(), "folder": str(outcome.folder)})
    else:
        say(applied_line(outcome))
    return 0
