"""The application of the workspaces in `tests/data/upgrades/`: a copy of this file lies in each of them.

It uses public names only, which every version that wrote such a workspace has.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from agentorchestra import Agent, RunContext, Workspace, tool
from agentorchestra.testing import ScriptedModel, call, decide, say

PARCELS = "parcels.csv"

SCRIPTS: dict[str, list[list[Any]]] = {
    "Count the parcels": [
        [call("todo", action="create", steps=["read", "weigh"]), call("read_file", name=PARCELS)],
        [call("weigh", parcel="A"), call("todo", action="mark_step", step_index=0, step_status="completed")],
        [call("done", answer="The parcels weigh 12 kg.")],
    ],
    "Ask for the colour": [
        [call("read_file", name=PARCELS), call("weigh", parcel="B")],
        [call("consult", question="Which colour?")],
        [call("weigh", parcel="C")],
        [call("done", answer="The colour is known.")],
    ],
    "Offer a price": [
        [call("read_file", name=PARCELS)],
        [call("send_offer", to="ann@example.org", text="12 euros")],
        [call("done", answer="The offer was sent.")],
    ],
    "Crash once, with the text now": [
        [call("todo", action="create", steps=["crash"])],
        [call("crash", text="now")],
        [call("weigh", parcel="B")],
        [call("done", answer="It went on.")],
    ],
    "Work in places": [
        [call("files_write", path="list.txt", content="first\n"), call("terminal_run", command="echo hello > a.txt")],
        [call("consult", question="Which place?")],
        [call("terminal_run", command="cat a.txt list.txt")],
        [call("done", answer="Two files.")],
    ],
    "Lead the counting": [
        [call("counter", task="Ask which parcel to weigh.")],
        [call("done", answer="The counter says that A weighs 3 kg.")],
    ],
    "Ask which parcel": [
        [call("weigh", parcel="A")],
        [call("consult", question="Which parcel?")],
        [call("read_file", name=PARCELS)],
        [call("done", answer="A weighs 3 kg.")],
    ],
}
"""Words of a task -> the calls of each step."""


@tool(effect="read")
def weigh(parcel: str) -> int:
    """The weight of a parcel in kg.

    Args:
        parcel: its letter.
    """
    return {"A": 3, "B": 4, "C": 5}[parcel]


@tool(effect="send")
def send_offer(to: str, text: str) -> str:
    """Send an offer.

    Args:
        to: the address.
        text: the words of the offer.
    """
    return f"sent to {to}"


@tool(effect="composite")
async def consult(question: str, ctx: RunContext[Any]) -> str:
    """Ask the user.

    Args:
        question: what the user is to say.
    """
    return await ctx.ask(question)


@tool(effect="send")
def crash(text: str) -> str:
    """Kill the process where the environment says so.

    Args:
        text: anything.
    """
    if os.environ.get("CRASH") == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    return text


COUNTER = Agent("counter", "Weighs parcels. Say which.", tools=("weigh", "read_file", "consult"))


def answer(request: Any) -> Any:
    """Return the next step, from what the prompt shows."""
    if not request.tools:
        return say('{"supported": true, "problem": ""}')
    turns = [repr(message) for message in request.messages if message.role == "assistant"]
    step = sum("open_tools" not in turn for turn in turns)
    shown = "\n".join(message.text for message in request.messages if message.role == "user")
    _, steps = min((shown.find(words), steps) for words, steps in SCRIPTS.items() if words in shown)
    hidden = {"consult"} - {one.name for one in request.tools}
    if hidden and "consult" in repr(steps[step]):
        return decide(memory="open", calls=[call("open_tools", names=["consult"])])
    return decide(memory=f"step {step}", calls=steps[step])


def workspace(folder: str | Path = ".agentorchestra", **options: Any) -> Workspace[Any]:
    """Return the workspace of the application."""
    return Workspace(
        folder,
        tools=[weigh, send_offer, consult, crash],
        agents=[COUNTER],
        models={"scribe": ScriptedModel(answer, name="scribe")},
        **options,
    )
