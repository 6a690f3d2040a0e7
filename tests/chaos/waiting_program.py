"""Two agents, one of which sleeps for a day, and a pause: `python -m tests.chaos.waiting_program FOLDER run|resume`.

The clock is ahead by the days that `ahead.txt` says. What the tools did stands in `done.txt`.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from agentorchestra.core.clock import SystemClock
from agentorchestra.core.effects import Effect, Mode
from agentorchestra.core.events import PauseRequested, new_event
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.run import wait_for
from agentorchestra.trust.policy import AllowAll
from tests.chaos.killing import hooks
from tests.runtime.support import Bench, agent, tool

DAY_S = 86_400.0


class Ahead(SystemClock):
    """The machine's clock, some days ahead."""

    def __init__(self, folder: Path) -> None:
        self._days = float((folder / "ahead.txt").read_text())

    def now(self) -> datetime:
        """The time there."""
        return datetime.now(UTC) + timedelta(days=self._days)


class Program:
    """The functions of the run."""

    def __init__(self, folder: Path) -> None:
        self._done = folder / "done.txt"

    async def write(self, effect: Effect, ctx: BranchContext[Any]) -> str:
        """Write a line; the one of the worker has somebody ask for a pause."""
        line = str(effect.arguments["line"])
        with self._done.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
        if line == "worked":
            store, run = ctx.run.services.store, ctx.run
            asked = new_event(PauseRequested(by="somebody"), ts=run.clock.now())
            (seq,) = await wait_for(store.append(run.id, None, [asked]))
            run.on_external(await store.load(run.id, after=seq - 1))
        return line

    async def sleeper(self, effect: Effect, ctx: BranchContext[Any]) -> str:
        """Sleep for a day, then write."""
        await ctx.sleep(DAY_S)
        return str((await ctx.perform(tool("write", Mode.ONCE, line="slept"))).status)

    async def worker(self, effect: Effect, ctx: BranchContext[Any]) -> str:
        """Write twice; between the two the run is paused."""
        first = await ctx.perform(tool("write", Mode.ONCE, line="worked"))
        second = await ctx.perform(tool("write", Mode.ONCE, line="went on"))
        return f"{first.status} {second.status}"

    async def main(self, root: BranchContext[Any]) -> str:
        """Both at the same time, then a last line."""
        both = await root.perform_all([agent("sleeper", ["write"]), agent("worker", ["write"])])
        last = await root.perform(tool("write", Mode.ONCE, line="over"))
        return " | ".join(str(one.value) for one in (*both, last))


async def work(folder: Path, what: str) -> None:
    """Create the run and drive it, or drive it on; replay what was recorded."""
    store, wrap = hooks(folder)
    await store.open()
    program = Program(folder)
    functions: dict[str, Any] = {"write": program.write, "sleeper": program.sleeper, "worker": program.worker}
    bench = Bench(store, functions, policy=AllowAll(), folder=folder)
    bench.services.handlers = wrap(dict(bench.services.handlers))
    bench.services.clock = Ahead(folder)
    if what == "run":
        await bench.create()
    result = await bench.drive(program.main)
    await bench.replay(program.main)
    print(result.model_dump_json())
    await store.close()


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2]))
