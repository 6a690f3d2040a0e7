"""An optimiser over the evidence of one run; its model writes down what it is asked."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from agentorchestra import Workspace
from agentorchestra.core.ids import sha256_text
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import Settings
from agentorchestra.testing import ScriptedModel
from tests.chaos.killing import hooks
from tests.evolution.optimising import Critic, options, two_prompts


def workspace(folder: Path) -> Workspace[None]:
    """The workspace, which dies where KILL_AT says."""
    store, wrap = hooks(folder)
    critic = Critic()

    def answer(request: ModelRequest) -> ModelResponse:
        text = "\n".join(message.text for message in request.messages)
        with folder.with_suffix(".asked").open("a", encoding="utf-8") as file:
            file.write(sha256_text(text) + "\n")
        return critic.reply(request)

    settings = Settings(model="critic", system="textgrad")
    models = {"critic": ScriptedModel(answer, name="critic")}
    return Workspace(folder, models=models, settings=settings, store=store, handlers=wrap, environ={})


async def main(folder: Path) -> None:
    async with workspace(folder) as ws:
        await ws.run("Improve it.", options=options(*two_prompts()))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
