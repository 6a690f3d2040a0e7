from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import click

from agentorchestra.cli.commands.schedule import lines_of_schedules, queued_by_schedules
from agentorchestra.cli.delivery import Out, hand_over, out_options
from agentorchestra.cli.driver import async_command, drive
from agentorchestra.cli.options import (
    WORDS,
    budget_options,
    json_option,
    mcp_option,
    pin_option,
    unsafe_option,
    workspace_option,
)
from agentorchestra.cli.output import HandedOver, as_plain, emit, emit_json, one_line, say, summary_line, verdict_line
from agentorchestra.cli.project import ApplyOptions, exit_code_of_code, finish
from agentorchestra.cli.workspaces import exists, opened_run, opening, task_folder_of, verdict_on
from agentorchestra.core.budget import Budget
from agentorchestra.core.errors import AgentOrchestraError, FencedError, TaskFolderError, UsageError
from agentorchestra.core.spec import RunResult
from agentorchestra.workspace import Workspace

AT_ONCE = 8
"""Runs that `--due` and `--abandoned` drive at the same time."""


@async_command(
    epilog="""\b
Examples:
  agentorchestra resume last
  agentorchestra resume run_01K9 --budget-usd 2
  agentorchestra resume last --timeout-s 600 --json
  agentorchestra resume last --pin
  agentorchestra resume --due
  agentorchestra resume --abandoned

\b
Exit codes: as for `agentorchestra run`, of a run with tests as for `agentorchestra code`; with --due
and --abandoned 0, or 1 if one of them could not go on."""
)
@click.argument("run", metavar="[RUN]", type=WORDS, required=False)
@click.option("--due", is_flag=True, help="All waiting runs whose time has come, or whose answer or mail is there.")
@click.option("--abandoned", is_flag=True, help="All runs whose process is gone, but those that a server goes on with.")
@budget_options
@click.option("--max-steps", metavar="N", type=int, hidden=True, help="Refused; says how to go on.")
@pin_option
@out_options
@unsafe_option
@json_option("one object with the result; a list of them with --due or --abandoned")
@mcp_option
@workspace_option
async def resume(
    run: str | None,
    due: bool,
    abandoned: bool,
    budget_usd: float | None,
    timeout_s: float | None,
    max_steps: int | None,
    pin: bool,
    out: Out,
    unsafe_local: bool,
    as_json: bool,
    folder: Path,
) -> int:
    """Go on with RUN where it stopped: after Ctrl-C, a crash, a pause, a failure, or with a larger budget.

    What is recorded is not asked, paid or done again. Limits that are given replace those of the run and hold for
    all of it, what is already spent included. A run that has ended prints its result again, one that waits for a time
    says until when.
    """
    if due + abandoned + (run is not None) != 1:
        raise UsageError("name a RUN, or give --due or --abandoned, one of the three")
    if max_steps is not None:
        raise UsageError(
            "a run keeps the number of steps that it began with; one that has ended is gone on from by a turn of its "
            f'own: agentorchestra run --continue {run or "RUN"} "Go on" --max-steps {max_steps}'
        )
    budget = Budget(cost_usd=budget_usd, active_s=timeout_s)
    if abandoned and (pin or budget != Budget()):
        raise UsageError("--abandoned takes runs as they were left; for other limits or --pin name a RUN")
    if run is None and out.folder is not None:
        raise UsageError("--out is the folder for the files of one run; name a RUN, or leave --out away")
    out.check()

    if run is not None:
        async with opened_run(folder, run, app=True, unsafe_local=unsafe_local, machine=True) as (workspace, record):
            ask = record.manifest.on_ask != "deny"
            result = await drive(workspace, record.id, folder=folder, as_json=as_json, ask=ask, budget=budget, pin=pin)
            code_of = exit_code_of_code if record.manifest.tests else None
            return await finish(workspace, result, ApplyOptions(), folder, out, as_json=as_json, code_of=code_of)

    async def go_on(workspace: Workspace[Any], run_id: str) -> RunResult:
        if abandoned:
            return await workspace.runs.take_up(run_id)
        return await workspace.resume(run_id, budget=budget, pin=pin)

    async def copy(workspace: Workspace[Any], result: RunResult) -> HandedOver:
        return await hand_over(workspace, result, out, folder)

    results: list[dict[str, Any]] = []
    failed = False

    async def drive_these(workspace: Workspace[Any], runs: Sequence[str]) -> bool:
        runs = [*runs, *(await queued_by_schedules(workspace, waiting=True) if due else ())]
        problem = await _resume_all(workspace, runs, results, go_on=go_on, copy=copy, as_json=as_json)
        if not due:
            return problem
        for line in await lines_of_schedules(workspace, [result["run_id"] for result in results]):
            say(line)
        started = await queued_by_schedules(workspace, waiting=False)  # just now, or before a process was killed
        return await _resume_all(workspace, started, results, go_on=go_on, copy=copy, as_json=as_json) or problem

    if exists(folder):
        async with opening(folder, unsafe_local=unsafe_local) as workspace:
            if abandoned:
                waiting = [key for key, state in (await workspace.runs.standings()).items() if state == "abandoned"]
            else:
                waiting = [*await workspace.runs.due()]
            # How a workspace has to be opened for each of them: with which preset, on which task's machine.
            runs = [run for run in await workspace.runs.list() if run.id in waiting]
            needs = {run.id: (run.manifest.preset, str(task_folder_of(run) or "")) for run in runs}
            own = [run_id for run_id in waiting if needs[run_id] == (workspace.settings.preset, "")]
            failed = await drive_these(workspace, own)
        for preset, task in sorted({needs[run_id] for run_id in waiting if run_id not in own}):
            group = [run_id for run_id in waiting if needs[run_id] == (preset, task)]
            place = Path(task) if task else None
            try:
                async with opening(folder, unsafe_local=unsafe_local, preset=preset, task_folder=place) as workspace:
                    if await drive_these(workspace, group):
                        failed = True
            except TaskFolderError as exc:
                failed = True
                say(f"error: {', '.join(group)} cannot go on: {one_line(str(exc), 2000)}")
    if as_json:
        emit_json(results)
    elif not results and not failed:
        emit("no run is abandoned" if abandoned else "no run is due")
    return 1 if failed else 0


async def _resume_all(
    workspace: Workspace[Any],
    runs: Sequence[str],
    results: list[dict[str, Any]],
    *,
    go_on: Callable[[Workspace[Any], str], Awaitable[RunResult]],
    copy: Callable[[Workspace[Any], RunResult], Awaitable[HandedOver]],
    as_json: bool,
) -> bool:
    """Drive runs, a few at a time; whether one of them could not go on."""
    places = asyncio.Semaphore(AT_ONCE)
    failed = False

    async def resume_one(run_id: str) -> None:
        nonlocal failed
        async with places:
            try:
                result = await go_on(workspace, run_id)
            except FencedError:
                return  # another process was faster, it goes on there
            except AgentOrchestraError as exc:
                failed = True
                say(f"error: {run_id} cannot go on: {one_line(str(exc), 2000)}")
                return
        verdict = await verdict_on(workspace, result)
        delivery = await copy(workspace, result)
        results.append(as_plain(delivery.result, verdict))
        if not as_json:
            emit(summary_line(result))
        if verdict is not None and not as_json:
            emit(verdict_line(verdict))
        for line in (*delivery.problems, *(() if as_json else delivery.lines)):
            say(line)

    await asyncio.gather(*(resume_one(run_id) for run_id in runs))
    return failed
