"""A user's program whose agents act by writing programs: what the chaos tests copy beside a workspace as its `app`."""

from __future__ import annotations

from pathlib import Path

from agentorchestra import RunContext, Workspace, tool
from agentorchestra.core.spec import AgentSpec
from tests.chaos.killing import hooks

HERE = Path(__file__).parent


def _wrote(name: str, key: object, text: str) -> None:
    with (HERE / name).open("a", encoding="utf-8") as file:
        file.write(f"{key} {text}\n")


@tool(effect="write")
def note(x: str, ctx: RunContext[None]) -> str:
    """Note something down. Doing it twice would note it twice."""
    _wrote("notes.txt", ctx.key, x)
    return f"noted {x}"


@tool(effect="write", idempotent=True)
def lookup(word: str, ctx: RunContext[None]) -> str:
    """Look a word up."""
    _wrote("lookups.txt", ctx.key, word)
    return word.upper()


@tool(effect="composite")
async def helper(task: str, ctx: RunContext[None]) -> str:
    """Let a helper do it."""
    result = await ctx.call_agent(AgentSpec(name="helper", instruction=task, tools=("lookup", "note"), max_steps=5))
    return result.answer


def workspace() -> Workspace[None]:
    """The workspace, killed where KILL_AT says."""
    store, wrap = hooks(HERE / "ws")
    return Workspace(HERE / "ws", tools=[note, lookup, helper], store=store, handlers=wrap)
