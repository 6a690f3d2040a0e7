"""A user's program with a team: what the chaos tests copy beside a workspace and name as its `app`.

The top agent calls `team`, which lets two sub-agents work at the same time; each of them notes and looks up, one after
the other. `note` happens once, `lookup` may be repeated, both use the program's dependencies.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from agentorchestra import RunContext, Workspace, tool
from agentorchestra.agents.agent import agent_effect
from agentorchestra.core.spec import AgentResult, AgentSpec
from tests.chaos.killing import hooks

HERE = Path(__file__).parent
SIDES = tuple(os.environ.get("SIDES", "left right").split())


@dataclass
class Deps:
    """What the tools find as `ctx.deps`.

    Attributes:
        notes: the file that `note` appends to.
        lookups: the file that `lookup` appends to.
        words: what `lookup` knows.
    """

    notes: Path
    lookups: Path
    words: dict[str, str] = field(default_factory=dict)


@tool(effect="write")
def note(x: str, ctx: RunContext[Deps]) -> str:
    """Note something down. Doing it twice would note it twice.

    Args:
        x: what to note.
    """
    with ctx.deps.notes.open("a", encoding="utf-8") as file:
        file.write(f"{ctx.key} {x}\n")
    return f"noted {x}"


@tool(effect="write", idempotent=True)
async def lookup(word: str, ctx: RunContext[Deps]) -> str:
    """Look a word up.

    Args:
        word: the word.
    """
    with ctx.deps.lookups.open("a", encoding="utf-8") as file:
        file.write(f"{ctx.key} {word}\n")
    return ctx.deps.words[word]


@tool(effect="composite")
async def team(topic: str, ctx: RunContext[Deps]) -> str:
    """Let two agents work on the sides of a topic.

    Args:
        topic: what they work on.
    """
    specs = [AgentSpec(name=side, instruction=f"the {side} of {topic}", tools=("lookup", "note")) for side in SIDES]
    outcomes = await ctx.perform_all([agent_effect(spec, cast("Any", ctx)) for spec in specs])
    answers = [AgentResult.model_validate(outcome.value).answer for outcome in outcomes]
    return "; ".join(answers)


def workspace() -> Workspace[Deps]:
    """The workspace, with the hooks that KILL_AT asks for."""
    store, wrap = hooks(HERE / "ws")
    deps = Deps(
        notes=HERE / "notes.txt",
        lookups=HERE / "lookups.txt",
        words={"left": "port", "right": "starboard", "rear": "stern", "top": "mast"},
    )
    return Workspace(HERE / "ws", tools=[note, lookup, team], deps=deps, store=store, handlers=wrap)


__all__ = ["Deps", "lookup", "note", "team", "workspace"]
