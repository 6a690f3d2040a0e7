"""A run in the middle of which its process is killed; started and resumed as a process of its own.

python -m tests.environments.computer.desktop_program FOLDER
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.environments.computer.desks import FORM, program

from agentorchestra import Workspace
from agentorchestra.core.messages import ModelRequest, ToolCall
from agentorchestra.core.settings import Settings
from agentorchestra.testing import ScriptedModel, call


def decide(request: ModelRequest) -> ToolCall:
    """Starts a program, waits to be killed, and goes on from what it is told."""
    said = [one.text for one in request.messages if one.role == "tool"]
    if not said:
        return call("computer_start_program", command=program(FORM, "Before the end"))
    if len(said) == 1:
        return call("computer_start_program", command="touch waiting; sleep 600", wait_s=60)
    if len(said) == 2:
        return call("computer_start_program", command="echo 'lives again'")
    told = [one.text for one in request.messages]
    return call("done", answer="\n--\n".join(told))


async def main(folder: Path) -> str:
    """Start the run, or go on with the one that is there."""
    async with Workspace(folder, settings=Settings(prompt_tool_chars=0)) as ws:
        model = ScriptedModel(decide)
        runs = await ws.runs.list()
        if runs:
            result = await ws.resume(runs[0].id, model=model)
        else:
            result = await ws.run("go on", model=model, system="react", environments=["computer"])
        return result.answer or str(result.error)


if __name__ == "__main__":
    print(asyncio.run(main(Path(sys.argv[1]))))
