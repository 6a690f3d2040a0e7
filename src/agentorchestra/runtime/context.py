"""A branch of a run, with the door (`BranchContext.perform`, docs/door.md); its stages are in `runtime/door.py`."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from pydantic import JsonValue

from agentorchestra.core.budget import Usage
from agentorchestra.core.content import Block, MediaBlock
from agentorchestra.core.effects import ArtifactRef, Effect, EffectKind, MadeFor, Mode, Outcome, Tag
from agentorchestra.core.errors import (
    ConcurrentUseError,
    DoorError,
    MissingKeyError,
    SuspendedError,
    ToolError,
    UnknownComponentError,
)
from agentorchestra.core.events import AttemptFailed
from agentorchestra.core.ids import EffectKey, derived_id, derived_random
from agentorchestra.core.mail import Mail
from agentorchestra.core.spec import AgentResult, AgentSpec, RunManifest, RunStatus, first_names
from agentorchestra.runtime.answer_stream import ReplyStream
from agentorchestra.runtime.branch import Branch
from agentorchestra.runtime.bus import Notice
from agentorchestra.runtime.division import division_of
from agentorchestra.runtime.mail_room import in_utc
from agentorchestra.runtime.model_services import embed, transcribe
from agentorchestra.runtime.parallel import CONTROL, in_parallel
from agentorchestra.runtime.permission import capabilities_of_run
from agentorchestra.runtime.run import Run, wait_for
from agentorchestra.runtime.worlds import adopt_world, current_states, stops_at_failure

Deps = TypeVar("Deps")
T = TypeVar("T")


class _Attempt:
    def __init__(self, ctx: BranchContext[Any], number: int) -> None:
        self._ctx = ctx
        self.number = number

    async def fail(
        self, error: Exception, *, usage: Usage | None = None, target: str = "", retry_in_s: float | None = None
    ) -> None:
        ctx, run = self._ctx, self._ctx.run
        cost = usage or Usage()
        body = AttemptFailed(
            error=run.redactor.text(str(error)),
            error_type=type(error).__name__,
            usage=cost,
            target=target,
            retry_in_s=retry_in_s,
        )
        run.account(target, cost)
        if ctx.hold is not None:
            ctx.hold.charge(cost)
        await wait_for(run.append(run.body(body, **ctx.about_owner())))


class BranchContext(Branch, Generic[Deps]):
    """A branch with what agents, tools and handlers call on it: the RunContext of the effect that owns it.

    Use `BranchContext.root` for a run's root; the door makes those of effects.
    """

    parent: BranchContext[Any] | None
    _attempting = False
    _ids = 0
    _busy = False
    _random: random.Random | None = None
    _chance: EffectKey | None = None  # of a rival: those that draw the same numbers would all be alike

    @classmethod
    def root(cls, run: Run) -> BranchContext[Any]:
        begins = run.ledger.begins
        state = {**run.manifest.kept, **(begins.vars if begins is not None else {})}
        root = cls(run, EffectKey("/", 0), state, branch="/")
        root.now = run.manifest.began or run.manifest.created
        root.node, root.actor, root.model = run.budget, "run", run.manifest.model
        root.capabilities = capabilities_of_run(run)
        run.division = division_of(run)
        return root

    # -- RunContext ------------------------------------------------------------------------------------------------

    @property
    def deps(self) -> Deps:
        deps: Deps = self.run.deps
        return deps

    @property
    def run_id(self) -> str:
        """The run's id; in a part of one that of the whole run."""
        part = self.run.manifest.part_of
        return self.run.id if part is None else part.run

    @property
    def random(self) -> random.Random:
        if self._random is None:
            key = self._chance or self.key
            self._random = derived_random(self.run.manifest.seed, key.branch, key.n)
        return self._random

    @property
    def manifest(self) -> RunManifest:
        return self.run.manifest

    @property
    def folder(self) -> Path:
        self.run.folder.mkdir(parents=True, exist_ok=True)
        return self.run.folder

    @property
    def listening(self) -> bool:
        return self.run.bus.listening

    def id(self, prefix: str = "") -> str:
        self._ids += 1
        key = self._chance or self.key
        return derived_id(self.run.manifest.seed, key.branch, key.n, self._ids, prefix)

    def file(self, name: str) -> Path:
        if name in self.run.files:
            return self.run.folder / "files" / name
        raise UnknownComponentError(f"the run has no file {name!r}; its files: {first_names(self.run.files)}")

    def secret(self, name: str) -> str:
        value = self.run.services.secrets.get(name) or self.run.services.environ.get(name)
        if not value:
            raise MissingKeyError(f"the secret {name!r} is not set; export {name}=... before the run")
        self.run.redactor.learn(name, value)  # named in the settings or not: what a tool takes as a secret is one
        return value

    async def blob(self, sha256: str) -> bytes:
        return await self.run.blob(sha256)

    async def artifact(
        self, name: str, data: bytes, media_type: str = "application/octet-stream", *, made_for: MadeFor = "user"
    ) -> ArtifactRef:
        digest = await self.run.services.store.put_blob(data, media_type)
        return ArtifactRef(name=name, sha256=digest, size=len(data), media_type=media_type, made_for=made_for)

    async def read_artifact(self, name: str | ArtifactRef) -> bytes:
        return await self.blob((name if isinstance(name, ArtifactRef) else self.run.artifact_ref(name)).sha256)

    @asynccontextmanager
    async def attempt(self) -> AsyncIterator[_Attempt]:
        """Open a logged attempt; the first one is covered by the effect's own rows."""
        if self._attempting:
            self.attempt_number += 1
        self._attempting = True
        self.between_attempts = False
        yield _Attempt(self, self.attempt_number)
        self.between_attempts = True

    def affords(self, usage: Usage) -> bool:
        return self.hold is None or self.hold.affords(usage)

    def progress(self, text: str) -> None:
        self._publish("progress", text)

    def thinking(self, text: str) -> None:
        """Show a piece of what a model writes besides the run's answer."""
        self._publish("thinking", text)

    def reply_stream(self, purpose: str) -> ReplyStream | None:
        """Return what takes the pieces of the reply to this branch's request; None where nobody watches."""
        if not self.run.bus.listening:
            return None
        agent = self.parent
        answers = agent is not None and agent.answering is not None and agent.gives_answer
        if not answers or purpose not in ("decision", "final"):
            return ReplyStream(self, "", words=False)
        self.run.answer.retract()  # it is asked again
        assert agent is not None and agent.answering is not None
        finish, words = agent.answering
        return ReplyStream(self, finish, words=words)

    @property
    def gives_answer(self) -> bool:
        """True for the branch of the run's top agent, whose answer is the run's."""
        return self.branch == self.home and self.parent is not None and self.parent.parent is None

    def no_answer(self) -> None:
        """Say that the last reply of the agent of this branch was not its answer."""
        if self.gives_answer:
            self.run.answer.retract()

    def _publish(self, kind: Any, text: str) -> None:
        if self.run.bus.listening:
            text = self.run.redactor.text(text)
            self.run.bus.publish(Notice(kind=kind, run=self.run.id, key=str(self.key), actor=self.actor, text=text))

    async def call_tool(self, name: str, /, **arguments: JsonValue) -> Outcome:
        build = self.run.services.tool_effect
        if build is None:
            raise UnknownComponentError(f"no tool {name!r}: this run has no tools registered")
        return await self.perform(build(name, arguments, self))

    async def call_agent(self, spec: AgentSpec) -> AgentResult:
        """Call a sub-agent (InvokeAgent); a denial or failure comes back as a blocked result."""
        (result,) = await self.call_agents([spec])
        return result

    async def call_agents(self, specs: Sequence[AgentSpec]) -> list[AgentResult]:
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
        build = self.run.services.request_effect
        if build is None:
            raise UnknownComponentError("no models are known in this run; the workspace does that")
        return await self.perform(build(self, prompt, content, role=role, model=model, media=media, values=values))

    async def embed(self, texts: Sequence[str], model: str = "") -> list[list[float]]:
        return await embed(self, texts, model)

    async def transcribe(self, recording: str | ArtifactRef | MediaBlock, model: str = "") -> str:
        return await transcribe(self, recording, model)

    async def run_code(
        self, interpreter: str, arguments: dict[str, JsonValue], *, mode: Mode, tags: frozenset[Tag] = frozenset()
    ) -> Outcome:
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
        limit: dict[str, JsonValue] = {} if seconds is None else {"timeout_s": float(seconds)}
        return self.mail(await self._wait("mail@1.0.0", {"actor": self.actor, "outside": True, **limit}))

    async def sleep(self, seconds: float) -> datetime:
        return await self._timer({"timeout_s": float(seconds)})

    async def sleep_until(self, time: datetime) -> datetime:
        if time.tzinfo is None:
            raise ToolError(f"the time {time} has no zone; give an aware one: datetime(2027, 1, 31, 9, tzinfo=UTC)")
        return await self._timer({"until": in_utc(max(time, self.now))})

    async def _timer(self, deadline: dict[str, JsonValue]) -> datetime:
        await self._wait("timer@1.0.0", {"mail": False, **deadline})
        return self.now

    async def _wait(self, component: str, arguments: dict[str, JsonValue]) -> Outcome:
        effect = Effect(
            kind=EffectKind.WAIT, component=component, arguments=arguments, mode=Mode.REPEATABLE, role=self.role
        )
        outcome = await self.perform(effect)
        if not outcome.ok:
            raise ToolError(str(outcome.error))
        return outcome

    def mail(self, outcome: Outcome) -> list[Mail]:
        value = outcome.value if isinstance(outcome.value, dict) else {}
        ids = value.get("messages", [])
        return self.run.mail.by_ids([str(text) for text in ids] if isinstance(ids, list) else [])

    # -- the door --------------------------------------------------------------------------------------------------

    def _draw(self, count: int) -> list[int]:
        if not self.composite:
            raise DoorError(
                f"{self.actor} at {self.key} performed an effect but is not declared composite; "
                'declare it with @tool(effect="composite")'
            )
        if self._busy:
            raise ConcurrentUseError(
                f"branch {self.branch} was used by two tasks at once; use perform_all, or spawn a branch of its own"
            )
        self._busy = True
        first = self.last_n + 1
        self.last_n += count
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
            outcome = await self.run.division.through(self, EffectKey(self.branch, n), effect, self.vars.flat())
        except CONTROL as exc:
            self.raised = exc
            self.run.mail.suspended += isinstance(exc, SuspendedError)
            raise
        finally:
            self._busy = False
        self._absorb(effect, outcome)
        return outcome

    async def perform_apart(self, effect: Effect, *, n: int | None = None) -> Outcome:
        """Let an effect through the door that belongs to no order: any task may, at any time (`direct_calls.py`).

        What it gives is in nobody's view: the next such call is not taken to follow from it.

        Args:
            n: its number, where it is made again from the log.
        """
        if n is None:
            self.last_n += 1
            n = self.last_n
        self.last_n = max(self.last_n, n)
        self.apart = True
        outcome = await self.run.division.through(self, EffectKey(self.branch, n), effect, self.vars.flat())
        if outcome.writes:
            self.vars.writes.update(outcome.writes)
        return outcome

    async def perform_all(self, effects: Sequence[Effect]) -> list[Outcome]:
        """Perform several effects at once; results in listed order.

        Effects on one environment instance run as a chain in listed order, the chains in parallel. Where an
        environment says `stops_at_failure`, its actions behind one that failed are not started. Siblings of one that
        waits or fails for good are let finish: their work is recorded, then one error goes up.
        """
        if not effects:
            return []
        if len(effects) == 1:
            return [await self.perform(effects[0])]
        numbers = self._draw(len(effects))
        chains: dict[Any, list[int]] = {}
        for index, effect in enumerate(effects):
            chains.setdefault(effect.instance or index, []).append(index)
        results: list[Outcome | None] = [None] * len(effects)
        base = self.vars.flat()

        async def chain(indices: list[int]) -> None:
            local = dict(base)
            behind: str | None = None
            stopped: dict[str, str] = {}
            for index in indices:
                key, effect = EffectKey(self.branch, numbers[index]), effects[index]
                reason = behind or stopped.get(effect.name)
                if reason is not None:
                    effect = effect.model_copy(update={"invalid": reason})
                outcome = await self.run.division.through(self, key, effect, local, skipped=reason is not None)
                results[index] = outcome
                local.update(outcome.writes)
                if outcome.status == "uncertain":
                    behind = f"not started: {effect.name} at {key} before it may or may not have happened"
                elif reason is None and not outcome.ok and stops_at_failure(self.run, effect):
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
        self.vars.writes.update(outcome.writes)
        if self.turn is not None and effect.kind in (EffectKind.WAIT, EffectKind.SEND_MESSAGE):
            self.turn.begins = True
        self.seen.take(effect, outcome, tuple(self.mail(outcome)) if effect.kind is EffectKind.WAIT else ())
        if outcome.ended_at is not None and outcome.ended_at > self.now:
            self.now = outcome.ended_at

    # -- children --------------------------------------------------------------------------------------------------

    def candidates(self, count: int) -> list[BranchContext[Any]]:
        """Return rival continuations `/n.0`, `/n.1`, ...: each in a world of its own; `adopt` takes one over."""
        (n,) = self._draw(1)
        self._busy = False
        key = EffectKey(self.branch, n)
        base = {**self.vars.flat(), **current_states(self.run, self.world, self.vars)}
        rivals: list[BranchContext[Any]] = []
        for index in range(count):
            rival: BranchContext[Any] = BranchContext(
                self.run, key, dict(base), parent=self, branch=f"{key.path}.{index}"
            )
            rival.world = f"{self.world}{key.path}.{index}"
            rival.seen.adopt(self.seen)
            rival.agent = self.agent and self.agent.for_rival()
            rival._chance = EffectKey(rival.branch, 0)
            rivals.append(rival)
        return rivals

    async def rivals(self, work: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
        """Let rival branches work at the same time; siblings of one that waits or fails are let finish.

        Args:
            work: one function per branch; each uses only its own context.
        """
        results, error = await in_parallel(work, self.run.mail)
        if error is not None:
            self.raised = error
            raise error
        return [result for result in results if result is not None]

    async def adopt(self, candidate: BranchContext[Any]) -> None:
        """Continue with a candidate's state: its writes, its time; environments follow by their snapshots."""
        chain: list[Branch] = []
        branch: Branch | None = candidate
        while branch is not None and branch is not self:
            chain.append(branch)
            branch = branch.parent
        for ctx in reversed(chain):
            self.vars.writes.update(ctx.vars.writes)
            self.seen.adopt(ctx.seen)
        self.now = max(self.now, candidate.now)
        if chain:  # what began with the winner's rivals begins with their worlds' names, see `candidates`
            await adopt_world(self.run, self.world, f"{self.world}{chain[-1].key.path}.", self)

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


def _agent_result(outcome: Outcome) -> AgentResult:
    """Return what an agent handed back; one that was refused or stopped says why in its report."""
    if outcome.ok:
        return AgentResult.model_validate(outcome.value)
    came = outcome.value if isinstance(outcome.value, dict) else {}
    status = RunStatus.BUDGET_EXHAUSTED if outcome.status == "limited" else RunStatus.BLOCKED
    memory, steps = str(came.get("memory", "")), came.get("steps", 0)
    return AgentResult(
        status=status, report=outcome.error or "", memory=memory, steps=steps if isinstance(steps, int) else 0
    )
