from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentorchestra.cli.driver import async_command, logs_in_lines
from agentorchestra.cli.options import (
    WORDS,
    GivenPath,
    json_option,
    mcp_option,
    option,
    workspace_option,
    workspace_options,
)
from agentorchestra.cli.output import clean, emit, emit_either, local_time, one_line, plural, say, summary_line
from agentorchestra.cli.start import spec_of, spec_options
from agentorchestra.cli.workspaces import exists, opening
from agentorchestra.core.errors import ScheduleError

if TYPE_CHECKING:
    from agentorchestra.workspace import Workspace
    from agentorchestra.workspace.schedules import ScheduleState

_DRIVERS = "`agentorchestra schedule run`, `serve`, `worker` or `resume --due`"


class _Schedule(click.Group):
    """Takes `schedule CRON TASK` for `schedule add CRON TASK`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `add` before what is no command of its own."""
        own = {*self.commands, "--help", "-h"}
        return super().parse_args(ctx, ["add", *args] if args and args[0] not in own else args)


@click.group(
    cls=_Schedule,
    epilog="""\b
Examples:
  agentorchestra schedule "0 9 * * 1-5" "What is new in the log?" --file /var/log/app.log
  agentorchestra schedule list
  agentorchestra schedule pause last
  agentorchestra schedule run

\b
Needs the extra `schedule`: pip install "agentorchestra[schedule]"
Exit codes: 0; 2 wrong usage, such as a CRON that cannot be read or a schedule that there is not.""",
)
def schedule() -> None:
    """Run tasks at the times of CRON: `agentorchestra schedule "CRON" TASK`; docs/schedule.md.

    A schedule is named by its NAME, its id, a unique beginning of the id, or "last" for the newest one.
    """


@async_command(
    "add",
    short_help="Make a schedule; `add` may be left out.",
    epilog="""\b
Examples:
  agentorchestra schedule "0 9 * * 1-5" "What is new in the log?" --file /var/log/app.log
  agentorchestra schedule "*/30 * * * *" "Are there new issues?" --mcp mcp.json --name issues
  agentorchestra schedule @weekly "Write the report" --in project --zone Europe/Berlin""",
)
@click.argument("cron", metavar="CRON", type=WORDS)
@click.argument("task", metavar="TASK", type=WORDS)
@option("--name", metavar="NAME", default="", help="Names the schedule.  [default: its id]")
@option("--zone", metavar="ZONE", help="The clock of CRON, e.g. UTC.  [default: this machine's]")
@option("--in", "project", metavar="DIR", type=GivenPath(), help="Each run works on a new copy of the folder DIR.")
@click.option("--on-ask", type=click.Choice(["wait", "deny"]), help="As for `agentorchestra run`.")
@spec_options
@json_option("one object with the schedule")
@workspace_options
async def add(cron: str, task: str, name: str, zone: str | None, as_json: bool, folder: Path, **fields: Any) -> int:
    """Run TASK at the times of CRON: minute, hour, day of the month, month, day of the week.

    The files are read when a run begins. Limits hold for each run. Something has to be there that starts the runs:
    `agentorchestra schedule run`, `serve`, `worker`, or `resume --due`.
    """
    async with opening(folder) as workspace:
        run_id = await workspace.schedules.add(cron, spec_of(task, **fields), name=name, zone=zone)
        (entry,) = [schedule for schedule in await workspace.schedules.list() if schedule.run_id == run_id]
    emit_either(as_json, entry, entry.name)
    if not as_json:
        say(f"its first run begins at {local_time(entry.next)}, started by {_DRIVERS}; its clock: {entry.zone}")
    return 0


@async_command("list", short_help="List the schedules, and what was missed.")
@json_option("a list of objects")
@workspace_option
async def list_(as_json: bool, folder: Path) -> int:
    """List the schedules: name, times, what comes next, what the last one was, what was missed."""
    rows: Sequence[ScheduleState] = []
    if exists(folder):
        async with opening(folder, app=False) as workspace:
            rows = await workspace.schedules.list()
    emit_either(as_json, rows, [line for row in rows for line in (_line(row), *map("  {}".format, _news(row)))])
    if not rows and not as_json:
        say(f'no schedules in {folder}; make one with `agentorchestra schedule "0 9 * * *" TASK`')
    return 0


def _change(name: str, text: str) -> click.Command:
    """Return the command that pauses, resumes or removes a schedule; `text` is its help."""

    @async_command(name, help=text, short_help=text)
    @click.argument("schedule_name", metavar="NAME", type=WORDS)
    @json_option("one object with the schedule")
    @mcp_option
    @workspace_option
    async def change(schedule_name: str, as_json: bool, folder: Path) -> int:
        if not exists(folder):  # opening one would make it
            _find([], schedule_name)
        async with opening(folder, app=name == "resume") as workspace:
            before = _find(await workspace.schedules.list(), schedule_name)
            if name == "pause":
                await workspace.pause(before.run_id, by="cli")
            elif name == "remove":
                await workspace.cancel(before.run_id, reason="the schedule was removed", by="cli")
            else:
                await workspace.resume(before.run_id)
            rows = [schedule for schedule in await workspace.schedules.list() if schedule.run_id == before.run_id]
        (now,) = rows or [before.model_copy(update={"status": "removed"})]
        emit_either(as_json, now, [_line(now), *(_news(now) if now.count > before.count else ())])
        return 0

    assert isinstance(change, click.Command)
    return change


@async_command("run", short_help="Wait for the times, and drive the runs, until Ctrl-C.")
@workspace_options
async def run(folder: Path) -> int:
    """Wait for the times of the schedules, and drive their runs, until Ctrl-C.

    It also drives the other runs of the queue, and waiting runs whose time or answer has come, as
    `agentorchestra serve` does. Several at once do no harm: each time point starts one run.
    """
    from agentorchestra.web.queue import RunQueue

    class Queue(RunQueue):
        async def _drive(self, run_id: str) -> None:
            result = await workspace.runs.take_up(run_id, accept=True)
            self.ended[result.status.value] += 1
            lines = await lines_of_schedules(workspace, [run_id])
            say("\n".join(lines)) if lines else emit(summary_line(result))

    with logs_in_lines("agentorchestra.web"):
        async with opening(folder) as workspace:
            queue = Queue(workspace)
            say(
                f"waiting for the times of {plural(len(await workspace.schedules.list()), 'schedule')}; Ctrl-C stops it"
            )
            try:
                await queue.work()
            finally:
                await queue.close()
    return 0


async def queued_by_schedules(workspace: Workspace[Any], *, waiting: bool) -> list[str]:
    """Return the runs that schedules started, or those of the schedules themselves, that nobody drives, oldest first.

    Of those that this process can drive. A schedule is among them where its last process was killed.
    """
    from agentorchestra.workspace.schedules import LABEL, SYSTEM

    ids = {run for run, standing in (await workspace.runs.standings()).items() if standing == "queued"}
    return [
        run.id
        for run in reversed(await workspace.runs.list())
        if run.id in ids
        and (run.manifest.system == SYSTEM if waiting else LABEL in run.manifest.labels)
        and run.manifest.preset == workspace.settings.preset
    ]


async def lines_of_schedules(workspace: Workspace[Any], runs: Sequence[str]) -> list[str]:
    """Return what the schedules among some runs started last, and what they missed, as lines."""
    states = await workspace.schedules.list() if runs else []
    return [clean(f"{state.name}: {line}") for state in states if state.run_id in runs for line in _news(state)]


def _find(states: Sequence[ScheduleState], name: str) -> ScheduleState:
    """Return the schedule of this name, id or beginning of an id; raise ScheduleError for none and for several."""
    fitting = states[-1:] if name == "last" else [state for state in states if name in (state.name, state.run_id)]
    fitting = fitting or [state for state in states if name and state.run_id.startswith(name)]
    if len(fitting) == 1:
        return fitting[0]
    names = ", ".join(state.name for state in fitting or states) or "none"
    problem = f"{name!r} fits {len(fitting)} schedules" if fitting else f"no schedule {name!r}; the schedules"
    raise ScheduleError(f"{problem}: {names}; `agentorchestra schedule list` shows them")


def _line(state: ScheduleState) -> str:
    following = "" if state.status in ("paused", "cancelled") else f"  next {local_time(state.next)}"
    times = f"{state.cron} ({state.zone}){following}"
    return f"{state.name}  {state.status:<8}  {times}  {one_line(state.task, 60)}"


def _news(state: ScheduleState) -> list[str]:
    """Return what became of the last time point, and what was missed, as lines."""
    last, lines = state.last, []
    if last is not None:
        event = f"started {last.run_id}" if last.run_id else f"could not start its run: {one_line(last.error, 300)}"
        lines.append(f"{event} for {local_time(last.at)}")
    if last is not None and last.missed:
        lines.append(f"missed {plural(last.missed, 'later time point')}: no process was there to start a run")
    if state.status == "due":
        lines.append(f"{plural(state.overdue, 'time point')} passed and no process has started a run: use {_DRIVERS}")
    return lines


for _command in (
    add,
    list_,
    _change("pause", "Pause the schedule NAME: no run of it is started until `resume`."),
    _change("resume", "Go on with the schedule NAME; for time points that passed meanwhile one run is started."),
    _change("remove", "Remove the schedule NAME; the runs that it started stay."),
    run,
):
    schedule.add_command(_command)
