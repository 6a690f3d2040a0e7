"""An agent that puts a report together, in a process: `python -m tests.chaos.report_program FOLDER run|resume`.

It adds to the run's report and to a shared one, has an item extracted, has the reporter write, and completes both. The
model answers from what it is shown, and notes each question in `asked.txt`.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

from agentorchestra.agents.agent import Agent
from agentorchestra.agents.types import Kit
from agentorchestra.core.ids import sha256_text
from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.spec import AgentResult, AgentSpec
from agentorchestra.runtime.context import BranchContext
from agentorchestra.testing import ScriptedModel, call, decide, say
from agentorchestra.workspace import Workspace
from tests.chaos.killing import hooks
from tests.reports.support import said

LONG = f"There are 42 beds [1](https://e.org/beds). {'The bay is calm and wide. ' * 80}"
SHORT = "They lie 3 m deep, see https://E.org:443/depth/."


async def work(spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
    """Everything that a report is made with."""
    told = [await said(ctx, "add", content=text, title=text[:5], report="bay") for text in (LONG, SHORT)]
    told.append(await said(ctx, "extract", item=1))
    tools = ("report", "python")
    asked = AgentSpec(name="reporter", instruction="Report.", system="reporter", tools=tools, max_steps=3)
    told.append((await ctx.call_agent(asked)).answer)
    told.append(await said(ctx, "complete", title="The bay", report="bay"))
    told.append(await said(ctx, "items"))
    return AgentResult(answer="\n".join(told))


def answer(request: ModelRequest, folder: Path) -> Any:
    """From the material: the sentences with figures and their marks."""
    text = "\n".join(message.text for message in request.messages[1:])
    with (folder / "asked.txt").open("a") as file:
        file.write(sha256_text(request.messages[0].text + text) + "\n")
    if "You say what a piece of a report says" in request.messages[0].text:
        figure = re.search(r"There are \d+ beds", text)
        return say(json.dumps({"summary": figure[0] if figure else "nothing", "references": []}))
    facts = re.findall(r"^([^\n]*?\d+ (?:beds|m deep)[^\n\[]*)(\[E?\d+\])", text, re.MULTILINE)
    written = "\n\n".join(f"{fact.strip()} {mark}." for fact, mark in facts)
    return decide(calls=[call("done", answer=written)]) if request.tools else say(written)


async def main(folder: Path, what: str) -> None:
    """Run it, or go on with the run; print the answer."""
    store, wrap = hooks(folder / "ws")
    digger = Agent(
        name="digger", description="Digs.", tools=("python",), prompt="worker", environments=("report",), drive=work
    )
    model = ScriptedModel(lambda request: answer(request, folder))
    async with Workspace(
        folder / "ws", store=store, handlers=wrap, agents=[digger], models={"scripted": model}, environ={}
    ) as ws:
        if what == "run":
            result = await ws.run("Dig.", system="digger", model="scripted", seed="report")
        else:
            (record,) = await ws.runs.list()
            result = await ws.resume(record.id)
        assert (await ws.replay(result.run_id)).answer == result.answer_text
        print(result.answer.replace(result.run_id, "RUN"))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
