"""Agents that a branch spawns, and joins later."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Effect, Outcome
from agentorchestra.core.errors import DivergedError, PartElsewhereError, SuspendedError
from agentorchestra.core.ids import EffectKey
from agentorchestra.runtime.run import Run


@dataclass(eq=False)
class Spawned:
    """A spawned agent: its key, its task, and its outcome once there is one."""

    key: EffectKey
    task: asyncio.Task[None] | None = None
    outcome: Outcome | None = None
    writes: dict[str, JsonValue] = field(default_factory=dict)
    error: BaseException | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    joined: bool = False


class Spawns:
    def __init__(self, run: Run) -> None:
        self._run = run
        self.by_key: dict[EffectKey, Spawned] = {}
        self.joiners: list[Callable[[], None]] = []  # called when one has ended, by whoever waits for it

    def start(self, key: EffectKey, effect: Effect, work: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """Let `work` execute and record an agent beside the branch; return what the branch has of it meanwhile."""
        spawn = self.by_key[key] = Spawned(key)
        self._run.mail.take_up()
        spawn.task = asyncio.create_task(self._finish(spawn, effect, work))
        return _handle(key, effect)

    def add_recorded(self, key: EffectKey, effect: Effect, outcome: Outcome) -> Outcome:
        """Take in an agent whose outcome the log has; return what the branch has of it."""
        spawn = self.by_key[key] = Spawned(key)
        spawn.outcome, spawn.writes = outcome, outcome.writes
        spawn.ended.set()
        self._run.mail.lose(_name(effect), key.branch, outcome.error or "its work has ended")
        return _handle(key, effect)

    def add_absent(self, key: EffectKey, effect: Effect) -> Outcome:
        """Take in an agent that works in another process; return what the branch has of it."""
        self.by_key[key] = Spawned(key)
        return _handle(key, effect)

    def add_recorded_join(self, outcome: Outcome) -> None:
        """Note what a recorded join took over: a later one does not take it over again."""
        results = outcome.value.get("results") if isinstance(outcome.value, dict) else None
        for text in results if isinstance(results, dict) else ():
            spawn = self.by_key.get(EffectKey.parse(text))
            if spawn is not None:
                spawn.joined = True

    async def _finish(self, spawn: Spawned, effect: Effect, work: Callable[[], Awaitable[Outcome]]) -> None:
        mail = self._run.mail
        try:
            spawn.outcome = await work()
            spawn.writes = spawn.outcome.writes
            mail.lose(_name(effect), spawn.key.branch, spawn.outcome.error or "its work has ended")
        except asyncio.CancelledError as exc:
            spawn.error = exc
            raise
        except BaseException as exc:
            spawn.error = exc
            if isinstance(exc, SuspendedError):
                mail.suspended += 1
            elif isinstance(exc, PartElsewhereError):
                mail.fail(exc)
            else:
                mail.lose(_name(effect), spawn.key.branch, str(exc))
        finally:
            spawn.ended.set()
            # Whoever joins takes its token before this one is given up, or all would seem to wait.
            for wake in list(self.joiners):
                wake()
            mail.give_up()

    async def finish_replayed(self, keys: Sequence[str]) -> None:
        """Wait for agents that a replay has entered again; raise the error of one that diverged."""
        for spawn in self.by_key.values():
            if str(spawn.key) in keys and spawn.task is not None:
                await asyncio.wait([spawn.task])
                if isinstance(spawn.error, DivergedError):
                    raise spawn.error

    async def let_finish(self) -> None:
        """Let what was spawned go on until it ends or waits too, where the branch waits for a human."""
        tasks = self.at_work()
        if tasks:
            mail = self._run.mail
            mail.suspended += 1
            mail.give_up()
            try:
                await asyncio.wait(tasks)
            finally:
                mail.take_up()

    async def end(self) -> None:
        """Cancel and await what was not joined (a replay lets it finish): no task is left behind."""
        tasks = self.at_work()
        if not tasks:
            return
        if not self._run.replaying:
            for task in tasks:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def at_work(self) -> list[asyncio.Task[None]]:
        return [spawn.task for spawn in self.by_key.values() if spawn.task is not None and not spawn.task.done()]


def _handle(key: EffectKey, effect: Effect) -> Outcome:
    return Outcome(value={"key": str(key), "actor": _name(effect)}, trust=Trust.SYSTEM)


def _name(effect: Effect) -> str:
    return str(effect.arguments.get("name", ""))
