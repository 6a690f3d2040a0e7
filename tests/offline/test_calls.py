"""Calls that a task spells out: the offline model makes them and answers with what they gave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentorchestra.agents.agent import Agent
from agentorchestra.agents.driver import run_agent
from agentorchestra.agents.types import Kit
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.models.offline.calls import spelled_calls
from agentorchestra.models.offline.model import NOTE
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.tool import tool
from agentorchestra.workspace import Workspace

TOOLS: dict[str, dict[str, Any]] = {"add": {"properties": {"a": {}, "b": {}}}, "look": {"properties": {"text": {}}}}


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("task", "calls"),
    [
        ("add(1, b=2)", [("add", {"a": 1, "b": 2})]),
        ('Please call look("a (b) c)") now.', [("look", {"text": "a (b) c)"})]),
        ("add(1, 2), then look(text='add(3, 4)').", [("add", {"a": 1, "b": 2}), ("look", {"text": "add(3, 4)"})]),
        ('add({"x": [1, None]}, True)', [("add", {"a": {"x": [1, None]}, "b": True})]),
        ("look()", [("look", {})]),
        ("add (1, 2)", []),
        ("subtract(1, 2)", []),
        ("the_add(1, 2) and x.add(1, 2)", []),
        ("add(1, 2, 3)", []),
        ("add(one, two)", []),
        ("add(**{})", []),
        ("add(1, float('nan'))", []),
        ("look(1e999)", []),
        ("look({1, 2})", []),
        ("add(1, 2", []),
        ("add(" * 5_000, []),
    ],
)
def test_what_is_a_call(task: str, calls: list[tuple[str, dict[str, Any]]]) -> None:
    assert spelled_calls(task, TOOLS) == calls


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    spelled_calls(f"look({text!r}) add({text}", TOOLS)
    assert spelled_calls(f"look({text!r})", TOOLS)[0] == ("look", {"text": text})


@tool(effect="pure")
def times(a: int, b: int) -> int:
    """The product of two numbers."""
    return a * b


async def test_the_call_is_made_and_its_result_is_the_answer(tmp_path: Path) -> None:
    async with Workspace(tmp_path, tools=[times]) as ws:
        result = await ws.run("What is times(6, b=7)?", model="offline", system="react")
        assert (result.status, result.answer.split()[0], result.steps) == (RunStatus.COMPLETED, "42", 2)
        wrong = await ws.run("What is times(6, c=7)?", model="offline", system="react")
        assert "b: Field required" in wrong.answer
        assert wrong.status is RunStatus.BLOCKED


async def test_an_agents_result_is_taken_apart(tmp_path: Path) -> None:
    async def hands_on(spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
        return await run_agent(spec, ctx, kit, prompt="react", offered=kit.delegates(ctx))

    reader = Agent(name="reader", description="Reads files.", tools=("search_files", "read_file"))
    lease = tmp_path / "lease.txt"
    lease.write_text("The notice period is three months.\n")
    async with Workspace(tmp_path / "ws", agents=[reader], systems={"hands_on": hands_on}) as ws:
        task = 'reader(task="What is the notice period?")'
        result = await ws.run(task, files=[lease], model="offline", system="hands_on")
    assert result.status is RunStatus.COMPLETED
    assert result.answer.startswith("According to lease.txt (line 1)") and result.answer.count(NOTE) == 1
    assert [(one.source, one.place) for one in result.sources] == [("lease.txt", "line 1")]
