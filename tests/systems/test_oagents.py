"""OAgents: facts and a plan before the first step, a plan that is looked at again, in any system by setting alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.budget import Budget
from agentorchestra.core.content import TextBlock, Trust
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.errors import SettingsError
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import PartSettings, Settings
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.ledger import Ledger
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import load_settings
from tests.systems.support import seen, workspace

WORD = "How deep is the lake north of the hut?"


@tool(effect="read")
def sound(place: str) -> str:
    """Sound the depth of a lake.

    Args:
        place: Where.
    """
    return f"{place}: {len(place)} m deep"


@dataclass
class Planner:
    """A model that plans as told and takes soundings; which form is asked shows in its properties.

    Attributes:
        places: where it takes soundings, one in each step; then it finishes.
        facts, plans, reviews: replies, by turns; the last one again.
        asked: what was shown for each.
    """

    places: Sequence[str] = ("north",)
    facts: Sequence[Any] = ({"given": ["The hut is red."], "to_look_up": ["the lake's name"], "to_derive": []},)
    plans: Sequence[Any] = ({"steps": ["Find the lake.", "Sound it."]},)
    reviews: Sequence[Any] = ({"learned": ["It is Mirror Lake."], "steps": ["Sound it in the middle."]},)
    asked: dict[str, list[ModelRequest]] = field(default_factory=dict)

    def model(self) -> ScriptedModel:
        """The model."""
        return ScriptedModel(self.reply)

    def reply(self, request: ModelRequest) -> ModelResponse:
        """Reply to a form, else take the next sounding."""
        form = (request.settings.output_schema or {}).get("properties", {})
        kind = next((name for name, one in FORMS.items() if one in form), "decisions")
        self.asked.setdefault(kind, []).append(request)
        if kind != "decisions":
            given = getattr(self, kind)
            turn = given[min(len(self.asked[kind]), len(given)) - 1]
            return ModelResponse(text=turn if isinstance(turn, str) else json.dumps(turn))
        taken = sum(message.role == "tool" for message in request.messages)
        may = "<last_step>" not in seen(request) and "sound" in [one.name for one in request.tools]
        if may and taken < len(self.places):
            return decide(calls=[call("sound", place=self.places[taken])])
        end = next(one.name for one in request.tools if one.name in ("done", "complete", "submit_answer"))
        return decide(calls=[call(end, answer="5 m")])


FORMS = {"facts": "given", "reviews": "learned", "plans": "steps"}


async def test_facts_are_surveyed_then_planned_and_the_plan_stands_before_each_step(tmp_path: Path) -> None:
    planner = Planner(places=["north", "south"])
    async with workspace(tmp_path, planner.model(), tools=[sound]) as ws:
        result = await ws.run(WORD, model="scripted", system="oagents")
        assert (result.status, result.answer) == (RunStatus.COMPLETED, "5 m")
        assert (await ws.replay(result.run_id)).answer == "5 m"
        records = Ledger.of(await ws.log.events(result.run_id)).records.values()
    order = [one for one in records if one.kind is EffectKind.REQUEST_MODEL]
    assert [one.effect["purpose"] for one in sorted(order, key=lambda one: one.seq)][:3] == [
        "decision",
        "tool",
        "decision",
    ]
    (facts,), (plan,) = planner.asked["facts"], planner.asked["plans"]
    assert WORD in seen(facts) and "The hut is red." not in seen(facts)
    assert WORD in seen(plan) and "The hut is red." in seen(plan)
    assert "sound: Sound the depth of a lake." in seen(plan)
    assert len(planner.asked["decisions"]) == 3
    for request in planner.asked["decisions"]:
        shown = seen(request)
        assert "The hut is red." in shown and shown.count("2. Sound it.") == 1
    assert "reviews" not in planner.asked


@pytest.mark.parametrize("needs_plan", [False, True])
async def test_a_task_of_one_step_is_begun_without_a_plan(tmp_path: Path, needs_plan: bool) -> None:
    planner = Planner(places=(), facts=[{"given": ["It is 5 m deep."], "needs_plan": needs_plan}])
    async with workspace(tmp_path, planner.model(), tools=[sound]) as ws:
        result = await ws.run(WORD, model="scripted", system="oagents")
        assert (result.status, result.answer) == (RunStatus.COMPLETED, "5 m")
        assert (await ws.replay(result.run_id)).answer == "5 m"
    assert ("plans" in planner.asked) is needs_plan
    (decision,) = planner.asked["decisions"]
    assert "It is 5 m deep." in seen(decision)
    assert ("2. Sound it." in seen(decision)) is needs_plan


async def test_a_plan_that_was_left_out_is_made_when_the_work_goes_on(tmp_path: Path) -> None:
    planner = Planner(places=["one", "two"], facts=[{"given": ["It is deep."], "needs_plan": False}])
    settings = Settings(parts=PartSettings(planning_interval=2))
    async with workspace(tmp_path, planner.model(), tools=[sound], settings=settings) as ws:
        await ws.run(WORD, model="scripted", system="oagents")
    shown = [seen(one) for one in planner.asked["decisions"]]
    assert ["Sound it in the middle." in one for one in shown] == [False, False, True]


async def test_the_plan_is_revised_from_what_was_observed_since_and_put_in_its_place(tmp_path: Path) -> None:
    planner = Planner(
        places=["one", "two", "three", "four", "five"],
        reviews=[
            {"learned": ["It is Mirror Lake."], "to_look_up": ["its middle"], "to_derive": [], "steps": ["Go east."]},
            {"learned": ["It has an isle."], "to_look_up": [], "to_derive": [], "steps": ["Go home."]},
        ],
    )
    settings = Settings(parts=PartSettings(planning_interval=2))
    async with workspace(tmp_path, planner.model(), tools=[sound], settings=settings) as ws:
        result = await ws.run(WORD, model="scripted", system="oagents")
        assert (await ws.replay(result.run_id)).answer == "5 m"
    first, second = (seen(one) for one in planner.asked["reviews"])
    assert "one: 3 m deep" in first and "two: 3 m deep" in first and "Sound it." in first
    assert "three: 5 m deep" in second and "four: 4 m deep" in second and "Go east." in second
    assert "two: 3 m deep" not in second and "Find the lake." not in second
    shown = [seen(one) for one in planner.asked["decisions"]]
    assert ["Go east." in one for one in shown] == [False, False, True, True, False, False]
    assert ["Find the lake." in one for one in shown] == [True, True, False, False, False, False]
    assert "It is Mirror Lake." in shown[-1] and "It has an isle." in shown[-1]  # what was found out stays
    assert "its middle" not in shown[-1]


async def test_a_review_is_shown_what_the_user_said_meanwhile(tmp_path: Path) -> None:
    planner = Planner(places=["one", "two", "three", "four"])
    settings = Settings(parts=PartSettings(planning_interval=1))
    async with workspace(tmp_path, planner.model(), tools=[sound], settings=settings) as ws:
        run = await ws.create(WORD, model="scripted", system="oagents")
        await ws.tell(run, "I mean the small lake.")
        await ws.resume(run)
    first, *later = [seen(one) for one in planner.asked["reviews"]]
    assert "I mean the small lake." in first
    assert not any("I mean the small lake." in one for one in later)


@pytest.mark.long
async def test_the_budget_keeps_an_answer_whatever_is_planned(tmp_path: Path) -> None:
    for steps in range(1, 4):
        planner = Planner(places=["one", "two", "three"])
        async with workspace(tmp_path / str(steps), planner.model(), tools=[sound]) as ws:
            result = await ws.run(WORD, model="scripted", system="oagents", budget=Budget(steps=steps))
        assert (result.status, result.answer) == (RunStatus.BUDGET_EXHAUSTED, "5 m")


async def test_a_plan_made_once_is_not_looked_at_again_and_none_is_not_made(tmp_path: Path) -> None:
    for plan, asked in (("once", {"facts", "plans", "decisions"}), ("none", {"decisions"})):
        planner = Planner(places=["a", "b", "c", "d", "e", "f"])
        settings = Settings(parts=PartSettings.model_validate({"plan": plan, "planning_interval": 1}))
        async with workspace(tmp_path / plan, planner.model(), tools=[sound], settings=settings) as ws:
            await ws.run(WORD, model="scripted", system="oagents")
        assert set(planner.asked) == asked


@pytest.mark.sampled(2)
@pytest.mark.parametrize("nonsense", ["Let me think.", {"steps": 7}, {}, {"steps": [" "], "given": [""]}])
async def test_without_a_plan_of_use_the_work_goes_on(tmp_path: Path, nonsense: Any) -> None:
    planner = Planner(places=["one", "two"], facts=[nonsense], plans=[nonsense], reviews=[nonsense])
    settings = Settings(parts=PartSettings(planning_interval=1))
    async with workspace(tmp_path, planner.model(), tools=[sound], settings=settings) as ws:
        result = await ws.run(WORD, model="scripted", system="oagents")
        assert (result.status, result.answer) == (RunStatus.COMPLETED, "5 m")
    assert "two: 3 m deep" in seen(planner.asked["decisions"][-1])


async def test_a_review_without_a_reply_of_use_leaves_the_plan(tmp_path: Path) -> None:
    planner = Planner(places=["one", "two"], reviews=["Hm."])
    settings = Settings(parts=PartSettings(planning_interval=1))
    async with workspace(tmp_path, planner.model(), tools=[sound], settings=settings) as ws:
        await ws.run(WORD, model="scripted", system="oagents")
    assert "2. Sound it." in seen(planner.asked["decisions"][-1])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("system", ["react", "agentorchestra", "aorchestra", "coral"])
async def test_a_setting_puts_the_plan_into_other_systems(tmp_path: Path, system: str) -> None:
    settings = Settings(parts=PartSettings(plan="once"))
    for chosen, planned in ((settings, True), (Settings(), False)):
        planner = Planner(places=())
        folder = tmp_path / str(planned)
        async with workspace(folder, planner.model(), tools=[sound], settings=chosen) as ws:
            result = await ws.run(WORD, model="scripted", system=system)
            assert (result.status, result.answer) == (RunStatus.COMPLETED, "5 m")
        assert ("plans" in planner.asked) is planned
        assert ("2. Sound it." in seen(planner.asked["decisions"][0])) is planned


async def test_sub_agents_have_the_parts_of_their_own_system_only(tmp_path: Path) -> None:
    planner = Planner(places=())

    def model(request: ModelRequest) -> ModelResponse:
        asked = [one.name for one in request.tools]
        first = not any(message.role == "tool" for message in request.messages)
        if "worker" in asked and first:
            return decide(calls=[call("worker", task="Sound the lake.")])
        return planner.reply(request)

    settings = Settings(parts=PartSettings(plan="once"))
    async with workspace(tmp_path, ScriptedModel(model), tools=[sound], settings=settings) as ws:
        await ws.run(WORD, model="scripted", system="agentorchestra")
    assert len(planner.asked["plans"]) == 1
    assert any("Sound the lake." in seen(one) for one in planner.asked["decisions"])


async def test_a_run_keeps_the_parts_that_it_began_with(tmp_path: Path) -> None:
    planner = Planner(places=["one"])
    settings = Settings(parts=PartSettings(plan="once"))
    async with workspace(tmp_path, planner.model(), tools=[sound], settings=settings) as ws:
        run = await ws.create(WORD, model="scripted", system="react")
    async with workspace(tmp_path, planner.model(), tools=[sound], settings=Settings()) as ws:
        assert (await ws.resume(run)).answer == "5 m"
        fork = await ws.fork(run, at="/1.react#4")
        assert (await ws.resume(fork)).answer == "5 m"
    assert len(planner.asked["plans"]) == 1
    assert all("2. Sound it." in seen(one) for one in planner.asked["decisions"])


async def test_a_plan_is_trusted_no_further_than_what_it_was_made_of(tmp_path: Path) -> None:
    planner = Planner(places=["one", "two"])
    settings = Settings(parts=PartSettings(planning_interval=1))
    async with workspace(tmp_path, planner.model(), tools=[sound], settings=settings) as ws:
        await ws.run(WORD, model="scripted", system="oagents")
    plans = [
        block.trust
        for request in planner.asked["decisions"]
        for message in request.messages
        for block in message.content
        if isinstance(block, TextBlock) and "Plan:" in block.text
    ]
    assert plans == [Trust.AGENT, Trust.UNTRUSTED, Trust.UNTRUSTED]


# -- the baseline ------------------------------------------------------------------------------------------------------


async def test_the_static_workflow_is_the_same_in_every_step_of_every_task(tmp_path: Path) -> None:
    plans = set()
    for task in (WORD, "Sound the sea."):
        planner = Planner(places=["one", "two"])
        async with workspace(tmp_path, planner.model(), tools=[sound]) as ws:
            result = await ws.run(task, model="scripted", system="static")
            assert (result.status, result.answer) == (RunStatus.COMPLETED, "5 m")
            assert (await ws.replay(result.run_id)).answer == "5 m"
        assert set(planner.asked) == {"decisions"}
        plans |= {seen(one).split("<plan>")[1].split("</plan>")[0] for one in planner.asked["decisions"]}
        assert all(seen(one).count("<plan>") == 1 for one in planner.asked["decisions"])
    assert len(plans) == 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (PartSettings(plan="once"), "parts.plan = once, and the system 'static' is there to follow a plan"),
        (PartSettings(subtasks=True), "parts.subtasks = true, and the system 'static'"),
    ],
)
async def test_the_static_workflow_takes_no_other_plan(tmp_path: Path, parts: PartSettings, said: str) -> None:
    planner = Planner()
    async with workspace(tmp_path, planner.model(), settings=Settings(parts=parts)) as ws:
        result = await ws.run(WORD, model="scripted", system="static")
    assert result.status is RunStatus.FAILED
    assert said in str(result.error)
    assert planner.asked == {}


# -- settings ----------------------------------------------------------------------------------------------------------


def test_parts_that_there_are_not_are_refused(tmp_path: Path) -> None:
    (tmp_path / "agentorchestra.toml").write_text('[parts]\nplan = "often"\n')
    with pytest.raises(
        SettingsError, match=r"parts\.plan = 'often' in .* does not fit: Input should be 'none', 'once'"
    ):
        load_settings(tmp_path)
    (tmp_path / "agentorchestra.toml").write_text("[parts]\nplanning_interval = 0\n")
    with pytest.raises(SettingsError, match=r"parts\.planning_interval = 0 in .* greater than or equal to 1"):
        load_settings(tmp_path)
