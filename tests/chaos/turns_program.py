"""A program that runs one turn of a session: it notes a word, and answers with all that were noted in the session."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

from agentorchestra import RunContext, Workspace, tool
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import Settings
from agentorchestra.testing import ScriptedModel, call, decide
from tests.chaos.killing import hooks


@tool(effect="read")
async def note(ctx: RunContext[Any], word: str) -> str:
    """Note a word behind those that were noted before.

    Args:
        word: which.
    """
    before = ctx.vars.get("words")
    words = [*(before if isinstance(before, list) else []), word]
    ctx.vars["words"] = words
    return " ".join(map(str, words))


def writer(request: ModelRequest) -> ModelResponse:
    """Notes the word of the last task, and answers with what is noted and how many tasks it sees."""
    tasks = [place for place, message in enumerate(request.messages) if "<task>" in message.text]
    results = [message.text for message in request.messages[tasks[-1] :] if message.role == "tool"]
    if not results:
        words = re.findall(r"Note (\w+)", request.messages[tasks[-1]].text)
        return decide(calls=[call("note", word=words[0])])
    return decide(calls=[call("done", answer=f"{results[-1]}, task {len(tasks)}")])


def workspace(folder: Path) -> Workspace[None]:
    """The workspace, which dies where KILL_AT says."""
    store, wrap = hooks(folder)
    settings = Settings(model="writer", system="react")
    models = {"writer": ScriptedModel(writer, name="writer")}
    return Workspace(folder, tools=[note], models=models, settings=settings, store=store, handlers=wrap, environ={})


async def main(folder: Path, word: str) -> None:
    async with workspace(folder) as ws:
        await ws.session("words").run(f"Note {word}")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
