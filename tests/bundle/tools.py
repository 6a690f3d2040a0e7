"""Tools of a user, in a module of their own: its text goes into the bundle."""

from __future__ import annotations

from agentorchestra import RunContext, tool
from agentorchestra.core.spec import AgentSpec
from agentorchestra.runtime.results import ToolResult


@tool(effect="write")
async def draw(ctx: RunContext[None], what: str, size: int = 3) -> ToolResult:
    """Draw a figure.

    Args:
        what: its subject.
        size: in inches.
    """
    ref = await ctx.artifact(f"{what}.bin", what.encode() * 20_000, "application/x-figure")
    ctx.vars["last"] = ref.sha256
    return ToolResult(content={"drawn": what, "size": size}, artifacts=(ref,))


@tool(effect="composite")
async def both(ctx: RunContext[None]) -> str:
    """Draw two figures at once, and have an agent look at them."""
    first = await ctx.call_tool("draw", what="left", size=1)
    second = await ctx.call_tool("draw", what="right")
    looked = await ctx.call_agent(AgentSpec(name="looker", instruction="look at both", tools=("draw",)))
    return f"{first.value} {second.value} {looked.answer}"
