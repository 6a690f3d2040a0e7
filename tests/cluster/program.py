"""A user's program with the team and a question; the tests copy it beside a workspace and name it as its `app`."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

from agentorchestra import RunContext, Workspace, tool
from tests.chaos.team_program import Deps, lookup, note, team

HERE = Path(__file__).parent


@tool(effect="composite")
async def confirm(ctx: RunContext[Deps]) -> str:
    """Ask whether it may go on."""
    return await ctx.ask("Go on?")


@tool(effect="write", idempotent=True)
async def poison(ctx: RunContext[Deps]) -> str:
    """End the process that drives the run."""
    os.kill(os.getpid(), signal.SIGKILL)
    return "survived"


@tool(effect="write")
async def slow(ctx: RunContext[Deps]) -> str:
    """Note that it acts, once, and then take long."""
    with (HERE / "slow.txt").open("a") as file:
        file.write("acted\n")
    while not (HERE / "go").exists():  # noqa: ASYNC110  # another process makes it
        await asyncio.sleep(0.05)
    return "done"


@tool(effect="write", idempotent=True)
async def hang(ctx: RunContext[Deps]) -> str:
    """Keep the event loop of the first worker, which nothing but the loop hangs in."""
    try:
        (HERE / "hangs").touch(exist_ok=False)
    except FileExistsError:
        return "another worker hangs"
    while not (HERE / "go").exists():
        time.sleep(0.05)  # noqa: ASYNC251  # that is the fault
    return "it went on"


def workspace() -> Workspace[Deps]:
    """The workspace."""
    words = {"left": "port", "right": "starboard", "top": "mast"}
    deps = Deps(notes=HERE / "notes.txt", lookups=HERE / "lookups.txt", words=words)
    return Workspace(HERE / "ws", tools=[note, lookup, team, confirm, poison, slow, hang], deps=deps)


__all__ = ["confirm", "hang", "lookup", "note", "poison", "slow", "team", "workspace"]
