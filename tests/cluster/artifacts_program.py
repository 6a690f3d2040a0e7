"""A user's program whose tools make and read what is too large for the database's rows."""

from __future__ import annotations

import hashlib
from pathlib import Path

from agentorchestra import RunContext, ToolResult, Workspace, tool

HERE = Path(__file__).parent
GIVEN = "ledger.csv"
SEAL = b"seal " * 20_000


@tool(effect="write", idempotent=True)
async def stamp(ctx: RunContext[None]) -> ToolResult:
    """Make a seal."""
    ref = await ctx.artifact("seal.bin", SEAL)
    return ToolResult(content="made", artifacts=(ref,))


@tool(effect="read")
async def measure(ctx: RunContext[None]) -> str:
    """Look at the seal and at the file that was given."""
    seal = await ctx.read_artifact("seal.bin")
    given = ctx.file(GIVEN).read_bytes()
    return f"seal {hashlib.sha256(seal).hexdigest()[:8]}, given {hashlib.sha256(given).hexdigest()[:8]}"


def workspace() -> Workspace[None]:
    """The workspace."""
    return Workspace(HERE / "ws", tools=[stamp, measure])


__all__ = ["GIVEN", "SEAL", "measure", "stamp", "workspace"]
