"""The application of the old workspace: `write_old.py` put a copy beside it, and its runs were made with that copy.

It uses public names only, as the applications of users do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentorchestra import Agent, RunContext, Workspace, tool
from agentorchestra.testing import ScriptedModel, call, decide, say

PARCELS = "parcels.csv"

COUNT = [
    [call("todo", action="create", steps=["read", "add up", "note"]), call("read_file", name=PARCELS)],
    [call("python", code="total = 3 + 4 + 5\nprint(total)")],
    [call("weigh", parcel="A"), call("note", text="three parcels")],
    [call("todo", action="mark_step", step_index=0, step_status="completed"), call("note", text="12 kg")],
    [call("read_file", name=PARCELS, part="rows 1-2"), call("python", code="print(2 * total)")],
    [call("done", answer="The parcels weigh 12 kg.")],
]

SCRIPTS: dict[str, list[list[Any]]] = {
    "Count the parcels": COUNT,
    "Count them again": COUNT,
    "Offer a price": [
        [call("read_file", name=PARCELS)],
        [call("send_offer", to="ann@example.org", text="12 euros")],
        [call("done", answer="The offer was sent.")],
    ],
    "Ask for the colour": [[call("consult", question="Which colour?")], [call("done", answer="The colour is known.")]],
    "Lead the counting": [
        [call("counter", task="Weigh the parcel A.")],
        [call("done", answer="The counter says that A weighs 3 kg.")],
    ],
    "Weigh the parcel A": [
        [call("weigh", parcel="A"), call("read_file", name=PARCELS)],
        [call("done", answer="A weighs 3 kg.")],
    ],
    "Fill the shelf": [
        [call("files_write", path="list/first.txt", content="first\n"), call("shelf_put", thing="box")],
        [call("files_write", path="list/second.txt", content="second\n"), call("shelf_put", thing="jar")],
        [call("done", answer="Two files and two things.")],
    ],
    "Measure the box": [
        [call("todo", action="create", steps=["measure"]), call("measure", thing="box")],
        [call("todo", action="mark_step", step_index=0, step_status="completed"), call("measure", thing="jar")],
        [call("done", answer="The box is 3 wide.")],
    ],
    "Write the report": [
        [call("report_add", content="A weighs 3 kg.", title="A"), call("terminal_run", command="echo hello > a.txt")],
        [call("report_complete", title="Parcels")],
        [call("done", answer="The report is written.")],
    ],
    "Wait for a while": [[call("wait_until", seconds=3600)], [call("done", answer="An hour has passed.")]],
    "Remember the box": [[call("weigh", parcel="A")], [call("done", answer="Remembered.")]],
    "Plan with the changed tool": [
        [call("todo", action="create", steps=["one", "two"])],
        [call("done", answer="Planned.")],
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


@tool
def note(text: str, ctx: RunContext[Any]) -> str:
    """Write something down; twice would be written twice.

    Args:
        text: what to write.
    """
    return f"noted: {text}"


@tool(effect="send")
def send_offer(to: str, text: str) -> str:
    """Send an offer.

    Args:
        to: the address.
        text: what is offered.
    """
    return f"sent to {to}"


@tool(effect="composite")
async def consult(question: str, ctx: RunContext[Any]) -> str:
    """Ask the user.

    Args:
        question: what to ask.
    """
    return await ctx.ask(question)


COUNTER = Agent("counter", "Weighs parcels. Say which one.", tools=("weigh", "read_file"))


PROGRAM = "```python\nheavy = weigh(parcel='A')\nprint(heavy, note(text='once'))\n```"
FINISH = "```python\ndone(answer=f'A weighs {heavy} kg.')\n```"


def answer(request: Any) -> Any:
    """The next step, from what the prompt shows."""
    said = sum(1 for message in request.messages if message.role == "assistant")
    if "def weigh(" in request.messages[0].text:
        return say(FINISH if said else PROGRAM)
    if not request.tools:
        found = "<found_by_the_team>" in "\n".join(message.text for message in request.messages)
        return say('{"supported": true, "problem": ""}' if found else "KEEP")
    shown = "\n".join(message.text for message in request.messages if message.role == "user")
    _, steps = min((shown.find(words), steps) for words, steps in SCRIPTS.items() if words in shown)
    return decide(memory=f"step {said}", calls=steps[said])


def workspace(folder: str | Path = ".agentorchestra", **options: Any) -> Workspace[Any]:
    """The workspace of the application."""
    return Workspace(
        folder,
        tools=[weigh, note, send_offer, consult],
        agents=[COUNTER],
        models={"scribe": ScriptedModel(answer, name="scribe")},
        **options,
    )
