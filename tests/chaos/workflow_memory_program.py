"""A program with the workflow memory: the mark that its second task is asked for stands in what the first taught."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path

from agentorchestra import Workspace, tool
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import Settings
from agentorchestra.testing import ScriptedModel, call, decide, say
from tests.chaos.killing import hooks

FIRST, SECOND = "Find the shelf mark of the atlas.", "Say the shelf mark of the atlas."


@tool(effect=("read", "network"))
def archive(drawer: str) -> str:
    """Look into a drawer of the archive.

    Args:
        drawer: its name.
    """
    return "The shelf mark of the atlas is QX-4417." if drawer == "west" else "Nothing is in it."


def librarian(request: ModelRequest) -> ModelResponse:
    """Opens one drawer, which is empty unless it is to find something; answers with a mark that it is shown."""
    text = "\n".join(message.text for message in request.messages[1:])
    marks = list(dict.fromkeys(re.findall(r"\b[A-Z]{2}-\d{4}\b", text)))
    if not request.tools:
        lessons = [{"text": f"The shelf mark of the atlas is {one}."} for one in marks]
        return say(json.dumps({"summary": f"Marks: {len(marks)}", "insights": lessons}))
    if not any(message.role == "tool" for message in request.messages):
        return decide(calls=[call("archive", drawer="west" if "Find" in text else "north")])
    return decide(calls=[call("done", answer=marks[0] if marks else "unknown")])


def workspace(folder: Path, model: ScriptedModel | None = None, *, memory: str = "workflow") -> Workspace[None]:
    """The workspace, which dies where KILL_AT says."""
    store, wrap = hooks(folder)
    settings = Settings(model="librarian", system="react", memory=memory)
    models = {"librarian": model or ScriptedModel(librarian, name="librarian")}
    return Workspace(folder, tools=[archive], models=models, settings=settings, store=store, handlers=wrap, environ={})


async def main(folder: Path, task: str, memory: str) -> None:
    async with workspace(folder, memory=memory) as ws:
        print((await ws.run(task)).answer)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
