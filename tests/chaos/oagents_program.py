"""An agent that plans and divides its task, whose model writes down what it is asked."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from agentorchestra import Workspace, tool
from agentorchestra.core.ids import sha256_text
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import PartSettings, Settings
from agentorchestra.testing import ScriptedModel, call, decide
from tests.chaos.killing import hooks
from tests.systems.support import seen

TASK = "How much do bell and rope weigh together?"

REPLIES = {
    "given": {"given": ["There are two things."], "to_look_up": ["two weights"], "to_derive": ["their sum"]},
    "subtasks": {"subtasks": [{"task": "bell", "needs": []}, {"task": "rope", "needs": [1]}]},
    "valid": {"facts": [{"fact": "It weighs 3 kg.", "source": "scale"}], "valid": True},
    "learned": {"learned": ["Both weigh 3 kg."], "steps": ["Add them."]},
    "steps": {"steps": ["Weigh both."]},
}
"""By a property of the form."""


@tool(effect="read")
def tare(scale: str) -> str:
    """Set a scale to nothing.

    Args:
        scale: Its name.
    """
    return f"{scale}: 0 kg"


def workspace(folder: Path) -> Workspace[None]:
    """The workspace, which dies where KILL_AT says."""
    store, wrap = hooks(folder)

    def answer(request: ModelRequest) -> ModelResponse:
        with folder.with_suffix(".asked").open("a", encoding="utf-8") as file:
            file.write(sha256_text(seen(request)) + "\n")
        form = (request.settings.output_schema or {}).get("properties", {})
        for name, reply in REPLIES.items():
            if name in form:
                return ModelResponse(text=json.dumps(reply))
        tared = any(message.role == "tool" for message in request.messages)
        if TASK in seen(request) and not tared:
            return decide(calls=[call("tare", scale="big")])
        return decide(calls=[call("done", answer="6 kg" if "Add them." in seen(request) else "3 kg")])

    parts = PartSettings(planning_interval=1, subtasks=True)
    settings = Settings(model="force", system="oagents", parts=parts)
    models = {"force": ScriptedModel(answer, name="force")}
    return Workspace(folder, models=models, settings=settings, tools=[tare], store=store, handlers=wrap, environ={})


async def main(folder: Path) -> None:
    async with workspace(folder) as ws:
        await ws.run(TASK)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
