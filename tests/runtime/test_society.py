"""The mail room of agents that write to each other: who is lost is known in every job of a run (003)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.effects import Effect, EffectKind, Mode
from agentorchestra.core.events import NewEvent
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.store import MemoryStore
from agentorchestra.log.store.sqlite import SqliteStore
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
    assert replayed is not None and replayed.answer == first.answer_text


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


class Overtaking(SqliteStore):
    """The message of `quick` is durable before its sender looks: the sender goes on at once, others a moment later."""

    queued: asyncio.Event  # the message of `slow` is on its way into the log

    def append(
        self, run: str, epoch: int | None, events: Sequence[NewEvent], *, status: RunStatus | None = None
    ) -> Future[tuple[int, ...]]:
        future = super().append(run, epoch, events, status=status)
        effects: list[Any] = [event.body.get("effect") or {} for event in events]
        sender = next((str(one["arguments"].get("sender")) for one in effects if one.get("kind") == "SendMessage"), "")
        if sender == "quick":
            future.result()
        elif sender == "slow":
            self.queued.set()
        return future


async def test_a_message_is_read_although_a_later_one_was_delivered_while_its_sender_slept(tmp_path: Path) -> None:
    begins = asyncio.Event()

    async def write(ctx: BranchContext[Any]) -> str:
        letter = {"sender": ctx.actor, "content": f"by {ctx.actor}", "to": ["run"]}
        return str((await ctx.perform(mail(EffectKind.SEND_MESSAGE, **letter))).status)

    async def slow(effect: Effect, ctx: BranchContext[Any]) -> Any:
        await begins.wait()
        return await write(ctx)

    async def quick(effect: Effect, ctx: BranchContext[Any]) -> Any:
        while not begins.is_set() and ctx.run.mail.tokens > 2:  # noqa: ASYNC110 - the reader waits and tells nobody
            await asyncio.sleep(0)
        begins.set()
        await store.queued.wait()
        return await write(ctx)

    async def main(root: BranchContext[Any]) -> Any:
        spawned = [await root.perform(agent(name, kind=EffectKind.SPAWN)) for name in ("slow", "quick")]
        read: list[str] = []
        while len(read) < 2:
            outcome = await root.perform(mail(EffectKind.WAIT, timeout_s=3600.0))
            value: Any = outcome.value
            assert value["reason"] == "mail", (value, read)
            read += [one.content for one in root.mail(outcome)]
        keys: list[Any] = [one.value for one in spawned]
        await root.join([one["key"] for one in keys])
        return read

    store = Overtaking(tmp_path)
    store.queued = asyncio.Event()
    await store.open()
    bench = Bench(store, {"slow": slow, "quick": quick})
    await bench.create()
    first = await bench.drive(main)
    assert first.answer == str(["by slow", "by quick"]), first.error
    replayed = await bench.replay(main)
    assert replayed is not None and replayed.answer == first.answer_text
    await store.close()
