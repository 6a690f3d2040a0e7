"""A branch of a run: every effect of a run goes through `Session.perform`, the door (docs/door.md).

The stages behind it are in `runtime/door.py`.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from pydantic import JsonValue

from agentorchestra.core.budget import Budget, Usage
from agentorchestra.core.content import Block, MediaBlock, Trust
from agentorchestra.core.effects import (
    ArtifactRef,
    Effect,
    EffectKind,
    Mode,
    Outcome,
    Provenance,
    Tag,
)
from agentorchestra.core.errors import (
    ConcurrentUseError,
    DoorError,
    MissingKeyError,
    ToolError,
    UnknownComponentError,
)
from agentorchestra.core.events import AttemptFailed, EffectInterrupted
from agentorchestra.core.ids import EffectKey, derived_id, derived_random
from agentorchestra.core.mail import Mail
from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.protocols import AgentSlot
from agentorchestra.core.spec import AgentResult, AgentSpec, RunManifest, RunStatus, first_names
from agentorchestra.log.ledger import Record
from agentorchestra.runtime.budget import BudgetNode, Hold
from agentorchestra.runtime.bus import Notice
from agentorchestra.runtime.door import through
from agentorchestra.runtime.mail import in_utc
from agentorchestra.runtime.model_services import embed, transcribe
from agentorchestra.runtime.open_environments import standing_now, stops_at_failure, take_over
from agentorchestra.runtime.parallel import CONTROL, in_parallel
from agentorchestra.runtime.permission import granted
from agentorchestra.runtime.run import Run, observe, wait_for
from agentorchestra.runtime.spawn import Spawns
from agentorchestra.runtime.state import PRIVATE, Vars
from agentorchestra.trust.provenance import Sight

Deps = TypeVar("Deps")
T = TypeVar("T")

OF_EVERY_AGENT = frozenset({"done", "find_tools", "find_agents", "open_tools"})
"""What every agent may call: to finish, and to find what it may call. They are made for it: it passes none on."""

_OF_THE_DOOR = frozenset({"approval", "uncertain"})
"""Segments of branches on which the door itself asks."""


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
        if session.hold is not None:
            session.hold.charge(paid)
        await wait_for(run.append(run.body(body, **session.where(self.number))))


class Session(Generic[Deps]):
    """One branch of a run, and the RunContext of the effect that owns it.

    Use `Session.root` for a run's root; sessions of effects are made by the door.
    """

    # Each effect has a session, and few of them change these.
    partial: JsonValue = None
    hold: Hold | None = None  # what the budget holds for the effect that owns this session
    between_attempts = False  # whether an attempt has failed and the next one has not begun
    raised: BaseException | None = None
    agent: AgentSlot | None = None  # what the agent that works here keeps (agents/state.py)
    acting_on: tuple[str, str] | None = None  # the instance of an environment that this effect acts on
    _name = ""
    _sight: Sight | None = None
    _attempting = False
    _spawns: Spawns | None = None
    apart = False  # whether its effects belong to no order
    _n = 0
    batch = 0  # the first number of those that are performed together
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
        self._chance = key
        self._composite = composite
        self.attempt_number = attempt

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
        return await self.blob((name if isinstance(name, ArtifactRef) else self.artifact_ref(name)).sha256)

    def artifact_ref(self, name: str) -> ArtifactRef:
        """The last artifact of this run with a name."""
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
            self.attempt_number += 1
        self._attempting = True
        self.between_attempts = False
        yield _Attempt(self, self.attempt_number)
        self.between_attempts = True

    def affords(self, usage: Usage) -> bool:
        """Whether the budget has room for a further attempt after one that cost so much."""
        return self.hold is None or self.hold.affords(usage)

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
        return await embed(self, texts, model)

    async def transcribe(self, recording: str | ArtifactRef | MediaBlock, model: str = "") -> str:
        """What is said in a recording."""
        return await transcribe(self, recording, model)

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
        self.batch = first if count > 1 else 0
        return list(range(first, first + count))

    async def perform(self, effect: Effect) -> Outcome:
        """Let one effect through the door.

        Raises:
            DoorError: diverged, suspended, exhausted, cancelled, concurrent use.
            ModelError: a provider failed for good; the run fails and can be resumed.
        """
        (n,) = self._draw(1)
        try:
            outcome = await through(self, EffectKey(self.branch, n), effect, self._vars.flat())
        except CONTROL as exc:
            self.raised = exc
            raise
        finally:
            self._busy = False
        self._absorb(effect, outcome)
        return outcome

    async def perform_apart(self, effect: Effect, *, n: int | None = None) -> Outcome:
        """Let an effect through the door that belongs to no order: any task may, at any time (`direct_calls.py`).

        What it gives is in nobody's view: the next such call is not taken to follow from it.

        Args:
            effect: see `perform`.
            n: its number, where it is made again from the log.
        """
        if n is None:
            self._n += 1
            n = self._n
        self._n = max(self._n, n)
        self.apart = True
        outcome = await through(self, EffectKey(self.branch, n), effect, self._vars.flat())
        if outcome.writes:
            self._vars.writes.update(outcome.writes)
        return outcome

    async def perform_all(self, effects: Sequence[Effect]) -> list[Outcome]:
        """Several effects at once; results in listed order.

        Effects on one environment instance run as a chain in listed order, the chains in parallel. Where an
        environment says `stops_at_failure`, its actions behind one that failed are not started. Siblings of one that
        waits or fails for good are let finish: their work is recorded, then one error goes up.
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
            stopped: dict[str, str] = {}
            for index in indices:
                key, effect = EffectKey(self.branch, numbers[index]), effects[index]
                why = behind or stopped.get(effect.name)
                if why is not None:
                    effect = effect.model_copy(update={"invalid": why})
                outcome = await through(self, key, effect, local, skipped=why is not None)
                results[index] = outcome
                local.update(outcome.writes)
                if outcome.status == "uncertain":
                    behind = f"not started: {effect.name} at {key} before it may or may not have happened"
                elif why is None and not outcome.ok and stops_at_failure(self.run, effect):
                    stopped[effect.name] = (
                        f"not done, because {effect.arguments.get('action')} before it in the same decision failed; "
                        f"look at the state of {effect.name} and decide anew"
                    )

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
    def span(self) -> str:
        """The span under which the rows of its effects hang."""
        return str(self._key)

    @property
    def branch(self) -> str:
        """Where its own effects stand; most have none."""
        if not self._branch:
            self._branch = f"{self._key.path}.{_segment(self._name)}"
        return self._branch

    @property
    def spawns(self) -> Spawns:
        """The agents it spawned; most effects spawn none."""
        if self._spawns is None:
            self._spawns = Spawns(self)
        return self._spawns

    @property
    def has_spawned(self) -> bool:
        """Whether there are any."""
        return self._spawns is not None

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
    def last_n(self) -> int:
        """The number of the last effect this branch asked for: a replay's log holds later ones too."""
        return self._n

    @property
    def decided_n(self) -> int:
        """The number of the caller's branch at which the call that owns this session was decided.

        What has a smaller number had ended by then; what has it or a greater one was decided together or later.
        """
        assert self.parent is not None
        return self.parent.batch or self._key.n

    def about(self, key: EffectKey, attempt: int) -> dict[str, Any]:
        """The envelope of rows about an effect of this branch."""
        return {
            "branch": key.branch,
            "n": key.n,
            "attempt": attempt,
            "span": str(key),
            "parent_span": self.span,
            "actor": self.actor,
        }

    def where(self, attempt: int) -> dict[str, Any]:
        """The envelope of rows about the effect that owns this session."""
        if self.parent is not None:
            return self.parent.about(self._key, attempt)
        return {**self.about(self._key, attempt), "parent_span": None}

    def interrupted(self, exc: BaseException) -> None:
        """Write that the effect that owns this session did not end, without waiting: a cancelled task may not."""
        run = self.run
        body = EffectInterrupted(
            reason=run.redactor.text(str(exc)) or "cancelled",
            error_type=type(exc).__name__,
            partial=run.redactor.json(self.partial),
            unpaid=self.between_attempts,
        )
        observe(run.append(run.body(body, **self.where(self.attempt_number))))

    # -- capability, policy, uncertainty ---------------------------------------------------------------------------

    async def ask_door(
        self,
        key: EffectKey,
        question: str,
        details: dict[str, JsonValue],
        base: dict[str, JsonValue],
        name: str,
        n: int = 1,
    ) -> Outcome:
        """Have the door ask a human about an effect of this branch.

        Args:
            key: of the effect.
            question: in words.
            details: what is shown with it.
            base: the run's state as the effect finds it.
            name: what the question is about: `approval` or `uncertain`.
            n: how often it has been asked, this time included.
        """
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

    # -- children --------------------------------------------------------------------------------------------------

    def child(
        self, key: EffectKey, effect: Effect, mode: Mode, base: dict[str, JsonValue], attempt: int
    ) -> Session[Any]:
        """The session of an effect of this branch: what executes it acts on that one."""
        capabilities, node, actor, role, model = self.capabilities, self.node, self.actor, self.role, self.model
        asks = self.asks
        branch = ""  # by its name, when it is asked for
        if capabilities is not None:
            capabilities |= granted(self.run, effect)
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
            rival.agent = self.agent and self.agent.for_rival()
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
            await self.spawns.finish_replayed(keys)
        return outcome

    async def end_spawned(self) -> None:
        """No task is left behind: what was spawned and not joined is cancelled and awaited (replays let it finish)."""
        if self._spawns is not None:
            await self._spawns.end()

    # -- record ----------------------------------------------------------------------------------------------------


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


@lru_cache(maxsize=4096)
def _segment(name: str) -> str:
    segment = "".join(c if c.isalnum() or c in "-_" else "_" for c in name)[:40] or "x"
    return f"{segment}_" if segment in _OF_THE_DOOR else segment  # no component takes the place of a question


__all__ = ["OF_EVERY_AGENT", "Session", "Vars"]
