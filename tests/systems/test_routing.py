"""Which agent gets the work: the planner chooses by the descriptions that stand in its prompt (000, 4.2, D.2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentorchestra.agents.agent import Agent
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.log.store import MemoryStore
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace
from tests.systems.planning import by_prompt, done, experts, fitting, results, shown

TASK = "How deep is the well behind the chapel of Arn?"
SURVEYOR = Agent(
    "agent_x", "Surveys wells and chapels: how deep they are, how high.", tools=("depth_of",), prompt="worker"
)


@tool(effect="pure")
def depth_of(well: str) -> str:
    """How deep a well is.

    Args:
        well: its name.
    """
    return "31 fathoms"


def planner(request: ModelRequest) -> ModelResponse:
    """Asks whoever is said to know of wells; knows nothing itself."""
    for text in results(request):
        if "fathoms" in text:
            return done("31 fathoms")
    name = fitting(request, ("wells", "deep"))
    return decide(calls=[call(name, task=TASK)]) if name else done("Nobody here knows of wells.", status="blocked")


def surveyor(request: ModelRequest) -> ModelResponse:
    found = results(request)
    return done(found[-1]) if found else decide(calls=[call("depth_of", well="Arn")])


async def answered(ws: Workspace[Any]) -> str:
    return (await ws.run(TASK, model=by_prompt(planner=planner, agent=surveyor))).answer


async def test_an_agent_that_is_registered_while_the_workspace_is_open_is_used() -> None:
    async with Workspace(store=MemoryStore(), tools=[depth_of]) as ws:
        assert await answered(ws) == "Nobody here knows of wells."
        await ws.acp.register(SURVEYOR)
        assert await answered(ws) == "31 fathoms"
        await ws.acp.unregister("agent_x")
        assert await answered(ws) == "Nobody here knows of wells."


@pytest.mark.long
async def test_an_agent_that_an_earlier_process_registered_is_used(tmp_path: Path) -> None:
    async with Workspace(tmp_path / "ws", tools=[depth_of]) as ws:
        await ws.acp.register(SURVEYOR)
    async with Workspace(tmp_path / "ws", tools=[depth_of]) as ws:  # nothing of it is in this program
        assert await answered(ws) == "31 fathoms"


@pytest.mark.parametrize("others", [0, pytest.param(200, marks=pytest.mark.long)])
async def test_an_agent_of_the_application_is_chosen_by_its_description(others: int) -> None:
    agents = [*experts(others), SURVEYOR]
    async with Workspace(store=MemoryStore(), tools=[depth_of], agents=agents) as ws:
        assert await answered(ws) == "31 fathoms"


@pytest.mark.long
async def test_the_prompt_is_bounded_whatever_is_registered() -> None:
    """Measured in characters of everything that the model sees: messages and schemas."""
    sizes, offered = {}, {}
    for count in (10, 100, 1000):
        model = by_prompt(planner=planner, agent=surveyor)
        async with Workspace(store=MemoryStore(), tools=[depth_of], agents=[*experts(count), SURVEYOR]) as ws:
            assert (await ws.run(TASK, model=model)).answer == "31 fathoms", count
        first = model.requests[0]
        sizes[count], offered[count] = len(shown(first)), len(first.tools)
    assert sizes[1000] < 34_000 and sizes[1000] < sizes[100] * 1.1, sizes
    assert offered[10] >= 10 and offered[1000] < 20, offered


async def test_one_that_is_not_shown_is_found_by_other_words() -> None:
    """The task says nothing of what is wanted: the planner learns it from an agent, and searches then."""
    seen: list[ModelRequest] = []

    def searching(request: ModelRequest) -> ModelResponse:
        seen.append(request)
        if name := fitting(request, ("wells", "deep")):
            return done(name)
        return decide(calls=[call("find_agents", query="how deep a well is")])

    async with Workspace(store=MemoryStore(), tools=[depth_of], agents=[*experts(200), SURVEYOR]) as ws:
        result = await ws.run("Do what the paper on my desk says.", model=ScriptedModel(searching))
    assert result.answer == "agent_x" and len(seen) == 2
    assert "agent_x" not in shown(seen[0])


# -- replacing ---------------------------------------------------------------------------------------------------------


def failing(name: str, description: str, how: str) -> Agent:
    async def fails(spec: Any, session: Any, kit: Any) -> Any:
        from agentorchestra.core.spec import AgentResult, RunStatus

        if how == "breaks":
            raise ValueError("the rope is too short")
        return AgentResult(status=RunStatus(how), answer="", report="the rope is too short")

    return Agent(name, description, drive=fails)


@pytest.mark.parametrize(
    "how", ["blocked", pytest.param("breaks", marks=pytest.mark.long), pytest.param("partial", marks=pytest.mark.long)]
)
async def test_a_failing_agent_is_replaced_by_one_that_is_shown_only_then(how: str) -> None:
    """Of 200 agents those that fit the sub-task stand in the prompt when one failed at it, and not before."""
    part = "Weigh the bell of the old abbey."
    first = failing("agent_a", "It lifts whatever hangs in towers.", how)
    second = Agent("agent_b", "Weighs bells, also those of an abbey.", tools=("weight_of",), prompt="worker")
    planners: list[ModelRequest] = []

    def lead(request: ModelRequest) -> ModelResponse:
        planners.append(request)
        if any("900 stone" in text for text in results(request)):
            return done("900 stone")
        if "These agents could do it instead" in shown(request) and (name := fitting(request, ("Weighs bells",))):
            return decide(calls=[call(name, task=part)])
        if results(request):
            return done("It cannot be done.", status="blocked")
        return decide(calls=[call("agent_a", task=part)])

    @tool(effect="pure")
    def weight_of(bell: str) -> str:
        """What a bell weighs."""
        return "900 stone"

    def weigher(request: ModelRequest) -> ModelResponse:
        found = results(request)
        return done(found[-1]) if found else decide(calls=[call("weight_of", bell="abbey")])

    task = "Whatever hangs in towers is lifted for the inventory: do what is needed."
    async with Workspace(store=MemoryStore(), tools=[weight_of], agents=[*experts(200), first, second]) as ws:
        result = await ws.run(task, model=by_prompt(planner=lead, agent=weigher))
        assert (result.answer, result.status.value) == ("900 stone", "completed")
        assert (await ws.replay(result.run_id)).answer == result.answer_text
    assert "agent_a" in [one.name for one in planners[0].tools] and "agent_b" not in shown(planners[0])
    note = shown(planners[1])
    assert "agent_a did not finish its part. Before the next call, look at the task again" in note
    _, said, offered = note.partition("These agents could do it instead; you can call them now:\n")
    offered = offered.partition("</content")[0] if "<content" in offered else offered.partition("<progress>")[0]
    assert said and "agent_b: " in offered and "agent_a:" not in offered and '{"' not in offered


async def test_what_the_user_forbids_is_no_failure_of_the_agent() -> None:
    """A denied delegation is not handed to somebody else in the same breath."""

    class Never:
        def decide(self, effect: Any, view: Any) -> Any:
            from agentorchestra.core.policy import Verdict

            if str(effect.component).startswith("agent_x"):
                return Verdict(action="deny", reason="not that one")
            return Verdict(action="allow", reason="")

    seen: list[ModelRequest] = []

    def lead(request: ModelRequest) -> ModelResponse:
        seen.append(request)
        return done("no") if results(request) else decide(calls=[call("agent_x", task=TASK)])

    async with Workspace(store=MemoryStore(), tools=[depth_of], agents=[SURVEYOR], policy=Never()) as ws:
        await ws.run(TASK, model=by_prompt(planner=lead, agent=surveyor))
    assert "not that one" in results(seen[1])[0] and "could do it instead" not in shown(seen[1])
