"""A user's program with the team and a question; the tests copy it beside a workspace and name it as its `app`."""

from __future__ import annotations

import os
import signal
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


def workspace() -> Workspace[Deps]:
    """The workspace."""
    words = {"left": "port", "right": "starboard", "top": "mast"}
    deps = Deps(notes=HERE / "notes.txt", lookups=HERE / "lookups.txt", words=words)
    return Workspace(HERE / "ws", tools=[note, lookup, team, confirm, poison], deps=deps)


__all__ = ["confirm", "lookup", "note", "poison", "team", "workspace"]
