"""A run whose shell command is under way when its process is killed; started and resumed as a process of its own.

python -m tests.environments.terminal_program FOLDER open|closed [short]
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.chaos.killing import hooks

from agentorchestra import Workspace
from agentorchestra.core.messages import ModelRequest, ToolCall
from agentorchestra.core.settings import SandboxSettings, Settings
from agentorchestra.testing import ScriptedModel, call
from agentorchestra.trust.policy import AllowAll

FIRST = "mkdir d; cd d; x=kept; echo one >file"
LONG = "echo $x two >>file; x=changed; touch begun; until [ -e go ]; do sleep 0.02; done; echo three >>file"
SHORT = "echo $x two >>file; x=changed"
LOOK = "echo $x; cat file; ls"


def decide(request: ModelRequest) -> ToolCall:
    """A command that is recorded, one that is killed, a look at what there is."""
    said = [one.text for one in request.messages if one.role == "tool"]
    if len(said) < 3:
        second = SHORT if "short" in sys.argv else LONG
        return call("terminal_run", command=(FIRST, second, LOOK)[len(said)])
    return call("done", answer="\n--\n".join(said[1:]))


async def main(folder: Path, network: bool) -> str:
    """Start the run, or go on with the one that is there."""
    settings = Settings(prompt_tool_chars=0, sandbox=SandboxSettings(network=network))
    store, wrap = hooks(folder)
    async with Workspace(folder, settings=settings, policy=AllowAll(), store=store, handlers=wrap) as ws:
        model = ScriptedModel(decide)
        runs = await ws.runs.list()
        if runs:
            result = await ws.resume(runs[0].id, model=model)
        else:
            result = await ws.run("go on", model=model, system="react", environments=["terminal"])
        return result.answer or str(result.error)


if __name__ == "__main__":
    print(asyncio.run(main(Path(sys.argv[1]), sys.argv[2] == "open")))
