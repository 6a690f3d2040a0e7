"""Agents that write to each other: `python tests/chaos/society_program.py FOLDER`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from agentorchestra import Workspace
from agentorchestra.core.messages import ModelRequest, ModelResponse, ToolCall
from agentorchestra.core.settings import Settings
from agentorchestra.testing import ScriptedModel, call, decide, say
from tests.chaos.killing import hooks

TASK = "How many are there?"
ANSWER = "12, says coding_agent; 12, says planner"


def _writes(content: str, name: str) -> ToolCall:
    return call("send_message", thread="work", content=content, mentions=[name])


def reply(request: ModelRequest) -> ModelResponse:
    """The orchestrator asks one agent, then another one with what the first one said; both answer each in its way."""
    back = [one.text for one in request.messages if one.role == "tool"]
    if all(one.name != "submit_answer" for one in request.tools):
        if "You are planner." in request.messages[1].text:
            return say("12, says planner")
        return decide(calls=[call("wait_for_mention") if back else _writes("12, says coding_agent", "coral")])
    said = [text.partition("\n")[2] for text in back if " in thread " in text]
    if not back:
        return decide(calls=[call("create_thread", thread="work", participants=["coding_agent", "planner"])])
    if len(back) == 1:
        return decide(calls=[_writes("How many?", "coding_agent")])
    if len(said) == 1 and len(back) == 3:
        return decide(calls=[_writes(f"Is this right: {said[0]}?", "planner")])
    done = len(said) == 2
    return decide(calls=[call("submit_answer", answer="; ".join(said)) if done else call("wait_for_mention")])


def workspace(folder: Path) -> Workspace[None]:
    """The workspace, which dies where KILL_AT says."""
    store, wrap = hooks(folder)
    models = {"scripted": ScriptedModel(reply)}
    settings = Settings(model="scripted", system="coral")
    return Workspace(folder, models=models, settings=settings, store=store, handlers=wrap, environ={})


async def main(folder: Path) -> None:
    async with workspace(folder) as ws:
        await ws.run(TASK)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
