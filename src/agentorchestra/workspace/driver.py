"""Runs under way: driven to their end or to where they wait, and gone through again from their logs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError

from agentorchestra.core.budget import Budget
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.errors import AgentFailedError, AnswerError, OutputError, ProjectError, ReplayError
from agentorchestra.core.events import BudgetRaised, Event, RunEnded, new_event
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.protocols import RunRecord
from agentorchestra.core.spec import FINAL, AgentResult, AgentSpec, Question, RunManifest, RunResult, RunStatus
from agentorchestra.log.folders import MAIN, WORKED_ON, world_folder
from agentorchestra.log.ledger import Ledger, status_of
from agentorchestra.log.store.rows import PENDING
from agentorchestra.runtime import job
from agentorchestra.runtime.answers import earlier_answer, settle
from agentorchestra.runtime.bus import Bus, Notice
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.direct_calls import SYSTEM as CALLS
from agentorchestra.runtime.direct_calls import repeat
from agentorchestra.runtime.hooks import Hooks
from agentorchestra.runtime.open_environments import CHANGED
from agentorchestra.runtime.run import Run, current_budget, open_questions, wait_for
from agentorchestra.runtime.waits import GOES_ON, end_undriven, last_end, not_yet, request_of
from agentorchestra.runtime.worlds import final_snapshot
from agentorchestra.workspace.catalog import Equipment, HandlerWrapper, code_digest
from agentorchestra.workspace.composition import Composition
from agentorchestra.workspace.equipment import Equipper, RunObjects
from agentorchestra.workspace.handlers import Handlers
from agentorchestra.workspace.schedules import SYSTEM as SCHEDULE
from agentorchestra.workspace.schedules import Schedule, keep
from agentorchestra.workspace.turns import taken_over

if TYPE_CHECKING:
    from agentorchestra.workspace.changes import Changes


class ReplayReport(BaseModel):
    """The end of a replay.

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


class RunDriver:
    """Drives, resumes and replays the runs of a workspace.

    Args:
        parts: of the workspace.
        equipper: equips the runs.
        handlers: give them their services.
    """

    def __init__(self, parts: Composition, equipper: Equipper, handlers: Handlers) -> None:
        self._parts = parts
        self._equipper = equipper
        self._handlers = handlers
        self._buses: dict[str, Bus] = {}
        self._tasks: set[asyncio.Task[RunResult]] = set()

    async def result(self, run_id: str) -> RunResult:
        record = await self._parts.record(run_id)
        events = await self._parts.store.load(run_id)
        run = self.recorded(record, events)
        ended = last_end(events)
        if ended is None or ended.status != record.status:
            earlier = ended or RunEnded(status=record.status, active_s=0)
            ended = RunEnded(
                status=record.status,
                active_s=round(run.active_s(), 3),
                files=earlier.files,
                more_files=earlier.more_files,
                tests=earlier.tests,
            )
        return await self._with_diff(job.make_result(run_id, record.manifest, ended, run), record, run)

    def recorded(self, record: RunRecord, events: list[Event]) -> Run:
        """Return a run as its log has it, to read from."""
        services = self._handlers.for_run(self._equipper.base())
        return Run(services, record.id, record.manifest, events, epoch=None, mode="replay")

    async def changes(self, record: RunRecord, run: Run) -> Changes:
        """Return what a run changed in its copy of a project, by now; ProjectError if it has none, or it was lost."""
        from agentorchestra.environments.folder import FOLDER
        from agentorchestra.workspace.changes import changes_of

        project = record.manifest.project
        if project is None:
            raise ProjectError(
                f"run {record.id} works on no folder of yours; start one with `agentorchestra run --in DIR`"
            )
        snapshot = final_snapshot(run.ledger, FOLDER)
        if snapshot == CHANGED:
            raise ProjectError(
                f"how the folder of run {record.id} stood at its end could not be kept; what it changed lies in "
                f"{world_folder(run.folder, MAIN) / WORKED_ON}"
            )
        return await changes_of(project, snapshot, run.blob)

    async def _with_diff(self, result: RunResult, record: RunRecord, run: Run) -> RunResult:
        if record.manifest.project is None or result.status in (RunStatus.CREATED, RunStatus.RUNNING):
            return result
        try:
            changes = await self.changes(record, run)
        except ProjectError:  # whoever wants to apply it is told
            return result
        return result.model_copy(update={"diff": await asyncio.to_thread(changes.diff)})

    async def resume(
        self,
        run_id: str,
        objects: RunObjects,
        *,
        budget: Budget | None = None,
        pin: bool = False,
        wrap: HandlerWrapper | None = None,
        if_going_on: bool = False,
    ) -> RunResult:
        """Go on with a run; see Workspace.resume. `wrap` wraps its handlers, for this time.

        With `if_going_on` one that was stopped before this process had it stays as it is.
        """
        record = await self._parts.record(run_id)
        if record.status in FINAL:
            return _typed(await self.result(run_id), objects.output_type)
        waits = record.status is RunStatus.WAITING and budget in (None, Budget())
        if waits and not_yet(await self._parts.store.load(run_id), self._parts.clock.now()):
            return _typed(await self.result(run_id), objects.output_type)
        await self._parts.ready()
        had = await self._equipper.with_objects(self._equipper.of(record), objects)
        equipment = await self._equipper.as_started(record, had, pin=pin)
        self._equipper.check(record.manifest, equipment)
        if record.manifest.system != SCHEDULE:  # which asks none; its runs say what they lack
            equipment.models.check(record.manifest.model)
        self._equipper.given.keep(run_id, had)  # what is pinned is so for this time
        return await self.drive(run_id, objects, equipment, budget, wrap, if_going_on=if_going_on)

    async def drive(
        self,
        run_id: str,  # the run
        objects: RunObjects,  # for this time
        equipment: Equipment | None = None,  # what it is driven with, None for what it was created with
        budget: Budget | None = None,  # other limits from here on
        wrap: HandlerWrapper | None = None,  # wraps its handlers
        *,
        if_going_on: bool = False,  # leave one as it is that was stopped before this process had it
    ) -> RunResult:
        """Drive a run to its end, or to where it waits."""
        parts = self._parts
        record = await parts.record(run_id)
        if record.status in FINAL:
            return _typed(await self.result(run_id), objects.output_type)
        equipment = equipment or await self._equipper.with_objects(self._equipper.of(record), RunObjects())
        services = self._handlers.for_run(equipment, objects.policy)
        if wrap is not None:
            services = replace(services, handlers=wrap(dict(services.handlers)))
        top = partial(self._top, record.manifest, equipment)
        code = await asyncio.to_thread(code_digest)
        changes = await self._equipper.changed_since(record.manifest, equipment)
        changed = {change.key: change.content_hash for change in changes}

        async def drive(epoch: int) -> RunResult:
            while True:
                events = await parts.store.load(run_id, verify=True)
                if if_going_on and status_of(events) not in GOES_ON:
                    return await self.result(run_id)
                if budget is not None:
                    events = await self.raise_budget(run_id, epoch, record.manifest, events, budget)
                run = Run(
                    services,
                    run_id,
                    record.manifest,
                    events,
                    epoch=epoch,
                    bus=self._buses.get(run_id),
                    deps=self._parts.host.deps if objects.deps is None else objects.deps,
                )
                parts.engine.attach(run)
                # What came while the log was read: nobody else looks for it, and a request to stop may be the last.
                await parts.engine.poke(run_id)
                since = {e.type for e in events if e.seq >= record.next_seq}
                if "pause_requested" in since:
                    run.pause()
                if "cancel_requested" in since:
                    driving = asyncio.current_task()
                    assert driving is not None
                    driving.cancel()
                if run.ledger.driven_with is None or run.ledger.driven_with[1] != changed:
                    for change in changes:
                        run.note(change.sentence, level="warning")
                taken = taken_over(record.manifest, parts.catalog.agents)
                if taken and run.ledger.driven_with is None:
                    run.note(taken)
                for failure in self._parts.components.failures():
                    run.note(failure, level="warning")
                result = await job.drive(run, top, owner=parts.engine.owner, code=code, changed=changed)
                result = await self._with_diff(result, record, run)
                # The answer or the time may have come while the siblings of what waits were still at work.
                if result.status is not RunStatus.WAITING:
                    return result
                if (result.until is None or result.until > parts.clock.now()) and not await self._answered_since(run):
                    return result

        part = record.manifest.part_of  # works in the folder of its run
        await parts.fetch_files(run_id if part is None else part.run, record.manifest.files)
        over = True
        try:
            async with self._hooked(run_id, objects):
                result = await parts.engine.submit(run_id, drive)
            over = result.status not in PENDING
        finally:
            if over:
                self._equipper.given.ended(run_id)
        if result.status is RunStatus.WAITING:
            # What came while the job ended found nobody who would hear it.
            request = await request_of(parts.store, run_id)
            if request is not None:
                await end_undriven(parts.store, parts.engine, parts.clock, run_id, request)
            if (await parts.record(run_id)).status in (RunStatus.PAUSED, RunStatus.CANCELLED):
                result = await self.result(run_id)
        return _typed(result, objects.output_type)

    async def _answered_since(self, run: Run) -> bool:
        # From the log alone: the run's own ledger may have taken the answer in while siblings were at work.
        ledger = Ledger.of(await self._parts.store.load(run.id))
        return any(
            record.outcome is None and record.kind is EffectKind.ASK_HUMAN and str(key) in ledger.answers
            for key, record in ledger.records.items()
        )

    async def raise_budget(
        self, run_id: str, epoch: int, manifest: RunManifest, events: list[Event], budget: Budget
    ) -> list[Event]:
        """Write other limits into the log of a run that is claimed, where they differ; return its events."""
        limits, other = current_budget(manifest, events).model_dump(), budget.model_dump(exclude_none=True)
        if limits | other == limits:
            return events
        store, body = self._parts.store, BudgetRaised(budget=budget.model_dump(mode="json", exclude_none=True))
        await wait_for(store.append(run_id, epoch, [new_event(body, ts=self._parts.clock.now())]))
        return await store.load(run_id)

    async def _top(self, manifest: RunManifest, equipment: Equipment, root: BranchContext[Any]) -> AgentResult:
        from agentorchestra.agents.agent import agent_effect

        if manifest.system == CALLS:
            return await repeat(root)
        if manifest.system == SCHEDULE:
            await keep(root, Schedule.model_validate(manifest.options))
        catalog = self._parts.catalog.of(equipment)
        hidden = catalog.hidden(equipment)
        pinned = {*manifest.tools} - self._equipper.gone(manifest, equipment)
        tools = tuple(sorted(pinned - catalog.behind - hidden))
        role, agent = "agent", catalog.agents.get(manifest.system) if manifest.system not in catalog.systems else None
        if agent is not None:
            role = agent.role
            names = agent.reach(tuple(pinned - catalog.builtin - hidden))
            tools = tuple(sorted({*names, *manifest.environments} & pinned))
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

    async def answer(
        self, run_id: str, answer: JsonValue, *, question: str | None, by: str, kind: str, code: str | None = None
    ) -> Question:
        """Answer the oldest (or the named) open question of a kind; of several approvals, none is allowed unnamed.

        Args:
            run_id, question, by, code: see Workspace.approve.
            answer: for an approval only True approves; a text says why not.
            kind: `question` or `approval`.

        Raises:
            AnswerError: if there is no such open question, or somebody answered it first.
        """
        parts = self._parts
        record = await parts.record(run_id)
        ledger = Ledger.of(await parts.store.load(run_id))
        held = ledger.answered.get(question or "")
        if held is not None:
            raise AnswerError(earlier_answer(run_id, held))
        if record.status in FINAL:
            raise AnswerError(
                f"run {run_id} has no open {kind} any more: it is over ({record.status.value}); start a new run"
            )
        asks = open_questions(ledger)
        fitting = [ask for ask in asks if ask.kind == kind and question in (None, ask.key) and code in (None, ask.code)]
        listed = "; ".join(f"{ask.key} ({_kind(ask)}): {ask.question}" for ask in asks) or "none"
        if not fitting:
            named = (f" {question}" if question else "") + (f" with the code {code!r}" if code is not None else "")
            verb = "answer" if kind == "question" else "approve or deny"
            last = max(ledger.answered.values(), key=lambda ask: ask.seq, default=None)
            so = f". The last: {earlier_answer(run_id, last)}" if last is not None else ""
            raise AnswerError(f"run {run_id} has no open {kind}{named} to {verb}; open: {listed}{so}")
        if answer is True and question is None and code is None and len(fitting) > 1:
            raise AnswerError(
                f"run {run_id} asks permission for {len(fitting)} calls; name the one that was shown by its code; "
                f"open: {listed}"
            )
        chosen = fitting[0]
        reply = parts.redact_json(answer)
        began = ledger.records[EffectKey.parse(chosen.key)].began
        held, given = await settle(parts.store, run_id, chosen.key, reply, by=by, now=parts.clock.now(), began=began)
        if held is None:
            raise AnswerError(
                f"question {chosen.key} of run {run_id} is asked no more: what led to it is done anew; "
                f"`agentorchestra show {run_id}` lists what is open"
            )
        if not given:
            raise AnswerError(earlier_answer(run_id, held))
        await parts.engine.poke(run_id)
        return chosen

    @asynccontextmanager
    async def watched(self, run_id: str, *, whole: bool = False) -> AsyncIterator[asyncio.Queue[Notice]]:
        """Give a queue of notices of a run that is about to be driven here; `whole`: one that loses none."""
        bus = self._buses.setdefault(run_id, Bus())
        try:
            with bus.subscribe(whole=whole) as queue:
                yield queue
        finally:
            if not bus.listening:
                self._buses.pop(run_id, None)

    @asynccontextmanager
    async def _hooked(self, run_id: str, objects: RunObjects) -> AsyncIterator[None]:
        """Tell the hooks of the workspace and of the run what happens while the context is open."""
        own = self._parts.host.own
        hooks = Hooks(
            on_step=tuple(hook for hook in (own.on_step, objects.on_step) if hook is not None),
            on_tool=tuple(hook for hook in (own.on_tool, objects.on_tool) if hook is not None),
            on_model=tuple(hook for hook in (own.on_model, objects.on_model) if hook is not None),
        )
        if not hooks:
            yield
            return
        async with self.watched(run_id, whole=True) as queue:
            told = asyncio.create_task(hooks.follow(queue))
            try:
                yield
            finally:
                queue.put_nowait(Notice(kind="end", run=""))
                await told

    async def stream(self, run_id: str, objects: RunObjects) -> AsyncGenerator[Notice, None]:
        """Drive a run and yield what happens in it, at last the end with the result."""
        async with self.watched(run_id) as queue:
            work = asyncio.create_task(self.drive(run_id, objects))
            self._tasks.add(work)
            bus = self._buses[run_id]
            work.add_done_callback(lambda _: bus.publish(Notice(kind="end", run=run_id)))  # a run that did not begin
            try:
                while (notice := await queue.get()).kind != "end":
                    yield notice
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

    async def replay(self, run_id: str, objects: RunObjects, *, pin: bool) -> ReplayReport:
        record = await self._parts.record(run_id)
        await self._parts.fetch_files(run_id, record.manifest.files)
        await self._parts.ready(toolkits=False)  # what is recorded is not called
        equipment = await self._equipper.with_objects(self._equipper.of(record), objects)
        events = await self._parts.store.load(run_id, verify=True)
        equipment = await self._equipper.as_replayed(record, equipment, events, pin=pin)
        self._equipper.check(record.manifest, equipment)
        run = Run(
            self._handlers.for_run(equipment),
            run_id,
            record.manifest,
            events,
            epoch=None,
            mode="replay",
            deps=self._parts.host.deps if objects.deps is None else objects.deps,
        )
        if record.imported is not None:
            run.sealed = frozenset({EffectKind.INVOKE_TOOL, EffectKind.INVOKE_ACTION, EffectKind.RUN_CODE})
        try:
            result = await job.replay(run, partial(self._top, record.manifest, equipment))
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


def _typed(result: RunResult, output_type: type[Any] | None) -> RunResult:
    """Return the result with its output as an object of a type; raise OutputError if a complete answer does not fit."""
    if output_type is None or result.output_value is None:
        return result
    try:
        return result.model_copy(
            update={"output_value": TypeAdapter(output_type).validate_json(json.dumps(result.output_value))}
        )
    except ValidationError as exc:
        if result.status is not RunStatus.COMPLETED:
            return result.model_copy(update={"output_value": None})  # the best there is, in words
        first = exc.errors()[0]
        raise OutputError(
            f"the answer of {result.run_id} does not fit {output_type.__name__}: {first['msg']} at {first['loc']}"
        ) from None


def _kind(question: Question) -> str:
    return f"{question.kind}, code {question.code}" if question.code else question.kind
