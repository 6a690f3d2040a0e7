"""The offline team over two files, in a process: `python -m tests.systems.team_program FOLDER run|resume`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from agentorchestra.workspace import Workspace
from tests.chaos.killing import hooks

TASK = "What is the deposit of the flat? What does the garage cost? Write a report."
FILES = {
    "lease.txt": "The rent is 900 euros.\nThe deposit of the flat is 1284 euros.\n",
    "annex.txt": "The garage costs 75 euros.\n",
}


async def work(folder: Path, what: str) -> None:
    """Run the team, or go on with its run; print the report."""
    store, wrap = hooks(folder / "ws")
    async with Workspace(folder / "ws", store=store, handlers=wrap) as ws:
        if what == "run":
            result = await ws.run(TASK, files=[folder / name for name in FILES], seed="team")
        else:
            (record,) = await ws.runs.list()
            result = await ws.resume(record.id)
        assert (await ws.replay(result.run_id)).answer == result.answer_text
        print(f"{result.status.value}\n{result.answer}\n{result.report}")


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2]))
