"""A society of the user's for the tests: a clerk looks landings up, an auditor adds, who leads asks them.

`python -m tests.systems.harbours FOLDER run|resume` drives it and dies where KILL_AT says. What each says is a function
of what it is shown: the figures come from the tool alone, and whom the clerk asks from its prompt.
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

from agentorchestra import Agent, tool
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.testing import ScriptedModel, call, decide, say
from agentorchestra.workspace import Workspace
from tests.chaos.killing import hooks

TASK = "What did the harbours north and south land together?"
LANDED = {"north": 17, "south": 24}
TOGETHER = "41"
PANEL = """
model = "scripted"

[societies.panel]
agents = ["clerk", "auditor"]
"""


@tool(effect="pure")
def landing(harbour: str) -> int:
    """Look up what a harbour landed.

    Args:
        harbour: Its name.
    """
    return LANDED[harbour]


AGENTS = (
    Agent("clerk", "Looks up what harbours landed.", tools=("landing",)),
    Agent("auditor", "Adds figures up."),
    Agent("editor", "Asks others, and writes the answer.", tools=("landing",), role="editor"),
)


def leads(request: ModelRequest) -> bool:
    """Whether who is asked can submit."""
    return any(one.name == "submit_answer" for one in request.tools)


def reply(request: ModelRequest) -> ModelResponse:
    """Reply as the one who is asked."""
    if leads(request):
        return _leader(request)
    name = re.match(r".*?You are (\w+)\.", request.messages[1].text, re.DOTALL)
    assert name is not None, request.messages[1].text
    return _clerk(request) if name[1] == "clerk" else _auditor(request)


def scripted(name: str = "scripted") -> ScriptedModel:
    """The model of all of them."""
    return ScriptedModel(reply, name=name)


def heard(request: ModelRequest) -> list[tuple[str, str, list[str]]]:
    """The messages that an agent was woken by: who wrote, what, and the results of its calls since."""
    found: list[tuple[str, str, list[str]]] = []
    for one in request.messages:
        mail = re.match(r"(\w+) in thread 'work':\n(.*)", one.text, re.DOTALL) if one.role == "user" else None
        if mail is not None:
            found.append((mail[1], mail[2], []))
        elif one.role == "tool" and found:
            found[-1][2].append(one.text)
    return found


def _writes(content: str, name: str) -> ModelResponse:
    return decide(calls=[call("send_message", thread="work", content=content, mentions=[name])])


def _leader(request: ModelRequest) -> ModelResponse:
    back = [one.text for one in request.messages if one.role == "tool"]
    if not back:
        return decide(calls=[call("create_thread", thread="work", participants=["clerk", "auditor"])])
    content = back[-1].partition(" in thread 'work':\n")[2]
    figures = re.findall(r"\d+", content)
    if len(figures) == 1:
        return decide(calls=[call("submit_answer", answer=figures[0])])
    if figures:
        return _writes(f"Add {content}.", "auditor")
    return _writes(TASK, "clerk") if len(back) == 1 else decide(calls=[call("wait_for_mention")])


def _clerk(request: ModelRequest) -> ModelResponse:
    sender, content, back = heard(request)[-1]
    if sender == "auditor":  # passed on to who asked first
        first = heard(request)[0][0]
        return decide(calls=[call("wait_for_mention")]) if back else _writes(content, first)
    harbours = [name for name in LANDED if name in content]
    if not back:
        return decide(calls=[call("landing", harbour=name) for name in harbours])
    figures = " and ".join(back[: len(harbours)])
    if "- auditor: Adds figures up." not in request.messages[0].text:
        return say(figures)
    return (
        _writes(f"Add {figures}.", "auditor")
        if len(back) == len(harbours)
        else decide(calls=[call("wait_for_mention")])
    )


def _auditor(request: ModelRequest) -> ModelResponse:
    return say(str(sum(map(int, re.findall(r"\d+", heard(request)[-1][1])))))


async def main(folder: Path, what: str) -> None:
    """Run it, or go on; print status, answer, and how often the model was asked."""
    model: Any = scripted()
    store, wrap = hooks(folder / "ws")
    models = {model.name: model}
    async with Workspace(
        folder / "ws", store=store, handlers=wrap, models=models, agents=AGENTS, tools=[landing]
    ) as ws:
        if what == "run":
            result = await ws.run(TASK, system="panel")
        else:
            (record,) = await ws.runs.list()
            result = await ws.resume(record.id)
        print(f"{result.status.value}: {result.answer}: {len(model.requests)}")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
