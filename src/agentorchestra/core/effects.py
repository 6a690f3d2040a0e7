"""Effects and outcomes: everything a run does to the world or asks of it (docs/door.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from itertools import chain
from typing import Any, Literal

from pydantic import BaseModel, Field, JsonValue, TypeAdapter

from agentorchestra.core.budget import NO_USAGE, Usage
from agentorchestra.core.clock import stamp_utc
from agentorchestra.core.content import Block, Source, TextBlock, Trust, lowest
from agentorchestra.core.errors import InvocationError
from agentorchestra.core.frozen import Frozen, computed, construct
from agentorchestra.core.ids import canonical_json, is_plain, sha256_json
from agentorchestra.core.messages import ModelRequest, ModelResponse, ToolSchema


class EffectKind(StrEnum):
    """Every kind of effect the door knows."""

    REQUEST_MODEL = "RequestModel"
    EMBED = "Embed"
    TRANSCRIBE = "Transcribe"
    INVOKE_TOOL = "InvokeTool"
    INVOKE_ACTION = "InvokeAction"
    INVOKE_AGENT = "InvokeAgent"
    SPAWN = "Spawn"
    JOIN = "Join"
    SEND_MESSAGE = "SendMessage"
    RECEIVE = "Receive"
    WAIT = "Wait"
    ASK_HUMAN = "AskHuman"
    RUN_CODE = "RunCode"
    SNAPSHOT = "Snapshot"
    RESTORE = "Restore"
    READ_MEMORY = "ReadMemory"
    WRITE_MEMORY = "WriteMemory"

    __hash__ = str.__hash__


class Mode(StrEnum):
    """The ways to go on with an effect after a crash.

    `pure`: no started row, executed again freely. `repeatable`: marked, repeated, counted as possibly paid.
    `once`: marked, never silently repeated (uncertain). `composite`: marked, entered again. `beside`, which only a
    handler says: composite, and goes on beside the branch that asks for it.
    """

    PURE = "pure"
    REPEATABLE = "repeatable"
    ONCE = "once"
    COMPOSITE = "composite"
    BESIDE = "beside"

    __hash__ = str.__hash__


class Tag(StrEnum):
    """The things an effect touches; policy decides from them."""

    READ = "read"
    WRITE = "write"
    NETWORK = "network"
    EXECUTE = "execute"
    SPEND = "spend"
    SEND = "send"

    __hash__ = str.__hash__


def is_undeclared(tags: frozenset[Tag], mode: Mode) -> bool:
    """Return True for a tool that does not say what it touches: it is treated as doing everything."""
    return not tags and mode in (Mode.ONCE, Mode.REPEATABLE)


Approval = Literal["policy", "always", "never"]
"""The say of a tool's author in whether its calls are asked about: policy decides, or always, or never."""

OF_MODELS = frozenset({EffectKind.REQUEST_MODEL, EffectKind.EMBED, EffectKind.TRANSCRIBE})
"""Kinds that are counted under a model's name: the value of the outcome says which."""

OF_AGENTS = frozenset({EffectKind.INVOKE_AGENT, EffectKind.SPAWN})
"""Kinds whose own usage is what an agent cost besides its effects: what a program asked elsewhere."""

FINISH = "finish"
"""Purpose of the call by which an agent ends its work: of a tool that is marked so (`ToolTraits.finishes`)."""

DELEGATION = "delegation"
"""The purpose of a call of a tool that hands work to an agent: of rivals the winner alone makes it."""

BESIDE = frozenset({"format", "judge", "memory", "policy_plan", "policy_review", "tool"})
"""Purposes of requests beside an agent's work: one that cannot be had is an outcome, never the end of the run."""


class Provenance(BaseModel, frozen=True):
    """A source that was in view when the effect was decided."""

    kind: str
    ref: str = ""
    trust: Trust = Trust.UNTRUSTED


def provenance_of(blocks: list[Block] | tuple[Block, ...]) -> tuple[Provenance, ...]:
    """Return the distinct sources of the blocks, sorted: bounded by the number of sources, not of blocks."""
    seen = {
        (block.source.kind if block.source else "tool", block.source.ref if block.source else "", block.trust)
        for block in blocks
    }
    return tuple(Provenance(kind=kind, ref=ref, trust=trust) for kind, ref, trust in sorted(seen))


def union(*groups: Iterable[Provenance]) -> tuple[Provenance, ...]:
    """Return the distinct members of all groups, sorted."""
    return tuple(sorted(set(chain(*groups)), key=lambda source: (source.kind, source.ref, source.trust.value)))


class Effect(Frozen):
    """One thing a run asks of the world.

    Attributes:
        component: `name@version` of the component that executes it.
        content_hash: hex SHA-256 of that component's source ("" where there is none).
        arguments: canonical JSON arguments; paths are relative to the run, secrets are handles.
        request: the model request, for RequestModel only (logged as a hash chain).
        mode: what a crash means for it.
        tags: what it touches.
        role: the role of the agent that asks (planner, analyzer, ...).
        purpose: why (`decision`, `final`, `score`, `summary`, `approval`, ...).
        provenance: the sources in view when it was decided.
        instance: the environment instance it acts on.
        world: which of rival worlds the instance lives in.
        invalid: a sentence when the call is a mistake: it is recorded and answered, never executed.
        timeout_s: time limit of the execution.
        begin_by: a request that has to queue for its model is not sent after this time; its outcome is `timeout`. It is
            neither compared nor stored.
        declared: the schema the arguments were checked against, for policy; it is neither compared nor stored.
        confined: what it writes stays in its environment's own folder, whatever its arguments say; for policy, and not
            compared.
        approval: what the tool's author says of questions; for policy, and not compared.
        repaired: what was read otherwise of the call than the model wrote it, for the log; it is not compared.
    """

    kind: EffectKind
    component: str
    content_hash: str = ""
    arguments: dict[str, JsonValue] = Field(default_factory=dict)
    request: ModelRequest | None = None
    mode: Mode = Mode.ONCE
    tags: frozenset[Tag] = frozenset()
    role: str = ""
    purpose: str = ""
    provenance: tuple[Provenance, ...] = ()
    instance: str | None = None
    world: str = "main"
    invalid: str | None = None
    timeout_s: float | None = None
    begin_by: datetime | None = None
    declared: ToolSchema | None = None
    confined: bool = False
    approval: Approval = "policy"
    repaired: str = ""

    @computed
    def name(self) -> str:
        """Return the component's name without its version."""
        return self.component.rpartition("@")[0] or self.component

    @property
    def called(self) -> str:
        """The name under which a model calls it: a tool's, of an action `ENVIRONMENT_ACTION`; "" for other kinds."""
        return called_as(self.kind, self.name, self.arguments)

    @property
    def version(self) -> str:
        """The component's version, "" where it has none."""
        name, _, version = self.component.rpartition("@")
        return version if name else ""

    @property
    def lowest_trust(self) -> Trust:
        """The lowest trust among the sources in view."""
        return lowest(*[source.trust for source in self.provenance]) if self.provenance else Trust.SYSTEM

    @computed
    def fingerprint(self) -> str:
        """Hash of kind, name and canonical arguments; version and content hash lie beside it."""
        return sha256_json(
            [
                self.kind,
                self.name,
                self.arguments,
                self.request.digest if self.request else None,
                self.instance,
                self.invalid is not None,
            ]
        )


def called_as(kind: str, name: str, arguments: Mapping[str, Any]) -> str:
    """Return the name under which a model calls a component, see `Effect.called`."""
    if kind == EffectKind.INVOKE_ACTION:
        return f"{name}_{arguments.get('action')}"
    return name if kind == EffectKind.INVOKE_TOOL else ""


OutcomeStatus = Literal[
    "ok", "error", "mistake", "denied", "timeout", "uncertain", "skipped", "environment_lost", "limited"
]


MadeFor = Literal["", "user", "run"]  # for whom an artifact is, see `ArtifactRef`


class ArtifactRef(BaseModel, frozen=True):
    """A file a run produced: a blob with a name.

    Attributes:
        made_for: `user`: a file that the run's user gets; `run`: what the run keeps for itself (a result that was cut,
            the text of a page, a picture for a model); "" in logs from before this was recorded.
    """

    name: str
    sha256: str
    size: int
    media_type: str = "application/octet-stream"
    made_for: MadeFor = ""


_BLOCKS: TypeAdapter[tuple[Block, ...]] = TypeAdapter(tuple[Block, ...])
BLOCKS = "$blocks"  # the key under which a value holds blocks
_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)


def blocks_value(blocks: list[Block] | tuple[Block, ...]) -> JsonValue:
    """Return blocks as the JSON value of an outcome; `Outcome.blocks` reads it back."""
    return {BLOCKS: [b.model_dump(mode="json", exclude_defaults=True) for b in blocks]}


class Outcome(BaseModel, frozen=True):
    """The answer to an effect, exactly as the agent sees it and as it is recorded.

    Attributes:
        status: `ok`; `error` (the component failed); `mistake` (an invalid call); `denied` (policy, capability,
            human); `timeout`; `uncertain` (may have happened before a crash); `skipped` (queued behind one that did
            not finish); `environment_lost`; `limited` (a carve's budget ran out).
        error: one sentence that names the bad value and what is allowed, for every status but `ok`.
        artifacts: files it produced.
        own_words: the error is the framework's own sentence about the call: it holds nothing from outside.
        ended_at: when it ended; `ctx.now` is the greatest one a branch has seen.
        trusted: paths of the values in it which the tool says the system made itself (`Trusted`); `*` for every member.
        links: paths of the addresses in it that count as received, though the tool did not read them from the network.
        writes: run-scoped state to apply on every hit (None removes the key).
    """

    status: OutcomeStatus = "ok"
    value: JsonValue = None
    error: str | None = None
    error_type: str | None = None
    usage: Usage = NO_USAGE
    artifacts: tuple[ArtifactRef, ...] = ()
    trust: Trust = Trust.UNTRUSTED
    own_words: bool = False
    ended_at: datetime | None = None
    trusted: tuple[tuple[str, ...], ...] = ()
    links: tuple[tuple[str, ...], ...] = ()
    writes: dict[str, JsonValue] = Field(default_factory=dict)  # a default would be copied for each

    @classmethod
    def of(cls, value: JsonValue, *, usage: Usage, trust: Trust) -> Outcome:
        """Return one that is ok, with a value that needs no check."""
        values = {"status": "ok", "value": value, "error": None, "error_type": None, "usage": usage, "artifacts": ()}
        more: dict[str, Any] = {"own_words": False, "ended_at": None, "trusted": (), "links": (), "writes": {}}
        return construct(cls, {**values, "trust": trust, **more})

    @property
    def ok(self) -> bool:
        """True if the effect did what was asked."""
        return self.status == "ok"

    def result(self) -> JsonValue:
        """Return the value, for whoever made the call by itself; InvocationError with the sentence if it is not ok."""
        if not self.ok:
            raise InvocationError(self.error or f"the call ended as {self.status}", status=self.status)
        return self.value

    def log_json(self) -> dict[str, Any]:
        """Return a copy as JSON without the defaults, as the log holds it.

        `model_dump(mode="json", exclude_defaults=True)` written out: every effect of every run passes here.
        """
        body: dict[str, Any] = {}
        if self.status != "ok":
            body["status"] = self.status
        if self.value is not None:
            body["value"] = self.value if is_plain(self.value) else _JSON.dump_python(self.value, mode="json")
        if self.error is not None:
            body["error"] = self.error
        if self.error_type is not None:
            body["error_type"] = self.error_type
        if self.usage is not NO_USAGE and self.usage != NO_USAGE:
            body["usage"] = self.usage.model_dump(mode="json", exclude_defaults=True)
        if self.artifacts:
            body["artifacts"] = [artifact.model_dump(mode="json", exclude_defaults=True) for artifact in self.artifacts]
        if self.trust is not Trust.UNTRUSTED:
            body["trust"] = self.trust.value
        if self.own_words:
            body["own_words"] = True
        if self.ended_at is not None:
            body["ended_at"] = _json_time(self.ended_at)
        if self.trusted:
            body["trusted"] = [list(path) for path in self.trusted]
        if self.links:
            body["links"] = [list(path) for path in self.links]
        if self.writes:
            body["writes"] = _JSON.dump_python(self.writes, mode="json")
        return body

    @property
    def response(self) -> ModelResponse:
        """The model's response, for RequestModel; ValueError (pydantic's) if the value is not one."""
        return ModelResponse.model_validate(self.value)

    def blocks(self, source: Source | None = None) -> tuple[Block, ...]:
        """Return what the agent reads: the value as content blocks, or the error's sentence."""
        if self.error is not None:
            head = TextBlock(text=self.error, source=source, trust=Trust.SYSTEM if self.own_words else self.trust)
            return (head, *self._value_blocks(source)) if self.value is not None else (head,)
        return self._value_blocks(source)

    def _value_blocks(self, source: Source | None) -> tuple[Block, ...]:
        if isinstance(self.value, dict) and BLOCKS in self.value:
            return _BLOCKS.validate_python(self.value[BLOCKS])
        if self.value is None:
            return (TextBlock(text="(no result)", source=source, trust=Trust.SYSTEM),)
        text = self.value if isinstance(self.value, str) else canonical_json(self.value)
        return (TextBlock(text=text, source=source, trust=self.trust),)


def _json_time(time: datetime) -> str:
    """Return a time as pydantic writes it."""
    if time.tzinfo is not UTC or not time.microsecond:
        text = time.isoformat()
        return f"{text[:-6]}Z" if text.endswith("+00:00") else text
    return f"{stamp_utc(time)[:-6]}Z"


_OWN_WORDS: frozenset[OutcomeStatus] = frozenset({"mistake", "denied", "skipped", "timeout", "uncertain", "limited"})


def failed(status: OutcomeStatus, sentence: str, **rest: Any) -> Outcome:
    """Return an outcome that is not ok, with its sentence.

    Where the call was refused or stopped, the sentence is our own; a component that failed may have said anything.
    """
    return Outcome(status=status, error=sentence, **{"own_words": status in _OWN_WORDS, **rest})
