"""A run over any store with handlers written as functions: the door without agents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from agentorchestra.core.budget import Bound, Budget
from agentorchestra.core.clock import SystemClock
from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Effect, EffectKind, Mode, Outcome, Provenance, Tag
from agentorchestra.core.events import RunCreated, new_event
from agentorchestra.core.policy import Policy
from agentorchestra.core.protocols import BaseHandler, Environment, Owner, Store
from agentorchestra.core.spec import AgentResult, Pinned, RunManifest, RunResult
from agentorchestra.loop import Choose, Rival, State
from agentorchestra.runtime import job
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.engine import this_process
from agentorchestra.runtime.handlers import builtin_handlers
from agentorchestra.runtime.run import Asker, Run, Services
from agentorchestra.trust.policy import AllowAll

Body = Callable[[Effect, BranchContext[Any]], Awaitable[Any]]
Main = Callable[[BranchContext[Any]], Awaitable[Any]]


def _top(main: Main) -> job.Main:
    """Return a top agent whose answer is the value of a function."""

    async def top(root: BranchContext[Any]) -> AgentResult:
        answer = await main(root)
        return answer if isinstance(answer, AgentResult) else AgentResult(answer=str(answer))

    return top


def best_by(score: Callable[[State, BranchContext[Any]], Awaitable[float]]) -> Choose:
    """A chooser that ranks rivals by a number, higher first; ties go to the earlier one."""

    async def choose(rivals: Sequence[Rival], ctx: BranchContext[Any]) -> Sequence[Rival]:
        points = [await score(one.state, one.ctx) for one in rivals]
        order = sorted(range(len(rivals)), key=lambda index: -points[index])
        return [rivals[index] for index in order]

    return choose


class FunctionHandler(BaseHandler):
    """Executes effects by functions found by name; counts what it executed."""

    def __init__(self, functions: dict[str, Body], bounds: dict[str, Bound] | None = None) -> None:
        self.functions = functions
        self.bounds = bounds or {}
        self.executed: list[str] = []

    def bound(self, effect: Effect) -> Bound:
        """The bound given for the name."""
        return self.bounds.get(effect.name, Bound())

    async def execute(self, effect: Effect, ctx: BranchContext[Any]) -> Outcome:
        """Call the function."""
        self.executed.append(str(ctx.key))
        value = await self.functions[effect.name](effect, ctx)
        return value if isinstance(value, Outcome) else Outcome(value=value, trust=Trust.AGENT)


def tool(
    name: str,
    mode: Mode = Mode.ONCE,
    *,
    tags: Sequence[Tag] = (),
    instance: str | None = None,
    provenance: Sequence[Provenance] = (),
    timeout_s: float | None = None,
    invalid: str | None = None,
    **arguments: Any,
) -> Effect:
    """An InvokeTool."""
    return Effect(
        kind=EffectKind.INVOKE_TOOL,
        component=f"{name}@1.0.0",
        arguments=arguments,
        mode=mode,
        tags=frozenset(tags),
        instance=instance,
        provenance=tuple(provenance),
        timeout_s=timeout_s,
        invalid=invalid,
    )


def agent(name: str, tools: Sequence[str] = (), *, kind: EffectKind = EffectKind.INVOKE_AGENT, **spec: Any) -> Effect:
    """An InvokeAgent (or Spawn) of a function registered under the name."""
    return Effect(
        kind=kind,
        component=f"{name}@1.0.0",
        arguments={"name": name, "instruction": "", "tools": list(tools), **spec},
        mode=Mode.COMPOSITE,
    )


class SpawnFunctions(FunctionHandler):
    """Executes spawned agents, beside their branch."""

    fixed_mode = Mode.BESIDE


class Bench:
    """A store, functions, and runs driven from the beginning as often as a test likes."""

    def __init__(
        self,
        store: Store,
        functions: dict[str, Body],
        *,
        folder: Path = Path(),
        policy: Policy | None = None,
        environments: dict[str, Callable[[], Environment]] | None = None,
        asker: Asker | None = None,
        bounds: dict[str, Bound] | None = None,
        secrets: dict[str, str] | None = None,
        deps: Any = None,
    ) -> None:
        self.store = store
        self.handler = FunctionHandler(functions, bounds)
        handlers = builtin_handlers()
        for kind in (EffectKind.INVOKE_TOOL, EffectKind.INVOKE_AGENT, EffectKind.REQUEST_MODEL):
            handlers[kind] = self.handler
        handlers[EffectKind.SPAWN] = spawning = SpawnFunctions({})
        spawning.__dict__ = self.handler.__dict__  # what it executed counts as that of the others
        self.services = Services(
            store=store,
            handlers=handlers,
            policy=lambda _: policy or AllowAll(),
            environments=environments or {},
            asker=asker,
            runs_folder=folder,
            secrets=secrets or {},
            deps=deps,
        )
        self.tools = tuple(functions)

    async def create(self, run_id: str = "run_test", **fields: Any) -> RunManifest:
        """A new run."""
        clock = SystemClock()
        tools = {name: Pinned(version="1.0.0", content_hash="") for name in (*self.tools, *self.services.environments)}
        fields = {"task": "a task", "seed": "seed", "budget": Budget(), "tools": tools, **fields}
        manifest = RunManifest(created=clock.now(), **fields)
        await self.store.create_run(run_id, manifest, [new_event(RunCreated(manifest=manifest), ts=clock.now())])
        return manifest

    async def load(self, run_id: str = "run_test", *, replay: bool = False) -> Run:
        """The run as a fresh process would load it."""
        record = await self.store.get_run(run_id)
        assert record is not None
        events = await self.store.load(run_id)
        owner: Owner = this_process()
        epoch = None
        if not replay:
            job = await self.store.job(run_id)
            expected = job.epoch if job is not None else 0
            epoch = await self.store.claim(run_id, owner, lease_s=60, expect_epoch=expected)
            assert epoch is not None
        mode: Any = "replay" if replay else "live"
        return Run(self.services, run_id, record.manifest, events, epoch=epoch, mode=mode)

    async def drive(self, main: Main, run_id: str = "run_test", *, code: str = "") -> RunResult:
        """Drive the run with a main function whose return value becomes the answer, as a process with this code."""
        return await job.drive(await self.load(run_id), _top(main), code=code)

    async def replay(self, main: Main, run_id: str = "run_test") -> AgentResult | None:
        """Replay the run."""
        return await job.replay(await self.load(run_id, replay=True), _top(main))

    async def keys(self, run_id: str = "run_test") -> set[str]:
        """The keys the log holds."""
        return {e.span for e in await self.store.load(run_id) if e.span is not None}

    async def types(self, run_id: str = "run_test") -> list[str]:
        """The types of the log's events, in order."""
        return [event.type for event in await self.store.load(run_id)]
