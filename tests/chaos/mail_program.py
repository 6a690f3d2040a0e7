"""Two actors who write to each other: `python -m tests.chaos.mail_program FOLDER run|resume`."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from agentorchestra.core.effects import Effect, EffectKind, Mode
from agentorchestra.runtime.context import BranchContext
from agentorchestra.trust.policy import AllowAll
from tests.chaos.killing import hooks
from tests.runtime.support import Bench, agent

ROUNDS = 3


async def _send(ctx: BranchContext[Any], to: str, content: str) -> None:
    effect = Effect(
        kind=EffectKind.SEND_MESSAGE,
        component="mail@1.0.0",
        arguments={"to": [to], "sender": ctx.actor, "content": content},
        mode=Mode.PURE,
    )
    assert (await ctx.perform(effect)).ok


async def _wait(ctx: BranchContext[Any]) -> tuple[str, list[str]]:
    effect = Effect(kind=EffectKind.WAIT, component="mail@1.0.0", mode=Mode.REPEATABLE)
    outcome = await ctx.perform(effect)
    assert isinstance(outcome.value, dict), outcome
    return str(outcome.value["reason"]), [one.content for one in ctx.mail(outcome)]


async def ping(effect: Effect, ctx: BranchContext[Any]) -> Any:
    """Writes, waits for the echo, writes again; then waits until nobody can act."""
    heard: list[str] = []
    for number in range(1, ROUNDS + 1):
        await _send(ctx, "pong", f"ping {number}")
        reason, contents = await _wait(ctx)
        heard += [reason, *contents]
    await _send(ctx, "pong", "first of two")
    await _send(ctx, "pong", "second of two")
    reason, contents = await _wait(ctx)
    return [*heard, reason, *contents]


async def pong(effect: Effect, ctx: BranchContext[Any]) -> Any:
    """Echoes until nobody can act; what belongs together may come together or apart."""
    heard: list[str] = []
    while True:
        reason, contents = await _wait(ctx)
        if reason != "mail":
            return [*heard, reason]
        heard += contents
        for content in contents:
            if content.startswith("ping"):
                await _send(ctx, "ping", f"echo of {content}")


async def main(root: BranchContext[Any]) -> str:
    """Spawn both, join both."""
    one = await root.perform(agent("ping", kind=EffectKind.SPAWN))
    two = await root.perform(agent("pong", kind=EffectKind.SPAWN))
    keys = [str(spawned.value["key"]) for spawned in (one, two) if isinstance(spawned.value, dict)]
    joined = await root.join(keys)
    assert isinstance(joined.value, dict), joined
    return json.dumps(joined.value["results"], sort_keys=True)


async def work(folder: Path, what: str) -> None:
    """Create the run and drive it, or drive it on; then replay what was recorded."""
    store, wrap = hooks(folder)
    await store.open()
    bench = Bench(store, {"ping": ping, "pong": pong}, policy=AllowAll(), folder=folder)
    bench.services.handlers = wrap(dict(bench.services.handlers))
    if what == "run":
        await bench.create()
    result = await bench.drive(main)
    replayed = await bench.replay(main)
    assert replayed is not None and replayed.answer == result.answer_text
    print(result.model_dump_json())
    await store.close()


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2]))
