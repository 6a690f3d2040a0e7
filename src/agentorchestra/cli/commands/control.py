from __future__ import annotations

from pathlib import Path

import click

from agentorchestra.cli.driver import async_command, drive
from agentorchestra.cli.options import WORDS, json_option, mcp_option, option, run_argument, workspace_option
from agentorchestra.cli.output import command, emit_either, print_result
from agentorchestra.cli.workspaces import is_abandoned, opened_run, verdict_on
from agentorchestra.core.spec import FINAL, RunStatus


@async_command(
    epilog="""\b
Examples:
  agentorchestra cancel last
  agentorchestra cancel run_01K9 --reason "wrong file"

\b
Exit codes: 0; 2 if there is no such run."""
)
@run_argument
@option("--reason", metavar="TEXT", default="", help="Is kept in the log.")
@json_option("one object with the run's status")
@workspace_option
async def cancel(run: str, reason: str, as_json: bool, folder: Path) -> int:
    """Stop RUN. The process that drives it stops at once; a run nobody drives is marked as cancelled.

    What is recorded stays: `agentorchestra resume` can still go on.
    """
    async with opened_run(folder, run) as (workspace, record):
        if record.status in FINAL or record.status is RunStatus.CANCELLED:
            now, line = record.status, f"{record.id} is over already ({record.status.value}); nothing was changed"
        else:
            await workspace.cancel(record.id, reason=reason, by="cli")
            now = (await workspace.runs.result(record.id)).status
            line = f"the process that drives {record.id} was asked to stop; see {command('show', record.id, folder)}"
            if now is RunStatus.CANCELLED:
                line = f"{record.id} is cancelled; to go on after all: {command('resume', record.id, folder)}"
    emit_either(as_json, {"run_id": record.id, "status": now.value}, line)
    return 0


@async_command(
    epilog="""\b
Examples:
  agentorchestra pause last
  agentorchestra pause run_01K9 --reason "after lunch"

\b
Exit codes: 0; 2 if there is no such run."""
)
@run_argument
@option("--reason", metavar="TEXT", default="", help="Is kept in the log.")
@json_option("one object with the run's status")
@workspace_option
async def pause(run: str, reason: str, as_json: bool, folder: Path) -> int:
    """Stop RUN before it asks a model or uses a tool again, wherever it is driven.

    What is under way ends and is recorded: nothing is interrupted, and nothing is paid twice. A run nobody drives is
    paused at once. It stays paused, also when its question is answered, until `agentorchestra resume`.
    """
    async with opened_run(folder, run) as (workspace, record):
        now = await workspace.pause(record.id, reason=reason, by="cli")
    go_on = command("resume", record.id, folder)
    if record.status is RunStatus.PAUSED:
        line = f"{record.id} is paused already; to go on: {go_on}"
    elif now is RunStatus.PAUSED:
        line = f"{record.id} is paused; to go on: {go_on}"
    elif now in FINAL:
        line = f"{record.id} is over already ({now.value}); nothing was changed"
    elif now in (RunStatus.RUNNING, RunStatus.WAITING):
        line = (
            f"the process that drives {record.id} was asked to pause: it ends what is under way first; "
            f"see {command('show', record.id, folder)}"
        )
    else:
        line = f"{record.id} is not under way ({now.value}); nothing was changed; to go on: {go_on}"
    emit_either(as_json, {"run_id": record.id, "status": now.value}, line)
    return 0


@async_command(
    epilog="""\b
Examples:
  agentorchestra tell last "only count the open ones"
  agentorchestra tell last "the parcel is here" --to dispatcher

\b
Exit codes: 0, or those of `agentorchestra run` if the run goes on here;
2 if there is no such run, or it is over."""
)
@run_argument
@click.argument("text", metavar="TEXT", type=WORDS)
@option("--to", metavar="AGENT", default="", help="Mail for this agent, which waits for it.")
@click.option("--no-resume", is_flag=True, help="Only record it; `agentorchestra resume` goes on later.")
@json_option("one object with the run's status, or with its result if it goes on here")
@mcp_option
@workspace_option
async def tell(run: str, text: str, to: str, no_resume: bool, as_json: bool, folder: Path) -> int:
    """Tell RUN something while it works: TEXT counts as your own words, like the task.

    The top agent reads it at its next step. If nobody drives the run, it is read after a resume. With --to it is mail
    for an agent that waits for mail: if the run waits for nothing else, it goes on here.
    """
    going_on = bool(to) and not no_resume

    async with opened_run(folder, run, app=going_on, machine=going_on) as (workspace, record):
        await workspace.tell(record.id, text, to=to, by="cli")
        dead = await is_abandoned(workspace, record)
        now = (await workspace.runs.result(record.id)).status
        if going_on and now is RunStatus.WAITING:
            ask = record.manifest.on_ask != "deny"
            result = await drive(workspace, record.id, folder=folder, as_json=as_json, ask=ask)
            return print_result(result, folder, as_json=as_json, verdict=await verdict_on(workspace, result))
    read = "at the next step"
    if now is not RunStatus.RUNNING or dead:
        read = f"when the run goes on: {command('resume', record.id, folder)}"
    emit_either(as_json, {"run_id": record.id, "status": now.value}, f"told {record.id}; it is read {read}")
    return 0
