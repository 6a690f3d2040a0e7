"""The runs of a workspace (`ws.runs`) and its schedules (`ws.schedules`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from typing_extensions import Unpack

from agentorchestra.core.budget import Budget
from agentorchestra.core.errors import FencedError, OtherSettingsError, ScheduleError, UsageError
from agentorchestra.core.events import Rated, RunEnded, new_event
from agentorchestra.core.protocols import Acceptance, RunHead, RunRecord
from agentorchestra.core.spec import FINAL, Question, RunFields, RunResult, RunSpec, RunStatus
from agentorchestra.log.ledger import Ledger
from agentorchestra.runtime.bus import Notice
from agentorchestra.runtime.run import active_seconds, open_questions, wait_for
from agentorchestra.runtime.waits import (
    GOES_ON,
    MOST_LOST,
    Standing,
    due_runs,
    end_undriven,
    last_end,
    lost_drivers,
    standing,
    waiting_until,
)
from agentorchestra.workspace.assembly import Facet
from agentorchestra.workspace.composition import Composition
from agentorchestra.workspace.equipment import RunObjects, run_request
from agentorchestra.workspace.schedules import SYSTEM as SCHEDULE
from agentorchestra.workspace.schedules import Schedule, ScheduleState, machine_zone, state_of, time_points

if TYPE_CHECKING:
    from agentorchestra.agents.parts.foresight import Foresight
    from agentorchestra.tea.registry.reach import Affected


class Runs(Facet):
    """The runs of a workspace, driven or not: how they stand, what they ask, and the queue of servers."""

    async def list(self, *, limit: int | None = None) -> Sequence[RunHead]:
        """Return the workspace's runs, newest first, each with the head of its manifest."""
        return await self._parts.store.list_runs(limit=limit)

    async def result(self, run_id: str) -> RunResult:
        """Return the result as the log has it; a run that is not over gives its present status."""
        return await self._assembly().driver.result(run_id)

    async def questions(self, run_id: str) -> tuple[Question, ...]:
        """Return the open questions of a run, oldest first."""
        return open_questions(Ledger.of(await self._parts.store.load(run_id)))

    async def standings(self, runs: Sequence[str] | None = None) -> dict[str, Standing]:
        """Return how each run stands that is created or running, or those of these 1000 at most.

        It is driven, queued, abandoned, or created and not begun; of other statuses there is nothing to say.
        """
        return {run.id: standing(run) for run in await self._parts.store.unfinished_runs(runs=runs)}

    async def due(self) -> Sequence[str]:
        """Return the waiting runs that `resume` can go on with: their time, answer or mail has come."""
        return await due_runs(self._parts.store, self._parts.clock.now())

    async def waiting_until(self, runs: Sequence[str] | None = None) -> dict[str, datetime]:
        """Return when the first timer of each run that waits for a time is due, or of those of these 1000 at most."""
        return await waiting_until(self._parts.store, runs)

    async def accepted_run(self, request: Acceptance) -> str | None:
        """Return the run that was accepted under a request's key, if any; RequestKeyError if for another one."""
        return await self._parts.accepted_run(request)

    async def take_up(self, run_id: str, *, accept: bool = False) -> RunResult:
        """Drive a run that is created, running or waiting by its id, to its end or to where it waits, as a server does.

        A run that ended the process that drove it several times in a row, without progress, fails instead (a `resume`
        that a person asks for still tries it again). A run of any other status stays as it is.

        Args:
            accept: it is a server's from here on: the next one goes on with it after a crash.

        Returns:
            Its result, as `resume` gives it.

        Raises:
            FencedError: if another process drives it.
            OtherSettingsError: if it was made with another application, preset or task folder; it stays in the log
                for a process that has them.
            UnknownRunError, UnknownComponentError: as `resume`.
        """
        parts, driver = self._parts, self._assembly().driver
        record = await parts.record(run_id)
        if record.status not in GOES_ON:
            return await driver.result(run_id)
        _check_settings(parts, record)
        if accept and record.accepted is None:
            await parts.store.accept(run_id, parts.clock.now())
        count = lost_drivers(await parts.store.load(run_id))
        if count >= MOST_LOST:
            error = (
                f"it ended its driver {count} times, each time before anything more was recorded; "
                f"`agentorchestra resume {run_id}` tries once more"
            )
            await end_undriven(parts.store, parts.engine, parts.clock, run_id, RunStatus.FAILED, error=error)
            return await driver.result(run_id)
        return await driver.resume(run_id, RunObjects(), if_going_on=True)

    async def enqueue(self, run_id: str, *, budget: Budget | None = None) -> None:
        """Put a run that stopped, and that nobody drives, into the queue: it is `running`, and `take_up` drives it.

        Args:
            run_id: the run; one that is over stays as it is.
            budget: other limits from here on.

        Raises:
            FencedError: if a process drives it.
        """
        parts, now = self._parts, self._parts.clock.now()
        record = await parts.record(run_id)
        if record.status in FINAL:
            return
        epoch = await parts.engine.claim(run_id)
        try:
            events = await parts.store.load(run_id)
            if budget is not None:
                events = await self._assembly().driver.raise_budget(run_id, epoch, record.manifest, events, budget)
            before = last_end(events) or RunEnded(status=RunStatus.RUNNING, active_s=0.0)
            blank_fields: dict[str, Any] = {"error": None, "error_type": None, "waiting_for": [], "until": None}
            end = before.model_copy(
                update={"status": RunStatus.RUNNING, "active_s": round(active_seconds(events), 3), **blank_fields}
            )
            await wait_for(parts.store.append(run_id, epoch, [new_event(end, ts=now)], status=RunStatus.RUNNING))
            await parts.store.accept(run_id, now)
        finally:
            await parts.engine.release(run_id, epoch)

    async def foresee(self, task: str | RunSpec, **fields: Unpack[RunFields]) -> Foresight:
        """Return the requests that a run's test-time scaling comes to (docs/scaling.md); nothing is asked or written.

        Args:
            task, fields: as for `run`.
        """
        spec, objects = run_request(task, {**fields, "tools": (), "output_type": None})
        return await self._assembly().creator.foresee(spec, objects)

    async def first_affected(self, run_id: str, components: Mapping[str, str]) -> Affected | None:
        """Return the first effect of a run that other versions of components can change.

        Up to there the run is the same with them. Where the log cannot tell, an earlier effect is named.

        Args:
            components: the other versions, by `KIND:NAME`, as for `fork`.

        Returns:
            Its key, and the event to fork at so that it is done anew; None where the change touches nothing.

        Raises:
            UnknownRunError, UnknownComponentError, VersionError.
        """
        run_request("fork", {"components": components})  # refuses what names no component
        parts = self._parts
        await parts.ready(toolkits=False)
        events = await parts.store.load(run_id)
        return await self._assembly().equipper.first_affected(await parts.record(run_id), events, components)

    async def rate(self, run_id: str, score: float, *, note: str = "", by: str = "") -> None:
        """Say how good a run was, from 0 to 1 (else UsageError): the last word is its outcome for evolution."""
        if not 0 <= score <= 1:
            raise UsageError(f"the score {score!r} is outside 0 to 1; 1 is as good as it can be")
        parts = self._parts
        await parts.record(run_id)
        await parts.tell(run_id, Rated(score=score, note=parts.redact(note), by=by), by=by)

    @asynccontextmanager
    async def watch(self, run_id: str) -> AsyncIterator[asyncio.Queue[Notice]]:
        """Give a queue of notices of a run that is about to be driven here."""
        async with self._assembly().driver.notices_of(run_id) as queue:
            yield queue

    @property
    def calls(self) -> str | None:
        """The run that holds the calls made outside of runs (`tcp.invoke`, `ecp.invoke`); None before the first."""
        return self._parts.calls.run_id


class Schedules(Facet):
    """The schedules of a workspace (docs/schedule.md)."""

    async def add(
        self, cron: str, task: str | RunSpec, *, name: str = "", zone: str | None = None, **fields: Unpack[RunFields]
    ) -> str:
        """Have a task run again and again (docs/schedule.md); return the id of the run that waits for its times.

        A server, a worker, `agentorchestra schedule run` or `resume --due` starts the runs: each is an ordinary one
        with the label `schedule`. `pause`, `resume` and `cancel` of the id pause, resume and remove the schedule.

        Args:
            cron: minute, hour, day of the month, month, day of the week, e.g. `0 9 * * 1-5`.
            task, fields: as for `run`; files are read when a run begins.
            name: of the schedule; its id by default.
            zone: the clock that is meant, e.g. `Europe/Berlin`; by default that of this machine. It is kept.

        Raises:
            ScheduleError: for times that cannot be read or never come, and a name that another schedule has.
            MissingExtraError: if the extra `schedule` is not installed.
        """
        parts = self._parts
        spec, _ = run_request(task, {**fields})
        if name and name in {schedule.name for schedule in await self.list()}:
            raise ScheduleError(f"there is a schedule {name!r} already; remove it first, or choose another name")
        zone = machine_zone(parts.host.own.environ) if zone is None else zone
        first = next(time_points(cron, zone, parts.clock.now()))
        schedule = Schedule(name=name, cron=cron, zone=zone, first=first, spec=spec)
        run_id = await self._assembly().creator.create_schedule(schedule)
        with suppress(FencedError):  # a server has it already
            await self._assembly().driver.resume(run_id, RunObjects())
        return run_id

    async def list(self) -> Sequence[ScheduleState]:
        """Return the schedules that are not removed, oldest first."""
        parts, over = self._parts, {*FINAL, RunStatus.CANCELLED}
        heads = [run for run in await parts.store.list_runs() if run.manifest.system == SCHEDULE]
        records = [await parts.record(head.id) for head in reversed(heads) if head.status not in over]
        return [state_of(record, await parts.store.load(record.id), parts.clock.now()) for record in records]


def _check_settings(parts: Composition, record: RunRecord) -> None:
    """Raise OtherSettingsError if this process would drive a run with other things than it was made with."""
    manifest, host = record.manifest, parts.host
    for matter, recorded_value, here in (
        ("preset", manifest.preset, parts.settings.preset),
        ("application", manifest.app or "", host.app or ""),
        ("task folder", manifest.task_folder, parts.task_place),
    ):
        if recorded_value != here:
            raise OtherSettingsError(
                f"run {record.id} was made with the {matter} {recorded_value or 'none'!r}, and this process has "
                f"{here or 'none'!r}; drive it where they are the same: `agentorchestra resume {record.id}`"
            )
