"""A generated tool in the hands of the agent that asked for it, at its next step."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.agents.agent import Agent
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.spec import RunStatus
from agentorchestra.sandbox.bubblewrap import Bubblewrap
from agentorchestra.tea.calling.tool import Tool, tool
from agentorchestra.testing import call, decide
from tests.agents.generating import RIGHT, Model, called, limited, phases
from tests.agents.giving_program import ASK, GOAL, WANTED, asker, by_hand, by_program, model, opened
from tests.chaos.support import start
from tests.systems.planning import done, results, shown

ROMAN = "roman"


@pytest.fixture(autouse=True)
async def _sandbox() -> None:
    if problem := await Bubblewrap().problem():
        pytest.skip(problem)


def many(count: int) -> list[Tool[..., Any]]:
    """So many tools that have nothing to do with the task."""

    def made(number: int) -> Tool[..., Any]:
        @tool(name=f"drawer_{number}", effect="pure")
        def drawer() -> str:
            """Say what lies in a drawer of the archive, its shelf, its key, and who put it there."""
            return f"A stone with the number {number}."

        return drawer

    return [made(number) for number in range(count)]


async def test_an_agent_at_work_calls_the_tool_it_asked_for(tmp_path: Path) -> None:
    async with opened(tmp_path / "ws", model()) as ws:
        result = await ws.run(GOAL, system="react", model="scripted")
        assert (result.status, result.answer) == (RunStatus.COMPLETED, WANTED), result
        assert called(await ws.log.events(result.run_id), ROMAN) == [1994, 2024]
        assert (await ws.replay(result.run_id)).answer == WANTED


WAYS: dict[str, tuple[Any, bool, dict[str, Any]]] = {
    "calls as text": (by_hand, False, {}),
    "programs": (by_program, True, {"action": "code"}),
    "more tools than the prompt has room for": (asker, True, {"tools": many(90)}),
    "the same, calls as text": (by_hand, False, {"tools": many(90)}),
    "the same, programs": (by_program, True, {"tools": many(90), "action": "code"}),
}


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
async def test_however_an_agent_calls_its_tools(tmp_path: Path, way: str) -> None:
    reply, native, options = WAYS[way]
    options = {**options}
    settings = limited().model_copy(update={"prompt_tool_chars": 12_000})
    given = {"tools": options.pop("tools", ()), "settings": settings}
    async with opened(tmp_path / "ws", model(reply, native=native), **given) as ws:
        result = await ws.run(GOAL, system="react", model="scripted", **options)
        assert (result.status, result.answer) == (RunStatus.COMPLETED, WANTED), result
        assert (await ws.replay(result.run_id)).answer == WANTED


@pytest.mark.long
async def test_killed_with_the_tool_in_hand_it_goes_on(tmp_path: Path) -> None:
    """The process dies between the registration and the call; nothing is asked, tried or registered again."""
    dying = await asyncio.to_thread(start, ["-m", "tests.agents.giving_program", tmp_path / "ws"])
    await asyncio.to_thread(dying.communicate)
    assert dying.returncode == -9
    making = Model()
    async with opened(tmp_path / "ws", model(asker, making)) as ws:
        (run,) = await ws.runs.list()
        before = await ws.log.events(run.id)
        assert "registered" in [phase for phase, _, _ in phases(before)] and called(before, ROMAN) == [1994]
        result = await ws.resume(run.id)
        assert (result.status, result.answer, making.asked) == (RunStatus.COMPLETED, WANTED, [])
        assert called(await ws.log.events(run.id), ROMAN) == [1994, 2024]
        assert (await ws.replay(run.id)).answer == WANTED
        assert len(await ws.tcp.versions(ROMAN)) == 1


@pytest.mark.long
@pytest.mark.parametrize("there", ["nothing", "the tool", "the tool, for others"])
async def test_an_agent_with_few_tools_gets_the_one_and_nobody_else_does(tmp_path: Path, there: str) -> None:
    """The clerk asks, the idle agent works at the same time, the planner sees agents only."""
    clerk = Agent("clerk", "Writes numerals.", tools=(ASK,), prompt="worker")
    idle = Agent("idle", "Does nothing.", tools=("drawer_0",), prompt="worker")
    seen: dict[str, set[str]] = {"clerk": set(), "idle": set(), "planner": set()}

    def reply(request: ModelRequest) -> ModelResponse:
        names = {one.name for one in request.tools}
        who = "clerk" if ASK in names else "idle" if "drawer_0" in names else "planner"
        seen[who] |= names
        if who == "clerk":
            return asker(request)
        came = results(request)
        if who == "idle":
            return decide(calls=[call("drawer_0")]) if len(came) < 3 else done("rested")
        if not came:
            return decide(calls=[call("clerk", task="Write them."), call("idle", task="Rest.")])
        return done(json.loads(came[0])["answer"])

    async with opened(tmp_path / "ws", model(reply), tools=many(1), agents=[clerk, idle]) as ws:
        if there != "nothing":
            invokers = ["tool_generator"] if there.endswith("others") else None
            await ws.tcp.register(source=RIGHT, name=ROMAN, trusted=False, invokers=invokers)
        result = await ws.run(GOAL, model="scripted")
        assert (await ws.replay(result.run_id)).answer == result.answer_text
    given = set() if there.endswith("others") else {ROMAN}
    assert result.answer == (WANTED if given else "I cannot write the other one."), result
    assert seen["clerk"] == {ASK, "done"} | given
    assert seen["idle"] == {"drawer_0", "done"} and ROMAN not in seen["planner"]


@pytest.mark.long
async def test_what_has_no_room_in_the_prompt_is_said_and_asked_for_again(tmp_path: Path) -> None:
    long = RIGHT.replace("Roman numeral.", f"Roman numeral. {'It is exact. ' * 300}", 1)

    def reply(request: ModelRequest) -> ModelResponse:
        if not results(request):
            return asker(request)
        assert all(one.name != ROMAN for one in request.tools)
        return done("no room" if f"Your prompt has no room for {ROMAN}" in shown(request) else "?")

    making = Model(written=lambda system, material: {"code": long})
    settings = limited().model_copy(update={"prompt_tool_chars": 12_000})
    async with opened(tmp_path / "ws", model(reply, making), settings=settings) as ws:
        result = await ws.run(GOAL, system="react", model="scripted")
        assert result.answer == "no room", result
