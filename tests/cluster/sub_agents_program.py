"""A user's program whose team and society have three sides; the tests copy it beside a workspace and name it.

What is noted and paid has the process that did it.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, cast

from agentorchestra import Agent, RunContext, Workspace, tool
from agentorchestra.agents.agent import agent_effect
from agentorchestra.cluster import parts
from agentorchestra.core.spec import AgentResult, AgentSpec
from tests.chaos.killing import KILL_AT, hooks
from tests.chaos.team_program import Deps, lookup

HERE = Path(__file__).parent
parts.BEGIN_S = float(os.environ.get("BEGIN_S", parts.BEGIN_S))  # how long a part waits for a worker on a busy machine
SIDES = ("left", "right", "rear")
MEMBERS = [Agent(f"{side}_side", "Works on a side.", tools=("lookup", "note"), within=("circle",)) for side in SIDES]


def _write(name: str, *words: str) -> None:
    with (HERE / name).open("a", encoding="utf-8") as file:
        file.write(" ".join(words) + "\n")


@tool(effect="write")
def note(x: str, ctx: RunContext[Deps]) -> str:
    """Note something down. Doing it twice would note it twice. It takes BURN_S seconds of CPU.

    Args:
        x: what to note.
    """
    _write("notes.txt", str(ctx.key), x, str(os.getpid()))
    until = time.thread_time() + float(os.environ.get("BURN_S", "0"))
    while time.thread_time() < until:
        pass
    return f"noted {x}"


@tool(effect="spend")
def pay(amount: str, ctx: RunContext[Deps]) -> str:
    """Pay.

    Args:
        amount: how much.
    """
    _write("paid.txt", str(ctx.key), amount, str(os.getpid()))
    return f"paid {amount}"


@tool(effect="composite")
async def team(topic: str, ctx: RunContext[Deps]) -> str:
    """Let three agents work on the sides of a topic.

    Args:
        topic: what they work on.
    """
    tools = ("lookup", "note", "pay")
    specs = [AgentSpec(name=side, instruction=f"the {side} of {topic}", tools=tools) for side in SIDES]
    outcomes = await ctx.perform_all([agent_effect(spec, cast("Any", ctx)) for spec in specs])
    return "; ".join(AgentResult.model_validate(one.value).answer if one.ok else str(one.error) for one in outcomes)


def workspace() -> Workspace[Deps]:
    """The workspace, with the hooks that KILL_AT asks for."""
    words = {"left": "port", "right": "starboard", "rear": "stern", "top": "mast"}
    tools = [note, lookup, pay, team]
    deps = Deps(notes=HERE / "notes.txt", lookups=HERE / "lookups.txt", words=words)
    if KILL_AT not in os.environ:
        return Workspace(HERE / "ws", tools=tools, agents=MEMBERS, deps=deps)
    store, wrap = hooks(HERE / "ws")
    return Workspace(HERE / "ws", tools=tools, agents=MEMBERS, deps=deps, store=store, handlers=wrap)


__all__ = ["lookup", "note", "pay", "team", "workspace"]
