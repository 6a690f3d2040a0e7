"""Runs under way: driven to their end or to where they wait, and gone through again from their logs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from agentorchestra.core.budget import Budget
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.errors import AgentFailedError, OutputError, ReplayError
from agentorchestra.core.events import BudgetRaised, Event, RunEnded, new_event
from agentorchestra.core.spec import FINAL, AgentResult, AgentSpec, RunManifest, RunResult, RunStatus
from agentorchestra.log.ledger import Ledger
from agentorchestra.runtime import job
from agentorchestra.runtime.bus import Bus, Notice
from agentorchestra.runtime.direct_calls import SYSTEM as CALLS
from agentorchestra.runtime.direct_calls import repeated
from agentorchestra.runtime.run import Run, current_budget, wait_for
from agentorchestra.runtime.session import Session
from agentorchestra.runtime.waits import end_undriven, not_yet, requested
from agentorchestra.workspace.catalog import Stock
from agentorchestra.workspace.equipment import Equipping
from agentorchestra.workspace.handlers import Supply
from agentorchestra.workspace.parts import Equipment, RunObjects
from agentorchestra.workspace.place import Place, Ready

if TYPE_CHECKING:
    from agentorchestra.agents.components import Components
    from agentorchestra.tea.retrieval.finder import Finding


class ReplayReport(BaseModel):
    """How a replay ended.

    Attributes:
        run_id: the run.
        keys: effects visited, all of them recorded.
        status: of the recorded run.
        answer: the answer the replay came to, "" when the recording ends before one.
    """

    run_id: str
    keys: int
    status: RunStatus
    answer: str = ""


class Driving:
    """Drives, resumes and replays the runs of a workspace.

    Args:
        place: where they are.
        stock: what there is by name.
        components: say which of them failed.
        equipping: equips the runs.
        supply: has the handlers.
        finding: learns from runs that have ended.
        ready: takes into use what is registered.
    """

    def __init__(
        self,
        place: Place,
        stock: Stock,
        components: Components,
        equipping: Equipping,
        supply: Supply,
        finding: Finding,
        ready: Ready,
    ) -> None:
        self._place = place
        self._stock = stock
        self._components = components
        self._equipping = equipping
        self._supply = supply
        self._finding = finding
        self._ready = ready
        self._buses: dict[str, Bus] = {}
        self._tasks: set[asyncio.Task[RunResult]] = set()

    async def result(self, run_id: str) -> RunResult:
        """See Workspace.result."""
        record = await self._place.record(run_id)
        events = await self._place.store.load(run_id)
        services = self._supply.for_run(self._equipping.base())
        run = Run(services, run_id, record.manifest, events, epoch=None, mode="replay")
        ended = next((e.data for e in reversed(events) if e.type == "run_ended"), None)
        if not isinstance(ended, RunEnded) or ended.status != record.status:
            ended = RunEnded(status=record.status, active_s=round(run.active_s(), 3))
        return job.make_result(run_id, record.manifest, ended, run)

    async def resume(self, run_id: str, given: RunObjects, *, budget: Budget | None, pin: bool) -> RunResult:
        """See Workspace.resume."""
        record = await self._place.record(run_id)
        if record.status in FINAL:
            return typed(await self.result(run_id), given.output_type)
        waits = record.status is RunStatus.WAITING and budget in (None, Budget())
        if waits and not_yet(await self._place.store.load(run_id), self._place.clock.now()):
            return typed(await self.result(run_id), given.output_type)
        await self._ready()
        had = await self._equipping.with_given(self._equipping.of(record), given.tools, given.model)
        equipment = await self._equipping.as_started(record, had, pin=pin)
        self._equipping.check(record.manifest, equipment)
        equipment.models.check(record.manifest.model)
        self._equipping.hold(run_id, had)  # what is pinned is so for this time
        return await self.drive(run_id, given, equipment, budget)

    async def drive(
        self, run_id: str, given: RunObjects, equipment: Equipment | None = None, budget: Budget | None = None
    ) -> RunResult:
        """Drive a run to its end, or to where it waits.

        Args:
            run_id: the run.
            given: for this time.
            equipment: what it is driven with, None for what it was created with.
            budget: other limits from here on.
        """
        place = self._place
        record = await place.record(run_id)
        if record.status in FINAL:
            return typed(await self.result(run_id), given.output_type)
        equipment = equipment or self._equipping.of(record)
        services = self._supply.for_run(equipment, given.policy)
        top = partial(self._top, record.manifest, self._stock.hidden(equipment))

        async def drive(epoch: int) -> RunResult:
            while True:
                events = await place.store.load(run_id)
                if budget is not None:
                    events = await self._raise_budget(run_id, epoch, record.manifest, events, budget)
                run = Run(
                    services,
                    run_id,
                    record.manifest,
                    events,
                    epoch=epoch,
                    bus=self._buses.get(run_id),
                    deps=self._supply.deps() if given.deps is None else given.deps,
                )
                place.engine.attach(run)
                # What came while the log was read: nobody else looks for it, and a request to stop may be the last.
                await place.engine.poke(run_id)
                since = {e.type for e in events if e.seq >= record.next_seq}
                if "pause_requested" in since:
                    run.pause()
                if "cancel_requested" in since:
                    driving = asyncio.current_task()
                    assert driving is not None
                    driving.cancel()
                for change in await self._equipping.changed_since(record.manifest, equipment):
                    run.note(change, level="warning")
                for failure in self._components.failures():
                    run.note(failure, level="warning")
                result = await job.drive(run, top, owner=place.engine.owner)
                # The answer or the time may have come while the siblings of what waits were still at work.
                if result.status is not RunStatus.WAITING:
                    return result
                if (result.until is None or result.until > place.clock.now()) and not await self._answered_since(run):
                    return result

        result = await place.engine.submit(run_id, drive)
        if result.status in FINAL:
            self._finding.ended(run_id)
        if result.status is RunStatus.WAITING:
            # What came while the job ended found nobody who would hear it.
            asked = await requested(place.store, run_id)
            if asked is not None:
                await end_undriven(place.store, place.engine, place.clock, run_id, asked)
            if (await place.record(run_id)).status in (RunStatus.PAUSED, RunStatus.CANCELLED):
                result = await self.result(run_id)
        return typed(result, given.output_type)

    async def _answered_since(self, run: Run) -> bool:
        # From the log alone: the run's own ledger may have taken the answer in while siblings were at work.
        ledger = Ledger.of(await self._place.store.load(run.id))
        return any(
            record.outcome is None and record.kind is EffectKind.ASK_HUMAN and str(key) in ledger.answers
            for key, record in ledger.records.items()
        )

    async def _raise_budget(
        self, run_id: str, epoch: int, manifest: RunManifest, events: list[Event], budget: Budget
    ) -> list[Event]:
        if (
            current_budget(manifest, events).model_dump() | budget.model_dump(exclude_none=True)
            == current_budget(manifest, events).model_dump()
        ):
            return events
        store, body = self._place.store, BudgetRaised(budget=budget.model_dump(mode="json", exclude_none=True))
        await wait_for(store.append(run_id, epoch, [new_event(body, ts=self._place.clock.now())]))
        return await store.load(run_id)

    async def _top(self, manifest: RunManifest, hidden: frozenset[str], root: Session[Any]) -> AgentResult:
        """Perform the top agent on the root session."""
        from agentorchestra.agents.agent import agent_effect

        stock = self._stock
        if manifest.system == CALLS:
            return await repeated(root)
        tools = tuple(sorted(name for name in manifest.tools if name not in stock.behind | hidden))
        role, agent = "agent", stock.agents.get(manifest.system) if manifest.system not in stock.systems else None
        if agent is not None:
            role = agent.role
            wanted = agent.reach(tuple({*manifest.tools} - stock.builtin - hidden))
            tools = tuple(sorted({*wanted, *manifest.environments} & {*manifest.tools}))
        spec = AgentSpec(
            name=manifest.system,
            instruction=manifest.task,
            tools=tools,
            role=role,
            system=manifest.system,
            max_steps=manifest.max_steps,
            output_schema=manifest.output_schema,
            finish=manifest.finish,
        )
        outcome = await root.perform(agent_effect(spec, root))
        if outcome.value is None:
            raise AgentFailedError(outcome.error or f"{manifest.system} gave no result")
        return AgentResult.model_validate(outcome.value)

    @asynccontextmanager
    async def watched(self, run_id: str) -> AsyncIterator[asyncio.Queue[Notice]]:
        """A queue of notices of a run that is about to be driven here."""
        bus = self._buses.setdefault(run_id, Bus())
        try:
            with bus.subscribe() as queue:
                yield queue
        finally:
            self._buses.pop(run_id, None)

    async def stream(self, run_id: str, given: RunObjects) -> AsyncGenerator[Notice, None]:
        """Drive a run and yield what happens in it, at last the end with the result."""
        async with self.watched(run_id) as queue:
            work = asyncio.create_task(self.drive(run_id, given))
            self._tasks.add(work)
            try:
                while True:
                    getter = asyncio.ensure_future(queue.get())
                    await asyncio.wait({getter, work}, return_when=asyncio.FIRST_COMPLETED)
                    if getter.done():
                        notice = getter.result()
                        if notice.kind == "end":
                            break
                        yield notice
                        continue
                    getter.cancel()
                    while not queue.empty():
                        notice = queue.get_nowait()
                        if notice.kind != "end":
                            yield notice
                    break
                yield Notice(kind="end", run=run_id, result=await work)
            finally:
                # A reader that stops reading stops the run; what is recorded can be resumed.
                if not work.done():
                    work.cancel()
                    await asyncio.gather(work, return_exceptions=True)
                self._tasks.discard(work)

    async def close(self) -> None:
        """Wait for what streams; the engine has stopped it."""
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def replay(self, run_id: str, *, tools: Sequence[Any], deps: Any, model: Any, pin: bool) -> ReplayReport:
        """See Workspace.replay."""
        record = await self._place.record(run_id)
        await self._ready(toolkits=False)  # what is recorded is not called
        equipment = await self._equipping.with_given(self._equipping.of(record), tools, model)
        events = await self._place.store.load(run_id)
        equipment = await self._equipping.as_replayed(record, equipment, events, pin=pin)
        self._equipping.check(record.manifest, equipment)
        run = Run(
            self._supply.for_run(equipment),
            run_id,
            record.manifest,
            events,
            epoch=None,
            mode="replay",
            deps=self._supply.deps() if deps is None else deps,
        )
        if record.imported is not None:
            run.sealed = frozenset({EffectKind.INVOKE_TOOL, EffectKind.INVOKE_ACTION, EffectKind.RUN_CODE})
        try:
            result = await job.replay(run, partial(self._top, record.manifest, self._stock.hidden(equipment)))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as exc:
            if record.imported is None:
                raise
            raise ReplayError(
                f"the log of the imported run {run_id} says something that no run says ({type(exc).__name__}: "
                f"{(str(exc).splitlines() or [''])[0][:200]}); import it again from where it was made"
            ) from None
        return ReplayReport(
            run_id=run_id, keys=len(run.visited), status=record.status, answer=result.answer if result else ""
        )


def typed(result: RunResult, output_type: type[Any] | None) -> RunResult:
    """The result with its output as an object of a type.

    Raises:
        OutputError: a complete answer does not fit.
    """
    if output_type is None or result.output is None:
        return result
    try:
        return result.model_copy(update={"output": TypeAdapter(output_type).validate_json(json.dumps(result.output))})
    except ValidationError as exc:
        if result.status is not RunStatus.COMPLETED:
            return result.model_copy(update={"output": None})  # the best there is, in words
        first = exc.errors()[0]
        raise OutputError(
            f"the answer of {result.run_id} does not fit {output_type.__name__}: {first['msg']} at {first['loc']}"
        ) from None


__all__ = ["Driving", "ReplayReport", "typed"]
