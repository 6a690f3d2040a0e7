"""An agent with four candidates for each step, whose model and tool write down what they are asked."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path

from agentorchestra import Workspace, tool
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import PartSettings, Settings
from agentorchestra.testing import ScriptedModel, call, decide, say
from tests.chaos.killing import hooks


def workspace(folder: Path) -> Workspace[None]:
    """The workspace, which dies where KILL_AT says. The third candidate is the best; it sends something, once."""
    store, wrap = hooks(folder)

    def note(line: str) -> None:
        with folder.with_suffix(".asked").open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    @tool(effect="write")
    async def send(to: str) -> str:
        """Send it.

        Args:
            to: Whom to.
        """
        note(f"send {to}")
        return f"sent to {to}"

    def answer(request: ModelRequest) -> ModelResponse:
        text = "\n".join(message.text for message in request.messages)
        if request.settings.output_schema is not None:
            step = text.rpartition("The step:")[2]
            note("score")
            good = "then third" in step if "then" in step else "third" in step
            return say(json.dumps({"score": 9 if good else 1}))
        number = re.findall(r"This is proposal (\d)/4", text)[-1]
        note(f"decide {'last' if 'sent to' in text else 'first'} {number}")
        name = ("first", "second", "third", "fourth")[int(number) - 1]
        made = re.search(r"sent to (\w+)", text)
        if made is None:
            calls = [call("files_write", path=f"{name}.txt", content=name), call("send", to=name)]
            return decide(calls=calls)
        return decide(calls=[call("done", answer=f"{made[1]}, then {name}")])

    settings = Settings(model="rival", system="react", parts=PartSettings(candidates=4))
    models = {"rival": ScriptedModel(answer, name="rival")}
    return Workspace(folder, models=models, settings=settings, store=store, handlers=wrap, tools=[send], environ={})


async def main(folder: Path) -> None:
    async with workspace(folder) as ws:
        await ws.run("Write it and send it.", environments=["files"])


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
