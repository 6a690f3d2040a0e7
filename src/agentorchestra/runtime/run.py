"""A run while it is driven: what its branches share. `job.py` drives it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from agentorchestra.core.budget import NO_USAGE, Budget, Usage
from agentorchestra.core.clock import Clock, SystemClock
from agentorchestra.core.effects import ArtifactRef, Effect, EffectKind, Provenance
from agentorchestra.core.errors import UnknownComponentError
from agentorchestra.core.events import (
    BODIES,
    Answered,
    Body,
    BudgetRaised,
    Event,
    NewEvent,
    Noted,
    Told,
    new_event,
    written_event,
)
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.policy import Policy, PolicyView
from agentorchestra.core.protocols import Environment, Handler, Store
from agentorchestra.core.spec import Question, RunManifest, RunStatus, TestsRan
from agentorchestra.log.ledger import Ledger, Record
from agentorchestra.log.store.commits import Landing
from agentorchestra.runtime.answer_stream import AnswerStream
from agentorchestra.runtime.budget import BudgetNode
from agentorchestra.runtime.bus import Bus, Notice
from agentorchestra.runtime.files import FolderFiles
from agentorchestra.runtime.mail_room import MailRoom
from agentorchestra.runtime.open_environments import OpenEnvironment, Place
from agentorchestra.runtime.part import Division, Elsewhere
from agentorchestra.trust.approvals import question_of
from agentorchestra.trust.received import Received
from agentorchestra.trust.redact import Redactor

PAUSE_HINT = "paused; `agentorchestra resume` goes on from here"

Asker = Callable[[Question], Awaitable[str | bool | None]]
"""Answers a question in place (a terminal); None leaves it open."""


@dataclass
class Services:
    """What the composition root hands to every run it drives."""

    store: Store
    handlers: Mapping[EffectKind, Handler]
    policy: Callable[[Path], Policy]  # makes the policy of a run from its folder
    environments: Mapping[str, Callable[[], Environment]] = field(default_factory=dict)  # factories by name
    secrets: Mapping[str, str] = field(default_factory=dict)  # name -> value; the values never reach the log
    environ: Mapping[str, str] = field(default_factory=dict)  # where `ctx.secret` looks
    asker: Asker | None = None  # answers questions in place, None where nobody can
    runs_folder: Path = Path()  # parent of the runs' folders
    deps: Any = None  # the user's dependencies
    clock: Clock = field(default_factory=SystemClock)
    tool_effect: Callable[..., Effect] | None = None
    agent_effect: Callable[..., Effect] | None = None
    request_effect: Callable[..., Effect] | None = None
    plan_effect: Callable[..., Effect | None] | None = None  # the request for a plan; None where no model can state one
    review_effect: Callable[..., Effect] | None = None  # the request for a second look at a call
    may_review: Callable[..., bool] | None = None  # whether the model of a branch takes second looks
    granted: Callable[[Effect], frozenset[str]] | None = None  # a component's parts: only its own calls may use them
    ended: Callable[[Run, RunStatus], Awaitable[TestsRan | None]] | None = None  # at an end, environments are open
    folder_files: Callable[[Run], Awaitable[FolderFiles]] | None = None  # what a run made or changed in its folder
    elsewhere: Elsewhere | None = None  # has sub-agents work in other processes; None: all work here


LOOKED_AT = frozenset({EffectKind.INVOKE_TOOL, EffectKind.INVOKE_ACTION, EffectKind.READ_MEMORY})
"""Kinds of effects whose results tell policy something."""


class Run:
    """One run in this process: its log so far, this process's epoch (None for a replay), where notices go."""

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
        self.files = {file.name: file for file in manifest.files}
        self.mode = mode
        self.epoch = epoch
        self.clock = services.clock
        self.bus = bus or Bus()
        self.answer = AnswerStream(run_id, self.bus)
        self.deps = services.deps if deps is None else deps
        self.ledger = Ledger.of(events)
        self.redactor = Redactor(services.secrets)
        part = manifest.part_of
        self.division: Division  # the root branch chooses it
        self.folder = services.runs_folder / (run_id if part is None else part.run)
        self.policy = services.policy(self.folder)
        self.mail = MailRoom()
        self.environments: dict[Place, OpenEnvironment] = {}
        # Never opened: asked what an environment is. By name, with the factory that made it
        self.asked: dict[str, tuple[Callable[[], Environment], Environment]] = {}
        self.using: defaultdict[Place, asyncio.Lock] = defaultdict(asyncio.Lock)
        # Instances in the middle of an action, and those that actions out of it wait for.
        self.wanted: defaultdict[Place, list[Place]] = defaultdict(list)
        self.asking = asyncio.Lock()
        self.planning = asyncio.Lock()
        self.pause_asked = asyncio.Event()
        self.leaving = False  # its process stops, and hands it on
        self.user_content: list[str] = self._own_words()
        self.visited: set[EffectKey] = set()
        # Kinds that a replay does not enter: what they did is in the log, and their code is not here, or not trusted.
        self.sealed: frozenset[EffectKind] = frozenset()
        self.longest_decision_s = 0.0
        settled_at = max(self.ledger.forked_at, self.ledger.upgraded_at)
        self._change_noted = any(e.type == "driving_started" and e.seq > settled_at for e in events)
        self.usage_by_model: dict[str, Usage] = dict(self.ledger.usage_by_model)
        self.steps = len(self.ledger.decisions)
        self.last_append: Future[tuple[int, ...]] | None = None
        self.received = Received(manifest, self.ledger.begins)
        self._view: PolicyView | None = None
        self._viewed: list[str] = []
        self._active_before = active_seconds(events)
        self._driven = driving_spans(events)
        self.driving_since: float | None = None
        self.budget = BudgetNode(
            "/", current_budget(manifest, events), costs=self.ledger.spent_under("/"), active=self.active_s
        )
        for seq, message in self.ledger.told:
            self._deliver(seq, message)
        self._learn(self.ledger.records)

    def _learn(self, records: Mapping[EffectKey, Record]) -> None:
        """Take into mail and policy what was recorded by another process."""
        for key, record in records.items():
            self.mail.load(key, record)
            self.received.recorded(record.effect, record.outcome, started=record.started)

    def take_over(self, events: Sequence[Event], agent: EffectKey) -> Ledger:
        """Take in what a part recorded, once this run's log has it; return a ledger of these events alone."""
        fresh, seen = Ledger.of(events), self.ledger.last_seq
        for event in events:
            self.ledger.apply(event)
        self.ledger.last_seq = seen  # what others wrote before them may not have been looked at yet
        for model, usage in fresh.usage_by_model.items():
            self.account(model, usage)
        self.steps += len(fresh.decisions)
        self._learn({key: self.ledger.records[key] for key in fresh.records if key != agent})
        return fresh

    @property
    def replaying(self) -> bool:
        return self.mode == "replay"

    @property
    def pausing(self) -> bool:
        return self.pause_asked.is_set()

    def pause(self) -> None:
        """Begin no further effect; whoever only waits stops waiting."""
        self.pause_asked.set()
        self.mail.suspend()

    def leave(self) -> None:
        """Begin no further effect; the run stays `running`, for the process that takes it up next."""
        self.leaving = True
        self.pause()

    def active_s(self) -> float:
        """Return the seconds this run has been driven, over all its jobs."""
        since = self.driving_since
        return self._active_before + (0.0 if since is None else self.clock.monotonic() - since)

    def begin(self, time: datetime) -> None:
        self._driven.append((time, datetime.max.replace(tzinfo=UTC)))

    def active_between(self, began: datetime, end: datetime) -> float:
        """Return the seconds between two recorded times in which this run was driven."""
        spans = ((max(start, began), min(last, end)) for start, last in self._driven)
        return sum(max(0.0, (last - start).total_seconds()) for start, last in spans)

    async def blob(self, sha256: str) -> bytes:
        return await self.services.store.get_blob(sha256)

    def artifact_ref(self, name: str) -> ArtifactRef:
        """Return the last artifact of a name; UnknownComponentError, with the names there are, without one."""
        names: list[str] = []
        for record in reversed(self.ledger.records.values()):
            for ref in record.outcome.artifacts if record.outcome is not None else ():
                if ref.name == name:
                    return ref
                names.append(ref.name)
        for ref in self.ledger.begins.artifacts if self.ledger.begins is not None else ():
            if ref.name == name:
                return ref
            names.append(ref.name)
        names.reverse()
        raise UnknownComponentError(f"the run has no artifact {name!r}; its artifacts: {', '.join(names) or 'none'}")

    # -- writing ---------------------------------------------------------------------------------------------------

    def append(self, *events: NewEvent, status: RunStatus | None = None) -> Future[tuple[int, ...]]:
        """Queue events for the log, in order; the future resolves when they are durable."""
        future = self.last_append = self.services.store.append(self.id, self.epoch, events, status=status)
        for event in events if self.bus.listening else ():
            self.bus.publish(Notice(kind="event", run=self.id, actor=event.actor, event=event, key=event.span or ""))
        return future

    def body(self, body: Body, **place: Any) -> NewEvent:
        return new_event(body, ts=self.clock.now(), **place)

    def event_of(self, kind: type[Body], body: dict[str, Any], **place: Any) -> NewEvent:
        """Return a body in its stored form in its envelope, stamped now."""
        return written_event(kind, body, ts=self.clock.now(), **place)

    def note(self, message: str, *, level: Literal["info", "warning", "danger"] = "info") -> None:
        """Write a line into the log for its readers."""
        if not self.replaying:
            observe(self.append(self.body(Noted(message=self.redactor.text(message), level=level))))

    def drive(self, seq: int, code: str, changed: dict[str, str]) -> None:
        if self.ledger.drive(seq, code, changed):
            self._change_noted = False

    def note_change(self, key: EffectKey, change: str, record: Record) -> None:
        """Say once where the run first asks otherwise than a recorded outcome that holds."""
        if self._change_noted:
            return
        self._change_noted = True
        if self.ledger.is_inherited(record):
            self.note(f"from {key} on the fork asks otherwise than its parent did, whose outcomes hold: {change}")
        else:
            self.note(f"from {key} on the run asks otherwise than it did before, and what is recorded holds: {change}")

    def view(self) -> PolicyView:
        """Return what policy sees of the run; the same object until the user says something more."""
        if self._view is None or self._viewed is not self.user_content:
            self._viewed = self.user_content  # replaced as a whole, never added to
            self._view = self.received.seen_by(PolicyView(user_content=tuple(self.user_content), folder=self.folder))
        return self._view

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

    def _deliver(self, seq: int, message: Told) -> None:
        if message.to:
            self.mail.deliver_told(seq, message)

    def take_answer(self, event: Event) -> None:
        """Take in an answer that was given here; it comes with the external events once more."""
        body = Answered.model_validate(event.body)
        self.ledger.answers.setdefault(body.question, body)
        self.ledger.answered.setdefault(body.question, event)
        self.user_content = self._own_words()

    def _own_words(self) -> list[str]:
        """Return what the user said: the task, answers to questions, what was told; see `earlier_words`."""
        return [self.manifest.task, *self.manifest.earlier_words, *self.ledger.own_words()]


def observe(future: Future[Any]) -> None:
    """Let a future's failure be seen by the next awaited append instead of a warning."""
    future.add_done_callback(lambda done: None if done.cancelled() else done.exception())


async def wait_for(future: Future[Any]) -> Any:
    """Await a store's future; cancelling the awaiting task never cancels the write."""
    if future.done():
        return future.result()
    if isinstance(future, Landing):
        return await future.waiter()
    wrapper = asyncio.wrap_future(future)
    wrapper.add_done_callback(lambda done: None if done.cancelled() else done.exception())
    return await asyncio.shield(wrapper)


def driving_spans(events: Iterable[Event]) -> list[tuple[datetime, datetime]]:
    """Return when a run was driven, and for a fork its parent: each from `driving_started` to its job's last event."""
    spans: list[tuple[datetime, datetime]] = []
    over = True
    for event in events:
        if event.type == "driving_started":
            spans.append((event.ts, event.ts))
            over = False
        elif event.type == "forked":
            over = True
        elif not over and not BODIES[event.type].external:
            spans[-1] = (spans[-1][0], event.ts)
            over = event.type == "run_ended"
    return spans


def active_seconds(events: list[Event]) -> float:
    """Return how long a run was driven; what its parent did before a fork is not counted."""
    start_index = max((place for place, event in enumerate(events, start=1) if event.type == "forked"), default=0)
    return sum(max(0.0, (last - start).total_seconds()) for start, last in driving_spans(events[start_index:]))


def current_budget(manifest: RunManifest, events: list[Event]) -> Budget:
    """Return the limits in force: the manifest's, replaced field by field by what resumes raised."""
    budget = manifest.budget
    for event in events:
        if event.type == "forked":
            budget = manifest.budget
        data = event.data if event.type == "budget_raised" else None
        if isinstance(data, BudgetRaised):
            budget = budget.model_copy(update=Budget.model_validate(data.budget).model_dump(exclude_none=True))
    return budget


def open_questions(ledger: Ledger) -> tuple[Question, ...]:
    questions = []
    for key, record in ledger.open_questions():
        effect = record.effect
        approval = effect.get("purpose") == "approval"
        provenance = [Provenance.model_validate(source) for source in effect.get("provenance", ())]
        questions.append(question_of(str(key), effect.get("arguments", {}), approval=approval, provenance=provenance))
    return tuple(questions)
