"""`agentorchestra answer`, `approve` and `deny`: an answer is recorded, then the run goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click

from agentorchestra.cli.delivery import Out, hand_over, out_options
from agentorchestra.cli.driver import async_command, at_terminal, drive
from agentorchestra.cli.entry import Unfinished
from agentorchestra.cli.options import WORDS, json_option, mcp_option, option, run_argument, together, workspace_option
from agentorchestra.cli.output import command, print_result, say
from agentorchestra.cli.terminal import TerminalAsker
from agentorchestra.cli.workspaces import opened_run, verdict_on
from agentorchestra.core.errors import AnswerError, FencedError
from agentorchestra.core.protocols import RunJob
from agentorchestra.core.spec import FINAL, Question, RunResult, RunStatus
from agentorchestra.workspace import Workspace

_BY = "cli"
_HAND_OVER_S = 5.0  # how long the process that drives the run gets to take the answer up, before this one looks again

_EXIT_CODES = """Exit codes: those of `agentorchestra run` if the run goes on here, else 0."""


_shared = together(
    option("--question", metavar="KEY", help="Which question, if several are open.  [default: the oldest]"),
    click.option("--no-resume", is_flag=True, help="Only record it; `agentorchestra resume` goes on later."),
    out_options,
    json_option("one object with the result"),
    mcp_option,
    workspace_option,
)
"""The options that all three commands take."""


@async_command(
    epilog=f"""\b
Examples:
  agentorchestra answer last "the second one"
  agentorchestra answer run_01K9 "in euros" --question "/1.react#4" --no-resume

\b
{_EXIT_CODES}"""
)
@run_argument
@click.argument("text", metavar="TEXT", type=WORDS)
@_shared
async def answer(run: str, text: str, question: str | None, **options: Any) -> int:
    """Answer the open question of RUN with TEXT, then go on with the run here.

    If another process drives the run, the answer is handed to it; a run that was paused or cancelled stays so until it
    is resumed. `agentorchestra show RUN` lists the open questions.
    """
    return await _settle(run, lambda ws, run_id: ws.answer(run_id, text, question=question, by=_BY), **options)


@async_command(
    epilog=f"""\b
Examples:
  agentorchestra approve last
  agentorchestra approve last 3fa9c1d2 --no-resume

\b
{_EXIT_CODES}"""
)
@run_argument
@click.argument("code", metavar="[CODE]", type=WORDS, required=False)
@_shared
async def approve(run: str, code: str | None, question: str | None, **options: Any) -> int:
    """Allow the one call of RUN with this CODE, then go on with the run here.

    `agentorchestra show RUN` lists what is asked, with where each argument came from, and its code. Without CODE the
    call is shown here and you are asked, if stdin is a terminal and only one is open.
    """
    return await _settle(run, lambda ws, run_id: _approve(ws, run_id, question, code, options["folder"]), **options)


@async_command(
    epilog=f"""\b
Examples:
  agentorchestra deny last
  agentorchestra deny last --reason "not to this address"

\b
{_EXIT_CODES}"""
)
@run_argument
@option("--reason", metavar="TEXT", default="", help="What the agent is told.")
@_shared
async def deny(run: str, reason: str, question: str | None, **options: Any) -> int:
    """Refuse what RUN asks permission for, then go on with the run here.

    The agent is told that it was refused, and why if a reason is given, and finds another way or reports.
    """
    return await _settle(run, lambda ws, run_id: ws.deny(run_id, reason=reason, question=question, by=_BY), **options)


async def _approve(
    workspace: Workspace[Any], run_id: str, question: str | None, code: str | None, folder: Path
) -> Question:
    """Approve the call with this code; without one, the only open call, once it was shown at the terminal."""
    if code is None and (await workspace.runs.result(run_id)).status not in FINAL:
        open_ = [call for call in await workspace.runs.questions(run_id) if call.code and question in (None, call.key)]
        if len(open_) == 1 and at_terminal():
            (call,) = open_
            reply = await TerminalAsker(workspace, run_id)(call)
            if reply is None:
                raise AnswerError(f"{call.key} of run {run_id} was not answered here; nothing was recorded")
            if reply is not True:
                return await workspace.deny(run_id, reason=reply or "", question=call.key, by=_BY)
            question, code = call.key, call.code
        elif open_:
            codes = "; ".join(f"{call.code} ({call.key}): {call.question}" for call in open_)
            raise AnswerError(
                f"which call of run {run_id} may be made is not said; read it with "
                f"`{command('show', run_id, folder)}` and name it with its code: `agentorchestra approve RUN CODE`; "
                f"open: {codes}"
            )
    return await workspace.approve(run_id, question=question, code=code, by=_BY)


async def _settle(
    run: str,
    record_it: Callable[[Workspace[Any], str], Awaitable[Question]],
    *,
    no_resume: bool,
    out: Out,
    as_json: bool,
    folder: Path,
) -> int:
    out.check()
    async with opened_run(folder, run, app=not no_resume, machine=not no_resume) as (workspace, record):
        question = await record_it(workspace, record.id)
        if not as_json:
            say(f"recorded for {record.id} {question.key}")
        holder = ""
        stopped = await _stopped(workspace, record.id)
        if not no_resume and stopped is None:
            result = await _go_on(
                workspace, record.id, question, folder=folder, as_json=as_json, ask=record.manifest.on_ask
            )
            if result is not None:
                verdict = await verdict_on(workspace, result)
                delivery = await hand_over(workspace, result, out, folder)
                return print_result(delivery.result, folder, as_json=as_json, verdict=verdict, delivery=delivery)
            if not await _taken_up(workspace, record.id, question):
                holder = _holder(await workspace.store.job(record.id))
        result = await workspace.runs.result(record.id)
    if no_resume or stopped is not None:
        so = "" if stopped is None else f"the run stays {stopped.value}; "
        say(f"{so}to go on: {command('resume', record.id, folder)}")
    elif holder:
        # A living driver may be busy; one on another machine may be gone, which only its lease can tell.
        say(f"{holder}; if it is gone, go on then: {command('resume', record.id, folder)}")
    else:
        say(f"another process drives the run and goes on with it: {command('show', record.id, folder)}")
    if as_json:
        print_result(result, folder, as_json=True)
    return 0


async def _go_on(
    workspace: Workspace[Any], run_id: str, question: Question, *, folder: Path, as_json: bool, ask: str
) -> RunResult | None:
    deadline = asyncio.get_running_loop().time() + _HAND_OVER_S
    while True:
        try:
            return await drive(workspace, run_id, folder=folder, as_json=as_json, ask=ask != "deny")
        except Unfinished as exc:
            if not isinstance(exc.__cause__, FencedError):
                raise
        # It may be just about to stop and wait for this very answer: then the run is driven here after all.
        if (
            await _stopped(workspace, run_id) is not None
            or await _taken_up(workspace, run_id, question)
            or asyncio.get_running_loop().time() > deadline
        ):
            return None
        await asyncio.sleep(0.2)


async def _stopped(workspace: Workspace[Any], run_id: str) -> RunStatus | None:
    """Return the status of a run that somebody stopped: only a resume starts it again."""
    status = (await workspace.runs.result(run_id)).status
    return status if status in (RunStatus.PAUSED, RunStatus.CANCELLED) else None


def _holder(job: RunJob | None) -> str:
    if job is None or job.owner is None or job.lease_until is None:
        return "no process drives the run"
    until = job.lease_until.strftime("%H:%M:%S UTC")
    return f"pid {job.owner.pid} on {job.owner.host} holds the run until {until} and has not taken the answer up yet"


async def _taken_up(workspace: Workspace[Any], run_id: str, question: Question) -> bool:
    branch, _, number = question.key.rpartition("#")
    events = await workspace.log.events(run_id)
    return any(event.type == "completed" and (event.branch, str(event.n)) == (branch, number) for event in events)
