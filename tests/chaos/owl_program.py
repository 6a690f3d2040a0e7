"""A workforce whose model writes down what it is asked."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from agentorchestra import Workspace
from agentorchestra.core.ids import sha256_text
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import Settings
from agentorchestra.testing import ScriptedModel, call, decide
from tests.chaos.killing import hooks
from tests.systems.workforce import WORD, part_of

REPLIES = {"workers": '{"worker": "web_agent"}', "answers": '{"answer": "Northam"}'}


def workspace(folder: Path) -> Workspace[None]:
    """The workspace, which dies where KILL_AT says; a worker fails, and the whole is planned again."""
    store, wrap = hooks(folder)

    def answer(request: ModelRequest) -> ModelResponse:
        part, text = part_of(request), "\n".join(message.text for message in request.messages)
        with folder.with_suffix(".asked").open("a", encoding="utf-8") as file:
            file.write(sha256_text(text) + "\n")
        if part == "results":
            status = "partial" if "Open its map." in text else "completed"
            return decide(calls=[call("done", answer="Norland", status=status)])
        again = "No map." if "Open its map." in text else "Open its map."
        return ModelResponse(text=REPLIES.get(part, f'{{"subtasks": ["Find the land.", "{again}"]}}'))

    settings = Settings(model="force", system="owl")
    models = {"force": ScriptedModel(answer, name="force")}
    return Workspace(folder, models=models, settings=settings, store=store, handlers=wrap, environ={})


async def main(folder: Path) -> None:
    async with workspace(folder) as ws:
        await ws.run(WORD)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
