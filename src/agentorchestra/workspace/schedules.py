"""Schedules: runs that wait for a time, start another run, and wait for the next time.

A schedule is a run. It repeats two effects on its root branch: a timer, and a call that writes an ordinary run into the
queue. So whatever goes on with waiting runs that are due drives schedules, one process at a time, and the key of the
request makes each time point start one run, also after a crash between the two.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from agentorchestra.core.effects import Effect, EffectKind, Mode, Tag
from agentorchestra.core.errors import AgentOrchestraError, MissingExtraError, ScheduleError
from agentorchestra.core.events import Event
from agentorchestra.core.ids import sha256_json
from agentorchestra.core.protocols import Acceptance, RunContext, RunRecord
from agentorchestra.core.spec import RunSpec, RunStatus
from agentorchestra.log.ledger import Ledger
from agentorchestra.runtime.context import BranchContext

if TYPE_CHECKING:
    from agentorchestra.tea.calling.tool import Tool
    from agentorchestra.workspace.composition import Composition

SYSTEM = "schedule"  # what the manifest of a schedule says instead of a system's name
LABEL = "schedule"  # of the runs that it starts: its name
MOST_MISSED = 1000  # missed time points are counted up to here
_START = "start_scheduled_run"
_FIELDS = "write minute, hour, day of the month, month and day of the week, e.g. '0 9 * * 1-5' for 9:00 on workdays"


class Schedule(BaseModel, frozen=True):
    """A task and the times at which it is run."""

    name: str
    cron: str  # five fields: minute, hour, day of the month, month, day of the week; or @daily and the like
    zone: str  # an IANA name: the clock that the fields mean
    first: datetime  # the first time point, in UTC
    spec: RunSpec  # of the runs; its paths are absolute, its files are read when a run begins


class Started(BaseModel, frozen=True):
    """What became of a time point."""

    at: datetime
    run_id: str = ""  # the run that was started, "" where none could be
    error: str = ""  # why none could be
    missed: int = 0  # later time points that had passed as well: no runs of their own are started for these
    next: datetime


class ScheduleState(BaseModel, frozen=True):
    """A schedule as the log has it now."""

    name: str
    run_id: str  # of the run that waits for the time points
    status: str  # of that run; `due` where a time point has passed and no process has started its run
    cron: str
    zone: str
    task: str
    next: datetime  # the time point that it waits for
    overdue: int = 0  # time points that have passed, that one included
    count: int = 0  # time points that were served
    last: Started | None = None


def need_croniter() -> Any:
    """Return the class that reads cron expressions; MissingExtraError where it is not installed."""
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

    croniter, count = need_croniter(), len(cron.split())
    try:
        clock = ZoneInfo(zone)
    except (ValueError, OSError, LookupError):
        raise ScheduleError(f"{zone!r} is no time zone of this machine; name one like Europe/Berlin or UTC") from None
    if count != 5 and not cron.strip().startswith("@"):
        raise ScheduleError(f"{cron!r} has {count} fields and a schedule has 5: {_FIELDS}")
    try:
        times = croniter(cron, after.astimezone(clock))
        while True:
            point: datetime = times.get_next(datetime)
            if not point.fold or times.expressions[1].startswith("*"):
                yield point.astimezone(UTC)
    except ValueError as exc:
        raise ScheduleError(f"{cron!r} names no times ({exc}); {_FIELDS}") from None


def count_passed(schedule: Schedule, since: datetime, now: datetime) -> int:
    """Return how many time points lie after `since` and not after `now`, at most MOST_MISSED."""
    points = time_points(schedule.cron, schedule.zone, since)
    return sum(1 for _ in islice(takewhile(lambda point: point <= now, points), MOST_MISSED))


async def keep(root: BranchContext[Any], schedule: Schedule) -> None:
    """Wait for each time point and start its run, for ever: what such a run does."""
    at, root.capabilities, root.actor = schedule.first, frozenset({_START}), SYSTEM
    while True:
        await root.sleep_until(at)
        effect = Effect(
            kind=EffectKind.INVOKE_TOOL,
            component=f"{_START}@1.0.0",
            arguments={"at": at.isoformat()},
            mode=Mode.REPEATABLE,
            tags=frozenset({Tag.WRITE}),
            approval="never",
            role=root.role,
        )
        outcome = await root.perform(effect)
        if outcome.ok:  # recorded, so that other rules for the zone are no divergence
            at = Started.model_validate(outcome.value).next
        else:  # the settings deny the tool, or it took too long
            at = next(time_points(schedule.cron, schedule.zone, root.now))


def starter(parts: Composition) -> dict[str, Tool]:
    """Return the tool that starts the runs of schedules, by its name; only runs of schedules have it."""
    from agentorchestra.tea.calling.tool import tool

    @tool(name=_START, effect="write", idempotent=True, approval="never", version="1.0.0")
    async def start_scheduled_run(ctx: RunContext[Any], at: str) -> dict[str, Any]:
        """Write the run of the time point `at` into the queue."""
        assert isinstance(ctx, BranchContext)
        schedule = Schedule.model_validate(ctx.manifest.options)
        point = datetime.fromisoformat(at)
        now = max(point, ctx.now)  # recorded: when the wait ended
        request = Acceptance(now, f"{ctx.run.id} {at}", sha256_json(ctx.manifest.options))
        labels = {**schedule.spec.labels, LABEL: schedule.name}
        run_id, error = await parts.accepted_run(request) or "", ""
        try:
            run_id = run_id or await parts.host.create(schedule.spec, labels=labels, accepted=request)
        except AgentOrchestraError as exc:  # a file that is gone, a model that is named no more: the schedule goes on
            error = str(exc)
        count, following = count_passed(schedule, point, now), next(time_points(schedule.cron, schedule.zone, now))
        started = Started(at=point, run_id=run_id, error=error, missed=count, next=following)
        return started.model_dump(mode="json")

    return {_START: start_scheduled_run}


def state_of(record: RunRecord, events: Sequence[Event], now: datetime) -> ScheduleState:
    schedule = Schedule.model_validate(record.manifest.options)
    ends = [
        Started.model_validate(record.outcome.value)
        for record in Ledger.of(events).records.values()
        if record.kind is EffectKind.INVOKE_TOOL and record.outcome is not None and record.outcome.ok
    ]
    last = ends[-1] if ends else None
    point = last.next if last is not None else schedule.first
    overdue = int(point <= now) and 1 + count_passed(schedule, point, now)
    return ScheduleState(
        **schedule.model_dump(include={"name", "cron", "zone"}),
        task=schedule.spec.task,
        run_id=record.id,
        status="due" if record.status is RunStatus.WAITING and overdue else record.status.value,
        next=point,
        overdue=overdue,
        count=len(ends),
        last=last,
    )


def machine_zone(environ: Mapping[str, str]) -> str:
    """Return the IANA name of this machine's time zone: that of TZ, else of /etc/localtime; UTC where neither says."""
    zone = environ.get("TZ", "").removeprefix(":")
    place = os.path.realpath(zone if zone.startswith("/") else "/etc/localtime").partition("zoneinfo/")[2]
    return (zone if zone and not zone.startswith("/") else place) or "UTC"
