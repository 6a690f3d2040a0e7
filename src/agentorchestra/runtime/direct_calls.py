"""Calls outside of a run: one run of their own holds them while the workspace is open.

So a direct call of a tool or an action goes through the same door as any other effect: it is checked, allowed, limited,
recorded, and can be replayed. Its run has no agent; the calls are its effects, and belong to no order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from agentorchestra.core.effects import Effect, Outcome
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.protocols import Store
from agentorchestra.core.spec import AgentResult, RunManifest, RunResult, RunStatus
from agentorchestra.runtime import job
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.engine import LocalEngine
from agentorchestra.runtime.run import Run, Services

SYSTEM = "calls"  # what such a run's manifest says instead of a system's name

TASK = "calls outside of a run"


class LiveMapping(Mapping[str, Any]):
    """A mapping that is replaced when something changes; `now` gives it."""

    def __init__(self, now: Callable[[], Mapping[str, Any]]) -> None:
        self._now = now

    def __getitem__(self, name: str) -> Any:
        return self._now()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())


class DirectCalls:
    """The run of the calls that are made while a workspace is open; it begins with the first one, by `create`."""

    def __init__(
        self,
        engine: LocalEngine,
        store: Store,
        create: Callable[[], Awaitable[tuple[str, RunManifest]]],
        services: Callable[[], Services],
    ) -> None:
        self._engine = engine
        self._store = store
        self._create = create
        self._services = services
        self._root: BranchContext[Any] | None = None
        self._job: asyncio.Task[RunResult] | None = None
        self._over = asyncio.Event()
        self._beginning = asyncio.Lock()
        self._open = 0
        self._idle = asyncio.Event()

    @property
    def run_id(self) -> str | None:
        return self._root.run.id if self._root is not None else None

    async def perform(self, effect: Callable[[BranchContext[Any]], Effect]) -> Outcome:
        """Let a call through the door; several at once do not wait for each other.

        `effect` makes it, for the branch it is made on. DoorError and StoreError are raised for what concerns the run.
        """
        root = self._root or await self._begin()
        self._open += 1
        try:
            return await root.perform_apart(effect(root))
        finally:
            self._open -= 1
            if not self._open and self._over.is_set():
                self._idle.set()

    async def _begin(self) -> BranchContext[Any]:
        async with self._beginning:
            if self._root is not None:
                return self._root
            run_id, manifest = await self._create()
            root_future: asyncio.Future[BranchContext[Any]] = asyncio.get_running_loop().create_future()

            async def main(root: BranchContext[Any]) -> AgentResult:
                root.capabilities = None  # whoever calls here is the user
                root.actor = "user"
                root_future.set_result(root)
                await self._over.wait()
                if self._open:
                    await self._idle.wait()
                return AgentResult(status=RunStatus.COMPLETED)

            async def drive(epoch: int) -> RunResult:
                run = Run(self._services(), run_id, manifest, await self._store.load(run_id), epoch=epoch)
                self._engine.attach(run)
                return await job.drive(run, main, owner=self._engine.owner)

            self._job = asyncio.create_task(self._engine.submit(run_id, drive))
            futures: set[asyncio.Future[Any]] = {root_future, self._job}
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
            if not root_future.done():
                await self._job  # says why it did not begin
            self._root = root_future.result()
            return self._root

    async def close(self) -> None:
        """Let what is under way end; the run is over then."""
        self._over.set()
        if self._job is not None:
            await asyncio.gather(self._job, return_exceptions=True)
        self._root = None


async def repeat(root: BranchContext[Any]) -> AgentResult:
    """Make the calls of such a run again, from its log: for a replay, and for a resume after a crash."""
    root.capabilities, root.actor = None, "user"
    ledger = root.run.ledger
    numbers = sorted(key.n for key in ledger.records if key.branch == root.branch)
    for n in numbers:
        record = ledger.records[EffectKey(root.branch, n)]
        await root.perform_apart(ledger.codec.decode(record.effect), n=n)
    return AgentResult(status=RunStatus.COMPLETED)
