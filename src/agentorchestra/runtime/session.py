"""The door: every effect of a run goes through `Session.perform` (docs/door.md).

ledger -> policy -> reserve -> mark -> execute -> record (and settle)
"""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from pydantic import JsonValue

from agentorchestra.core.budget import NO_COST, NO_USAGE, Budget, Usage
from agentorchestra.core.content import Block, MediaBlock, Trust, lowest
from agentorchestra.core.effects import (
    BESIDE,
    OF_MODELS,
    ArtifactRef,
    Effect,
    EffectKind,
    Mode,
    Outcome,
    OutcomeStatus,
    Provenance,
    Tag,
    failed,
)
from agentorchestra.core.errors import (
    AgentOrchestraError,
    BudgetExhaustedError,
    ConcurrentUseError,
    DivergedError,
    DoorError,
    MissingKeyError,
    ModelError,
    SettingsError,
    SuspendedError,
    ToolError,
    UnknownComponentError,
)
from agentorchestra.core.events import AttemptFailed, EffectCompleted, EffectInterrupted, EffectStarted, NewEvent
from agentorchestra.core.frozen import constructed
from agentorchestra.core.ids import EffectKey, derived_id, derived_random, sha256_text
from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.spec import AgentResult, AgentSpec, FileRef, RunManifest, RunStatus, first_names
from agentorchestra.core.vectors import unpack
from agentorchestra.runtime.approvals import refused_before, same_call
from agentorchestra.runtime.budget import BudgetNode, BudgetShort, Hold, exhausted
from agentorchestra.runtime.bus import Notice
from agentorchestra.runtime.ledger import Record, within
from agentorchestra.runtime.live import standing_now, take_over
from agentorchestra.runtime.mail import Mail, in_utc
from agentorchestra.runtime.parallel import CONTROL, ReplayEnd, in_parallel
from agentorchestra.runtime.run import Run, observe, wait_for
from agentorchestra.runtime.sight import Sight, origins
from agentorchestra.runtime.store.landing import Landing
from agentorchestra.runtime.vars import PRIVATE, Vars

Deps = TypeVar("Deps")
T = TypeVar("T")

_DECISIONS = ("decision", "final")
_LAZY = frozenset({EffectKind.RECEIVE})
"""Kinds whose record need not be awaited: it is committed before any row that comes after it."""

OF_EVERY_AGENT = frozenset({"done", "find_tools", "find_agents", "open_tools"})
"""What every agent may call: to finish, and to find what it may call. They are made for it: it passes none on."""

_OF_THE_DOOR = frozenset({"approval", "uncertain"})
"""Segments of branches on which the door itself asks."""

MOST_TEXTS, MOST_CHARS = 256, 200_000
"""Texts that are embedded by one effect."""


class _Attempt:
    """See core.protocols.Attempt."""

    def __init__(self, session: Session[Any], number: int) -> None:
        self._session = session
        self.number = number

    async def fail(
        self, error: Exception, *, usage: Usage | None = None, target: str = "", retry_in_s: float | None = None
    ) -> None:
        """Log the failed attempt durably; what it cost is paid."""
        session, run = self._session, self._session.run
        paid = usage or Usage()
        body = AttemptFailed(
            error=run.redactor.text(str(error)),
            error_type=type(error).__name__,
            usage=paid,
            target=target,
            retry_in_s=retry_in_s,
        )
        run.account(target, paid)
        session.failed_attempts = session.failed_attempts + paid
        await wait_for(run.append(run.body(body, **session.where(self.number))))


class Spawned:
    """A spawned agent: its key, its task, and its outcome once there is one."""

    def __init__(self, key: EffectKey, name: str) -> None:
        self.key = key
        self.name = name
        self.task: asyncio.Task[None] | None = None
        self.outcome: Outcome | None = None
        self.writes: dict[str, JsonValue] = {}
        self.error: BaseException | None = None
        self.ended = asyncio.Event()
        self.joined = False


class Session(Generic[Deps]):
    """One branch of a run, and the RunContext of the effect that owns it.

    Use `Session.root` for a run's root; sessions of effects are made by the door.
    """

    # Each effect has a session, and few of them change these.
    partial: JsonValue = None
    failed_attempts = NO_USAGE
    raised: BaseException | None = None
    result_chars: int | None = None  # the longest result this agent's window has room for
    functions: Any = None  # what this agent's programs may call
    memory: Any = None  # of this agent, where a workflow of code has one (agents/memory.py)
    acting_on: tuple[str, str] | None = None  # the instance of an environment that this effect acts on
    _name = ""
    _sight: Sight | None = None
    _attempting = False
    _apart = False  # whether its effects belong to no order
    _n = 0
    _batch = 0
    _ids = 0
    _busy = False
    _random: random.Random | None = None

    def __init__(
        self,
        run: Run,
        branch: str,
        key: EffectKey,
        *,
        parent: Session[Any] | None,
        base: dict[str, JsonValue],
        now: datetime,
        node: BudgetNode,
        actor: str,
        role: str = "",
        capabilities: frozenset[str] | None = None,
        world: str = "main",
        composite: bool = True,
        attempt: int = 1,
        model: str = "",
        provenance: tuple[Provenance, ...] = (),
    ) -> None:
        self.provenance = provenance
        self.run = run
        self._branch = branch
        self._key = key
        self.parent = parent
        self._vars = Vars(base)
        self._now = now
        self.node = node
        self.actor = actor
        self.role = role
        self.capabilities = capabilities
        self.asks: bool = parent is None or parent.asks  # whether people may be asked for what it does
        self.world = world
        self.model = model
        self.spawned: dict[EffectKey, Spawned] = {}
        self.own_tools: dict[str, Any] = {}  # tools made for this agent alone (`done` with its answer's schema)
        self._chance = key
        self._composite = composite
        self._attempt = attempt
        self.joiners: list[Callable[[], None]] = []

    @classmethod
    def root(cls, run: Run) -> Session[Any]:
        """The session of a run's root branch."""
        return cls(
            run,
            "/",
            EffectKey("/", 0),
            parent=None,
            base=dict(run.manifest.kept),
            now=run.manifest.began or run.manifest.created,
            node=run.budget,
            actor="run",
            capabilities=frozenset(run.manifest.tools) | OF_EVERY_AGENT,
            model=run.manifest.model,
        )

    # -- RunContext ------------------------------------------------------------------------------------------------

    @property
    def deps(self) -> Deps:
        """The user's dependencies."""
        deps: Deps = self.run.deps
        return deps

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.run.id

    @property
    def key(self) -> EffectKey:
        """The key of the effect that owns this session."""
        return self._key

    @property
    def now(self) -> datetime:
        """The greatest recorded end this branch has seen."""
        return self._now

    @property
    def random(self) -> random.Random:
        """A generator that a resumed or forked run repeats."""
        if self._random is None:
            self._random = derived_random(self.run.manifest.seed, self._chance.branch, self._chance.n)
        return self._random

    @property
    def vars(self) -> Vars:
        """Run-scoped state."""
        return self._vars

    @property
    def manifest(self) -> RunManifest:
        """What the run is pinned to."""
        return self.run.manifest

    @property
    def folder(self) -> Path:
        """The run's own folder."""
        self.run.folder.mkdir(parents=True, exist_ok=True)
        return self.run.folder

    @property
    def listening(self) -> bool:
        """Whether anybody watches deltas."""
        return self.run.bus.listening

    def id(self, prefix: str = "") -> str:
        """A derived id; the n-th one is the same on every execution."""
        self._ids += 1
        return derived_id(self.run.manifest.seed, self._chance.branch, self._chance.n, self._ids, prefix)

    def file(self, name: str) -> Path:
        """The kept copy of a file given with the task."""
        if name in self.run.files:
            return self.run.folder / "files" / name
        raise UnknownComponentError(f"the run has no file {name!r}; its files: {first_names(self.run.files)}")

    def secret(self, name: str) -> str:
        """A secret's value from the environment."""
        value = self.run.services.secrets.get(name) or self.run.services.environ.get(name)
        if not value:
            raise MissingKeyError(f"the secret {name!r} is not set; export {name}=... before the run")
        self.run.redactor.learn(name, value)  # named in the settings or not: what a tool takes as a secret is one
        return value

    async def blob(self, sha256: str) -> bytes:
        """The bytes of a blob."""
        return await self.run.services.store.get_blob(sha256)

    async def artifact(self, name: str, data: bytes, media_type: str = "application/octet-stream") -> ArtifactRef:
        """Keep bytes as an artifact."""
        digest = await self.run.services.store.put_blob(data, media_type)
        return ArtifactRef(name=name, sha256=digest, size=len(data), media_type=media_type)

    async def read_artifact(self, name: str | ArtifactRef) -> bytes:
        """The bytes of an artifact of this run."""
        return await self.blob((name if isinstance(name, ArtifactRef) else self._artifact(name)).sha256)

    def _artifact(self, name: str) -> ArtifactRef:
        names: list[str] = []
        for record in reversed(self.run.ledger.records.values()):
            for ref in record.outcome.artifacts if record.outcome is not None else ():
                if ref.name == name:
                    return ref
                names.append(ref.name)
        names.reverse()
        raise UnknownComponentError(f"the run has no artifact {name!r}; its artifacts: {', '.join(names) or 'none'}")

    @asynccontextmanager
    async def attempt(self) -> AsyncIterator[_Attempt]:
        """A logged attempt; the first one is covered by the effect's own rows."""
        if self._attempting:
            self._attempt += 1
        self._attempting = True
        yield _Attempt(self, self._attempt)

    def progress(self, text: str) -> None:
        """A line for whoever watches."""
        self._publish("progress", text)

    def delta(self, text: str) -> None:
        """A piece of streamed text for whoever watches."""
        self._publish("delta", text)

    def _publish(self, kind: Any, text: str) -> None:
        if self.run.bus.listening:
            text = self.run.redactor.text(text)
            self.run.bus.publish(Notice(kind=kind, run=self.run.id, key=str(self._key), actor=self.actor, text=text))

    async def call_tool(self, name: str, /, **arguments: JsonValue) -> Outcome:
        """InvokeTool by name."""
        build = self.run.services.tool_effect
        if build is None:
            raise UnknownComponentError(f"no tool {name!r}: this run has no tools registered")
        return await self.perform(build(name, arguments, self))

    async def call_agent(self, spec: AgentSpec) -> AgentResult:
        """InvokeAgent; a denial or failure comes back as a blocked result."""
        (result,) = await self.call_agents([spec])
        return result

    async def call_agents(self, specs: Sequence[AgentSpec]) -> list[AgentResult]:
        """Several sub-agents at the same time; results in listed order."""
        build = self.run.services.agent_effect
        if build is None:
            raise UnknownComponentError("no agents are registered in this run; the workspace does that")
        outcomes = await self.perform_all([build(spec, self) for spec in specs])
        return [_agent_result(outcome) for outcome in outcomes]

    async def ask_model(
        self,
        prompt: str,
        content: Sequence[Block] = (),
        *,
        role: str,
        model: str = "",
        media: Literal["named", "required"] = "named",
        **values: Any,
    ) -> Outcome:
        """One question to a model beside the steps of an agent."""
        build = self.run.services.request_effect
        if build is None:
            raise UnknownComponentError("no models are known in this run; the workspace does that")
        return await self.perform(build(self, prompt, content, role=role, model=model, media=media, values=values))

    async def embed(self, texts: Sequence[str], model: str = "") -> list[list[float]]:
        """A vector for each text."""
        if isinstance(texts, str):
            raise ToolError("embed takes a list of texts, not one text; write [text]")
        name = self._side_model(model, self.manifest.embedding_model, "embedding_model")
        # Many texts are several effects: what was embedded before a failure is not paid again.
        asked: list[dict[str, JsonValue]] = [{"texts": [*part], "model": name} for part in _in_parts(texts)]
        vectors: list[list[float]] = []
        for value in await self._beside(EffectKind.EMBED, name, asked):
            vectors += unpack(await self.blob(value["vectors"]), value["dimensions"])
        return vectors

    async def transcribe(self, recording: str | ArtifactRef | MediaBlock, model: str = "") -> str:
        """What is said in a recording."""
        name = self._side_model(model, self.manifest.transcription_model, "transcription_model")
        ref: FileRef | ArtifactRef | MediaBlock
        if isinstance(recording, str):
            files = self.run.files
            try:
                ref = files.get(recording) or self._artifact(recording)
            except UnknownComponentError as exc:
                listed = first_names(files)
                raise UnknownComponentError(f"the run has no file {recording!r}; its files: {listed}; {exc}") from None
        else:
            ref = recording
        asked: dict[str, JsonValue] = {"file": ref.name, "model": name}
        asked |= {"sha256": ref.sha256, "size": ref.size, "media_type": ref.media_type}
        (value,) = await self._beside(EffectKind.TRANSCRIBE, name, [asked])
        return str(value["text"])

    def _side_model(self, given: str, default: str, setting: str) -> str:
        if given or default:
            return given or default
        raise SettingsError(f"no model is named for this; set {setting} in agentorchestra.toml, or give model=")

    async def _beside(
        self, kind: EffectKind, model: str, arguments: Sequence[dict[str, JsonValue]]
    ) -> list[dict[str, Any]]:
        effects = [
            Effect(
                kind=kind,
                component=f"{model}@1.0.0",
                arguments=one,
                mode=Mode.REPEATABLE,
                role=self.role,
                purpose="tool",
                provenance=self.provenance,
            )
            for one in arguments
        ]
        values = []
        for outcome in await self.perform_all(effects):
            if not outcome.ok or not isinstance(outcome.value, dict):
                raise ToolError(outcome.error or f"{model} gave no result")
            values.append(outcome.value)
        return values

    async def run_code(
        self,
        interpreter: str,
        arguments: dict[str, JsonValue],
        *,
        mode: Mode,
        tags: frozenset[Tag] = frozenset(),
    ) -> Outcome:
        """A program, or the next part of one."""
        effect = Effect(
            kind=EffectKind.RUN_CODE,
            component=f"{interpreter}@1.0.0",
            arguments=arguments,
            mode=mode,
            tags=tags | {Tag.EXECUTE},
            role=self.role,
            purpose="code",
            provenance=self.provenance,
        )
        return await self.perform(effect)

    async def ask(self, question: str, **details: JsonValue) -> str:
        """Ask a human."""
        effect = Effect(
            kind=EffectKind.ASK_HUMAN,
            component="human@1.0.0",
            arguments={"question": question, **details},
            mode=Mode.REPEATABLE,
            role=self.role,
            purpose="question",
        )
        outcome = await self.perform(effect)
        return str(outcome.value) if outcome.ok else str(outcome.error)

    async def wait_for_mail(self, seconds: float | None = None) -> list[Mail]:
        """Wait for messages to this agent, from inside or outside the run."""
        limit: dict[str, JsonValue] = {} if seconds is None else {"timeout_s": float(seconds)}
        effect = Effect(
            kind=EffectKind.WAIT,
            component="mail@1.0.0",
            arguments={"actor": self.actor, "outside": True, **limit},
            mode=Mode.REPEATABLE,
            role=self.role,
        )
        outcome = await self.perform(effect)
        if not outcome.ok:
            raise ToolError(str(outcome.error))
        return self.mail(outcome)

    async def sleep(self, seconds: float) -> datetime:
        """Wait for a time that may be days."""
        return await self._timer({"timeout_s": float(seconds)})

    async def sleep_until(self, time: datetime) -> datetime:
        """Wait until a time that may be days away."""
        if time.tzinfo is None:
            raise ToolError(f"the time {time} has no zone; give an aware one: datetime(2027, 1, 31, 9, tzinfo=UTC)")
        return await self._timer({"until": in_utc(max(time, self._now))})

    async def _timer(self, deadline: dict[str, JsonValue]) -> datetime:
        effect = Effect(
            kind=EffectKind.WAIT,
            component="timer@1.0.0",
            arguments={"mail": False, **deadline},
            mode=Mode.REPEATABLE,
            role=self.role,
        )
        outcome = await self.perform(effect)
        if not outcome.ok:
            raise ToolError(str(outcome.error))
        return self._now

    def recorded_request(self, model: str = "") -> ModelRequest | None:
        """The first model request the log has of this branch, to this model where it has one; None without any."""
        ledger = self.run.ledger
        found = [
            (key.n, record)
            for key, record in ledger.records.items()
            if key.branch == self.branch and record.effect.get("kind") == EffectKind.REQUEST_MODEL
        ]
        found.sort(key=lambda one: one[0])
        first: ModelRequest | None = None
        for _, record in found:
            request = ledger.codec.decode(record.effect).request
            first = first or request
            if request is not None and model in ("", request.model):
                return request
        return first

    def inherited(self) -> Record | None:
        """The next effect of this branch, where a fork has its outcome from the run it was forked from; else None."""
        ledger = self.run.ledger
        if not ledger.forked_at:
            return None
        record = ledger.records.get(EffectKey(self.branch, self._n + 1))
        return record if record is not None and record.outcome is not None and ledger.inherited(record) else None

    def mail(self, outcome: Outcome) -> list[Mail]:
        """The messages a Wait took."""
        value = outcome.value if isinstance(outcome.value, dict) else {}
        ids = value.get("messages", [])
        return self.run.mail.by_ids([str(one) for one in ids] if isinstance(ids, list) else [])

    # -- the door --------------------------------------------------------------------------------------------------

    def _draw(self, count: int) -> list[int]:
        if not self._composite:
            raise DoorError(
                f"{self.actor} at {self._key} performed an effect but is not declared composite; "
                'declare it with @tool(effect="composite")'
            )
        if self._busy:
            raise ConcurrentUseError(
                f"branch {self.branch} was used by two tasks at once; use perform_all, or spawn a branch of its own"
            )
        self._busy = True
        first = self._n + 1
        self._n += count
        self._batch = first if count > 1 else 0
        return list(range(first, first + count))

    async def perform(self, effect: Effect) -> Outcome:
        """Let one effect through the door.

        Raises:
            DoorError: diverged, suspended, exhausted, cancelled, concurrent use.
            ModelError: a provider failed for good; the run fails and can be resumed.
        """
        (n,) = self._draw(1)
        try:
            outcome = await self._through(EffectKey(self.branch, n), effect, self._vars.flat())
        except CONTROL as exc:
            self.raised = exc
            raise
        finally:
            self._busy = False
        self._absorb(effect, outcome)
        return outcome

    async def perform_apart(self, effect: Effect, *, n: int | None = None) -> Outcome:
        """Let an effect through the door that belongs to no order: any task may, at any time (`runtime/calls.py`).

        What it gives is in nobody's view: the next such call is not taken to follow from it.

        Args:
            effect: see `perform`.
            n: its number, where it is made again from the log.
        """
        if n is None:
            self._n += 1
            n = self._n
        self._n = max(self._n, n)
        self._apart = True
        outcome = await self._through(EffectKey(self.branch, n), effect, self._vars.flat())
        if outcome.writes:
            self._vars.writes.update(outcome.writes)
        return outcome

    async def perform_all(self, effects: Sequence[Effect]) -> list[Outcome]:
        """Several effects at once; results in listed order.

        Effects on one environment instance run as a chain in listed order, the chains in parallel. Siblings of one
        that waits or fails for good are let finish: their work is recorded, then one error goes up.
        """
        if not effects:
            return []
        numbers = self._draw(len(effects))
        chains: dict[Any, list[int]] = {}
        for index, effect in enumerate(effects):
            chains.setdefault(effect.instance or index, []).append(index)
        results: list[Outcome | None] = [None] * len(effects)
        base = self._vars.flat()

        async def chain(indices: list[int]) -> None:
            local = dict(base)
            behind: str | None = None
            for index in indices:
                key, effect = EffectKey(self.branch, numbers[index]), effects[index]
                if behind is not None:
                    effect = effect.model_copy(update={"invalid": behind})
                outcome = await self._through(key, effect, local, skipped=behind is not None)
                results[index] = outcome
                local.update(outcome.writes)
                if outcome.status == "uncertain":
                    behind = f"not started: {effect.name} at {key} before it may or may not have happened"

        try:
            _, error = await in_parallel([partial(chain, indices) for indices in chains.values()], self.run.mail)
        finally:
            self._busy = False
        for effect, outcome in zip(effects, results, strict=True):
            if outcome is not None:
                self._absorb(effect, outcome)
        if error is not None:
            self.raised = error
            raise error
        return [outcome for outcome in results if outcome is not None]

    def _absorb(self, effect: Effect, outcome: Outcome) -> None:
        self._vars.writes.update(outcome.writes)
        self.sight.take(effect, outcome, tuple(self.mail(outcome)) if effect.kind is EffectKind.WAIT else ())
        if outcome.ended_at is not None and outcome.ended_at > self._now:
            self._now = outcome.ended_at

    @cached_property
    def _span(self) -> str:
        return str(self._key)

    @property
    def branch(self) -> str:
        """Where its own effects stand; most have none."""
        if not self._branch:
            self._branch = f"{self._key.path}.{_segment(self._name)}"
        return self._branch

    @property
    def sight(self) -> Sight:
        """What it has seen; most effects look at nothing."""
        if self._sight is None:
            above = self.parent.sight if self.parent is not None else None
            self._sight = Sight(self.provenance, above, self.actor)
        return self._sight

    @property
    def seen_trust(self) -> Trust:
        """The lowest trust of anything this branch has seen."""
        return self.sight.trust

    @property
    def asked(self) -> int:
        """The number of the last effect this branch asked for: a replay's log holds later ones too."""
        return self._n

    @property
    def asked_at(self) -> int:
        """The number of the caller's branch at which the call that owns this session was decided.

        What has a smaller number had ended by then; what has it or a greater one was decided together or later.
        """
        assert self.parent is not None
        return self.parent._batch or self._key.n

    def where(self, attempt: int) -> dict[str, Any]:
        """The envelope of rows about the effect that owns this session."""
        parent = self.parent
        return {
            "branch": self._key.branch,
            "n": self._key.n,
            "attempt": attempt,
            "span": str(self._key),
            "parent_span": str(parent.key) if parent is not None else None,
            "actor": parent.actor if parent is not None else self.actor,
        }

    async def _through(
        self, key: EffectKey, effect: Effect, base: dict[str, JsonValue], *, skipped: bool = False
    ) -> Outcome:
        run = self.run
        handler = run.services.handlers.get(effect.kind)
        if handler is None:
            raise UnknownComponentError(
                f"no handler is registered for {effect.kind.value}; the workspace registers them"
            )
        effect = effect.model_copy(update={"world": self.world}) if effect.world != self.world else effect
        if not effect.content_hash:
            # Every effect names the code that executes it; a component without a hash of its own is its handler.
            effect = effect.model_copy(update={"content_hash": source_hash(type(handler))})
        effect = self.sight.of(run.redactor.effect(handler.redact(effect)))
        mode = handler.mode(effect)
        if run.replaying:
            run.visited.add(key)
            # What the door itself asked about this effect has no code that asks again.
            asked = [EffectKey(f"{key.path}.approval", 1)]
            asked += [EffectKey(f"{key.path}.uncertain", n) for n in range(1, run.ledger.attempts.get(key, 0) + 1)]
            run.visited.update(one for one in asked if one in run.ledger.records)

        # ledger
        record = run.ledger.records.get(key)
        if record is not None:
            if not skipped:
                change = run.ledger.compare(key, effect, record)
                if change is not None:
                    run.note_change(key, change)
            if record.outcome is not None:
                return await self._hit(key, effect, record, mode, base)
        if run.replaying:
            if effect.kind in run.sealed:
                run.visited.update(k for k in run.ledger.records if within(k.branch, key.path))
            elif mode is Mode.COMPOSITE and record is not None:
                entered = await self._reenter(key, effect, mode, handler, base, 1)
                if effect.kind is EffectKind.SPAWN:
                    return entered
            raise ReplayEnd(str(key))

        self._pause_before(key, effect)
        attempt = run.ledger.attempts.get(key, 0) + 1
        if effect.invalid is not None:
            status: OutcomeStatus = "skipped" if skipped else "mistake"
            said = failed(status, effect.invalid, trust=lowest(Trust.AGENT, effect.lowest_trust))
            return await self._record(key, effect, Mode.PURE, said, attempt)
        refusal = self._refused(effect)
        if refusal is None and (record is None or not record.started):
            refusal = await self._judge(key, effect, base)
        if refusal is not None:
            denied = failed("denied", refusal, trust=lowest(Trust.AGENT, effect.lowest_trust))
            return await self._record(key, effect, Mode.PURE, denied, attempt)

        # a crash left the mark of an effect that must not be repeated
        if record is not None and record.started and mode is Mode.ONCE:
            doubt = await self._uncertain(key, effect, base, attempt, record.attempt)
            if doubt is not None:
                return doubt

        # reserve
        decision = effect.purpose in _DECISIONS and effect.kind is EffectKind.REQUEST_MODEL
        bound = handler.bound(effect)
        if decision:
            bound = bound.model_copy(update={"steps": 1, "active_s": run.longest_decision_s})
        hold: Hold | None = None
        if bound is NO_COST and mode is not Mode.COMPOSITE and effect.purpose != "final":
            hold = Hold(self.node, bound)  # most calls cost nothing that could be held
        elif mode is not Mode.COMPOSITE:
            try:
                hold = await self.node.reserve(bound, final=effect.purpose == "final", decision=decision)
            except BudgetShort as short:
                beside = effect.purpose in BESIDE
                if beside or (effect.purpose != "final" and (short.soft or short.node is not run.budget)):
                    return await self._record(key, effect, Mode.PURE, failed("limited", str(short)), attempt)
                raise exhausted(short) from None

        # mark
        try:
            self._pause_before(key, effect)  # it may have queued for the budget
            if mode is not Mode.PURE:
                encoded = run.ledger.codec.encode(effect)
                body = EffectStarted.written(encoded, effect.fingerprint, bound, self._batch)
                mark = run.written(EffectStarted, body, **self._where(key, attempt))
                marked = run.append(mark)
                run.ledger.records[key] = Record(
                    fingerprint=effect.fingerprint,
                    effect=run.ledger.codec.kept(encoded, effect),
                    attempt=attempt,
                    started=True,
                    bound=bound,
                    marked=mark.ts if record is None else record.marked,
                    began=0 if record is None else record.began,
                )
                run.ledger.attempts[key] = attempt
                if mode is Mode.COMPOSITE:
                    observe(marked)  # its children's rows come after it in the same log
                else:
                    (seq,) = await wait_for(marked)
                    if record is None:
                        run.ledger.records[key].began = seq
        except BaseException:
            if hold is not None:
                hold.release()
            raise

        return await self._act(key, effect, mode, handler, base, attempt, hold, decision)

    def _pause_before(self, key: EffectKey, effect: Effect) -> None:
        if self.run.pausing:
            raise SuspendedError(f"paused before {effect.name} at {key}")

    async def _act(
        self,
        key: EffectKey,
        effect: Effect,
        mode: Mode,
        handler: Any,
        base: dict[str, JsonValue],
        attempt: int,
        hold: Hold | None,
        decision: bool,
    ) -> Outcome:
        """Execute, record, settle."""
        run = self.run
        began = run.clock.monotonic() if decision else 0.0
        child = self._child(key, effect, mode, base, attempt)
        try:
            if effect.kind is EffectKind.SPAWN:
                return self._spawn(key, effect, handler, child)
            outcome = await self._executed(handler, effect, child)
        except SuspendedError:
            if hold is not None:
                hold.release()
            raise
        except (asyncio.CancelledError, ModelError, BudgetExhaustedError) as exc:
            if hold is not None:
                lost = isinstance(exc, asyncio.CancelledError) and mode is not Mode.PURE
                hold.keep(child.failed_attempts) if lost else hold.release()
            if mode is not Mode.PURE:
                # Queued synchronously: a cancelled task may not get to await anything any more.
                observe(run.append(run.body(self._interruption(exc, child), **self._where(key, child._attempt))))
            raise
        except BaseException:
            if hold is not None:
                hold.release()
            raise
        try:
            recorded = await self._record(key, effect, mode, outcome, child._attempt, child=child)
        finally:
            if hold is not None:
                before = child.failed_attempts
                total = outcome.usage if before is NO_USAGE else outcome.usage + before
                hold.settle(total, steps=1 if decision else 0)
        if decision:
            run.longest_decision_s = max(run.longest_decision_s, run.clock.monotonic() - began)
            run.steps += 1
        return recorded

    async def _reenter(
        self, key: EffectKey, effect: Effect, mode: Mode, handler: Any, base: dict[str, JsonValue], attempt: int
    ) -> Outcome:
        """Enter a composite again in a replay."""
        child = self._child(key, effect, mode, base, attempt)
        if effect.kind is EffectKind.SPAWN:
            return self._spawn(key, effect, handler, child)
        outcome: Outcome = await self._executed(handler, effect, child)
        return outcome.model_copy(update={"writes": {**_handed_back(child, effect), **outcome.writes}})

    async def _executed(self, handler: Any, effect: Effect, child: Session[Any]) -> Outcome:
        limit: asyncio.Timeout | None = None
        try:
            # Most effects have no limit of their own: their handlers have theirs.
            outcome: Outcome
            if effect.timeout_s is None:
                outcome = await handler.execute(effect, child)
            else:
                async with asyncio.timeout(effect.timeout_s) as limit:
                    outcome = await handler.execute(effect, child)
            if child.raised is not None and not isinstance(child.raised, BudgetExhaustedError):
                # Code in between caught what was not meant for it: a run that waits or failed must say so.
                raise child.raised
        except TimeoutError as exc:
            if limit is None or not limit.expired():
                if self._is_top(effect):
                    raise
                return failed("error", f"{effect.name} failed: {type(exc).__name__}: {exc}", trust=effect.lowest_trust)
            return failed("timeout", f"{effect.name} was stopped after its time limit of {effect.timeout_s:g} s")
        except SuspendedError:
            await child.let_spawned_finish()
            raise
        except (AgentOrchestraError, ReplayEnd) as exc:
            if isinstance(exc, CONTROL) or self._is_top(effect):
                raise
            return failed("error", str(exc), error_type=type(exc).__name__)
        except Exception as exc:  # a handler's bug is the effect's failure, never the run's
            if self._is_top(effect):
                raise
            return failed("error", f"{effect.name} failed: {type(exc).__name__}: {exc}", error_type=type(exc).__name__)
        finally:
            if self.parent is None:
                self.partial = child.partial  # how far the top agent came is how far the run came
            if child.spawned:
                await child.end_spawned()
        return outcome

    def _is_top(self, effect: Effect) -> bool:
        """Whether an effect is the run's top agent: its failure is the run's, and a resume enters it again."""
        return self.parent is None and effect.kind is EffectKind.INVOKE_AGENT

    def _interruption(self, exc: BaseException, child: Session[Any]) -> EffectInterrupted:
        return EffectInterrupted(
            reason=self.run.redactor.text(str(exc)) or "cancelled",
            error_type=type(exc).__name__,
            partial=self.run.redactor.json(child.partial),
        )

    def _where(self, key: EffectKey, attempt: int) -> dict[str, Any]:
        return {
            "branch": key.branch,
            "n": key.n,
            "attempt": attempt,
            "span": str(key),
            "parent_span": str(self._key),
            "actor": self.actor,
        }

    async def _hit(
        self, key: EffectKey, effect: Effect, record: Record, mode: Mode, base: dict[str, JsonValue]
    ) -> Outcome:
        """A recorded outcome: not asked, not paid, not executed again."""
        run = self.run
        outcome = record.outcome
        assert outcome is not None
        composite = run.replaying and Mode.COMPOSITE in (mode, record.mode)
        sealed = effect.kind in run.sealed
        entered = composite and mode is Mode.COMPOSITE and not sealed and outcome.status in ("ok", "error")
        if not entered:
            if composite and (sealed or mode is Mode.COMPOSITE):
                run.visited.update(k for k in run.ledger.records if within(k.branch, key.path))
            if effect.kind is EffectKind.SPAWN and record.started:  # one that was refused was never started
                self._known_spawn(key, effect, outcome)
                return _handle(key, effect)
            if effect.kind is EffectKind.JOIN and outcome.ok:
                self._known_join(outcome)
            return outcome
        handler = run.services.handlers[effect.kind]
        again = await self._reenter(key, effect, mode, handler, base, 1)
        if effect.kind is EffectKind.SPAWN:
            return again
        if (again.status, again.value) != (outcome.status, outcome.value):
            raise DivergedError(
                f"the replay diverged at {key}: {effect.name} gave another result than recorded; "
                "its code changed since the recording",
                branch=key.branch,
                n=key.n,
            )
        return outcome

    # -- capability, policy, uncertainty ---------------------------------------------------------------------------

    def _granted(self, effect: Effect) -> frozenset[str]:
        """What a component is made of is its maker's choice: its caller gets that through it, and nothing else."""
        granted = self.run.services.granted
        return frozenset() if granted is None else granted(effect) & frozenset(self.run.manifest.tools)

    def _refused(self, effect: Effect) -> str | None:
        """Why the capability set refuses an effect, None if it does not."""
        own = self.capabilities
        if own is None:
            return None
        if effect.kind is EffectKind.INVOKE_TOOL and effect.name in self.own_tools:
            return None  # made for this agent by whoever runs it
        if effect.kind in (EffectKind.INVOKE_TOOL, EffectKind.INVOKE_ACTION) and effect.name not in own:
            return f"{effect.name!r} is not among the tools this agent may use: {first_names(sorted(own), 60)}"
        if effect.kind in (EffectKind.INVOKE_AGENT, EffectKind.SPAWN):
            wanted = effect.arguments.get("tools")
            extra = sorted({str(t) for t in wanted} - own - self._granted(effect)) if isinstance(wanted, list) else []
            if extra:
                return (
                    f"the sub-agent was to get {', '.join(extra)}, which its caller may not use itself; "
                    f"choose from {first_names(sorted(own), 60)}"
                )
        return None

    async def _judge(self, key: EffectKey, effect: Effect, base: dict[str, JsonValue]) -> str | None:
        """Policy's refusal in one sentence, None if the effect may go on."""
        run = self.run
        records = run.ledger.records
        asked = records.get(EffectKey(f"{key.path}.approval", 1)) if records else None
        if asked is not None:
            # The call was put to a human: only the answer decides, whatever policy would say by now.
            details = dict(asked.effect.get("arguments", {}))
            same_call(key, details, effect)
            question = str(details.pop("question", ""))
            reason = question
        else:
            view = run.view()
            verdict = run.policy.decide(effect, view)
            if verdict.action == "allow":
                return None
            reason = verdict.reason
            if verdict.action == "deny":
                return f"denied: {reason}"
            if refused_before(run.ledger, effect):
                return "denied: the user has refused this very call before in this run"
            question = f"Allow {effect.name}? {reason}"
            details = {
                "component": effect.component,
                "arguments": effect.arguments,
                "trust": {name: trust.value for name, trust in verdict.arguments.items()},
                "origins": origins(effect, verdict.arguments, self.sight, view.user_content, tuple(run.files)),
            }
        answer = await self._ask_door(key, question, details, base, "approval")
        if answer.ok and answer.value is True:
            return None
        if not answer.ok:
            return f"denied: {reason} ({answer.error})"
        said = "" if answer.value in (False, True, None) else f": {answer.value}"
        return f"denied by the user{said}"

    async def _ask_door(
        self,
        key: EffectKey,
        question: str,
        details: dict[str, JsonValue],
        base: dict[str, JsonValue],
        name: str,
        n: int = 1,
    ) -> Outcome:
        asking: Session[Any] = Session(
            self.run,
            f"{key.path}.{name}",
            key,
            parent=self,
            base=base,
            now=self._now,
            node=self.node,
            actor=self.actor,
            role=self.role,
            world=self.world,
        )
        asking._n = n - 1
        effect = Effect(
            kind=EffectKind.ASK_HUMAN,
            component="human@1.0.0",
            arguments={"question": question, **details},
            mode=Mode.REPEATABLE,
            role=self.role,
            purpose="approval",
        )
        return await asking.perform(effect)

    async def _uncertain(
        self, key: EffectKey, effect: Effect, base: dict[str, JsonValue], attempt: int, doubted: int
    ) -> Outcome | None:
        """What to do with a `once` effect that was started and never completed; None to execute it again.

        Leave to repeat it holds for the attempt in doubt only: one that is lost too is asked about anew.
        """
        sentence = (
            f"{effect.name} was started before the run was interrupted and may have happened; "
            "check before doing it again"
        )
        how = self.run.manifest.on_uncertain
        if how == "ask":
            answer = await self._ask_door(
                key,
                f"{effect.name} may have happened before the crash. Do it again?",
                {"component": effect.component, "arguments": effect.arguments},
                base,
                "uncertain",
                doubted,
            )
            how = "retry" if answer.ok and answer.value is True else "report"
        if how == "retry":
            return None
        return await self._record(key, effect, Mode.ONCE, failed("uncertain", sentence), attempt)

    # -- children --------------------------------------------------------------------------------------------------

    def _child(
        self, key: EffectKey, effect: Effect, mode: Mode, base: dict[str, JsonValue], attempt: int
    ) -> Session[Any]:
        capabilities, node, actor, role, model = self.capabilities, self.node, self.actor, self.role, self.model
        asks = self.asks
        branch = ""  # by its name, when it is asked for
        if capabilities is not None:
            capabilities |= self._granted(effect)
        if effect.kind in (EffectKind.INVOKE_AGENT, EffectKind.SPAWN):
            spec = AgentSpec.model_validate(effect.arguments)
            branch = f"{key.path}.{_segment(spec.name)}"
            wanted = frozenset(spec.tools) | OF_EVERY_AGENT
            capabilities = wanted if capabilities is None else wanted & (capabilities | OF_EVERY_AGENT)
            began = self.run.active_s()
            carve = spec.budget or Budget()
            node = BudgetNode(
                branch,
                carve,
                self.node,
                spent=self.run.ledger.spent_under(branch),
                active=(lambda: self.run.active_s() - began) if carve.active_s is not None else None,
            )
            actor, role, model, asks = spec.name, spec.role, spec.model or self.model, asks and spec.asks
            base = {name: value for name, value in base.items() if not name.startswith(PRIVATE)}
        made: Session[Any] = Session(
            self.run,
            branch,
            key,
            parent=self,
            base=dict(base),
            now=self._now,
            node=node,
            actor=actor,
            role=role,
            capabilities=capabilities,
            world=self.world,
            composite=mode is Mode.COMPOSITE,
            attempt=attempt,
            model=model,
            provenance=effect.provenance,
        )
        made._name = effect.name
        made.asks = asks
        return made

    def candidates(self, count: int) -> list[Session[Any]]:
        """Rival continuations `/n.0`, `/n.1`, ...: each in a world of its own; `adopt` takes one over."""
        (n,) = self._draw(1)
        self._busy = False
        key = EffectKey(self.branch, n)
        base = {**self._vars.flat(), **standing_now(self)}
        rivals: list[Session[Any]] = [
            Session(
                self.run,
                f"{key.path}.{index}",
                key,
                parent=self,
                base=dict(base),
                now=self._now,
                node=self.node,
                actor=self.actor,
                role=self.role,
                capabilities=self.capabilities,
                world=f"{self.world}{key.path}.{index}",
                model=self.model,
            )
            for index in range(count)
        ]
        for rival in rivals:
            rival.sight.adopt(self.sight)
            rival.memory = self.memory
            rival._chance = EffectKey(rival.branch, 0)  # rivals that draw the same numbers would all be alike
        return rivals

    async def rivals(self, work: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
        """Let rival branches work at the same time; siblings of one that waits or fails are let finish.

        Args:
            work: one function per branch; each uses only its own session.
        """
        results, error = await in_parallel(work, self.run.mail)
        if error is not None:
            self.raised = error
            raise error
        return [result for result in results if result is not None]

    async def adopt(self, candidate: Session[Any]) -> None:
        """Continue with a candidate's state: its writes, its time; environments follow by their snapshots."""
        chain: list[Session[Any]] = []
        one: Session[Any] | None = candidate
        while one is not None and one is not self:
            chain.append(one)
            one = one.parent
        for session in reversed(chain):
            self._vars.writes.update(session.vars.writes)
            self.sight.adopt(session.sight)
        self._now = max(self._now, candidate.now)
        if chain:  # what began with the winner's rivals begins with their worlds' names, see `candidates`
            await take_over(self, f"{self.world}{chain[-1].key.path}.")

    def _spawn(self, key: EffectKey, effect: Effect, handler: Any, child: Session[Any]) -> Outcome:
        spawned = Spawned(key, child.actor)
        self.spawned[key] = spawned
        self.run.mail.take_up()
        spawned.task = asyncio.create_task(self._run_spawned(spawned, effect, handler, child))
        return _handle(key, effect)

    def _known_join(self, outcome: Outcome) -> None:
        """What a recorded join took over is not taken over again by a later one."""
        results = outcome.value.get("results") if isinstance(outcome.value, dict) else None
        for text in results if isinstance(results, dict) else ():
            spawned = self.spawned.get(EffectKey.parse(text))
            if spawned is not None:
                spawned.joined = True

    def _known_spawn(self, key: EffectKey, effect: Effect, outcome: Outcome) -> None:
        spawned = Spawned(key, str(effect.arguments.get("name", "")))
        spawned.outcome, spawned.writes = outcome, outcome.writes
        spawned.ended.set()
        self.spawned[key] = spawned

    async def _run_spawned(self, spawned: Spawned, effect: Effect, handler: Any, child: Session[Any]) -> None:
        run = self.run
        try:
            outcome = await self._executed(handler, effect, child)
            if run.replaying:
                record = run.ledger.records[spawned.key]
                if record.outcome is not None and record.outcome.value != outcome.value:
                    raise DivergedError(
                        f"the replay diverged at {spawned.key}: {effect.name} gave another result than recorded",
                        branch=spawned.key.branch,
                        n=spawned.key.n,
                    )
                spawned.outcome = record.outcome or outcome
            else:
                spawned.outcome = await self._record(
                    spawned.key, effect, Mode.COMPOSITE, outcome, child._attempt, child=child
                )
            spawned.writes = spawned.outcome.writes
        except asyncio.CancelledError as exc:
            if not run.replaying:
                body = self._interruption(exc, child)
                observe(run.append(run.body(body, **self._where(spawned.key, child._attempt))))
            spawned.error = exc
            raise
        except BaseException as exc:
            spawned.error = exc
            if isinstance(exc, SuspendedError):
                run.mail.suspended += 1
        finally:
            spawned.ended.set()
            # Whoever joins takes its token before this one is given up, or all would seem to wait.
            for wake in list(self.joiners):
                wake()
            run.mail.give_up()

    async def join(self, keys: Sequence[str], *, mode: str = "all") -> Outcome:
        """Join spawned agents through the door: `all`, or `any` (the winner is recorded)."""
        effect = Effect(
            kind=EffectKind.JOIN,
            component="join@1.0.0",
            arguments={"keys": list(keys), "mode": mode},
            mode=Mode.REPEATABLE,
            role=self.role,
        )
        outcome = await self.perform(effect)
        if self.run.replaying:
            await self._finish_replayed(keys)
        return outcome

    async def _finish_replayed(self, keys: Sequence[str]) -> None:
        for spawned in self.spawned.values():
            if str(spawned.key) in keys and spawned.task is not None:
                await asyncio.wait([spawned.task])
                if isinstance(spawned.error, DivergedError):
                    raise spawned.error

    async def let_spawned_finish(self) -> None:
        """This branch waits for a human: what it spawned goes on until it ends or waits too."""
        tasks = [s.task for s in self.spawned.values() if s.task is not None and not s.task.done()]
        if tasks:
            room = self.run.mail
            room.suspended += 1
            room.give_up()
            try:
                await asyncio.wait(tasks)
            finally:
                room.take_up()

    async def end_spawned(self) -> None:
        """No task is left behind: what was spawned and not joined is cancelled and awaited (replays let it finish)."""
        tasks = [s.task for s in self.spawned.values() if s.task is not None and not s.task.done()]
        if not tasks:
            return
        if not self.run.replaying:
            for task in tasks:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- record ----------------------------------------------------------------------------------------------------

    async def _record(
        self,
        key: EffectKey,
        effect: Effect,
        mode: Mode,
        outcome: Outcome,
        attempt: int,
        *,
        child: Session[Any] | None = None,
    ) -> Outcome:
        """Write exactly what the agent sees, and take it into the ledger."""
        run = self.run
        written = _handed_back(child, effect) if child is not None else None
        writes = {**written, **outcome.writes} if written else outcome.writes
        now = run.clock.now()
        ended = {**outcome.__dict__, "ended_at": now, "writes": writes}
        outcome = run.redactor.outcome(constructed(Outcome, ended))
        encoded = None
        record = run.ledger.records.get(key)
        if record is None or not record.started:
            encoded = run.ledger.codec.encode(effect)
        body = EffectCompleted.written(
            outcome.stored(),
            effect.fingerprint,
            encoded,
            self._batch if encoded is not None else 0,
        )
        event = {"branch": key.branch, "n": key.n, "attempt": attempt, "type": EffectCompleted.type}
        event |= {"v": EffectCompleted.v, "ts": now, "span": str(key), "parent_span": self._span}
        event |= {"actor": self.actor, "body": body}
        future = run.append(constructed(NewEvent, event))
        if effect.kind in _LAZY:
            observe(future)
            seq = 0
        else:
            (seq,) = future.given() if isinstance(future, Landing) and future.over else await wait_for(future)
        if encoded is not None:
            stored = run.ledger.codec.kept(encoded, effect)
        else:
            stored = record.effect if record is not None else {}
        if self._apart and effect.kind is EffectKind.INVOKE_TOOL and outcome.ok and not (outcome.artifacts or writes):
            # Only a replay comes back to it, which reads the log: any number of calls costs no memory.
            if record is not None:
                run.ledger.forget(key)
        else:
            run.ledger.records[key] = Record(
                fingerprint=effect.fingerprint, effect=stored, attempt=attempt, outcome=outcome, seq=seq
            )
            run.ledger.attempts[key] = attempt
        if mode is not Mode.COMPOSITE:
            model = str(outcome.value.get("model", "")) if isinstance(outcome.value, dict) else ""
            run.account(model if effect.kind in OF_MODELS else "", outcome.usage)
        if effect.tags:
            run.note_links(stored, outcome)
        if effect.kind is EffectKind.SEND_MESSAGE and outcome.ok:
            run.mail.deliver(key, seq, dict(effect.arguments), outcome.trust)
        return outcome


def _agent_result(outcome: Outcome) -> AgentResult:
    """What an agent handed back; one that was refused or stopped says why in its report."""
    if outcome.ok:
        return AgentResult.model_validate(outcome.value)
    came = outcome.value if isinstance(outcome.value, dict) else {}
    status = RunStatus.BUDGET_EXHAUSTED if outcome.status == "limited" else RunStatus.BLOCKED
    steps = came.get("steps", 0)
    return AgentResult(
        status=status,
        report=outcome.error or "",
        memory=str(came.get("memory", "")),
        steps=steps if isinstance(steps, int) else 0,
    )


@cache
def source_hash(component: type[Any]) -> str:
    """Hex SHA-256 of a class's source, of its name where the source is not at hand."""
    try:
        return sha256_text(inspect.getsource(component))
    except (OSError, TypeError):
        return sha256_text(f"{component.__module__}.{component.__qualname__}")


def _handed_back(child: Session[Any], effect: Effect) -> dict[str, JsonValue]:
    """What a child wrote, as far as its caller gets it: an agent's own notes (its plan) stay its own."""
    writes = child._vars.writes
    if writes and effect.kind in (EffectKind.INVOKE_AGENT, EffectKind.SPAWN):
        return {name: value for name, value in writes.items() if not name.startswith(PRIVATE)}
    return writes


def _in_parts(texts: Sequence[str]) -> Iterator[list[str]]:
    """The texts in portions of a size that every provider takes at once."""
    part: list[str] = []
    chars = 0
    for text in texts:
        if part and (len(part) >= MOST_TEXTS or chars + len(text) > MOST_CHARS):
            yield part
            part, chars = [], 0
        part.append(text)
        chars += len(text)
    if part:
        yield part


@lru_cache(maxsize=4096)
def _segment(name: str) -> str:
    segment = "".join(c if c.isalnum() or c in "-_" else "_" for c in name)[:40] or "x"
    return f"{segment}_" if segment in _OF_THE_DOOR else segment  # no component takes the place of a question


def _handle(key: EffectKey, effect: Effect) -> Outcome:
    return Outcome(value={"key": str(key), "actor": str(effect.arguments.get("name", ""))}, trust=Trust.SYSTEM)


__all__ = ["OF_EVERY_AGENT", "Session", "Spawned", "Vars"]
