"""Hooks: told of steps, calls and requests as the log has them; what they do wrong does not touch a run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentorchestra import ActionEnvironment, ToolCalled, Workspace, action, tool
from agentorchestra.core.errors import HookWarning
from agentorchestra.runtime.hooks import ModelAsked, StepTaken
from agentorchestra.testing import ScriptedModel, call


@tool(effect="read")
def look(place: str) -> str:
    """Look."""
    if place == "nowhere":
        raise LookupError("there is none")
    return f"nothing at {place}"


class Lamp(ActionEnvironment):
    """A lamp."""

    name = "lamp"

    @action
    def turn(self, on: bool) -> bool:
        """Turn it."""
        return on


async def test_hooks_are_told_in_order_of_all_that_the_log_has(tmp_path: Path) -> None:
    told: list[tuple[Any, ...]] = []

    async def on_step(step: StepTaken) -> None:
        await asyncio.sleep(0)
        told.append(("step", step.agent, step.number, step.text, [one.name for one in step.calls]))

    def on_tool(called: ToolCalled) -> None:
        told.append(("tool", called.name, called.arguments, called.result, called.error))

    asked: list[ModelAsked] = []
    model = ScriptedModel(
        [
            [call("look", place="home"), call("look", place="nowhere")],
            [call("lamp_turn", on=True)],
            call("done", answer="x" * 40_000),
        ]
    )
    async with Workspace(
        tmp_path / "ws", tools=[look], environments={"lamp": Lamp}, on_step=on_step, on_tool=on_tool
    ) as ws:
        result = await ws.run("x", system="react", environments=["lamp"], model=model, on_model=asked.append)
        assert len(result.answer) == 40_000
    assert [one[0] if one[0] == "step" else one[1] for one in told] == [
        *("step", "look", "look"),
        *("step", "lamp_turn"),
        *("step", "done"),
    ]
    assert told[0] == ("step", "react", 1, "", ["look", "look"])
    assert told[1] == ("tool", "look", {"place": "home"}, "nothing at home", None)
    assert told[2][3] is None and "there is none" in told[2][4]
    assert told[4][2:4] == ({"on": True}, True) and told[5][2] == 3
    assert told[-1][2] == {"answer": "x" * 40_000}
    assert [(one.model, one.purpose, one.usage.requests) for one in asked] == [("scripted", "decision", 1)] * 3
    assert {one.run_id for one in asked} == {result.run_id} and asked[0].response is not None


async def test_a_hook_that_raises_is_warned_of_once(tmp_path: Path) -> None:
    def on_tool(called: ToolCalled) -> None:
        raise ValueError("full")

    model = ScriptedModel([call("look", place="home"), call("look", place="here"), call("done", answer="over")])
    async with Workspace(tmp_path / "ws", tools=[look], on_tool=on_tool) as ws:
        with pytest.warns(HookWarning, match="the hook on_tool raised ValueError: full; run run_.* goes on") as caught:
            notices = [one async for one in ws.stream("x", system="react", model=model)]
        assert len([one for one in caught if one.category is HookWarning]) == 1
    assert notices[-1].result.answer == "over"
