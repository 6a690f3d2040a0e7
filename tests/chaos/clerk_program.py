"""A user's program that sends: the address it sends to stands in a file that came from outside."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

from agentorchestra import RunContext, Workspace, tool
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.spec import Question
from agentorchestra.testing import ScriptedModel, call, decide
from tests.chaos.killing import hooks

HERE = Path(__file__).parent
ADDRESS = "tide@example.org"


@tool(effect="send")
def send(to: str, text: str, ctx: RunContext[Path]) -> str:
    """Send a text to somebody.

    Args:
        to: the address.
        text: what to say.
    """
    with ctx.deps.open("a", encoding="utf-8") as file:
        file.write(f"{ctx.key} {to} {text}\n")
    return f"sent to {to}"


def clerk(request: ModelRequest) -> ModelResponse:
    """Reads the letter, answers to the address in it, says what came of it."""
    said = [message.text for message in request.messages if message.role == "tool"]
    if not said:
        return decide(calls=[call("read_file", name="letter.txt")])
    if len(said) == 1:
        found = re.search(r"\S+@\S+\.org", said[0])
        return decide(calls=[call("send", to=found.group() if found else "nobody", text="Thank you.")])
    return decide(calls=[call("done", answer=said[1])])


async def _stubborn(question: Question) -> None:
    """A terminal at which nobody says anything."""
    (HERE / "asked.txt").write_text(question.key)
    await asyncio.Event().wait()


def workspace() -> Workspace[Path]:
    """The workspace; ASK_HERE lets it ask in place instead of waiting."""
    store, wrap = hooks(HERE / "ws")
    return Workspace(
        HERE / "ws",
        tools=[send],
        deps=HERE / "sent.txt",
        models={"clerk": ScriptedModel(clerk, name="clerk")},
        store=store,
        handlers=wrap,
        asker=_stubborn if os.environ.get("ASK_HERE") else None,
    )
