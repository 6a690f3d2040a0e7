"""Events: the one log. Each type has its own version; older versions are read through upcasters.

History of the formats (a line each, newest last):

- all types, v1: first version.
- answered, v1: `asked`; told, v1: `to`.
- run_ended, v1: `until`, where a timer is waited for; pause_requested, v1: first version.
- forgotten, v1: first version; `retired`.
- attempt_failed, v1: `uncertain_tokens` and `uncertain_usd` of its usage; interrupted, v1: `unpaid`.
- started and completed, v1: `confined` and `approval` of the effect.
- driving_started, v1: `code`, `changed`.
- completed, v1: `made_for` of its artifacts; run_ended, v1: `files`, `more_files`.
- run_created, v1: `begins`.
- started and completed, v1: `repaired` of the effect.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar, Literal, TypedDict, Unpack

from pydantic import BaseModel, JsonValue

from agentorchestra.core.budget import NO_COST, Bound, Usage
from agentorchestra.core.errors import EventFormatError
from agentorchestra.core.frozen import construct
from agentorchestra.core.spec import RunFile, RunManifest, TestsRan
from agentorchestra.core.turns import TurnState

RUN_BRANCH = ""  # the branch of events that belong to the run and not to one of its effects; their n is their sequence


class Body(BaseModel, frozen=True):
    """Base of the bodies; `type` and `v` name the format, `external` the ones other processes may append."""

    type: ClassVar[str]
    v: ClassVar[int] = 1
    external: ClassVar[bool] = False

    def log_json(self) -> dict[str, Any]:
        """Return the body's JSON as the log has it: without defaults."""
        return self.model_dump(mode="json", exclude_defaults=True)


class RunCreated(Body):
    """The run exists: what was asked and everything it is pinned to.

    `begins` is what the turn of a session begins with that is not the first one.
    """

    type: ClassVar[str] = "run_created"
    manifest: RunManifest
    begins: TurnState | None = None

    def log_json(self) -> dict[str, Any]:
        """Return the JSON, of the manifest with defaults: they may change in a later version, and it pins them."""
        body = {"manifest": self.manifest.model_dump(mode="json")}
        if self.begins is not None:
            body["begins"] = self.begins.model_dump(mode="json", exclude_defaults=True)
        return body


class DrivingStarted(Body):
    """A process drives the run from here: the start of a span of active time.

    `code` is the digest of the package that drives it; `changed` are the components (`tool:read_file`) that are others
    than the manifest pins, each with its content hash, "" for one that is gone.
    """

    type: ClassVar[str] = "driving_started"
    owner: str
    epoch: int
    code: str = ""
    changed: dict[str, str] = {}


class RunEnded(Body):
    """The job ended with this status (`waiting`, `paused` and `failed` may be driven again).

    `waiting_for` are the keys of questions and timers; `until` is the time at which the first timer is due. `files` are
    those that the run made or changed in its folder, `more_files` counts those for which that list has no room. `tests`
    is how the command that tests its work ended.
    """

    type: ClassVar[str] = "run_ended"
    status: str
    active_s: float
    result: dict[str, JsonValue] = {}
    error: str | None = None
    error_type: str | None = None
    waiting_for: list[str] = []
    until: datetime | None = None
    files: tuple[RunFile, ...] = ()
    more_files: int = 0
    tests: TestsRan | None = None


class EffectStarted(Body):
    """The mark: the effect is about to act. `effect` is the stored form (see log/codec.py).

    `batch` is the first number of the effects it was performed together with, 0 where it was alone.
    """

    type: ClassVar[str] = "started"
    effect: dict[str, JsonValue]
    fingerprint: str
    bound: Bound = Bound()
    batch: int = 0

    @staticmethod
    def json_of(effect: dict[str, Any], fingerprint: str, bound: Bound, batch: int) -> dict[str, Any]:
        """Return what `log_json` gives, without a walk through the effect, which is JSON already."""
        body: dict[str, Any] = {"effect": effect, "fingerprint": fingerprint}
        if bound is not NO_COST and (limits := bound.model_dump(mode="json", exclude_defaults=True)):
            body["bound"] = limits
        if batch:
            body["batch"] = batch
        return body


class EffectCompleted(Body):
    """The record: exactly what the agent sees. `effect` and `batch` only where no started row holds them."""

    type: ClassVar[str] = "completed"
    outcome: dict[str, JsonValue]
    fingerprint: str
    effect: dict[str, JsonValue] | None = None
    batch: int = 0

    @staticmethod
    def json_of(outcome: dict[str, Any], fingerprint: str, effect: dict[str, Any] | None, batch: int) -> dict[str, Any]:
        """Return what `log_json` gives, without a walk through outcome and effect, which are JSON already."""
        body: dict[str, Any] = {"outcome": outcome, "fingerprint": fingerprint}
        if effect is not None:
            body["effect"] = effect
        if batch:
            body["batch"] = batch
        return body


class AttemptFailed(Body):
    """One attempt inside a handler failed; a further one follows unless the effect ends here."""

    type: ClassVar[str] = "attempt_failed"
    error: str
    error_type: str
    usage: Usage = Usage()
    target: str = ""
    retry_in_s: float | None = None


class EffectInterrupted(Body):
    """The effect was cancelled or its provider failed: no outcome, a resume asks again (`once` is uncertain).

    `unpaid`: it was cancelled between two attempts, when nothing was under way.
    """

    type: ClassVar[str] = "interrupted"
    reason: str
    error_type: str = ""
    usage: Usage = Usage()
    partial: JsonValue = None
    unpaid: bool = False


class BudgetExhausted(Body):
    """The budget of the whole run does not cover the next effect. A resume may raise it."""

    type: ClassVar[str] = "budget_exhausted"
    resource: str
    message: str


class BudgetRaised(Body):
    """A resume was given other limits."""

    type: ClassVar[str] = "budget_raised"
    budget: dict[str, JsonValue]


class Forked(Body):
    """The events before this one were copied from another run: it did and paid for them, this run goes on from here.

    What was under way there is not under way here: marks without an outcome count no more, but those of composites,
    which are entered again. Their rows stay, because later rows refer to the messages and schemas in them.
    """

    type: ClassVar[str] = "forked"
    run: str
    seq: int


class Noted(Body):
    """Something a reader of the log should know (a dropped option, a policy warning)."""

    type: ClassVar[str] = "noted"
    level: Literal["info", "warning", "danger"] = "info"
    message: str


class Answered(Body):
    """External: a human answered, approved or denied exactly one question.

    `asked` is the event with which it was asked: an answer to a superseded question is none to the one asked instead.
    0 in logs of earlier versions.
    """

    type: ClassVar[str] = "answered"
    external: ClassVar[bool] = True
    question: str
    answer: JsonValue
    by: str = ""
    asked: int = 0


class Told(Body):
    """External: a message for a running task; `to` names the agent that waits for it, "" is the top agent's inbox."""

    type: ClassVar[str] = "told"
    external: ClassVar[bool] = True
    text: str
    by: str = ""
    to: str = ""


class CancelRequested(Body):
    """External: stop the run."""

    type: ClassVar[str] = "cancel_requested"
    external: ClassVar[bool] = True
    reason: str = ""
    by: str = ""


class PauseRequested(Body):
    """External: stop before the next effect; what is under way ends and is recorded."""

    type: ClassVar[str] = "pause_requested"
    external: ClassVar[bool] = True
    reason: str = ""
    by: str = ""


class Forgotten(Body):
    """External: entries of the memory, by their ids, that this run wrote and no reading is to find again.

    `retired` says on which evidence a tip was retired, "" for what somebody has forgotten.
    """

    type: ClassVar[str] = "forgotten"
    external: ClassVar[bool] = True
    entries: tuple[str, ...] = ()
    by: str = ""
    retired: str = ""


class Rated(Body):
    """External: somebody says how good the run was, from 0 to 1; the last word counts."""

    type: ClassVar[str] = "rated"
    external: ClassVar[bool] = True
    score: float
    note: str = ""
    by: str = ""


BODIES: dict[str, type[Body]] = {cls.type: cls for cls in Body.__subclasses__()}

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]
UPCASTERS: dict[tuple[str, int], Upcaster] = {}
"""(type, version) -> function that turns a body of that version into one of the next."""


def upcast(type_: str, v: int, body: dict[str, Any]) -> dict[str, Any]:
    """Return the body in its type's current version; EventFormatError for an unknown type or a later version."""
    cls = BODIES.get(type_)
    if cls is None:
        raise EventFormatError(
            f"the log holds an event of type {type_!r}, which this version does not know; "
            "open the workspace with the version of agentorchestra that wrote it, or a later one"
        )
    if v > cls.v:
        raise EventFormatError(
            f"the log holds a {type_!r} event of version {v}, this version of agentorchestra reads up to {cls.v}; "
            "upgrade agentorchestra"
        )
    while v < cls.v:
        step = UPCASTERS.get((type_, v))
        if step is None:
            raise EventFormatError(f"no upcaster leads from version {v} of {type_!r} to {cls.v}; report this as a bug")
        body = step(body)
        v += 1
    return body


class NewEvent(BaseModel, frozen=True):
    """An event to append; its sequence is drawn by the store."""

    branch: str = RUN_BRANCH  # `RUN_BRANCH` for the run's own events
    n: int | None = None
    """The effect's number; None takes the sequence. Answers have one below zero, the same for all to one question."""
    attempt: int = 1  # of one effect, counted from 1, over resumes too
    type: str
    v: int
    ts: datetime
    span: str | None = None  # a key as text, for viewers and OpenTelemetry
    parent_span: str | None = None
    actor: str = ""  # which agent or process
    body: dict[str, Any]


class Event(NewEvent):
    """An event of the log: `seq` is gap-free and growing within a run."""

    run: str
    seq: int

    @property
    def data(self) -> Body:
        """The typed body in the current version; EventFormatError as `upcast`."""
        return BODIES[self.type].model_validate(upcast(self.type, self.v, self.body))


class EventPlace(TypedDict, total=False):
    """Where an event belongs, see NewEvent."""

    branch: str
    n: int | None
    attempt: int
    span: str | None
    parent_span: str | None
    actor: str


def new_event(body: Body, *, ts: datetime, **place: Unpack[EventPlace]) -> NewEvent:
    """Return an event around a body; defaults are left out of the stored JSON."""
    return written_event(type(body), body.log_json(), ts=ts, **place)


def written_event(kind: type[Body], body: dict[str, Any], *, ts: datetime, **place: Unpack[EventPlace]) -> NewEvent:
    """Return an event around a body in its stored form."""
    defaults: dict[str, Any] = {"branch": RUN_BRANCH, "n": None, "attempt": 1, "type": kind.type, "v": kind.v, "ts": ts}
    defaults |= {"span": None, "parent_span": None, "actor": "", "body": body}
    return construct(NewEvent, {**defaults, **place})
