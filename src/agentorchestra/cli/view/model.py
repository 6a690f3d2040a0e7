"""A run as its events tell it: the tree of agents with what each plans, does, has spent.

The model is made of the log alone and asks nothing of a workspace, so a run looks the same while it is driven here,
while another process drives it, and years later. What the ledger knows (hits, superseded outcomes, what is paid) is
taken from `runtime.ledger`; this module adds who, when and in which order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from agentorchestra.core.budget import Budget, Usage
from agentorchestra.core.effects import OF_MODELS, EffectKind
from agentorchestra.core.events import BODIES, RUN_BRANCH, Event, RunCreated, upcast
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.messages import ToolCall
from agentorchestra.core.spec import Question, RunManifest, RunStatus
from agentorchestra.log.ledger import Ledger, Record, parent_key
from agentorchestra.runtime.run import open_questions
from agentorchestra.tools.todo import Plans, TodoPlan

_AGENTS = (EffectKind.INVOKE_AGENT, EffectKind.SPAWN)
_DECIDES = ("decision", "final")
_PLANS = "agent:todo"


class Failure(NamedTuple):
    """An attempt that failed: a further one follows after `retry_in_s`, at once where that is None."""

    number: int
    at: datetime
    error: str
    target: str
    retry_in_s: float | None


class Note(NamedTuple):
    """A line for the readers of the log: `info`, `warning`, `danger`, or `told` for what the user added."""

    at: datetime
    level: str
    text: str


PARTS = ("orchestrator", "children", "helpers")
"""The parts of a bill: decisions of the run's top agent, those of all other agents, and whatever else was paid.

What a program that works as an agent cost elsewhere counts as its decisions.
"""


class Charge(NamedTuple):
    """What one attempt cost, and whose it was. `model` is "" where no model was asked; `part` is one of PARTS."""

    at: datetime
    key: EffectKey
    agent: str
    part: str
    model: str
    usage: Usage


@dataclass(eq=False)
class Span:
    """One effect, from its mark to its record."""

    key: EffectKey  # where it stands in the run
    record: Record  # what the ledger knows of it
    actor: str  # who asked for it
    agent: AgentView | None  # the agent on whose branch it is; None for the top agent itself
    began: datetime | None = None  # when it was first started; None for pure effects, which have no mark
    ended: datetime | None = None  # when its outcome was recorded
    opened: datetime | None = None  # when its present attempt was started
    failures: list[Failure] = field(default_factory=list)  # its failed attempts, oldest first, over all resumes
    superseded: bool = False  # its outcome was taken back by a larger budget
    called: str = ""  # what the model called it that decided it; "" where none did
    left: bool = False  # the process that had it under way is gone, or was stopped

    @property
    def effect(self) -> dict[str, Any]:
        return self.record.effect

    @property
    def kind(self) -> EffectKind:
        return self.record.kind

    @property
    def decides(self) -> bool:
        """Whether it asks a model for a decision of its agent's."""
        return self.kind is EffectKind.REQUEST_MODEL and self.effect.get("purpose") in _DECIDES

    @property
    def seconds(self) -> float | None:
        """How long it took; None while it is under way, and for pure effects."""
        if self.ended is None or self.opened is None:
            return None
        return max(0.0, (self.ended - self.opened).total_seconds())

    @property
    def answered_by(self) -> str:
        """The model that answered, where it is another one than was asked: a fallback."""
        outcome, request = self.record.outcome, self.effect.get("request")
        if outcome is None or not request or not isinstance(outcome.value, dict):
            return ""
        model = str(outcome.value.get("model", ""))
        return model if model != request.get("model") else ""


@dataclass(eq=False)
class AgentView:
    """An agent of the run; the root of the tree is the run itself, with the top agent below it."""

    key: EffectKey | None  # of its InvokeAgent or Spawn; None for the run
    name: str
    role: str = ""
    system: str = ""
    task: str = ""
    model: str = ""  # the model it asked last
    parent: AgentView | None = None  # who invoked it, also through a tool
    children: list[AgentView] = field(default_factory=list)  # the agents it invoked, in order
    span: Span | None = None  # its effect; None for the run
    plans: Plans = field(default_factory=Plans)  # its plans, by the last outcome that wrote them
    steps: int = 0  # its own decisions
    usage: Usage = field(default_factory=Usage)  # what it spent itself
    open: dict[EffectKey, Span] = field(default_factory=dict)  # under way; never pure effects, which have no mark
    # The calls of its last decision that have no outcome yet, by the keys they get: those right after the request's.
    # Of pure effects this is all that is known before they have ended.
    decided: dict[EffectKey, ToolCall] = field(default_factory=dict)

    @property
    def plan(self) -> TodoPlan | None:
        return self.plans.plans.get(self.plans.active) if self.plans.active is not None else None

    @property
    def status(self) -> str:
        """`running`, the status it ended with, `interrupted`; for the agent's own account see the outcome."""
        if self.span is None:
            return ""
        outcome = self.span.record.outcome
        if outcome is None:
            return "interrupted" if self.span.left or self.span.record.interrupted else "running"
        if outcome.ok and isinstance(outcome.value, dict):
            return str(outcome.value.get("status", RunStatus.COMPLETED.value))
        return outcome.status

    @property
    def total(self) -> Usage:
        """What it and all agents below it spent."""
        return sum((child.total for child in self.children), self.usage)

    @property
    def total_steps(self) -> int:
        """Decisions, those of the agents below it included."""
        return self.steps + sum(child.total_steps for child in self.children)

    def walk(self, depth: int = 0) -> Iterator[tuple[int, AgentView]]:
        """Yield the agent and all agents below it, callers first, with their depth."""
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)


class RunView:
    """A run, event by event: `view.apply(event)` for each event of its log in sequence."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.run_id = ""
        self.manifest: RunManifest | None = None  # before the first event
        self.created: datetime | None = None
        self.status = RunStatus.CREATED  # as of the last event
        self.ended: dict[str, Any] | None = None  # the body of the last `run_ended`, None while it is driven
        self.root = AgentView(None, "run")  # the run, with its agents below
        self.agents: dict[EffectKey, AgentView] = {}  # by the key of their effect
        self.spans: dict[EffectKey, Span] = {}  # every effect by its key, in the order in which they were first seen
        self.notes: list[Note] = []  # notes, warnings, what was told, what ended the budget, in order
        self.charges: list[Charge] = []  # everything that was paid
        self.told = 0  # how often the user added to the task
        self.last: datetime | None = None  # the time of the last event
        self.budget = Budget()
        self._owners: dict[str, AgentView] = {"/": self.root}
        self._active = 0.0
        self._driving: datetime | None = None
        self._last_own: datetime | None = None

    @classmethod
    def of(cls, events: Iterable[Event]) -> RunView:
        """Return the view of a run's log; raise EventFormatError for events this version cannot read."""
        view = cls()
        for event in events:
            view.apply(event)
        return view

    @property
    def seq(self) -> int:
        """The sequence of the last event applied, 0 before the first."""
        return self.ledger.last_seq

    @property
    def is_driven(self) -> bool:
        """Whether some process was driving it at the last event."""
        return self._driving is not None

    @property
    def steps(self) -> int:
        """Decisions taken, over all agents."""
        return len(self.ledger.decisions)

    @property
    def usage(self) -> Usage:
        return self.root.total

    @property
    def questions(self) -> tuple[Question, ...]:
        """What nobody has answered yet, oldest first."""
        return open_questions(self.ledger)

    @property
    def until(self) -> datetime | None:
        """When the first timer of a run that waits is due."""
        text = (self.ended or {}).get("until")
        return None if text is None else datetime.fromisoformat(str(text))

    def active_s(self, now: datetime) -> float:
        """Seconds it was driven, up to `now` if it is driven still."""
        return self._active + (0.0 if self._driving is None else max(0.0, (now - self._driving).total_seconds()))

    def apply(self, event: Event) -> None:
        """Take the next event of the log into account; raise EventFormatError if this version cannot read it."""
        count = len(self.ledger.spent)
        self.ledger.apply(event)
        self.last = event.ts
        body = upcast(event.type, event.v, event.body)
        if event.branch == RUN_BRANCH:
            self._apply_to_run(event, body)
        else:
            self._apply_to_effect(event, body, count)
        if not BODIES[event.type].external:
            self._last_own = event.ts

    def _apply_to_effect(self, event: Event, body: dict[str, Any], count: int) -> None:
        assert event.n is not None
        key = EffectKey(event.branch, event.n)
        if event.type == "started":
            self._started(key, event)
        elif event.type == "completed":
            self._completed(key, event, body)
        elif event.type == "interrupted":
            self._closed(key)
        elif event.type == "attempt_failed" and key in self.spans:
            failure = Failure(
                event.attempt, event.ts, str(body["error"]), str(body.get("target", "")), body.get("retry_in_s")
            )
            self.spans[key].failures.append(failure)
        for owner, usage in self.ledger.spent[count:]:
            self._charge(owner, usage, event, str(body.get("target", "")))

    def _apply_to_run(self, event: Event, body: dict[str, Any]) -> None:
        match event.type:
            case "run_created":
                data = event.data
                assert isinstance(data, RunCreated)
                self.run_id, self.manifest, self.created = event.run, data.manifest, event.ts
                self.budget = data.manifest.budget
            case "driving_started":
                self._stop_driving(self._last_own)
                self._driving = event.ts
                self.status, self.ended = RunStatus.RUNNING, None
            case "run_ended":
                self._stop_driving(event.ts)
                self.status, self.ended = RunStatus(body["status"]), body
            case "noted":
                self.notes.append(Note(event.ts, str(body.get("level", "info")), str(body["message"])))
            case "told":
                self.told += 1
                self.notes.append(Note(event.ts, "told", str(body["text"])))
            case "cancel_requested":
                reason = f": {body['reason']}" if body.get("reason") else ""
                self.notes.append(Note(event.ts, "warning", f"asked to stop{reason}"))
            case "pause_requested":
                reason = f": {body['reason']}" if body.get("reason") else ""
                self.notes.append(Note(event.ts, "info", f"asked to pause{reason}"))
            case "forgotten":
                self.notes.append(
                    Note(event.ts, "info", f"entries of the memory that are forgotten: {len(body['entries'])}")
                )
            case "rated":
                note = f": {body['note']}" if body.get("note") else ""
                self.notes.append(Note(event.ts, "info", f"rated {body['score']:g} of 1{note}"))
            case "budget_exhausted":
                self.notes.append(Note(event.ts, "warning", str(body["message"])))
            case "budget_raised":
                limits = Budget.model_validate(body["budget"]).model_dump(exclude_none=True)
                self.budget = self.budget.model_copy(update=limits)
                text = ", ".join(f"{name} {value:g}" for name, value in limits.items())
                self.notes.append(Note(event.ts, "info", f"the budget is now: {text}"))
                self._supersede()
            case "forked":
                self._inherit()
                self.notes.append(
                    Note(
                        event.ts,
                        "info",
                        f"forked from {body['run']} at event {body['seq']}: what stands before was done and paid by it",
                    )
                )
            case _:
                pass

    def _inherit(self) -> None:
        """Keep what another run did readable; it costs nothing here."""
        self._stop_driving(None)
        self._active = 0.0
        self.status, self.ended = RunStatus.CREATED, None
        self.charges.clear()
        if self.manifest is not None:
            self.budget = self.manifest.budget
        for agent in [self.root, *self.agents.values()]:
            agent.usage = Usage()
        for key in [key for key in self.spans if key not in self.ledger.records]:
            del self.spans[key]

    def _stop_driving(self, until: datetime | None) -> None:
        if self._driving is not None and until is not None:
            self._active += max(0.0, (until - self._driving).total_seconds())
        self._driving = None
        for agent in [self.root, *self.agents.values()]:
            for span in agent.open.values():
                span.left = True
            agent.open.clear()
        for agent in self.agents.values():
            if agent.span is not None and agent.span.record.outcome is None:
                agent.span.left = True

    def _supersede(self) -> None:
        """Forget outcomes that the ledger forgot: what is done instead comes as the next attempt."""
        for key, span in self.spans.items():
            record = self.ledger.records.get(key)
            if record is None:
                span.superseded = True
            else:
                span.record = record

    def owner(self, branch: str) -> AgentView:
        """Return the agent on whose branch something happens; a tool that performs effects has branches of its own."""
        agent = self._owners.get(branch)
        if agent is None:
            above = parent_key(branch)
            if above is None:
                return self.root
            agent = self.agents.get(above) or self.owner(above.branch)
            if above in self.spans:
                self._owners[branch] = agent  # before, it may still become an agent's
        return agent

    def _span(self, key: EffectKey, event: Event) -> Span:
        record = self.ledger.records[key]
        span = self.spans.get(key)
        if span is None:
            owner = self.owner(key.branch)
            call = owner.decided.get(key)
            span = self.spans[key] = Span(key, record, event.actor, owner, called=call.name if call else "")
        span.record, span.superseded, span.left = record, False, False
        return span

    def _started(self, key: EffectKey, event: Event) -> None:
        span = self._span(key, event)
        span.began, span.opened, span.ended = span.began or event.ts, event.ts, None
        owner = self.owner(key.branch)
        if span.kind in _AGENTS:
            if key not in self.agents:
                self._enter(key, span, owner)
            return
        owner.open[key] = span
        request = span.effect.get("request")
        if request:
            owner.decided.clear()
            owner.model = str(request.get("model", owner.model))

    def _enter(self, key: EffectKey, span: Span, caller: AgentView) -> None:
        arguments = span.effect.get("arguments", {})
        agent = AgentView(
            key,
            str(arguments.get("name", "agent")),
            role=str(arguments.get("role", "agent")),
            system=str(arguments.get("system", "react")),
            task=str(arguments.get("instruction", "")),
            model=str(arguments.get("model", "")),
            parent=caller,
            span=span,
        )
        self.agents[key] = agent
        caller.children.append(agent)

    def _completed(self, key: EffectKey, event: Event, body: dict[str, Any]) -> None:
        span = self._span(key, event)
        span.ended = event.ts
        self._closed(key)
        owner = self.owner(key.branch)
        owner.decided.pop(key, None)
        if span.decides and body["outcome"].get("status", "ok") != "limited":
            owner.steps += 1
            outcome = span.record.outcome
            calls = outcome.response.tool_calls if outcome is not None and outcome.ok else ()
            owner.decided = {EffectKey(key.branch, key.n + 1 + i): call for i, call in enumerate(calls)}
        writes = body["outcome"].get("writes", {})
        if _PLANS in writes and span.kind not in _AGENTS:
            owner.plans = Plans.of(writes)

    def _closed(self, key: EffectKey) -> None:
        self.owner(key.branch).open.pop(key, None)

    def _charge(self, key: EffectKey, usage: Usage, event: Event, target: str) -> None:
        agent = self.agents.get(key) or self.owner(key.branch)  # of an agent: what it cost besides its effects
        agent.usage = agent.usage + usage
        model = target
        span = self.spans.get(key)
        if not model and span is not None and span.kind in OF_MODELS:
            outcome = span.record.outcome
            reply = outcome.value.get("model") if outcome is not None and isinstance(outcome.value, dict) else ""
            model = str(reply or span.effect.get("request", {}).get("model", ""))
        own = key in self.agents or (span is not None and span.decides)
        part = "helpers" if not own else "orchestrator" if agent.parent is self.root else "children"
        self.charges.append(Charge(event.ts, key, agent.name, part, model, usage))
