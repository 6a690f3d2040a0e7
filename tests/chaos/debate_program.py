"""A debate whose model writes down what it is asked."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from agentorchestra import Workspace
from agentorchestra.core.ids import sha256_text
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import Settings
from agentorchestra.testing import ScriptedModel
from tests.agents.debating import TOPIC, reply_to
from tests.chaos.killing import hooks

OPTIONS = {"experts": ["alice: an old shareholder", "finance_expert", "mathematics_expert"], "rounds": 2}


def workspace(folder: Path) -> Workspace[None]:
    """The workspace, which dies where KILL_AT says."""
    store, wrap = hooks(folder)

    def answer(request: ModelRequest) -> ModelResponse:
        texts = [message.text for message in request.messages]
        with folder.with_suffix(".asked").open("a", encoding="utf-8") as file:
            file.write(sha256_text("\n".join(texts)) + "\n")
        return reply_to(texts[0], "\n".join(texts[1:]))

    models = {"debater": ScriptedModel(answer, name="debater")}
    settings = Settings(model="debater", system="debate")
    return Workspace(folder, models=models, settings=settings, store=store, handlers=wrap, environ={})


async def main(folder: Path) -> None:
    async with workspace(folder) as ws:
        await ws.run(TOPIC, options=OPTIONS)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
