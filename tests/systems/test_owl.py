"""OWL: a plan, workers one after the other, the plan again when one says that it failed, an answer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.agents.agent import USER_TOOLS, Agent
from agentorchestra.core.budget import Budget
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.errors import ModelAuthError
from agentorchestra.core.ids import canonical_json
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import OwlSettings, Settings
from agentorchestra.core.spec import AgentResult, AgentSpec, RunStatus
from agentorchestra.log.ledger import Ledger
from agentorchestra.systems import owl
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import ScriptedModel
from tests.systems.support import seen, workspace
from tests.systems.workforce import WORD, Workforce

FAILED = {"answer": "No map opened.", "status": "partial", "report": "The site was down."}


async def _invoked(ws: Any, run: str) -> list[str]:
    """The names of the agents that were at work, below the first one."""
    records = Ledger.of(await ws.log.events(run)).records.values()
    return [str(one.effect["arguments"]["name"]) for one in records if one.kind is EffectKind.INVOKE_AGENT][1:]


async def test_subtasks_are_assigned_and_done_one_after_the_other(tmp_path: Path) -> None:
    force = Workforce(
        plans=[["Find the land.", "Find its capital."]],
        workers=["web_agent", "coding_agent"],
        results=[{"answer": "Norland"}, {"answer": "It is Northam."}],
    )
    async with workspace(tmp_path, force.model()) as ws:
        result = await ws.run(WORD, model="scripted", system="owl")
        assert (result.status, result.answer) == (RunStatus.COMPLETED, "Northam")
        assert await _invoked(ws, result.run_id) == ["web_agent", "coding_agent"]
        assert (await ws.replay(result.run_id)).answer == "Northam"
    first, second = force.asked["results"]
    assert "Find the land." in seen(first) and "Norland" not in seen(first)
    assert "Find its capital." in seen(second) and "Norland" in seen(second)
    assert {"search", "fetch"} <= {one.name for one in first.tools}
    assert "Find the land." in seen(force.asked["workers"][0])
    assert "It is Northam." in seen(force.asked["answers"][0])


async def test_no_worker_and_no_coordinator_sees_the_task(tmp_path: Path) -> None:
    """Before the answerer a request holds the task or a result, and only a planner that plans again holds both."""
    force = Workforce(plans=[["A part."], ["Another part."]], results=[FAILED, {"answer": "Norland"}])
    async with workspace(tmp_path, force.model()) as ws:
        await ws.run(WORD, model="scripted", system="owl")
    for request in (*force.asked["workers"], *force.asked["results"]):
        assert WORD not in seen(request)
    first, second = force.asked["plans"]
    assert WORD in seen(first) and "No map opened." not in seen(first)
    assert WORD in seen(second) and "No map opened." in seen(second)


async def test_after_a_failure_the_whole_is_decomposed_again_with_what_was_done(tmp_path: Path) -> None:
    force = Workforce(
        plans=[["Find the land.", "Open its map.", "Read it."], ["Ask an atlas."]],
        results=[{"answer": "Norland"}, FAILED, {"answer": "Northam"}],
    )
    async with workspace(tmp_path, force.model()) as ws:
        result = await ws.run(WORD, model="scripted", system="owl")
    assert (result.status, len(force.asked["results"])) == (RunStatus.COMPLETED, 3)
    again = seen(force.asked["plans"][1])
    for said in (
        "Find the land.",
        "Norland",
        "Subtask (failed)\nOpen its map.",
        "No map opened.",
        "The site was down.",
    ):
        assert said in again
    assert "Norland" not in seen(force.asked["results"][2])  # a new plan begins at its beginning


@pytest.mark.sampled(2)
@pytest.mark.parametrize("replans", [0, 3])
async def test_it_is_decomposed_again_as_often_as_the_settings_say_and_then_answered(
    tmp_path: Path, replans: int
) -> None:
    force = Workforce(plans=[[f"Way {n}."] for n in range(9)], results=[FAILED])
    settings = Settings(owl=OwlSettings(replans=replans))
    async with workspace(tmp_path, force.model(), settings=settings) as ws:
        result = await ws.run(WORD, model="scripted", system="owl")
    assert len(force.asked["plans"]) == len(force.asked["results"]) == 1 + replans
    assert (result.status, result.answer) == (RunStatus.PARTIAL, "Northam")
    assert "Not every subtask could be done." in seen(force.asked["answers"][0])


async def test_a_worker_that_wrongly_claims_success_is_believed(tmp_path: Path) -> None:
    """The weakness that 003 measures: nobody else looks."""
    force = Workforce(
        plans=[["List the winners with birth dates.", "Name the oldest."]],
        results=[{"answer": "Ann 1950, Ben (unknown)"}, {"answer": "Ann"}],
        answers=[{"answer": "Ann"}],
    )
    async with workspace(tmp_path, force.model()) as ws:
        result = await ws.run("Who of all winners is the oldest?", model="scripted", system="owl")
    assert (result.status, result.answer) == (RunStatus.COMPLETED, "Ann")
    assert len(force.asked["plans"]) == 1
    assert "Ben (unknown)" in seen(force.asked["results"][1])


async def test_an_unknown_worker_is_asked_for_again(tmp_path: Path) -> None:
    force = Workforce(workers=["cook", "coding_agent"])
    async with workspace(tmp_path, force.model()) as ws:
        result = await ws.run(WORD, model="scripted", system="owl")
        assert await _invoked(ws, result.run_id) == ["coding_agent"]
    assert "Your last reply was of no use" in seen(force.asked["workers"][1])
    assert "cook" in seen(force.asked["workers"][1])


async def test_a_subtask_that_nobody_has_has_failed(tmp_path: Path) -> None:
    force = Workforce(plans=[["Cook it."], ["Find the land."]], workers=["cook", "cook", "web_agent"])
    async with workspace(tmp_path, force.model()) as ws:
        result = await ws.run(WORD, model="scripted", system="owl")
        assert await _invoked(ws, result.run_id) == ["web_agent"]
    assert (result.status, result.answer) == (RunStatus.COMPLETED, "Northam")
    assert "Subtask (failed)\nCook it." in seen(force.asked["plans"][1])
    assert "The coordinator named no worker for it." in seen(force.asked["plans"][1])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("nonsense", ["Let me think.", {"subtasks": "one"}, {"subtasks": []}, {"subtasks": [" "]}])
async def test_without_subtasks_nothing_is_done(tmp_path: Path, nonsense: Any) -> None:
    force = Workforce(plans=[nonsense])
    async with workspace(tmp_path, force.model()) as ws:
        result = await ws.run(WORD, model="scripted", system="owl")
    assert (result.status, result.answer_text) == (RunStatus.BLOCKED, "")
    assert result.report == "Nothing was done: the planner gave no subtasks."
    assert set(force.asked) == {"plans"}


async def test_without_an_answerer_the_last_result_stands(tmp_path: Path) -> None:
    force = Workforce(answers=["Well."])
    async with workspace(tmp_path, force.model()) as ws:
        result = await ws.run(WORD, model="scripted", system="owl")
    assert (result.status, result.answer) == (RunStatus.PARTIAL, "Norland")


async def test_a_plan_has_no_more_subtasks_than_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owl, "MOST_SUBTASKS", 2)
    force = Workforce(plans=[[f"Step {n}." for n in range(9)]])
    async with workspace(tmp_path, force.model()) as ws:
        await ws.run(WORD, model="scripted", system="owl")
    assert len(force.asked["results"]) == 2


async def test_the_end_of_the_budget_gives_the_best_answer_so_far(tmp_path: Path) -> None:
    force = Workforce(plans=[["Find the land.", "Find its capital.", "Check it."]], answers=[{"answer": "Norland?"}])
    async with workspace(tmp_path, force.model()) as ws:
        ends = [await ws.run(WORD, model="scripted", system="owl", budget=Budget(steps=n)) for n in range(1, 9)]
        for steps, result in enumerate(ends, start=1):
            assert result.steps <= steps
            enough = steps == 8  # a plan, three subtasks of two decisions each, the answer
            assert result.status is (RunStatus.COMPLETED if enough else RunStatus.BUDGET_EXHAUSTED), steps
            if steps > 3:
                assert result.answer == "Norland?", steps
                assert "1. web_agent, done: Find the land." in result.report
        assert (await ws.replay(ends[4].run_id)).answer == "Norland?"


async def test_a_structured_answer_has_its_schema(tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"$ref": "#/$defs/City"}},
        "required": ["city"],
        "$defs": {"City": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
    }
    right = {"city": {"name": "Northam"}}
    force = Workforce(answers=[{"answer": "Northam", "output": {"city": "Northam"}}, {"answer": "N", "output": right}])
    got: list[AgentResult] = []

    async def boss(spec: AgentSpec, session: Any, kit: Any) -> AgentResult:
        asked = AgentSpec(name="force", instruction=WORD, system="owl", output_schema=schema, on_demand=True)
        got.append(await session.call_agent(asked))
        return AgentResult(answer="over")

    async with workspace(tmp_path, force.model(), systems={"boss": boss}) as ws:
        result = await ws.run("Lead.", model="scripted", system="boss")
        assert (await ws.replay(result.run_id)).answer == "over"
    assert [canonical_json(one.output) for one in got[:1]] == [canonical_json(right)]
    assert len(force.asked["answers"]) == 2
    assert '"City"' in seen(force.asked["plans"][0])
    assert all("Lead." not in seen(one) for part in force.asked.values() for one in part)


async def test_models_of_main_and_worker_are_chosen_apart(tmp_path: Path) -> None:
    strong, weak = Workforce(), Workforce()
    models = {"strong": strong.model("strong"), "weak": weak.model("weak")}
    async with workspace(tmp_path, models["strong"], models=models) as ws:
        await ws.run(WORD, system="owl", model="strong", roles={"worker": "weak"})
    assert set(strong.asked) == {"plans", "workers", "answers"}
    assert set(weak.asked) == {"results"}


@tool(effect="pure")
def depth(lake: str) -> str:
    """Look up how deep a lake is.

    Args:
        lake: Its name.
    """
    return f"{lake}: 12 m"


async def test_the_users_tools_are_those_of_the_coding_agent(tmp_path: Path) -> None:
    for name, system in (("coding_agent", True), ("web_agent", False)):
        force = Workforce(workers=[name])
        async with workspace(tmp_path / name, force.model(), tools=[depth]) as ws:
            await ws.run(WORD, model="scripted", system="owl")
        assert ("depth" in [one.name for one in force.asked["results"][0].tools]) is system
        said = "coding_agent: Reasons, and writes and runs programs, on the files of the task too. It can: Look up"
        assert said in seen(force.asked["workers"][0])


async def test_an_agent_of_yours_may_have_them_besides_others(tmp_path: Path) -> None:
    """A star among an agent's tools stands for what the user gave; of nothing else is an unknown name taken."""
    mine = Agent("diver", "Knows lakes.", tools=("todo", USER_TOOLS))
    assert mine.reach(("depth",)) == ("todo", "depth")
    async with workspace(tmp_path, Workforce().model(), tools=[depth], agents=[mine]) as ws:
        assert (await ws.run(WORD, model="scripted", system="owl")).answer == "Northam"


async def test_a_worker_whose_model_is_out_of_service_has_failed(tmp_path: Path) -> None:
    def broken(request: ModelRequest) -> ModelResponse:
        raise ModelAuthError("the model is switched off")

    force = Workforce(answers=[{"answer": "It could not be found."}])
    models = {"scripted": force.model(), "broken": ScriptedModel(broken, name="broken")}
    settings = Settings(owl=OwlSettings(replans=1))
    async with workspace(tmp_path, models["scripted"], models=models, settings=settings) as ws:
        result = await ws.run(WORD, system="owl", model="scripted", roles={"worker": "broken"})
        assert (await ws.replay(result.run_id)).answer == result.answer_text
    assert (result.status, result.answer) == (RunStatus.PARTIAL, "It could not be found.")
    assert "switched off" in seen(force.asked["plans"][1]) and len(force.asked["plans"]) == 2


async def test_a_run_that_is_stopped_leaves_the_best_answer_so_far(tmp_path: Path) -> None:
    force = Workforce(plans=[["Find the land.", "Find its capital."]])
    silent = asyncio.Event()

    async def reply(request: ModelRequest) -> ModelResponse:
        if len(force.asked.get("workers", ())) == 2:
            silent.set()
            await asyncio.Event().wait()
        return force.reply(request)

    async with workspace(tmp_path, ScriptedModel(reply)) as ws:
        run = await ws.create(WORD, system="owl", model="scripted")
        driven = asyncio.create_task(ws.resume(run))
        await silent.wait()
        await ws.cancel(run)
        result = await driven
    assert (result.status, result.answer_text) == (RunStatus.CANCELLED, "Norland")
    assert result.report == "1. web_agent, done: Find the land."
