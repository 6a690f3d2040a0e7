"""Memory as a workflow agent: what one task taught, later tasks of the workspace use (000, app. C.1, D.1)."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.agents.agent import Agent, System
from agentorchestra.agents.driver import build_agent, result_of, run_agent
from agentorchestra.agents.state import agent_state
from agentorchestra.agents.types import Kit
from agentorchestra.core.content import Trust
from agentorchestra.core.errors import SettingsError
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import AgentSettings, Settings
from agentorchestra.core.spec import AgentResult, AgentSpec
from agentorchestra.log.store import MemoryStore
from agentorchestra.loop import Parts, State, beam
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import ScriptedModel, call, decide, say
from agentorchestra.workspace import Workspace
from tests.runtime.support import best_by
from tests.support.memory import records, told, written

REACT: dict[str, Any] = {"system": "react"}


@tool(effect=("read", "network"))
def archive(drawer: str) -> str:
    """Look into a drawer of the archive.

    Args:
        drawer: its name.
    """
    if drawer != "west":
        return f"The drawer {drawer} is locked."
    return "The shelf mark of the atlas is QX-4417."


class Librarian:
    """Knows nothing by itself: answers with a shelf mark that it is shown, and tries the drawers one after the other.

    As the summariser it writes down the shelf marks and the drawers that it reads of.
    """

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []

    def __call__(self, request: ModelRequest) -> ModelResponse:
        self.requests.append(request)
        text = "\n".join(message.text for message in request.messages[1:])
        if not request.tools:
            return say(json.dumps(self.lessons(text)))
        found = re.search(r"\b[A-Z]{2}-\d{4}\b", text)
        if found:
            return decide(calls=[call("done", answer=found[0])])
        tried = sum(message.role == "tool" for message in request.messages)
        if tried < 2 and any(one.name == "archive" for one in request.tools):
            return decide(calls=[call("archive", drawer=("east", "west")[tried])])
        return decide(calls=[call("done", answer="unknown")])

    def lessons(self, text: str) -> dict[str, Any]:
        """A sentence for each thing it reads of; never one that it was not shown."""
        facts = [f"The shelf mark of the atlas is {one}." for one in dict.fromkeys(re.findall(r"[A-Z]{2}-\d{4}", text))]
        locked = [f"The drawer {one} is locked." for one in dict.fromkeys(re.findall(r"drawer (\w+) is locked", text))]
        return {"summary": "The atlas was looked for.", "insights": [{"text": one} for one in [*facts, *locked]]}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("memory", "answer"), [("workflow", "QX-4417"), ("none", "unknown")])
async def test_a_task_uses_what_an_earlier_one_of_the_workspace_taught(
    tmp_path: Path, memory: str | None, answer: str
) -> None:
    model = Librarian()
    async with Workspace(tmp_path / "ws", environ={}) as ws:
        options: dict[str, Any] = {"model": ScriptedModel(model), "memory": memory, **REACT}
        first = await ws.run("Find the shelf mark of the atlas.", tools=[archive], **options)
        assert first.answer == "QX-4417"
        # Neither of them is in a session, and the second cannot look for itself.
        second = await ws.run("Where does the atlas stand? Say its shelf mark.", **options)
        assert second.answer == answer
        assert (await ws.replay(second.run_id)).answer == answer


class Follower(Librarian):
    """Looks into the drawer that it is told of, or else into the east and the west one; nowhere else.

    As the summariser it says where the atlas lies, and which of what the agent was told sent it to a locked drawer.
    """

    def __call__(self, request: ModelRequest) -> ModelResponse:
        if not request.tools:
            return super().__call__(request)
        self.requests.append(request)
        known = re.findall(r"The atlas lies in the drawer (\w+)", told(request))
        drawers = known[:1] or ["east", "west"]
        came = [message.text for message in request.messages if message.role == "tool"]
        found = re.search(r"[A-Z]{2}-\d{4}", " ".join(came))
        if found or len(came) == len(drawers):
            return decide(calls=[call("done", answer=found[0] if found else "unknown")])
        return decide(calls=[call("drawer", name=drawers[len(came)])])

    def lessons(self, text: str) -> dict[str, Any]:
        lay = re.findall(r'drawer \{"name": "(\w+)"\}: The shelf mark', text)
        insights = [{"text": f"The atlas lies in the drawer {one}."} for one in dict.fromkeys(lay)]
        misled = [
            {"number": int(number), "why": f"The drawer {name} is locked."}
            for number, name in re.findall(r"\[(\d)\] \(told\) The atlas lies in the drawer (\w+)", text)
            if f"drawer {name} is locked" in text
        ]
        return {"summary": "The atlas was looked for.", "insights": insights, "misled": misled}


async def test_what_misled_a_task_is_told_no_more(tmp_path: Path) -> None:
    """The atlas is moved: the second task is sent astray by what the first one learned, the third looks for itself."""
    there = ["east"]

    @tool(effect=("read", "network"))
    def drawer(name: str) -> str:
        """Look into a drawer."""
        return "The shelf mark is QX-4417." if name in there else f"The drawer {name} is locked."

    model = Follower()
    async with Workspace(tmp_path / "ws", store=MemoryStore(), tools=[drawer], environ={}) as ws:
        answers = []
        for place in ("east", "west", "west"):
            there[:] = [place]
            options: dict[str, Any] = {"model": ScriptedModel(model), "memory": "workflow", **REACT}
            result = await ws.run("Find the atlas.", **options)
            assert (await ws.replay(result.run_id)).answer == result.answer_text
            answers.append(result.answer)
        assert answers == ["QX-4417", "unknown", "QX-4417"]
        listed = {one.text: one for one in await ws.memory.recall(kinds=["insight"])}
        gone = listed["The atlas lies in the drawer east."]
        assert (gone.misled, gone.why, gone.told) == (1, "The drawer east is locked.", False)
        assert listed["The atlas lies in the drawer west."].told
        # Whoever knows better forgets the doubt: then it is told again.
        await ws.memory.forget([listed["The drawer east is locked."].ref])
        assert {one.text for one in await ws.memory.recall(kinds=["insight"]) if one.told} == {
            "The atlas lies in the drawer east.",
            "The atlas lies in the drawer west.",
        }


async def test_a_memory_of_the_settings_that_is_not_there(tmp_path: Path) -> None:
    settings = Settings(agents={"deep_analyzer": AgentSettings(memory="workflo")})
    async with Workspace(tmp_path / "ws", store=MemoryStore(), settings=settings, environ={}) as ws:
        said = (
            r"'deep_analyzer' the memory system 'workflo' \(agents.deep_analyzer.memory\).*: none, insights, summary, "
        )
        with pytest.raises(SettingsError, match=said):
            await ws.create("Do it.", model="offline")


async def _look(spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
    """A workflow of code: asks the model where to look, unless it is told what it looks for."""
    known = "\n".join(getattr(one, "text", "") for one in spec.context)
    found = re.search(r"[A-Z]{2}-\d{4}", known)
    if found is None:
        build = ctx.run.services.tool_effect
        assert build is not None
        calls = [build("archive", {"drawer": one}, ctx) for one in ("east", "west") if "archive" in kit.tools]
        said = [one.value for one in await ctx.perform_all(calls) if one.ok]
        found = re.search(r"[A-Z]{2}-\d{4}", str(said))
    return AgentResult(answer=found[0] if found else "unknown")


class Lead(Librarian):
    """Hands its task to the scout, and passes on what that one says."""

    def __call__(self, request: ModelRequest) -> ModelResponse:
        if any(one.name == "scout" for one in request.tools):
            results = [m.text for m in request.messages if m.role == "tool"]
            if not results:
                return decide(calls=[call("scout", task="Find the shelf mark of the atlas.")])
            found = re.search(r"[A-Z]{2}-\d{4}|unknown", results[-1])
            return decide(calls=[call("done", answer=found[0] if found else "?")])
        return super().__call__(request)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("drive", "memory", "answer"),
    [(None, "workflow", "QX-4417"), (_look, "workflow", "QX-4417"), (_look, "none", "unknown")],
)
async def test_a_specialist_has_insights_of_its_own(
    tmp_path: Path, drive: System | None, memory: str, answer: str
) -> None:
    scout = Agent("scout", "Finds things.", tools=("archive",), drive=drive)
    settings = Settings(agents={"scout": AgentSettings(memory=memory)})
    model = Lead()
    async with Workspace(tmp_path / "a", tools=[archive], agents=[scout], settings=settings, environ={}) as ws:
        first = await ws.run("Have the atlas found.", model=ScriptedModel(model))
        assert first.answer == "QX-4417"
        wrote = written(await records(ws, first.run_id))
        assert {one.agent for one in wrote} == ({"scout"} if memory == "workflow" else set())
        steps = [one for one in wrote if one.text.startswith("Step")]
        if memory == "workflow":
            assert "The drawer east is locked." in steps[0].text and all(one.trust is Trust.UNTRUSTED for one in steps)
    # The same workspace without the tool.
    blind = replace(scout, tools=())
    async with Workspace(tmp_path / "a", agents=[blind], settings=settings, environ={}) as ws:
        second = await ws.run("Have the atlas found again.", model=ScriptedModel(model))
        assert second.answer == answer
        assert (await ws.replay(second.run_id)).answer == answer
        # What the scout knows is not what another agent is told.
        other = await ws.run("Say the shelf mark.", model=ScriptedModel(model), system="react", memory="window")
        assert other.answer == "unknown"


async def _best_of_two(spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
    """A workflow of code whose steps are rivals: the one that opened the drawer `west` wins."""
    first, agent = await build_agent(spec, ctx, kit, prompt="react")
    memory = agent_state(ctx).memory
    assert memory is not None
    parts = Parts(decide=agent.decide, observe=(memory.observe, *agent.observe))

    async def score(state: State, branch: BranchContext[Any]) -> float:
        return float("QX-4417" in state.messages[-1].text) + float(state.is_over)

    return result_of(await beam(first, ctx, parts, choose=best_by(score), candidates=2))


async def _best_of_two_runs(spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
    """A workflow of code in which two agents do the whole task; the one that found it wins."""
    rivals = ctx.candidates(2)

    def going(number: int) -> Callable[[], Awaitable[AgentResult]]:
        own = spec.model_copy(update={"instruction": f"{spec.instruction} You are {number + 1}/2."})
        return partial(run_agent, own, rivals[number], kit, prompt="react")

    results = await ctx.rivals([going(0), going(1)])
    best = max(range(2), key=lambda number: "QX-4417" in results[number].answer)
    await ctx.adopt(rivals[best])
    return results[best]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("drive", [_best_of_two, _best_of_two_runs])
async def test_of_rival_steps_the_winners_are_remembered(tmp_path: Path, drive: System) -> None:
    class Rival(Librarian):
        """Two candidates: the first opens the drawer `east`, the other one `west`."""

        def __call__(self, request: ModelRequest) -> ModelResponse:
            text = "\n".join(message.text for message in request.messages[1:])
            if not request.tools or "QX-4417" in text:
                return super().__call__(request)
            return decide(calls=[call("archive", drawer="west" if "2/2" in text else "east")])

    scout = Agent("scout", "Finds things.", tools=("archive",), drive=drive, max_steps=3, memory="workflow")
    async with Workspace(tmp_path / "ws", store=MemoryStore(), tools=[archive], agents=[scout], environ={}) as ws:
        options: dict[str, Any] = {"model": ScriptedModel(Rival()), "system": "scout", "memory": "workflow"}
        result = await ws.run("Find the shelf mark of the atlas.", **options)
        assert result.answer == "QX-4417"
        found = await records(ws, result.run_id)
        opened = [one.effect["arguments"] for one in found if one.effect["component"].startswith("archive")]
        assert {"drawer": "east"} in opened and {"drawer": "west"} in opened
        steps = [one for one in written(found) if one.text.startswith("Step")]
        assert (
            [one.agent for one in steps] == ["scout"]
            and "QX-4417" in steps[0].text
            and steps[0].trust is Trust.UNTRUSTED
        )
        assert (await ws.replay(result.run_id)).answer == "QX-4417"
        assert [one.text for one in await ws.memory.recall(kinds=("insight",))] == [
            "The shelf mark of the atlas is QX-4417."
        ]


async def test_a_fork_knows_what_its_parent_knew_and_teaches_nobody(tmp_path: Path) -> None:
    model = Librarian()
    async with Workspace(tmp_path / "ws", store=MemoryStore(), tools=[archive], environ={}) as ws:
        options: dict[str, Any] = {"model": ScriptedModel(model), "memory": "workflow", **REACT}
        await ws.run("Find the shelf mark of the atlas.", **options)
        second = await ws.run("Say the shelf mark of the atlas.", **options)
        before = await ws.memory.recall()
        forked = await ws.fork(second.run_id, model=ScriptedModel(model))
        result = await ws.resume(forked)
        assert result.answer == "QX-4417" and (await ws.replay(forked)).answer == "QX-4417"
        assert [one.kind for one in written(await records(ws, forked))].count("insight") >= 1
        assert await ws.memory.recall() == before
        # What was forgotten is told to no later task, and a fork goes on with what was recorded.
        await ws.memory.forget([one.ref for one in await ws.memory.recall(kinds=("insight",))])
        blind = await ws.run("Say the shelf mark of the atlas.", tools=[], **options)
        assert "QX-4417" not in told(model.requests[-2])
        assert (await ws.replay(second.run_id)).answer == "QX-4417"
        assert blind.answer == "QX-4417"  # it looks for itself again
