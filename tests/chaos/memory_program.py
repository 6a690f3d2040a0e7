"""A program with a memory: it knows only what it is told, and counts the tasks it was told of."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from agentorchestra import Workspace, tool
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import Settings
from agentorchestra.testing import ScriptedModel, call, decide, say
from tests.chaos.killing import hooks


@tool(effect="pure")
def count(word: str) -> int:
    """Count the letters of a word.

    Args:
        word: which.
    """
    return len(word)


def counter(request: ModelRequest) -> ModelResponse:
    """Counts the word at the end of its task, and says how many tasks it was told of."""
    text = "\n".join(message.text for message in request.messages)
    if not request.tools:
        return say(
            '{"summary": "Count: tasks seen ' + str(text.count("Task:")) + '", "insights": ["Letters can be counted."]}'
        )
    results = [message.text for message in request.messages if message.role == "tool"]
    word = re.findall(r"<task>\s*Count (\w+)", text)[0]
    if not results:
        return decide(calls=[call("count", word=word)])
    return decide(calls=[call("done", answer=f"{word} {results[-1]}, remembered {text.count('tasks seen')}")])


def workspace(folder: Path) -> Workspace[None]:
    """The workspace, which dies where KILL_AT says."""
    store, wrap = hooks(folder)
    settings = Settings(model="counter", system="react", memory="insights")
    models = {"counter": ScriptedModel(counter, name="counter")}
    return Workspace(folder, tools=[count], models=models, settings=settings, store=store, handlers=wrap, environ={})


async def main(folder: Path, word: str) -> None:
    async with workspace(folder) as ws:
        await ws.run(f"Count {word}", session="s")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
