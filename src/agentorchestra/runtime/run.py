"""A run while it is driven: what its sessions share, and how it starts, ends, waits and is replayed."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import JsonValue

from agentorchestra.core.budget import NO_USAGE, Bound, Budget, Usage
from agentorchestra.core.clock import Clock, SystemClock
from agentorchestra.core.effects import Effect, EffectKind, Outcome, Provenance
from agentorchestra.core.errors import (
    AgentOrchestraError,
    BudgetExhaustedError,
    DivergedError,
    ReplayError,
    ScriptError,
    StoreError,
    SuspendedError,
)
from agentorchestra.core.events import (
    BODIES,
    Answered,
    Body,
    BudgetExhausted,
    BudgetRaised,
    DrivingStarted,
    Event,
    NewEvent,
    Noted,
    RunEnded,
    Told,
    new_event,
    written_event,
)
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.policy import Policy, PolicyView
from agentorchestra.core.protocols import Environment, Handler, Owner, Store
from agentorchestra.core.spec import FINAL, AgentResult, Question, RunManifest, RunResult, RunStatus
from agentorchestra.log.folders import clear_up
from agentorchestra.log.ledger import Ledger, within
from agentorchestra.log.store.commits import Landing
from agentorchestra.runtime.budget import BudgetNode
from agentorchestra.runtime.bus import Bus, Notice
from agentorchestra.runtime.mail import MailRoom
from agentorchestra.runtime.open_environments import LiveEnvironment, settle
from agentorchestra.runtime.parallel import ReplayEnd
from agentorchestra.trust.addresses import links_within
from agentorchestra.trust.approvals import question_of
from agentorchestra.trust.redact import Redactor

PAUSED = "paused; `agentorchestra resume` goes on from here"

Asker = Callable[[Question], Awaitable[str | bool | None]]
"""Answers a question in place (a terminal); None leaves it open."""


@dataclass
class Services:
    """What the composition root hands to every run it drives.

    Attributes:
        store: the log.
        handlers: who executes each kind of effect.
        policy: makes the policy of a run from its folder.
        environments: factories by name.
        secrets: name -> value; the values never reach the log.
        environ: where `ctx.secret` looks.
        asker: answers questions in place, None where nobody can.
        runs_folder: parent of the runs' folders.
        deps: the user's dependencies.
        granted: what a component's own calls may use though its caller may not: its parts.
    """

    store: Store
    handlers: Mapping[EffectKind, Handler]
    policy: Callable[[Path], Policy]
    environments: Mapping[str, Callable[[], Environment]] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    asker: Asker | None = None
    runs_folder: Path = Path()
    deps: Any = None
    clock: Clock = field(default_factory=SystemClock)
    tool_effect: Callable[..., Effect] | None = None
    agent_effect: Callable[..., Effect] | None = None
    request_effect: Callable[..., Effect] | None = None
    granted: Callable[[Effect], frozenset[str]] | None = None


class Run:
    """One run in this process.

    Args:
        services: see Services.
        run_id: the run.
        manifest: what it is pinned to.
        events: its log so far.
        epoch: this process's epoch; None for a replay.
        bus: where notices go.

    Attributes:
        sealed: kinds of effects that a replay does not enter: what they did stands in the log, and their code is not
            here, or not to be trusted.
    """

    def __init__(
        self,
        services: Services,
        run_id: str,
        manifest: RunManifest,
        events: list[Event],
        *,
        epoch: int | None,
        bus: Bus | None = None,
        mode: Literal["live", "replay"] = "live",
        deps: Any = None,
    ) -> None:
        self.services = services
        self.id = run_id
        self.manifest = manifest
        self.files = {one.name: one for one in manifest.files}
        self.mode = mode
        self.epoch = epoch
        self.clock = services.clock
        self.bus = bus or Bus()
        self.deps = services.deps if deps is None else deps
        self.ledger = Ledger.of(events)
        self.redactor = Redactor(services.secrets)
        self.folder = services.runs_folder / run_id
        self.policy = services.policy(self.folder)
        self.mail = MailRoom()
        self.environments: dict[tuple[str, str], LiveEnvironment] = {}
        self.using: defaultdict[tuple[str, str], asyncio.Lock] = defaultdict(asyncio.Lock)
        # Instances in the middle of an action, and those that actions out of it wait for.
        self.wanted: defaultdict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
        self.asking = asyncio.Lock()
        self.pause_asked = asyncio.Event()
        self.user_content: list[str] = self._own_words()
        self.visited: set[EffectKey] = set()
        self.sealed: frozenset[EffectKind] = frozenset()
        self.longest_decision_s = 0.0
        self._change_noted = any(e.type == "driving_started" and e.seq > self.ledger.forked_at for e in events)
        self.usage_by_model: dict[str, Usage] = dict(self.ledger.usage_by_model)
        self.steps = len(self.ledger.decisions)
        self._links: set[str] = set()
        self._view: PolicyView | None = None
        self._viewed: list[str] = []
        self._active_before = active_seconds(events)
        self._driving_since: float | None = None
        self.budget = BudgetNode(
            "/", current_budget(manifest, events), spent=self.ledger.spent_under("/"), active=self.active_s
        )
        for seq, told in self.ledger.told:
            self._deliver(seq, told)
        for key, record in self.ledger.records.items():
            self.mail.load(key, record)
            if record.outcome is not None:
                self.note_links(record.effect, record.outcome)

    @property
    def replaying(self) -> bool:
        """Whether nothing may be executed or written."""
        return self.mode == "replay"

    @property
    def pausing(self) -> bool:
        """Whether no further effect may begin."""
        return self.pause_asked.is_set()

    def pause(self) -> None:
        """Begin no further effect; whoever only waits stops waiting."""
        self.pause_asked.set()
        self.mail.suspend()

    def active_s(self) -> float:
        """Seconds this run has been driven, over all its jobs."""
        since = self._driving_since
        return self._active_before + (0.0 if since is None else self.clock.monotonic() - since)

    # -- writing ---------------------------------------------------------------------------------------------------

    def append(self, *events: NewEvent, status: RunStatus | None = None) -> Future[tuple[int, ...]]:
        """Queue events for the log, in order; the future resolves when they are durable."""
        future = self.services.store.append(self.id, self.epoch, events, status=status)
        if self.bus.listening:
            for event in events:
                self.bus.publish(
                    Notice(kind="event", run=self.id, actor=event.actor, event=event, key=event.span or "")
                )
        return future

    def body(self, body: Body, **where: Any) -> NewEvent:
        """A body in its envelope, stamped now."""
        return new_event(body, ts=self.clock.now(), **where)

    def written(self, kind: type[Body], body: dict[str, Any], **where: Any) -> NewEvent:
        """A body in its stored form in its envelope, stamped now."""
        return written_event(kind, body, ts=self.clock.now(), **where)

    def note(self, message: str, *, level: Literal["info", "warning", "danger"] = "info") -> None:
        """A line in the log for its readers."""
        if not self.replaying:
            observe(self.append(self.body(Noted(message=self.redactor.text(message), level=level))))

    def note_change(self, key: EffectKey, change: str) -> None:
        """Say once where a fork first asks otherwise than the run it was forked from: the recorded outcome holds."""
        if not self._change_noted:
            self._change_noted = True
            self.note(f"from {key} on the fork asks otherwise than its parent did, whose outcomes hold: {change}")

    def note_links(self, effect: dict[str, Any], outcome: Outcome) -> None:
        """Remember the addresses of a received result: reading those needs no question."""
        if outcome.ok and "network" in effect.get("tags", ()):
            self._links |= links_within(outcome.value)

    def view(self) -> PolicyView:
        """What policy sees of the run; the same object until the user says something more."""
        if self._view is None or self._viewed is not self.user_content:
            self._viewed = self.user_content  # replaced as a whole, never added to
            self._view = PolicyView(user_content=tuple(self.user_content), links=self.links)
        return self._view

    def links(self) -> frozenset[str]:
        """Addresses seen in received results."""
        return frozenset(self._links)

    def account(self, model: str, usage: Usage) -> None:
        """Add to the usage that the result reports."""
        if usage is not NO_USAGE and usage != NO_USAGE:
            self.usage_by_model[model] = self.usage_by_model.get(model, NO_USAGE) + usage

    # -- the world outside -----------------------------------------------------------------------------------------

    def on_external(self, events: list[Event]) -> bool:
        """Take events of other processes into account; True if they ask to stop the run."""
        stop = False
        for event in events:
            if event.seq <= self.ledger.last_seq or event.body is None:
                continue
            stop = stop or event.type == "cancel_requested"  # once: a second cancellation would end the clearing up
            if event.type in ("answered", "told", "cancel_requested", "pause_requested"):
                self.ledger.apply(event)
                if event.type == "pause_requested":
                    self.pause()
                elif event.type == "told":
                    self._deliver(*self.ledger.told[-1])
                self.user_content = self._own_words()
        return stop

    def _deliver(self, seq: int, told: Told) -> None:
        if told.to:
            self.mail.deliver_told(seq, told)

    def take_answer(self, event: Event) -> None:
        """An answer that was given here; it comes with the external events once more."""
        answered = Answered.model_validate(event.body)
        self.ledger.answers.setdefault(answered.question, answered)
        self.ledger.answered.setdefault(answered.question, event)
        self.user_content = self._own_words()

    def _own_words(self) -> list[str]:
        """Everything the user said: the task, the session's earlier ones, answers to questions, what was told."""
        return [self.manifest.task, *(one.task for one in self.manifest.earlier), *self.ledger.own_words()]

    def questions(self) -> tuple[Question, ...]:
        """What the run waits for."""
        return open_questions(self.ledger)

    # -- driving ---------------------------------------------------------------------------------------------------

    async def drive(self, main: Callable[[Any], Awaitable[AgentResult]], *, owner: Owner | None = None) -> RunResult:
        """Drive the run to an end or to where it waits; every way out leaves its status in the log.

        Args:
            main: performs the top agent on the root session.
            owner: this process, for the log.

        Raises:
            asyncio.CancelledError: if the caller's task was cancelled (after the status was written).
            StoreError: if the log itself fails.
        """
        from agentorchestra.runtime.session import Session

        root: Session[Any] = Session.root(self)
        self._driving_since = self.clock.monotonic()
        started = self.body(DrivingStarted(owner=str(owner or ""), epoch=self.epoch or 0))
        status, error, error_type = RunStatus.FAILED, None, None
        nothing = result = AgentResult(status=RunStatus.FAILED)
        waiting: list[str] = []
        until: datetime | None = None
        cancelled: asyncio.CancelledError | None = None
        script: ScriptError | None = None
        limit = self.budget.limits.active_s
        try:
            remaining = None if limit is None else max(0.0, limit - self.active_s())
            async with asyncio.timeout(remaining) as deadline:
                await wait_for(self.append(started, status=RunStatus.RUNNING))
                await asyncio.sleep(0)  # a cancellation that came before this is heard here
                if self.epoch is not None and self.epoch > 1:
                    await asyncio.to_thread(clear_up, self.folder)
                result = await main(root)
            status = result.status
        except TimeoutError as exc:
            if deadline.expired():
                status = RunStatus.TIMED_OUT
                error = f"the time limit of {limit:g} active seconds is over; resume with a larger --timeout-s to go on"
            else:  # not the run's own limit: something in an agent or system took too long
                error, error_type = f"the system failed: {type(exc).__name__}: {exc}", type(exc).__name__
        except SuspendedError as exc:
            status, waiting, until, error = RunStatus.WAITING, list(exc.waiting_for), exc.until, str(exc)
            if self.pausing:
                status, error = RunStatus.PAUSED, PAUSED
        except BudgetExhaustedError as exc:
            status, error = RunStatus.BUDGET_EXHAUSTED, str(exc)
            if exc.resource == "active_s":
                status = RunStatus.TIMED_OUT
            observe(self.append(self.body(BudgetExhausted(resource=exc.resource, message=str(exc)))))
        except asyncio.CancelledError as exc:
            status, cancelled = RunStatus.CANCELLED, exc
            error = "cancelled; `agentorchestra resume` goes on from here"
        except StoreError:
            # The log refused: what was recorded stays, nothing more can be said in it.
            await root.end_spawned()
            await self.put_away()
            raise
        except AgentOrchestraError as exc:
            status, error, error_type = RunStatus.FAILED, str(exc), type(exc).__name__
            script = exc if isinstance(exc, ScriptError) else None
        except Exception as exc:  # a bug in an agent or system: the log says so, and the run can be resumed
            error, error_type = f"the system failed: {type(exc).__name__}: {exc}", type(exc).__name__
        if self.ledger.cancel_requested and cancelled is not None:
            error = "cancelled on request; `agentorchestra resume` goes on from here"
        if result is nothing and root.partial:
            result = AgentResult(status=status, **_partial_of(root.partial))
        try:
            await root.end_spawned()
            if result is not nothing:
                await settle(root)
            await self.put_away()
        finally:
            ended = RunEnded(
                status=status,
                active_s=round(self.active_s(), 3),
                result=self.redactor.json(result.model_dump(mode="json", exclude_defaults=True)),
                error=None if error is None else self.redactor.text(error),
                error_type=error_type,
                waiting_for=waiting,
                until=until,
            )
            # Queued synchronously: a further cancellation must not leave the run without its status.
            written = self.append(self.body(ended), status=status)
            observe(written)
        await asyncio.shield(wait_for(written))
        self._driving_since = None
        final = make_result(self.id, self.manifest, ended, self)
        self.bus.publish(Notice(kind="end", run=self.id, result=final))
        if cancelled is not None and not self.ledger.cancel_requested:
            raise cancelled
        if script is not None:
            raise script  # a test's script is wrong: louder than a status
        return final

    async def put_away(self) -> None:
        """Close the environments; nothing of the run stays behind in this process."""
        for live in self.environments.values():
            await live.close()
        self.environments.clear()

    async def replay(self, main: Callable[[Any], Awaitable[AgentResult]]) -> AgentResult | None:
        """Run the same code with no handlers, against the recording.

        Returns:
            The result, None when the recording ends before the answer.

        Raises:
            DivergedError: at the first effect that differs.
            ReplayError: if the keys visited are not the keys recorded.
        """
        from agentorchestra.runtime.session import Session

        root: Session[Any] = Session.root(self)
        result: AgentResult | None = None
        with contextlib.suppress(ReplayEnd, SuspendedError, BudgetExhaustedError):
            result = await main(root)
        missing = sorted(set(self.ledger.records) - self.visited)
        if missing:
            raise ReplayError(
                f"the replay of {self.id} never asked for {len(missing)} recorded effects, first {missing[0]}; "
                "the code or a prompt changed: `agentorchestra show` lists the recorded effects"
            )
        return result


def _partial_of(partial: JsonValue) -> dict[str, Any]:
    fields = partial if isinstance(partial, dict) else {}
    return {
        "memory": str(fields.get("memory", "")),
        "steps": fields.get("steps", 0),
        "report": str(fields.get("report", "")),
        "answer": str(fields.get("answer", "")),
        "sources": fields.get("sources", ()),
    }


def observe(future: Future[Any]) -> None:
    """Let a future's failure be seen by the next awaited append instead of a warning."""
    future.add_done_callback(lambda done: None if done.cancelled() else done.exception())


async def wait_for(future: Future[Any]) -> Any:
    """Await a store's future; cancelling the awaiting task never cancels the write."""
    if future.done():
        return future.result()
    if isinstance(future, Landing):
        return await future.waiter()
    wrapped = asyncio.wrap_future(future)
    wrapped.add_done_callback(lambda done: None if done.cancelled() else done.exception())
    return await asyncio.shield(wrapped)


def active_seconds(events: list[Event]) -> float:
    """Seconds the run was driven: the union of the spans from each `driving_started` to the last event of its job."""
    total = 0.0
    start = last = None
    for event in events:
        if event.type == "forked":  # before this, another run was driven
            total, start, last = 0.0, None, None
        elif event.type == "driving_started":
            if start is not None and last is not None:
                total += max(0.0, (last - start).total_seconds())
            start = last = event.ts
        elif event.type == "run_ended":
            if start is not None:
                total += max(0.0, (event.ts - start).total_seconds())
            start = last = None
        elif start is not None and not BODIES[event.type].external:
            last = event.ts
    if start is not None and last is not None:
        total += max(0.0, (last - start).total_seconds())
    return total


def current_budget(manifest: RunManifest, events: list[Event]) -> Budget:
    """The limits in force: the manifest's, replaced field by field by what resumes raised."""
    budget = manifest.budget
    for event in events:
        if event.type == "forked":
            budget = manifest.budget
        data = event.data if event.type == "budget_raised" else None
        if isinstance(data, BudgetRaised):
            budget = budget.model_copy(update=Budget.model_validate(data.budget).model_dump(exclude_none=True))
    return budget


def open_questions(ledger: Ledger) -> tuple[Question, ...]:
    """The questions of a ledger that nobody has answered."""
    found = []
    for key, record in ledger.open_questions():
        effect = record.effect
        approval = effect.get("purpose") == "approval"
        arguments = effect.get("arguments", {})
        found.append(question_of(str(key), arguments, approval=approval, provenance=_provenance(effect)))
    return tuple(found)


def _provenance(effect: dict[str, Any]) -> list[Provenance]:
    return [Provenance.model_validate(one) for one in effect.get("provenance", ())]


def make_result(run_id: str, manifest: RunManifest, ended: RunEnded, run: Run) -> RunResult:
    """The result a caller gets, from the end of the job and the run's totals."""
    agent = AgentResult.model_validate(ended.result)
    total = Usage()
    for usage in run.usage_by_model.values():
        total = total + usage
    artifacts = [a for record in run.ledger.records.values() if record.outcome for a in record.outcome.artifacts]
    return RunResult(
        status=RunStatus(ended.status),
        answer=agent.answer,
        output=agent.output if agent.output is not None else (agent.answer or None),
        report=agent.report or (agent.memory if ended.status not in FINAL else ""),
        sources=agent.sources,
        usage=total,
        usage_by_model=dict(sorted((k, v) for k, v in run.usage_by_model.items() if k)),
        cost_usd=total.cost_usd,
        run_id=run_id,
        system=manifest.system,
        model=manifest.model,
        duration_s=ended.active_s,
        artifacts=tuple(dict.fromkeys(artifacts)),  # an effect made of others hands on what is theirs
        questions=run.questions() if ended.status in (RunStatus.WAITING, RunStatus.PAUSED) else (),
        until=ended.until,
        error=ended.error,
        error_type=ended.error_type,
        steps=run.steps,
    )


__all__ = ["Asker", "Bound", "DivergedError", "LiveEnvironment", "ReplayEnd", "Run", "Services", "within"]
