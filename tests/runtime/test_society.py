"""The mail room of agents that write to each other: who is lost is known in every job of a run (003)."""

from __future__ import annotations

from typing import Any

import pytest

from agentorchestra.core.effects import Effect, EffectKind, Mode
from agentorchestra.log.store import MemoryStore
from agentorchestra.runtime.context import BranchContext
from tests.runtime.support import Bench, agent, tool


def mail(kind: EffectKind, **arguments: Any) -> Effect:
    """An effect on the mail room."""
    mode = Mode.REPEATABLE if kind is EffectKind.WAIT else Mode.PURE
    return Effect(kind=kind, component="mail@1.0.0", arguments=arguments, mode=mode)


@pytest.mark.parametrize("fails", [True, False])
async def test_a_lost_agent_wakes_the_leader_and_stays_lost_after_a_resume(fails: bool) -> None:
    lost: list[dict[str, str]] = []

    async def worker(effect: Effect, ctx: BranchContext[Any]) -> Any:
        if fails:
            raise ValueError("the floor gave way")
        return "enough"

    async def main(root: BranchContext[Any]) -> Any:
        founded = {"leader": "run", "members": {"worker": "Works."}, "topology": "star"}
        assert (await root.perform(mail(EffectKind.SEND_MESSAGE, op="found", **founded))).ok
        await root.perform(agent("worker", kind=EffectKind.SPAWN))
        outcome = await root.perform(mail(EffectKind.WAIT, timeout_s=60.0))
        lost.append(dict(root.run.mail.society.gone))
        return outcome.value

    store = MemoryStore()
    await store.open()
    bench = Bench(store, {"worker": worker})
    await bench.create()
    first = await bench.drive(main)
    why = "the floor gave way" if fails else "its work has ended"
    assert "'reason': 'ended'" in first.answer and why in first.answer
    assert (await bench.drive(main)).answer == first.answer
    assert len(lost) == 2 and all(why in one["worker"] for one in lost)
    replayed = await bench.replay(main)
    assert replayed is not None and replayed.answer == first.answer


async def test_a_tool_cannot_found_a_society() -> None:
    """Its agents would be those of a branch on which no agent works."""
    founded: dict[str, Any] = {"leader": "run", "members": {}, "topology": "star"}

    async def founder(effect: Effect, ctx: BranchContext[Any]) -> Any:
        return str((await ctx.perform(mail(EffectKind.SEND_MESSAGE, op="found", **founded))).error)

    async def main(root: BranchContext[Any]) -> Any:
        refused = await root.perform(tool("founder", Mode.COMPOSITE))
        own = await root.perform(mail(EffectKind.SEND_MESSAGE, op="found", **founded))
        return [refused.value, own.ok]

    store = MemoryStore()
    await store.open()
    bench = Bench(store, {"founder": founder})
    await bench.create()
    result = await bench.drive(main)
    assert result.answer == str(["a tool cannot found a society; run does that itself", True])
