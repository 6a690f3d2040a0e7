"""An agent that asks for a tool, and a process that dies when the agent has it: `python -m ... FOLDER`."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentorchestra.agents.generation.agent import tool_generator
from agentorchestra.agents.transformations.a2t import a2t
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import Settings
from agentorchestra.testing import ScriptedModel, call, decide, say
from agentorchestra.workspace import Workspace
from tests.agents.generating import TASK, Model, limited, numeral
from tests.systems.planning import results, shown

GOAL = "Write 1994 and then 2024 as Roman numerals."
ASK, OPEN = "make_tool", "open_tools"

Reply = Callable[[ModelRequest], ModelResponse]


def asker(request: ModelRequest) -> ModelResponse:
    """Asks for a tool once, and does the rest with the tool itself, where it is among what it may call."""
    names = {one.id: one.name for message in request.messages for one in message.tool_calls}
    told = [one for one in request.messages if one.role == "tool"]
    came = [one.text for one in told if names[one.tool_call_id or ""] != OPEN]
    if not told and all(one.name != ASK for one in request.tools):
        assert f'"{ASK}: ' in shown(request), "it is found among the many others"
        return decide(calls=[call(OPEN, names=[ASK])])
    if not came:
        return decide(calls=[call(ASK, task=TASK)])
    roman = next((one for one in request.tools if "Roman" in one.description and one.name != ASK), None)
    if len(came) > 1:
        return decide(calls=[call("done", answer=" ".join(came))])
    if roman is None:
        return decide(calls=[call("done", answer="I cannot write the other one.")])
    assert f"You can call {roman.name} yourself" in shown(request)
    return decide(calls=[call(roman.name, number=2024)])


def by_hand(request: ModelRequest) -> ModelResponse:
    """The same by a model without native calls: what it may call stands in its prompt as text."""
    text = shown(request)
    came = re.findall(r"Result of \w+ \(\w+\):\n(?:<content .*>\n)?([A-Z]+)", text)
    if not came:
        return decide(calls=[call(ASK, task=TASK)])
    if len(came) > 1:
        return decide(calls=[call("done", answer=" ".join(came))])
    roman = re.search(r'<opened_tools>\n.*<tool name="(\w+)">\nWrite a number as a Roman numeral', text, re.DOTALL)
    if roman is None:
        return decide(calls=[call("done", answer="I cannot write the other one.")])
    return decide(calls=[call(roman[1], number=2024)])


def by_program(request: ModelRequest) -> ModelResponse:
    """The same in programs: a function that its prompt describes can be called."""
    text = shown(request)
    if "MCMXCIV" not in text:
        return say(f"```python\nprint({ASK}(task={TASK!r}))\n```")
    roman = re.search(r"def (\w+)\(number: int\):\n\s+\"\"\"Write a number as a Roman numeral", text)
    if roman is None:
        return say("```python\ndone(answer='I cannot write the other one.')\n```")
    return say(f"```python\ndone(answer='MCMXCIV ' + {roman[1]}(number=2024))\n```")


def model(reply: Reply = asker, generator: Model | None = None, *, native: bool = True) -> ScriptedModel:
    """One model for all: the generator's questions are `Model`'s."""
    making = generator or Model()

    def answer(request: ModelRequest) -> ModelResponse:
        if any(
            start in request.messages[0].text for start in ("You specify", "You look for", "You write", "You check")
        ):
            return making.answer(request)
        return reply(request)

    return ScriptedModel(answer, native_tools=native)


def opened(folder: Path, client: ScriptedModel, *, settings: Settings | None = None, **given: Any) -> Workspace:
    """A workspace with the generator as a tool."""
    tools: Any = [*a2t(tool_generator(), name=ASK), *given.pop("tools", ())]
    return Workspace(folder, tools=tools, models={"scripted": client}, settings=settings or limited(), **given)


def dying(request: ModelRequest) -> ModelResponse:
    """Dies when it has the tool, before it calls it."""
    if results(request):
        os.kill(os.getpid(), signal.SIGKILL)
    return asker(request)


async def main(folder: Path) -> None:
    async with opened(folder, model(dying)) as ws:
        await ws.run(GOAL, system="react", model="scripted")


WANTED = f"{numeral(1994)} {numeral(2024)}"

if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
