"""An answer that is verified, in a process: `python -m tests.systems.verify_program FOLDER ADDRESS run|resume`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from agentorchestra.core.ids import sha256_json
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.models.render import render_message
from agentorchestra.testing import ScriptedModel
from agentorchestra.workspace import Workspace
from tests.chaos.killing import hooks
from tests.systems.planning import by_prompt
from tests.systems.tower import AUDITOR, SCOUT, auditor, planner, scout, settings, task


def noting(model: ScriptedModel, path: Path) -> ScriptedModel:
    """The same model, which writes down what it is asked."""

    async def reply(request: ModelRequest) -> ModelResponse:
        with path.open("a") as file:
            file.write(sha256_json([render_message(one) for one in request.messages]) + "\n")
        return await model.request(request)

    return ScriptedModel(reply)


async def work(folder: Path, address: str, what: str) -> None:
    """Ask, or go on; print status and answer."""
    folder.mkdir(exist_ok=True)
    store, wrap = hooks(folder / "ws")
    answering = by_prompt(planner=planner(), agent=scout, verifier=auditor)
    model: Any = noting(answering, folder / "asked.txt")
    given: Any = {"settings": settings(address, verifier="auditor"), "agents": [SCOUT, AUDITOR]}
    async with Workspace(folder / "ws", store=store, handlers=wrap, models={"scripted": model}, **given) as ws:
        if what == "run":
            result = await ws.run(task(address), model="scripted", seed="verify")
        else:
            (record,) = await ws.runs.list()
            result = await ws.resume(record.id)
        print(f"{result.status.value}: {result.answer}")


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
