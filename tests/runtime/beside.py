"""Parts of a run that are driven at once, in the same process and over the same store."""

from __future__ import annotations

from collections.abc import Sequence

from agentorchestra.core.budget import Budget
from agentorchestra.core.events import Event
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.query import LogQuery
from agentorchestra.core.spec import PartOf, RunStatus
from agentorchestra.log.fork import forked_events
from agentorchestra.log.store.memory import MemoryStore
from agentorchestra.runtime import job
from agentorchestra.runtime.run import Run
from tests.runtime.support import Bench, Main, _top


class Done:
    """A part that has been driven."""

    def __init__(self, run: Run, limits: Budget, events: Sequence[Event], name: str) -> None:
        self.limits = limits
        self._run, self._events, self._name = run, events, name

    async def wait(self) -> None:
        """It has; what it may spend is held."""
        assert self._run.budget.held.tokens >= (self.limits.tokens or 0)

    async def stop(self) -> bool:
        """It has."""
        return True

    def events(self) -> Sequence[Event]:
        """What it recorded."""
        return self._events

    async def remove(self) -> None:
        """Remove it."""
        assert await self._run.services.store.delete_runs([self._name]) == [self._name]


class Beside:
    """Drives each part at once, as a worker would."""

    makes = True

    def __init__(self, bench: Bench, main: Main) -> None:
        self.bench, self.main = bench, main
        self.ended: dict[str, RunStatus] = {}  # by the key of its agent
        self.done: list[tuple[str, RunStatus]] = []  # the same, in order
        self.errors: list[str] = []
        self.listed: set[str] = set()
        self.lent: list[Budget] = []

    async def __call__(
        self, run: Run, name: str, key: EffectKey, fork_seq: int, limits: Budget | None, *, anew: bool
    ) -> Done | None:
        """See Elsewhere."""
        store = self.bench.store
        assert isinstance(store, MemoryStore)
        if limits is None or not anew:
            return None
        self.lent.append(limits)
        now = run.clock.now()
        of = PartOf(run=run.id, key=str(key))
        fields = {
            "part_of": of,
            "parent_run": run.id,
            "fork_seq": fork_seq,
            "budget": limits,
            "began": run.manifest.created,
        }
        manifest = run.manifest.model_copy(update=fields)
        copied = await store.load(run.id, upto=fork_seq)
        await store.create_run(name, manifest, forked_events(run.id, copied, fork_seq, manifest, outcomes={}, now=now))
        self.listed |= {one.id for one in await store.list_runs()}
        self.listed |= {one.run for one in await store.query(LogQuery())}
        self.listed |= {one.id for one in await store.unfinished_runs()}
        assert name in [one.id for one in await store.unfinished_runs(parts=True)]
        part = await self.bench.load(name)
        result = await job.drive(part, _top(self.main))
        await store.release(name, part.epoch or 0)
        self.ended[str(key)] = result.status
        self.done.append((str(key), result.status))
        self.errors.append(result.error or "")
        return Done(run, limits, await store.load(name, after=fork_seq + 1), name)
