"""Agents that a branch spawns, and joins later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Effect, Mode, Outcome
from agentorchestra.core.errors import DivergedError, SuspendedError
from agentorchestra.core.ids import EffectKey
from agentorchestra.runtime.door import executed, record_outcome

if TYPE_CHECKING:
    from agentorchestra.runtime.session import Session


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


class Spawns:
    """The agents that were spawned on one branch.

    Args:
        session: the branch.

    Attributes:
        by_key: the agents.
        joiners: called when one has ended, by whoever waits for it.
    """

    def __init__(self, session: Session[Any]) -> None:
        self._session = session
        self.by_key: dict[EffectKey, Spawned] = {}
        self.joiners: list[Callable[[], None]] = []

    def start(self, key: EffectKey, effect: Effect, handler: Any, child: Session[Any]) -> Outcome:
        """Let an agent work beside the branch; what the branch has of it meanwhile."""
        spawned = Spawned(key, child.actor)
        self.by_key[key] = spawned
        self._session.run.mail.take_up()
        spawned.task = asyncio.create_task(self._work(spawned, effect, handler, child))
        return _handle(key, effect)

    def known(self, key: EffectKey, effect: Effect, outcome: Outcome) -> Outcome:
        """Take in an agent whose outcome the log has."""
        spawned = Spawned(key, str(effect.arguments.get("name", "")))
        spawned.outcome, spawned.writes = outcome, outcome.writes
        spawned.ended.set()
        self.by_key[key] = spawned
        return _handle(key, effect)

    def known_join(self, outcome: Outcome) -> None:
        """What a recorded join took over is not taken over again by a later one."""
        results = outcome.value.get("results") if isinstance(outcome.value, dict) else None
        for text in results if isinstance(results, dict) else ():
            spawned = self.by_key.get(EffectKey.parse(text))
            if spawned is not None:
                spawned.joined = True

    async def _work(self, spawned: Spawned, effect: Effect, handler: Any, child: Session[Any]) -> None:
        session, run = self._session, self._session.run
        try:
            outcome = await executed(session, handler, effect, child)
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
                spawned.outcome = await record_outcome(
                    session, spawned.key, effect, Mode.COMPOSITE, outcome, child.attempt_number, child=child
                )
            spawned.writes = spawned.outcome.writes
        except asyncio.CancelledError as exc:
            if not run.replaying:
                child.interrupted(exc)
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

    async def finish_replayed(self, keys: Sequence[str]) -> None:
        """Wait for agents that a replay has entered again; one that diverged says so."""
        for spawned in self.by_key.values():
            if str(spawned.key) in keys and spawned.task is not None:
                await asyncio.wait([spawned.task])
                if isinstance(spawned.error, DivergedError):
                    raise spawned.error

    async def let_finish(self) -> None:
        """The branch waits for a human: what it spawned goes on until it ends or waits too."""
        tasks = self._at_work()
        if tasks:
            room = self._session.run.mail
            room.suspended += 1
            room.give_up()
            try:
                await asyncio.wait(tasks)
            finally:
                room.take_up()

    async def end(self) -> None:
        """No task is left behind: what was not joined is cancelled and awaited (replays let it finish)."""
        tasks = self._at_work()
        if not tasks:
            return
        if not self._session.run.replaying:
            for task in tasks:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _at_work(self) -> list[asyncio.Task[None]]:
        return [one.task for one in self.by_key.values() if one.task is not None and not one.task.done()]


def _handle(key: EffectKey, effect: Effect) -> Outcome:
    return Outcome(value={"key": str(key), "actor": str(effect.arguments.get("name", ""))}, trust=Trust.SYSTEM)


__all__ = ["Spawned", "Spawns"]
