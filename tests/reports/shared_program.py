"""A process that adds to a shared report: `python -m tests.reports.shared_program FOLDER NAME SIDE COUNT`.

It begins when the file `go` is there, so that two of them write at the same time.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from agentorchestra.runtime.context import BranchContext
from agentorchestra.workspace import Workspace
from tests.chaos.support import until
from tests.reports.support import agent, said


async def work(folder: Path, name: str, side: str, count: int) -> None:
    """Add pieces, each with a source of its own and one that all have in common; then complete what there is."""

    async def adding(ctx: BranchContext[Any]) -> str:
        (folder / f"ready-{side}").touch()
        await until((folder / "go").exists)
        for number in range(count):
            text = f"{side} {number} says so [1](https://{side}.org/{number}), as all do [2](https://All.org:443/x#{side})."
            told = await said(ctx, "add", content=text, title=f"{side} {number}", report=name)
            assert "the shared report" in told, told
        return await said(ctx, "complete", report=name, text="One [1](https://all.org/x).")

    async with Workspace(folder / "ws", agents=[agent(adding)], environ={}) as ws:
        result = await ws.run(side, system="digger", model="offline")
        assert result.status == "completed", result.error
        print(result.answer)


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])))
