"""Agents under agents, tools that perform effects, and environments, through the whole workspace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.budget import Budget
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.spec import AgentSpec, RunStatus
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace
from tests.runtime.counter import Counter
from tests.systems.support import seen


@tool(effect="pure")
def double(number: int) -> int:
    """Double a number."""
    return number * 2


@tool(effect="composite")
async def delegate(ctx: RunContext[Any], task: str, tools: list[str], tokens: int | None = None) -> str:
    """Let a sub-agent work."""
    budget = None if tokens is None else Budget(tokens=tokens)
    spec = AgentSpec(name="helper", instruction=task, tools=tuple(tools), max_steps=4, budget=budget, role="helper")
    result = await ctx.call_agent(spec)
    return f"{result.status.value}: {result.answer or result.report}"


@tool(effect="composite")
async def quadruple(ctx: RunContext[Any], number: int) -> int:
    """Double twice."""
    first = await ctx.call_tool("double", number=number)
    second = await ctx.call_tool("double", number=first.value)
    assert isinstance(second.value, int)
    return second.value


def _task(request: ModelRequest) -> str:
    return request.messages[1].text


async def test_a_sub_agent_has_its_own_prompt_tools_and_branch(tmp_path: Path) -> None:
    def model(request: ModelRequest) -> ModelResponse:
        names = [schema.name for schema in request.tools]
        if "double seven" in _task(request):
            assert names == ["done", "double"]
            if request.messages[-2].role != "tool":
                return decide(calls=[call("double", number=7)])
            return decide(calls=[call("done", answer=request.messages[-2].text)])
        if request.messages[-2].role == "tool":
            return decide(calls=[call("done", answer=request.messages[-2].text)])
        return decide(calls=[call("delegate", task="double seven", tools=["double"])])

    async with Workspace(tmp_path / "ws", tools=[double, delegate]) as ws:
        result = await ws.run("Delegate.", model=ScriptedModel(model), system="react")
        assert result.answer == "completed: 14"
        spans = {event.span: event.actor for event in await ws.log.events(result.run_id) if event.span}
        assert spans["/1.react/3.delegate/1.helper#2"] == "helper"
        assert (await ws.replay(result.run_id)).answer == result.answer_text


async def test_a_sub_agent_may_not_get_what_its_caller_has_not(tmp_path: Path) -> None:
    def model(request: ModelRequest) -> ModelResponse:
        if request.messages[-2].role == "tool":
            return decide(calls=[call("done", answer=request.messages[-2].text)])
        return decide(calls=[call("delegate", task="anything", tools=["launch"])])

    async with Workspace(tmp_path / "ws", tools=[double, delegate]) as ws:
        result = await ws.run("Delegate.", model=ScriptedModel(model), system="react")
        assert "blocked: the sub-agent was to get launch, which its caller may not use itself" in result.answer


async def test_a_carve_ends_the_sub_agent_and_not_the_run(tmp_path: Path) -> None:
    def model(request: ModelRequest) -> ModelResponse:
        if "count on" in _task(request):
            if "<last_step>" in seen(request):
                return decide(calls=[call("done", answer="got far enough", status="partial")])
            return decide(calls=[call("double", number=len(request.messages))])
        if request.messages[-2].role == "tool":
            return decide(calls=[call("done", answer=request.messages[-2].text)])
        return decide(calls=[call("delegate", task="count on", tools=["double"], tokens=6_000)])

    async with Workspace(tmp_path / "ws", tools=[double, delegate]) as ws:
        result = await ws.run("Delegate.", model=ScriptedModel(model), system="react")
        assert result.status is RunStatus.COMPLETED
        assert result.answer == "budget_exhausted: got far enough"
        limited = [
            e for e in await ws.log.events(result.run_id) if e.body.get("outcome", {}).get("status") == "limited"
        ]
        assert len(limited) == 1


async def test_a_tool_that_calls_tools(tmp_path: Path) -> None:
    model = ScriptedModel([decide(calls=[call("quadruple", number=3)]), decide(calls=[call("done", answer="12")])])
    async with Workspace(tmp_path / "ws", tools=[double, quadruple]) as ws:
        result = await ws.run("Quadruple three.", model=model, system="react")
        spans = [event.span for event in await ws.log.events(result.run_id) if event.type == "completed"]
        assert "/1.react/3.quadruple#1" in spans and "/1.react/3.quadruple#2" in spans
        assert model.requests[1].messages[-2].text == "12"


async def test_an_agent_acts_on_an_environment_and_sees_its_state(tmp_path: Path) -> None:
    prompts: list[str] = []

    def model(request: ModelRequest) -> ModelResponse:
        prompts.append(seen(request))
        if "value 12" in request.messages[-1].text:
            return decide(calls=[call("done", answer="12")])
        if len(prompts) == 1:
            return decide(calls=[call("counter_add", by="x")])
        return decide(calls=[call("counter_add", by=5), call("counter_add", by=7), call("counter_look")])

    async with Workspace(tmp_path / "ws", environments={"counter": Counter}) as ws:
        result = await ws.run("Count to twelve.", model=ScriptedModel(model), system="react")
        assert result.answer == "12"
        assert '<environment name="counter">\nState: a number. Interaction: add to it.' in prompts[0]
        assert "value 0" in prompts[0] and "value 12" in prompts[-1]
        assert "counter_add" in prompts[1] and "'x'" in prompts[1]
        assert (await ws.replay(result.run_id)).answer == "12"


@tool(effect="composite")
async def consult_two(ctx: RunContext[Any], tasks: list[str]) -> list[str]:
    """Let sub-agents work at the same time."""
    specs = [AgentSpec(name="helper", instruction=task, tools=("read_file",), max_steps=3) for task in tasks]
    return [result.answer or f"{result.status.value}: {result.report}" for result in await ctx.call_agents(specs)]


async def test_an_answer_built_on_untrusted_content_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "page.txt").write_text("from outside")

    def model(request: ModelRequest) -> ModelResponse:
        if "look at it" in _task(request):
            if request.messages[-2].role == "tool":
                return decide(calls=[call("done", answer="it says so")])
            return decide(calls=[call("read_file", name="page.txt")])
        if "think" in _task(request):
            return decide(calls=[call("done", answer="thought")])
        if request.messages[-2].role == "tool":
            return decide(calls=[call("done", answer="both")])
        return decide(calls=[call("consult_two", tasks=["look at it", "think"])])

    async with Workspace(tmp_path / "ws", tools=[consult_two]) as ws:
        result = await ws.run("Consult two.", model=ScriptedModel(model), files=[tmp_path / "page.txt"], system="react")
        completed = {e.span: e.body["outcome"] for e in await ws.log.events(result.run_id) if e.type == "completed"}
        assert completed["/1.react/4.consult_two#1"].get("trust", "untrusted") == "untrusted"
        # Its caller was shown the file.
        assert completed["/1.react/4.consult_two#2"].get("trust", "untrusted") == "untrusted"
        alone = await ws.run("Consult two.", model=ScriptedModel(model), system="react")
        completed = {e.span: e.body["outcome"] for e in await ws.log.events(alone.run_id) if e.type == "completed"}
        assert completed["/1.react/3.consult_two#2"]["trust"] == "agent"
        assert completed["/1.react#2"]["trust"] == "agent"  # a model that saw the user's words only


async def test_a_sub_agent_that_exhausts_the_run_leaves_room_for_the_last_answer(tmp_path: Path) -> None:
    def model(request: ModelRequest) -> ModelResponse:
        if "count on" in _task(request):
            return decide(calls=[call("double", number=len(request.messages))])
        if "<last_step>" in seen(request):
            return decide(calls=[call("done", answer="what I have", status="partial")])
        return decide(calls=[call("delegate", task="count on", tools=["double"])])

    async with Workspace(tmp_path / "ws", tools=[double, delegate]) as ws:
        result = await ws.run("Delegate.", model=ScriptedModel(model), budget=Budget(steps=4), system="react")
        assert (result.status, result.answer) == (RunStatus.BUDGET_EXHAUSTED, "what I have")
        assert result.steps == 4


@tool(effect="composite")
async def inquire(ctx: RunContext[Any]) -> str:
    """Ask the user."""
    return str(await ctx.ask("May I?"))


@tool(effect="composite")
async def look_again(ctx: RunContext[Any], asks: bool) -> str:
    """Let a sub-agent ask the user, which may or may not."""
    result = await ctx.call_agent(AgentSpec(instruction="Inquire.", tools=("inquire",), max_steps=3, asks=asks))
    return result.answer


@pytest.mark.parametrize("asks", [True, False])
async def test_an_agent_that_asks_nobody_is_denied_what_needs_a_question(tmp_path: Path, asks: bool) -> None:
    def model(request: ModelRequest) -> ModelResponse:
        if request.messages[-2].role == "tool":
            return decide(calls=[call("done", answer=request.messages[-2].text)])
        under = "Inquire." in _task(request)
        return decide(calls=[call("inquire") if under else call("look_again", asks=asks)])

    async with Workspace(tmp_path / "ws", tools=[inquire, look_again]) as ws:
        result = await ws.run("Delegate.", model=ScriptedModel(model), system="react")
        if asks:
            assert result.status is RunStatus.WAITING
        else:
            assert "nobody is asked about what this agent does; do without it" in result.answer
