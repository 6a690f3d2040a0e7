"""The ledger: the log by effect key, as resume, replay and fork read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from agentorchestra.core.budget import NO_COST, Bound, Usage
from agentorchestra.core.effects import OF_AGENTS, OF_MODELS, Effect, EffectKind, Mode, Outcome
from agentorchestra.core.errors import DivergedError
from agentorchestra.core.events import RUN_BRANCH, Answered, Event, Told, upcast
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.spec import RunStatus
from agentorchestra.core.turns import TurnState
from agentorchestra.log.codec import EffectCodec

_ACTING = frozenset({EffectKind.INVOKE_TOOL, EffectKind.INVOKE_ACTION, EffectKind.RUN_CODE})
"""Kinds that policy judges by their arguments: once, before they begin."""


@dataclass(slots=True)
class Record:
    """The log's rows about one key."""

    fingerprint: str
    effect: dict[str, Any] = field(default_factory=dict)
    attempt: int = 1
    started: bool = False
    interrupted: bool = False
    outcome: Outcome | None = None
    seq: int = 0
    began: int = 0
    bound: Bound = NO_COST
    batch: int = 0
    marked: datetime | None = None  # when it was first about to act; timers count from there

    @property
    def mode(self) -> Mode:
        return Mode(self.effect.get("mode", Mode.ONCE))

    @property
    def kind(self) -> EffectKind:
        return EffectKind(self.effect["kind"])


def parent_key(branch: str) -> EffectKey | None:
    """Return the key of the effect that owns a branch (`/3.planner`#2 for `/3.planner/2.x`), None for the root."""
    head, _, last = branch.rpartition("/")
    number = last.split(".", 1)[0]
    return EffectKey(head or "/", int(number)) if number.isdigit() else None


def within(branch: str, prefix: str) -> bool:
    """Return True if a branch lies in the subtree of a prefix."""
    return prefix == "/" or branch == prefix or branch.startswith((prefix + "/", prefix + "."))


def status_of(events: Iterable[Event]) -> RunStatus:
    status = RunStatus.CREATED
    for event in events:
        if event.type == "driving_started":
            status = RunStatus.RUNNING
        elif event.type == "run_ended":
            status = RunStatus(upcast(event.type, event.v, event.body)["status"])
        elif event.type == "forked":
            status = RunStatus.CREATED
    return status


class Ledger:
    """The records of one run by key, built from its events in sequence."""

    def __init__(self, codec: EffectCodec | None = None) -> None:
        self.codec = codec or EffectCodec()
        self.records: dict[EffectKey, Record] = {}
        self.answers: dict[str, Answered] = {}
        self.answered: dict[str, Event] = {}
        self.told: list[tuple[int, Told]] = []
        self.cancel_requested = False
        self.pause_requested = False
        self.attempts: dict[EffectKey, int] = {}
        self.spent: list[tuple[EffectKey, Usage]] = []
        self.possibly_paid: list[tuple[EffectKey, Bound]] = []
        self.decisions: list[EffectKey] = []
        self.usage_by_model: dict[str, Usage] = {}
        self.last_seq = 0
        self.forked_at = 0
        self.driven_with: tuple[str, dict[str, str]] | None = None  # code and changed components of the last driver
        self.begins: TurnState | None = None  # of a turn: how the one before it ended
        self.upgraded_at = 0  # what was recorded before this event, other code or other components asked for

    @classmethod
    def of(cls, events: Iterable[Event]) -> Ledger:
        """Return the ledger of a run's events; EventFormatError for events this version cannot read."""
        ledger = cls()
        for event in events:
            ledger.apply(event)
        return ledger

    def forget(self, key: EffectKey) -> None:
        """Drop the record of an effect that has ended: the log has it."""
        self.records.pop(key, None)
        self.attempts.pop(key, None)

    def apply(self, event: Event) -> None:
        self.last_seq = max(self.last_seq, event.seq)
        body = upcast(event.type, event.v, event.body)
        if event.branch == RUN_BRANCH:
            self._apply_run_event(event, body)
            return
        assert event.n is not None
        key = EffectKey(event.branch, event.n)
        self.attempts[key] = max(self.attempts.get(key, 0), event.attempt)
        if event.type == "started":
            self.codec.learn(body["effect"])
            previous = self.records.get(key)
            if previous is not None and previous.started and previous.mode is Mode.REPEATABLE:
                # It was sent and never answered: it may have been paid.
                self.possibly_paid.append((key, previous.bound))
            self.records[key] = Record(
                fingerprint=body["fingerprint"],
                effect=body["effect"],
                attempt=event.attempt,
                started=True,
                seq=event.seq,
                # What is entered again began when it was entered first.
                began=event.seq if previous is None else previous.began,
                bound=Bound.model_validate(body.get("bound", {})),
                batch=int(body.get("batch", 0)),
                marked=event.ts if previous is None else previous.marked,
            )
        elif event.type == "completed":
            effect = body.get("effect")
            if effect is not None:
                self.codec.learn(effect)
            record = self.records.get(key)
            if record is None:
                record = Record(
                    fingerprint=body["fingerprint"],
                    effect=effect or {},
                    began=event.seq,
                    batch=int(body.get("batch", 0)),
                )
            record.outcome = Outcome.model_validate(body["outcome"])
            record.attempt, record.seq, record.interrupted = event.attempt, event.seq, False
            self.records[key] = record
            self._spend(key, record.effect, record.outcome)
        elif event.type == "interrupted":
            if key in self.records:
                self.records[key].interrupted = True
                if body.get("error_type") != "CancelledError" or body.get("unpaid"):
                    self.records[key].bound = Bound()  # refused by the provider, or not under way: not paid
            usage = Usage.model_validate(body.get("usage", {}))
            self._add_usage(key, usage, "")
        elif event.type == "attempt_failed":
            self._add_usage(key, Usage.model_validate(body.get("usage", {})), str(body.get("target", "")))

    def _apply_run_event(self, event: Event, body: dict[str, Any]) -> None:
        if event.type == "run_created" and body.get("begins") is not None:
            self.begins = TurnState.model_validate(body["begins"])
            # No request of this run holds again what the conversation has already.
            self.codec.learn({"request": {"appended": body["begins"].get("messages", ())}})
        elif event.type == "answered":
            self._answer(event, Answered.model_validate(body))
        elif event.type == "told":
            self.told.append((event.seq, Told.model_validate(body)))
        elif event.type == "cancel_requested":
            self.cancel_requested = True
        elif event.type == "pause_requested":
            self.pause_requested = True
        elif event.type in ("driving_started", "run_ended"):
            self.cancel_requested = self.pause_requested = False
            if event.type == "driving_started":
                self.drive(event.seq, str(body.get("code", "")), dict(body.get("changed", {})))
        elif event.type == "budget_raised":
            self.supersede_limited()
        elif event.type == "forked":
            self._inherit(event.seq)

    def _answer(self, event: Event, answer: Answered) -> None:
        """Take the first answer to a question; one to a question that was superseded is none."""
        record = None if answer.asked == 0 else self.records.get(EffectKey.parse(answer.question))
        if answer.asked and (record is None or record.began not in (0, answer.asked)):
            return
        self.answers.setdefault(answer.question, answer)
        self.answered.setdefault(answer.question, event)

    def _inherit(self, seq: int) -> None:
        """Note that everything before was done and paid by the run this one was forked from."""
        self.forked_at = seq
        self.spent.clear()
        self.possibly_paid.clear()
        self.decisions.clear()
        self.usage_by_model.clear()
        self.cancel_requested = self.pause_requested = False
        for key in [k for k, r in self.records.items() if r.outcome is None and r.mode is not Mode.COMPOSITE]:
            del self.records[key]

    def drive(self, seq: int, code: str, changed: dict[str, str]) -> bool:
        """Note who drives the run from an event on; return True if its code or components are not the last driver's."""
        last, self.driven_with = self.driven_with, (code, changed)
        if last is None or last == self.driven_with:
            return False
        self.upgraded_at = seq
        return True

    def is_inherited(self, record: Record) -> bool:
        return 0 < record.seq < self.forked_at

    def is_settled(self, record: Record) -> bool:
        """Return True if an outcome holds whatever the run asks today: it was copied, or made by other code."""
        return self.is_inherited(record) or 0 < record.began < self.upgraded_at

    def _stays(self, record: Record) -> bool:
        """Return True if what other code recorded holds; what was to act and has no outcome is that very call only."""
        return self.is_settled(record) and (record.outcome is not None or record.kind not in _ACTING)

    def _spend(self, key: EffectKey, effect: dict[str, Any], outcome: Outcome) -> None:
        decides = effect.get("kind") == EffectKind.REQUEST_MODEL and effect.get("purpose") in ("decision", "final")
        if decides and outcome.status != "limited":
            self.decisions.append(key)
        model = ""
        if isinstance(outcome.value, dict) and effect.get("kind") in OF_MODELS:
            model = str(outcome.value.get("model", ""))
        # A composite's usage is its children's: counting it again would pay twice. An agent's is what it cost besides.
        if effect.get("mode") != Mode.COMPOSITE or effect.get("kind") in OF_AGENTS:
            self._add_usage(key, outcome.usage, model)

    def _add_usage(self, key: EffectKey, usage: Usage, model: str) -> None:
        if usage == Usage():
            return
        self.spent.append((key, usage))
        self.usage_by_model[model] = self.usage_by_model.get(model, Usage()) + usage

    def spent_under(self, branch: str) -> Bound:
        """Return what the subtree of a branch has spent, uncertain attempts at their bound."""
        costs = [usage.charge() for key, usage in self.spent if within(key.branch, branch)]
        costs += [cost for key, cost in self.open_bounds() if within(key.branch, branch)]
        steps = sum(within(key.branch, branch) for key in self.decisions)
        return sum(costs, Bound(steps=steps))

    def open_bounds(self) -> Iterator[tuple[EffectKey, Bound]]:
        """Yield attempts that may have been paid: started, never completed."""
        yield from self.possibly_paid
        for key, record in self.records.items():
            if record.started and record.outcome is None and record.mode is not Mode.COMPOSITE:
                yield key, record.bound

    def compare(self, key: EffectKey, effect: Effect, record: Record) -> str | None:
        """Check an effect against the recorded one; return what differs, None for equal ones.

        The record of a run that this one was forked from may differ, and so may what another version of the package,
        or of a component, recorded: today's asks otherwise, and the outcome still holds. Any other difference raises
        DivergedError, naming the key.
        """
        if record.fingerprint == effect.fingerprint:
            return None
        text = self._difference(effect, record)
        if record.effect.get("kind") == effect.kind and (self.is_inherited(record) or self._stays(record)):
            return text
        raise DivergedError(
            f"the run diverged at {key}: {text}; code, a prompt or a tool schema changed since. "
            "Run it with what it was recorded with (--pin takes the prompts and tools it was started with), "
            "or start a new run",
            branch=key.branch,
            n=key.n,
        )

    def _difference(self, effect: Effect, record: Record) -> str:
        was = record.effect
        name = str(was.get("component", "")).rpartition("@")[0]
        text = f"{was.get('kind')} {name} was recorded, {effect.kind.value} {effect.name} is asked now"
        if was.get("kind") == effect.kind and name == effect.name:
            text = f"{effect.kind.value} {effect.name} is asked with other arguments than recorded"
            if effect.kind is EffectKind.REQUEST_MODEL:
                text = (
                    f"the request to {effect.name} differs from the recorded one ({self.request_change(was, effect)})"
                )
        return text

    def request_change(self, was: dict[str, Any], effect: Effect) -> str:
        """Return in a few words what differs between a recorded request (in its stored form) and another one."""
        old, new = self.codec.decode(was).request, effect.request
        if old is None or new is None:
            return "no request recorded"
        if old.model != new.model:
            return f"model {old.model} -> {new.model}"
        names = [t.name for t in new.tools if t.digest not in {o.digest for o in old.tools}]
        if names or len(old.tools) != len(new.tools):
            return f"tool schemas changed: {', '.join(names) or 'removed'}"
        for index, (a, b) in enumerate(zip(old.messages, new.messages, strict=False)):
            if a.digest != b.digest:
                return f"message {index} ({b.role}) changed"
        return "messages added or removed" if len(old.messages) != len(new.messages) else "settings changed"

    def own_words(self) -> list[str]:
        """Return what the user said in this run besides the task: answers to questions and what was told.

        What is said with an approval or a denial is about the call and never makes its arguments the user's own.
        """
        words = []
        for key, record in self.records.items():
            if record.effect.get("kind") == EffectKind.ASK_HUMAN and record.effect.get("purpose") == "question":
                answer = self.answers.get(str(key))
                reply = record.outcome.value if record.outcome is not None else answer and answer.answer
                if isinstance(reply, str):
                    words.append(reply)
        return words + [message.text for _, message in self.told]

    def read_mail(self) -> list[str]:
        """Return what was told to the run and read by an agent at work, in the order in which it was told."""
        outcomes = [record.outcome for record in self.records.values() if record.kind is EffectKind.RECEIVE]
        values = [outcome.value for outcome in outcomes if outcome]
        read = Counter(str(text) for texts in values if isinstance(texts, list) for text in texts)
        inbox = [message.text for _, message in self.told if not message.to]
        return [text for place, text in enumerate(inbox) if inbox[:place].count(text) < read[text]]

    def last_words(self) -> int:
        """Return the event with what the user said last besides the task, 0 for nothing."""
        answers = [
            event.seq
            for question, event in self.answered.items()
            if (record := self.records.get(EffectKey.parse(question))) is not None
            and record.effect.get("purpose") == "question"
        ]
        return max((*answers, *(seq for seq, _ in self.told)), default=0)

    def open_questions(self) -> list[tuple[EffectKey, Record]]:
        """Return AskHuman effects without an outcome or an answer, oldest first."""
        items = [item for item in self.records.items() if item[1].effect.get("kind") == EffectKind.ASK_HUMAN]
        open_ = [(key, record) for key, record in items if record.outcome is None and str(key) not in self.answers]
        return sorted(open_, key=lambda pair: pair[1].seq)

    def supersede_limited(self) -> None:
        """Forget outcomes that only say that the run's budget was short, and all that followed from them.

        Their rows stay in the log; what is done instead is recorded under the next attempt.
        """
        for key in [k for k, r in self.records.items() if r.outcome is not None and r.outcome.status == "limited"]:
            self._supersede(key)

    def _supersede(self, key: EffectKey) -> None:
        record = self.records.get(key)
        seq = record.seq if record is not None else None
        self._drop_later(key)
        if record is not None and record.mode is Mode.COMPOSITE:
            record.outcome = None  # it is entered again: what was done in it was done
        else:
            self._drop(key)
        owner = parent_key(key.branch)
        while owner is not None:
            self._drop_later(owner)
            record = self.records.get(owner)
            if record is not None:
                record.outcome = None
            elif seq is not None:  # rivals have no record of their own; what came after them followed
                self._drop_after(owner, seq)
            owner = parent_key(owner.branch)

    def follower(self, key: EffectKey) -> EffectKey | None:
        """Return the first effect that began after an outcome on its branch or above it, None if nothing followed."""
        record = self.records[key]
        followers: list[tuple[int, EffectKey]] = []
        owner: EffectKey | None = key
        while owner is not None:
            for other, later in self.records.items():
                if other.branch == owner.branch and other.n > owner.n and later.began > record.seq:
                    followers.append((later.began, other))
            owner = parent_key(owner.branch)
        return min(followers)[1] if followers else None

    def _drop_later(self, key: EffectKey) -> None:
        """Forget what followed from an outcome; what was under way at the same time did not."""
        record = self.records.get(key)
        if record is not None and record.outcome is not None:
            self._drop_after(key, record.seq)

    def _drop_after(self, key: EffectKey, seq: int) -> None:
        for other in [k for k in self.records if k.branch == key.branch and k.n > key.n]:
            later = self.records.get(other)
            together = later is not None and 0 < later.batch <= key.n
            if later is not None and later.began > seq and not together:
                self._drop(other)

    def _drop(self, key: EffectKey) -> None:
        for effect_key in [key, *(k for k in self.records if within(k.branch, key.path))]:
            self.records.pop(effect_key, None)
            self.answers.pop(str(effect_key), None)  # it was given to another question
            self.answered.pop(str(effect_key), None)
