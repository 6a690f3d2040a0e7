"""A program that works on a copy of a folder: two commands, the second on what the first one left."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from agentorchestra import Workspace
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import Settings
from agentorchestra.testing import ScriptedModel, call, decide
from tests.chaos.killing import hooks

COMMANDS = ("echo one >>a.txt", "cat a.txt a.txt >b.txt; rm gone")


def coder(request: ModelRequest) -> ModelResponse:
    """Runs the commands one after the other, each until it is told that it ended, then is done."""
    ended = sum("(no output)" in one.text for one in request.messages if one.role == "tool")
    if ended < len(COMMANDS):
        return decide(calls=[call("bash", command=COMMANDS[ended])])
    return decide(calls=[call("done", answer="done")])


def workspace(folder: Path) -> Workspace[None]:
    """The workspace, which dies where KILL_AT says."""
    store, wrap = hooks(folder)
    models = {"coder": ScriptedModel(coder, name="coder")}
    settings = Settings(model="coder", system="mini_swe")
    return Workspace(folder, models=models, settings=settings, store=store, handlers=wrap, environ={})


async def main(folder: Path, project: Path) -> None:
    async with workspace(folder) as ws:
        await ws.run("Work", project=project)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
