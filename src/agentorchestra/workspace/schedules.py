"""Schedules: runs that wait for a time, start another run, and wait for the next time.

A schedule is a run of its own. Its root branch repeats two effects: a timer (`Wait`), and a call of the tool below,
which writes an ordinary run into the queue. So whatever goes on with waiting runs that are due drives schedules, one
process at a time, and the key of the request makes each time point start one run, also after a crash between the two.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, JsonValue

from agentorchestra.core.effects import Effect, EffectKind, Mode, Tag
from agentorchestra.core.errors import AgentFailedError, AgentOrchestraError, MissingExtraError, ScheduleError
from agentorchestra.core.events import Event
from agentorchestra.core.ids import sha256_json
from agentorchestra.core.protocols import Acceptance, RunContext
from agentorchestra.core.spec import AgentResult, RunSpec
from agentorchestra.log.ledger import Ledger
from agentorchestra.runtime.context import BranchContext

if TYPE_CHECKING:
    from agentorchestra.tea.calling.tool import Tool
    from agentorchestra.workspace.composition import Host

SYSTEM = "schedule"  # what the manifest of a schedule says instead of a system's name
LABEL = "schedule"  # of the runs that it starts: its name

MOST_MISSED = 1000
"""Missed time points are counted up to here."""

MOST_STARTED = 1000
"""Runs that one run of a schedule starts before another one takes its place, so that no log grows without end."""

_START = "start_scheduled_run"


class Schedule(BaseModel, frozen=True):
    """A task and the times at which it is run."""

    name: str
    cron: str  # five fields: minute, hour, day of the month, month, day of the week
    zone: str  # an IANA name: the clock that the fields mean
    first: datetime  # the first time point, in UTC
    spec: RunSpec  # of the runs; its paths are absolute, its files are read when a run begins


class Started(BaseModel, frozen=True):
    """What became of one time point."""

    run_id: str = ""  # the run that was started, "" where none could be
    error: str = ""  # why none could be
    at: datetime  # the time point
    missed: int = 0  # later time points that had passed as well: no run of their own is started for these
    next: datetime


class ScheduleState(BaseModel, frozen=True):
    """A schedule as the log has it now."""

    run_id: str  # of the run that waits
    schedule: Schedule
    status: str  # `waiting`, `due` (its time has come, and no process has started the run yet), `paused`, `failed`, ...
    next: datetime  # the time point that it waits for
    overdue: int = 0  # time points that have passed since then, itself included
    count: int = 0  # runs that it started
    last: Started | None = None
    error: str = ""


def need_croniter() -> Any:
    """Return the class that reads cron expressions.

    Raises:
        MissingExtraError: the extra `schedule` is not installed.
    """
    try:
        from croniter import croniter
    except ModuleNotFoundError:
        raise MissingExtraError(
            "schedules need the package croniter, which is not installed; run: pip install 'agentorchestra[schedule]'"
        ) from None
    return croniter


def time_points(cron: str, zone: str, after: datetime) -> Iterator[datetime]:
    """Yield the time points after a time, in UTC.

    Where a clock is set back, an hour comes twice: a fixed hour counts the first time only, `*` both times. Where it is
    set forward, a time that is left out comes as the gap ends.

    Raises:
        ScheduleError: for an expression or a zone that is none, and an expression whose time never comes.
    """
    from zoneinfo import ZoneInfo

    croniter = need_croniter()
    try:
        clock = ZoneInfo(zone)
    except (ValueError, OSError, LookupError):
        raise ScheduleError(f"{zone!r} is no time zone of this machine; name one like Europe/Berlin or UTC") from None
    usage = "write minute, hour, day of the month, month and day of the week, e.g. '0 9 * * 1-5' for 9:00 on workdays"
    try:
        if len(cron.split()) != 5 and not cron.strip().startswith("@"):
            raise ScheduleError(f"{cron!r} has {len(cron.split())} fields and a schedule has 5: {usage}")
        times = croniter(cron, after.astimezone(clock))
        fixed = not times.expressions[1].startswith("*")
    except ValueError as exc:
        raise ScheduleError(f"{cron!r} is no cron expression ({exc}); {usage}") from None
    while True:
        try:
            point: datetime = times.get_next(datetime)
        except ValueError:
            raise ScheduleError(f"the time of {cron!r} never comes; {usage}") from None
        if not (fixed and point.fold):
            yield point.astimezone(UTC)


def passed(schedule: Schedule, since: datetime, now: datetime) -> int:
    """Return how many time points lie after `since` and not after `now`, at most MOST_MISSED."""
    points = time_points(schedule.cron, schedule.zone, since)
    return sum(1 for _ in islice(takewhile(lambda point: point <= now, points), MOST_MISSED))


async def keep(root: BranchContext[Any], schedule: Schedule) -> AgentResult:
    """Drive a schedule: wait for each time point, and start the run of each; the program of such a run.

    Raises:
        AgentFailedError: its further run could not be written.
    """
    at, root.capabilities, root.actor = schedule.first, frozenset({_START}), SYSTEM
    for _ in range(MOST_STARTED):
        await root.sleep_until(at)
        outcome = await root.perform(_start(at, root))
        if outcome.ok:
            at = Started.model_validate(outcome.value).next
        else:  # the settings deny the tool, or it took too long
            at = next(time_points(schedule.cron, schedule.zone, root.now))
    outcome = await root.perform(_start(at, root, go_on=True))
    if not outcome.ok:
        raise AgentFailedError(outcome.error or "the schedule's further run could not be written")
    return AgentResult(answer=f"the schedule goes on as {Started.model_validate(outcome.value).run_id}")


def _start(at: datetime, root: BranchContext[Any], **more: JsonValue) -> Effect:
    return Effect(
        kind=EffectKind.INVOKE_TOOL,
        component=f"{_START}@1.0.0",
        arguments={"at": at.isoformat(), **more},
        mode=Mode.REPEATABLE,
        tags=frozenset({Tag.WRITE}),
        approval="never",
        role=root.role,
    )


def starter(host: Host) -> dict[str, Tool]:
    """Return the tool that starts the runs of schedules, by its name; only runs of schedules have it."""
    from agentorchestra.tea.calling.tool import tool

    @tool(name=_START, effect="write", idempotent=True, approval="never", version="1.0.0")
    async def start_scheduled_run(ctx: RunContext[Any], at: str, go_on: bool = False) -> dict[str, Any]:
        """Write the run of a time point into the queue.

        Args:
            at: the time point.
            go_on: write the schedule's next run in its place.
        """
        assert isinstance(ctx, BranchContext)
        schedule = Schedule.model_validate(ctx.manifest.options)
        point = datetime.fromisoformat(at)
        now = max(point, ctx.now)  # recorded: when the wait ended
        request = Acceptance(now, f"{ctx.run.id} {at}{' goes on' * go_on}", sha256_json(ctx.manifest.options))
        run_id, error = await host.accepted(request) or "", ""
        if go_on:
            further = schedule.model_copy(update={"first": point})
            run_id = run_id or await host.create_schedule(further, accepted=request)
            return Started(run_id=run_id, at=point, next=point).model_dump(mode="json")
        labels = {**schedule.spec.labels, LABEL: schedule.name}
        try:
            run_id = run_id or await host.create(schedule.spec, labels=labels, accepted=request)
        except AgentOrchestraError as exc:  # a file that is gone, a model that is named no more: the schedule goes on
            error = str(exc)
        started = Started(
            run_id=run_id,
            error=error,
            at=point,
            missed=passed(schedule, point, now),
            next=next(time_points(schedule.cron, schedule.zone, now)),
        )
        return started.model_dump(mode="json")

    return {_START: start_scheduled_run}


def state_of(run_id: str, schedule: Schedule, status: str, events: Sequence[Event], now: datetime) -> ScheduleState:
    """Return a schedule as its log has it."""
    made = [
        Started.model_validate(record.outcome.value)
        for record in Ledger.of(events).records.values()
        if record.kind is EffectKind.INVOKE_TOOL and record.outcome is not None and record.outcome.ok
    ]
    last = made[-1] if made else None
    point = last.next if last is not None else schedule.first
    overdue = int(point <= now) and 1 + passed(schedule, point, now)
    if status == "waiting" and overdue:
        status = "due"
    return ScheduleState(
        run_id=run_id, schedule=schedule, status=status, next=point, overdue=overdue, count=len(made), last=last
    )


def machine_zone(environ: Mapping[str, str]) -> str:
    """Return the IANA name of this machine's time zone: that of TZ, else of /etc/localtime; UTC where neither says."""
    named = environ.get("TZ", "").removeprefix(":")
    place = os.path.realpath(named if named.startswith("/") else "/etc/localtime").partition("zoneinfo/")[2]
    return (named if named and not named.startswith("/") else place) or "UTC"


__all__ = [
    "LABEL",
    "MOST_MISSED",
    "SYSTEM",
    "Schedule",
    "ScheduleState",
    "Started",
    "keep",
    "machine_zone",
    "need_croniter",
    "starter",
    "state_of",
    "time_points",
]
