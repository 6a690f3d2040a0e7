"""AOrchestra: sub-agents made on demand, what comes back of them, and what cannot be delegated (002)."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.agents.agent import Agent
from agentorchestra.core.budget import Budget, Usage
from agentorchestra.core.errors import ModelUnavailableError, UnknownSystemError
from agentorchestra.core.events import Event
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import AOrchestraSettings, ModelProfile, Price, Settings, TeamSettings
from agentorchestra.core.spec import RunResult, RunStatus
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import ScriptedModel, call, decide, say
from agentorchestra.workspace import Workspace
from tests.environments.gits import SANDBOX
from tests.support.patience import growing
from tests.systems.planning import results, shown

Script = Callable[[ModelRequest], ModelResponse]


@tool(effect="read")
def weigh(thing: str) -> str:
    """Weigh a thing.

    Args:
        thing: Its name.
    """
    return f"{thing} weighs {len(thing)} kg"


@tool(effect="read")
def paint(thing: str) -> str:
    """Paint a thing.

    Args:
        thing: Its name.
    """
    return f"{thing} is red"


def is_main(request: ModelRequest) -> bool:
    """Whether the orchestrator is asked: who can delegate."""
    return any(one.name == "delegate_task" for one in request.tools) or "direct the work" in request.messages[0].text


def script(main: Script, child: Script, reviewer: Script | None = None) -> ScriptedModel:
    """One model for all, by what the prompt offers."""

    def reply(request: ModelRequest) -> ModelResponse:
        if is_main(request):
            return main(request)
        if any(one.name == "done" for one in request.tools):
            return child(request)
        return reviewer(request) if reviewer is not None else say('{"points": ["It was read."], "issues": []}')

    return ScriptedModel(reply)


def delegate(instruction: str, *tools: str, **more: Any) -> Any:
    """A call of `delegate_task`."""
    return call("delegate_task", task_instruction=instruction, tools=list(tools), **more)


def came_back(request: ModelRequest) -> list[dict[str, Any]]:
    """The delegations that came back, as the orchestrator sees them."""
    return [json.loads(text) for text in results(request) if text.startswith("{")]


def answer(text: str) -> ModelResponse:
    return decide(calls=[call("done", answer=text)])


def complete(text: str, **more: Any) -> ModelResponse:
    return decide(calls=[call("complete", answer=text, **more)])


async def orchestrated(
    tmp_path: Path, model: ScriptedModel, task: str = "What does the bell weigh?", **rest: Any
) -> tuple[RunResult, list[Event]]:
    """The run of one task and its log; its replay gives the same."""
    settings = rest.pop("settings", None) or Settings(aorchestra=AOrchestraSettings(**rest.pop("own", {})))
    models = {model.name: model, **rest.pop("models", {})}
    tools, agents = rest.pop("tools", [weigh, paint]), rest.pop("agents", [])
    async with Workspace(tmp_path / "ws", models=models, settings=settings, tools=tools, agents=agents) as ws:
        result = await ws.run(task, system="aorchestra", model=model.name, **rest)
        if result.status in (RunStatus.COMPLETED, RunStatus.PARTIAL):
            assert (await ws.replay(result.run_id)).answer == result.answer_text
        return result, await ws.log.events(result.run_id)


def weigher(request: ModelRequest) -> ModelResponse:
    """Weighs what its instruction names after `Weigh`, and says what that gave."""
    if said := results(request):
        return answer(said[-1])
    thing = re.search(r"[Ww]eigh the (\w+)", request.messages[1].text)
    assert thing is not None
    return decide(calls=[call("weigh", thing=thing[1])])


# -- the four-tuple ----------------------------------------------------------------------------------------------------


async def test_a_sub_agent_is_made_of_instruction_context_tools_and_model(tmp_path: Path) -> None:
    seen: list[ModelRequest] = []

    def main(request: ModelRequest) -> ModelResponse:
        if back := came_back(request):
            return complete(back[-1]["result"].split()[2])
        return decide(calls=[delegate("Weigh the bell.", "weigh", context="It hangs in the tower.", model="small")])

    def child(request: ModelRequest) -> ModelResponse:
        seen.append(request)
        return weigher(request)

    small = ScriptedModel(child, name="small")
    result, events = await orchestrated(
        tmp_path,
        script(main, child),
        models={"small": small},
        own={"models": ("scripted", "small")},
        task="What does the bell in Orrin's tower weigh, in kg?",
    )
    assert (result.status, result.answer) == (RunStatus.COMPLETED, "4")
    assert {request.model for request in seen} == {"small"}
    text = shown(seen[0])
    assert "Weigh the bell." in text and "It hangs in the tower." in text
    assert "Orrin" not in text, "the question is not the sub-agent's (002, 3.2)"
    assert {one.name for one in seen[0].tools} == {"weigh", "done"}
    asked = [event.body["effect"] for event in events if event.type == "started" and event.body.get("effect")]
    (made,) = [one["arguments"] for one in asked if one["kind"] == "InvokeAgent" and one["arguments"].get("on_demand")]
    assert made["instruction"] == "Weigh the bell." and "weigh" in made["tools"] and made["model"] == "small"


async def test_the_orchestrator_can_do_nothing_but_delegate_and_complete(tmp_path: Path) -> None:
    offered: list[set[str]] = []

    def main(request: ModelRequest) -> ModelResponse:
        offered.append({one.name for one in request.tools})
        if len(offered) == 1:
            return decide(calls=[call("weigh", thing="bell")])
        return complete("none", status="blocked")

    result, events = await orchestrated(tmp_path, script(main, weigher))
    assert offered[0] == {"delegate_task", "complete"}
    assert result.status is RunStatus.BLOCKED
    assert not [event for event in events if "weighs" in json.dumps(event.body)]


async def test_a_sub_agent_cannot_call_what_it_was_not_given(tmp_path: Path) -> None:
    """The door refuses it, whatever the prompt offered: here a system of the user's own tries it."""
    denied: list[str] = []

    async def thief(spec: Any, session: Any, kit: Any) -> Any:
        from agentorchestra.core.spec import AgentResult

        outcome = await session.call_tool("paint", thing="bell")
        denied.append(f"{outcome.status}: {outcome.error}")
        return AgentResult(answer="tried")

    def main(request: ModelRequest) -> ModelResponse:
        return complete("tried") if came_back(request) else decide(calls=[delegate("Weigh the bell.", "weigh")])

    model = script(main, weigher)
    settings = Settings(aorchestra=AOrchestraSettings(executor="thief"))
    async with Workspace(
        tmp_path / "ws", models={model.name: model}, settings=settings, tools=[weigh, paint], systems={"thief": thief}
    ) as ws:
        await ws.run("What does the bell weigh?", system="aorchestra", model=model.name)
    (sentence,) = denied
    assert sentence.startswith("denied: 'paint' is not among the tools this agent may use")


async def test_prices_and_guides_stand_in_the_prompt_and_names_can_be_masked(tmp_path: Path) -> None:
    seen: list[ModelRequest] = []

    def main(request: ModelRequest) -> ModelResponse:
        seen.append(request)
        if back := came_back(request):
            return complete(back[-1]["result"])
        return decide(calls=[delegate("Weigh the bell.", "weigh", model="model_2")])

    asked: list[str] = []

    def child(request: ModelRequest) -> ModelResponse:
        asked.append(request.model)
        return weigher(request)

    profile = ModelProfile(model="scripted", price=Price(input=0.25, output=2.0))
    large, small = (ScriptedModel(child, name=name, profile=profile) for name in ("larch", "sprig"))
    own = {"models": ("larch", "sprig"), "mask": True, "guide": {"sprig": "Good at plain lookups."}}
    await orchestrated(tmp_path, script(main, child), models={"larch": large, "sprig": small}, own=own)
    text = shown(seen[0])
    assert "model_2: $0.25 in, $2 out per million tokens. Good at plain lookups." in text
    assert "sprig" not in text and "larch" not in text
    assert set(asked) == {"sprig"}
    assert came_back(seen[-1])[0]["model"] == "model_2"


# -- what comes back ---------------------------------------------------------------------------------------------------


async def test_the_reviewer_reads_the_log_and_the_orchestrator_its_points_only(tmp_path: Path) -> None:
    reviewed: list[str] = []
    last: list[ModelRequest] = []

    def main(request: ModelRequest) -> ModelResponse:
        last.append(request)
        return complete("4") if came_back(request) else decide(calls=[delegate("Weigh the bell.", "weigh")])

    def child(request: ModelRequest) -> ModelResponse:
        said = results(request)
        if len(said) < 3:
            return decide(calls=[call("weigh", thing=("bell", "bells", "belfry")[len(said)])])
        return answer("4 kg")

    def reviewer(request: ModelRequest) -> ModelResponse:
        reviewed.append(shown(request))
        return say('{"points": ["The bell weighs 4 kg."], "issues": ["Two other things were weighed."]}')

    await orchestrated(tmp_path, script(main, child, reviewer), own={"review_from": 3})
    (log,) = reviewed
    assert "belfry weighs 6 kg" in log and "Weigh the bell." in log
    (back,) = came_back(last[-1])
    assert back["findings"] == ["The bell weighs 4 kg.", "Issue: Two other things were weighed."]
    assert (back["status"], back["result"], back["steps"]) == ("completed", "4 kg", 4)
    assert "belfry weighs" not in shown(last[-1]), "the trace itself is not the orchestrator's"


async def test_a_reviewer_that_answers_nonsense_loses_no_finding(tmp_path: Path) -> None:
    last: list[ModelRequest] = []

    def main(request: ModelRequest) -> ModelResponse:
        last.append(request)
        return complete("4") if came_back(request) else decide(calls=[delegate("Weigh the bell.", "weigh")])

    model = script(main, weigher, lambda request: say("la la la"))
    await orchestrated(tmp_path, model, own={"review_from": 1})
    (back,) = came_back(last[-1])
    assert any("bell weighs 4 kg" in one for one in back["findings"])


async def test_a_sub_agent_at_its_step_limit_hands_over_what_it_had(tmp_path: Path) -> None:
    last: list[ModelRequest] = []

    def main(request: ModelRequest) -> ModelResponse:
        last.append(request)
        return complete("none") if came_back(request) else decide(calls=[delegate("Weigh the bell.", "weigh")])

    def child(request: ModelRequest) -> ModelResponse:  # it never ends of itself
        return decide("still at it", calls=[call("weigh", thing=f"bell{len(results(request))}")])

    model = script(main, child, lambda request: say("nothing"))
    await orchestrated(tmp_path, model, own={"child_steps": 3})
    (back,) = came_back(last[-1])
    assert back["status"] == "partial" and back["steps"] == 3
    assert any("bell0 weighs 5 kg" in one for one in back["findings"])


async def test_a_sub_agent_out_of_time_is_reviewed_from_its_log(tmp_path: Path) -> None:
    last: list[ModelRequest] = []

    def main(request: ModelRequest) -> ModelResponse:
        last.append(request)
        return complete("none") if came_back(request) else decide(calls=[delegate("Weigh the bell.", "weigh_slowly")])

    @tool(effect="read", thread=False)
    async def weigh_slowly(thing: str) -> str:
        """Weigh a thing, slowly.

        Args:
            thing: Its name.
        """
        await asyncio.sleep(0.4)
        return f"the clapper of {thing} weighs 3 kg"

    def child(request: ModelRequest) -> ModelResponse:
        return decide(calls=[call("weigh_slowly", thing=f"bell {len(results(request))}")])

    for seconds in growing(1.0):
        model = script(main, child, lambda request: say("nothing"))
        await orchestrated(tmp_path / f"{seconds:g}", model, own={"child_seconds": seconds}, tools=[weigh_slowly])
        (back,) = came_back(last[-1])
        assert back["status"] == "timed_out"
        if back["findings"]:
            break
    assert any("the clapper of bell 0 weighs 3 kg" in one for one in back["findings"])
    assert back["errors"]


async def test_a_sub_agent_that_hangs_within_a_call_is_cut_off(tmp_path: Path) -> None:
    last: list[ModelRequest] = []

    def main(request: ModelRequest) -> ModelResponse:
        last.append(request)
        return complete("none") if came_back(request) else decide(calls=[delegate("Wait.", "weigh", "wait_for_ever")])

    @tool(effect="read", thread=False)
    async def wait_for_ever() -> str:
        """Wait."""
        await asyncio.Event().wait()
        return "over"

    def child(request: ModelRequest) -> ModelResponse:
        return decide(calls=[call("wait_for_ever") if results(request) else call("weigh", thing="bell")])

    for seconds in growing(1.0):
        model, own = script(main, child, lambda request: say("nothing")), {"child_seconds": seconds}
        await orchestrated(tmp_path / f"{seconds:g}", model, own=own, tools=[weigh, wait_for_ever])
        (back,) = came_back(last[-1])
        assert back["status"] == "timed_out"
        if any("was stopped" in one for one in back["errors"]):
            break
    assert back["steps"] == 2
    assert f"was stopped after its time limit of {seconds:g} s" in back["errors"][0]
    assert any("bell weighs 4 kg" in one for one in back["findings"])


async def test_sources_of_sub_agents_are_the_answers(tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text("The bell was cast in 1712.\n")

    def main(request: ModelRequest) -> ModelResponse:
        return complete("1712") if came_back(request) else decide(calls=[delegate("When was it cast?", "read_file")])

    def child(request: ModelRequest) -> ModelResponse:
        if not results(request):
            return decide(calls=[call("read_file", name="note.txt")])
        cited: Any = {"source": "note.txt", "place": "line 1", "quote": "The bell was cast in 1712."}
        return decide(calls=[call("done", answer="1712", sources=[cited])])

    result, _ = await orchestrated(tmp_path, script(main, child), task="When was the bell cast?", files=[note])
    (source,) = result.sources
    assert (source.source, source.quote) == ("note.txt", "The bell was cast in 1712.")


# -- context -----------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("context", "knows"), [("none", False), ("curated", False), ("full", True)])
async def test_what_a_sub_agent_knows_of_earlier_ones(tmp_path: Path, context: str, knows: bool) -> None:
    seen: list[str] = []

    def main(request: ModelRequest) -> ModelResponse:
        back = came_back(request)
        if len(back) == 2:
            return complete(back[-1]["result"])
        return decide(calls=[delegate(f"Weigh the {('bell', 'rope')[len(back)]}.", "weigh")])

    def child(request: ModelRequest) -> ModelResponse:
        seen.append(shown(request))
        return weigher(request)

    own = {"context": context, "review_from": 1}
    await orchestrated(tmp_path, script(main, child), task="Which is heavier? Ask Orrin.", own=own)
    second = next(text for text in seen if "Weigh the rope." in text)
    assert ("bell weighs 4 kg" in second) is knows
    assert ("It was read." in second) is knows, "what the reviewer found came back too"
    assert ("Ask Orrin" in second) is knows


async def test_the_question_is_shown_where_the_settings_say_so(tmp_path: Path) -> None:
    seen: list[str] = []

    def main(request: ModelRequest) -> ModelResponse:
        return complete("4") if came_back(request) else decide(calls=[delegate("Weigh the bell.", "weigh")])

    def child(request: ModelRequest) -> ModelResponse:
        seen.append(shown(request))
        return weigher(request)

    await orchestrated(tmp_path, script(main, child), task="Which is heavier? Ask Orrin.", own={"question": True})
    assert "Ask Orrin" in seen[0]


# -- what cannot be delegated ------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"tools": ["wiegh"]}, "did you mean 'weigh'"),
        ({"tools": []}, "tools: [] should be non-empty"),
        ({"tools": ["weigh"], "model": "smal"}, "did you mean 'small'"),
        ({"tools": ["weigh"], "task_instruction": ""}, "task_instruction"),
        ({"tools": ["delegate_task"]}, "tools"),
    ],
)
async def test_a_delegation_that_does_not_fit_says_what_would(
    tmp_path: Path, arguments: dict[str, Any], told: str
) -> None:
    said: list[str] = []

    def main(request: ModelRequest) -> ModelResponse:
        if not results(request):
            given = {"task_instruction": "Weigh the bell.", "model": "small", **arguments}
            return decide(calls=[call("delegate_task", **given)])
        said.append(results(request)[-1])
        return complete("none", status="blocked")

    small = ScriptedModel(weigher, name="small")
    own = {"models": ("scripted", "small")}
    _, events = await orchestrated(tmp_path, script(main, weigher), models={"small": small}, own=own)
    assert told in said[0]
    assert not [event for event in events if '"on_demand"' in json.dumps(event.body)], "nobody was made for it"


async def test_word_for_word_the_same_again_is_refused(tmp_path: Path) -> None:
    said: list[str] = []

    def main(request: ModelRequest) -> ModelResponse:
        said.extend(results(request)[len(said) :])
        if len(said) < 2:
            return decide(calls=[delegate("Weigh the bell.", "weigh")])
        return complete("4")

    await orchestrated(tmp_path, script(main, weigher))
    assert "the same delegation was made before, word for word" in said[1]


async def test_attempts_count_delegations_and_not_decisions(tmp_path: Path) -> None:
    said: list[str] = []

    def main(request: ModelRequest) -> ModelResponse:
        said.extend(results(request)[len(said) :])
        if not said:
            return decide(calls=[delegate(f"Weigh the {one}.", "weigh") for one in ("bell", "rope")])
        if len(said) == 2:
            return decide(calls=[delegate("Weigh the wheel.", "weigh")])
        return complete("4")

    result, _ = await orchestrated(tmp_path, script(main, weigher), own={"attempts": 2})
    assert [json.loads(one)["attempts_left"] for one in said[:2]] == [1, 0]
    assert "all 2 attempts are used" in said[2]
    assert result.status is RunStatus.COMPLETED


async def test_no_more_than_the_settings_allow_go_out_at_once(tmp_path: Path) -> None:
    said: list[str] = []

    def main(request: ModelRequest) -> ModelResponse:
        said.extend(results(request)[len(said) :])
        if not said:
            return decide(calls=[delegate(f"Weigh the {one}.", "weigh") for one in ("bell", "rope")])
        return complete("4")

    await orchestrated(tmp_path, script(main, weigher), own={"parallel": 1})
    assert "at most 1 are executed" in said[1]


@pytest.mark.long
async def test_delegations_of_one_decision_work_at_the_same_time(tmp_path: Path) -> None:
    """Each of eight waits until all eight are asked: one after the other they would wait for ever."""
    parts = [delegate(f"Weigh the bell{'s' * number}.", "weigh") for number in range(8)]
    together = asyncio.Barrier(len(parts))

    def main(request: ModelRequest) -> ModelResponse:
        back = came_back(request)
        return complete(str(len(back))) if back else decide(calls=parts)

    async def child(request: ModelRequest) -> ModelResponse:
        await together.wait()
        return weigher(request)

    hand = ScriptedModel(child, name="hand")
    result, _ = await orchestrated(tmp_path, script(main, weigher), models={"hand": hand}, own={"models": ("hand",)})
    assert result.answer == "8"


async def test_a_model_out_of_service_is_reported_to_the_orchestrator(tmp_path: Path) -> None:
    last: list[ModelRequest] = []

    def main(request: ModelRequest) -> ModelResponse:
        last.append(request)
        back = came_back(request)
        if not back:
            return decide(calls=[delegate("Weigh the bell.", "weigh", model="broken")])
        if len(back) == 1:
            return decide(calls=[delegate("Weigh the bell.", "weigh", model="scripted")])
        return complete(back[-1]["result"])

    def broken(request: ModelRequest) -> ModelResponse:
        raise ModelUnavailableError("the model is switched off")

    profile = ModelProfile(model="scripted", max_attempts=1)
    models = {"broken": ScriptedModel(broken, name="broken", profile=profile)}
    own = {"models": ("scripted", "broken")}
    result, _ = await orchestrated(tmp_path, script(main, weigher), models=models, own=own)
    first, second = came_back(last[-1])
    assert first["status"] == "blocked" and "switched off" in first["errors"][0]
    assert second["status"] == "completed" and "4 kg" in result.answer


async def test_a_budget_too_small_for_one_more_delegation_still_ends_with_an_answer(tmp_path: Path) -> None:
    said: list[str] = []

    def main(request: ModelRequest) -> ModelResponse:
        said.extend(results(request)[len(said) :])
        if len(said) < 2 and "delegate_task" in {one.name for one in request.tools}:
            return decide(calls=[delegate(f"Weigh the {('bell', 'rope')[len(said)]}.", "weigh")])
        return complete("4 kg, as far as it was weighed", status="partial")

    result, _ = await orchestrated(tmp_path, script(main, weigher), budget=Budget(steps=5))
    assert result.status in (RunStatus.PARTIAL, RunStatus.BUDGET_EXHAUSTED)
    assert "4 kg" in result.answer or "4 kg" in said[0]


async def test_an_executor_that_is_not_there_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    model = script(lambda request: complete("4"), weigher)
    result, _ = await orchestrated(tmp_path, model, own={"executor": "reakt"})
    assert result.status is RunStatus.FAILED and "reakt" in str(result.error)
    assert result.usage == Usage()


async def test_a_toolset_of_which_the_run_has_nothing_is_refused(tmp_path: Path) -> None:
    model = script(lambda request: complete("4"), weigher)
    result, _ = await orchestrated(tmp_path, model, own={"toolset": "terminal"})
    assert result.status is RunStatus.FAILED
    assert "the toolset 'terminal' (aorchestra.toolset) needs terminal" in str(result.error)


@pytest.mark.sampled(2)
@pytest.mark.skipif(SANDBOX is None, reason="no sandbox here: install bubblewrap")
@pytest.mark.parametrize("named", [(), ("files", "terminal")])
async def test_the_tools_for_swe_are_actions_on_the_folder_of_the_run(tmp_path: Path, named: tuple[str, ...]) -> None:
    offered: list[set[str]] = []

    def main(request: ModelRequest) -> ModelResponse:
        back = came_back(request)
        if len(back) == 2:
            return decide(calls=[call("submit", reason=back[-1]["result"])])
        if back:
            return decide(calls=[delegate("Mend the price.", "view_file", "edit_file")])
        return decide(calls=[delegate("Write the shop.", "execute")])

    def child(request: ModelRequest) -> ModelResponse:
        offered.append({one.name for one in request.tools})
        said = results(request)
        if "execute" in offered[-1]:
            written = "printf 'def price():\\n    return 3\\n' > shop.py"
            return answer("written") if said else decide(calls=[call("execute", command=written)])
        if not said:
            return decide(calls=[call("view_file", path="shop.py", view_range=[2, 2])])
        if len(said) == 1:
            found = re.fullmatch(r"(?s).*2\t    return (\d+).*", said[0])
            assert found is not None, said
            more = str(int(found[1]) + 1)
            return decide(calls=[call("edit_file", path="shop.py", old=f"return {found[1]}", new=f"return {more}")])
        return answer(said[1])

    settings = Settings(aorchestra=AOrchestraSettings(toolset="swe"))
    async with Workspace(tmp_path / "ws", models={"scripted": script(main, child)}, settings=settings) as ws:
        result = await ws.run("Mend it.", system="aorchestra", model="scripted", environments=list(named))
        assert result.answer == "replaced 1 place in shop.py", result
        assert (ws.files.folder(result.run_id) / "shop.py").read_text() == "def price():\n    return 4\n"
        assert (await ws.replay(result.run_id)).answer == result.answer_text
    assert offered[0] == {"execute", "done"} and offered[-1] == {"view_file", "edit_file", "done"}


# -- systems in systems ------------------------------------------------------------------------------------------------


async def test_an_agent_can_be_the_executor(tmp_path: Path) -> None:
    def main(request: ModelRequest) -> ModelResponse:
        back = came_back(request)
        return complete(back[-1]["result"]) if back else decide(calls=[delegate("Weigh the bell.", "weigh")])

    weigher_agent = Agent("scales", "It weighs things.", tools=("weigh",), prompt="worker")
    result, events = await orchestrated(
        tmp_path, script(main, weigher), agents=[weigher_agent], own={"executor": "scales"}
    )
    assert "4 kg" in result.answer
    asked = [event.body["effect"]["component"] for event in events if event.body.get("effect")]
    assert "scales@1.0.0" in asked


async def test_a_planner_delegates_to_it_and_it_to_a_planner_as_deep_as_allowed(tmp_path: Path) -> None:
    """Planner -> aorchestra -> planner -> ...: each hands the whole on, until the depth is reached."""
    refused: list[str] = []

    def reply(request: ModelRequest) -> ModelResponse:
        names = {one.name for one in request.tools}
        said = results(request)
        refused.extend(text for text in said if "levels below the run's top agent" in text)
        finish = "complete" if "complete" in names else "done"
        if said:
            return decide(calls=[call(finish, answer="it was handed on", status="partial")])
        if "delegate_task" in names:
            return decide(calls=[delegate("Weigh the bell.", "weigh")])
        if "aorchestra" in names:
            return decide(calls=[call("aorchestra", task="Weigh the bell.")])
        return say('{"points": [], "issues": []}') if not names else decide(calls=[call(finish, answer="none")])

    settings = Settings(
        aorchestra=AOrchestraSettings(executor="agentorchestra"),
        team=TeamSettings(systems=("aorchestra",), verify="off"),
        max_depth=3,
    )
    model = ScriptedModel(reply)
    async with Workspace(tmp_path / "ws", models={model.name: model}, settings=settings, tools=[weigh]) as ws:
        result = await ws.run("What does the bell weigh?", system="agentorchestra", model=model.name)
        events = await ws.log.events(result.run_id)
    asked = [event.body["effect"]["component"] for event in events if event.body.get("effect")]
    assert asked.count("aorchestra@1.0.0") == 2 and asked.count("agentorchestra@1.0.0") == 3
    assert refused and "4 levels" in refused[0] and "max_depth" in refused[0]


async def test_a_system_that_the_team_names_and_is_not_there_is_refused(tmp_path: Path) -> None:
    settings = Settings(team=TeamSettings(systems=("aorkestra",)))
    with pytest.raises(UnknownSystemError, match="aorkestra"):
        async with Workspace(tmp_path / "ws", settings=settings):
            pass


# -- roles and cost ----------------------------------------------------------------------------------------------------


async def test_each_role_has_its_model_and_the_bill_adds_up(tmp_path: Path) -> None:
    """What each model counts itself is what the run says it cost, the reviewer included."""
    counted: dict[str, int] = {}

    def named(name: str, script: Script) -> ScriptedModel:
        def reply(request: ModelRequest) -> ModelResponse:
            counted[name] = counted.get(name, 0) + 1
            return script(request)

        return ScriptedModel(reply, name=name, profile=ModelProfile(model="scripted", price=Price(input=1, output=2)))

    def main(request: ModelRequest) -> ModelResponse:
        back = came_back(request)
        return complete(back[-1]["result"]) if back else decide(calls=[delegate("Weigh the bell.", "weigh")])

    models = {
        "lead": named("lead", main),
        "hand": named("hand", weigher),
        "eye": named("eye", lambda request: say('{"points": ["It weighs 4 kg."], "issues": []}')),
    }
    settings = Settings(aorchestra=AOrchestraSettings(review_from=1, models=("hand",)))
    roles = {"main": "lead", "reviewer": "eye"}
    result, _ = await orchestrated(tmp_path, script(main, weigher), settings=settings, models=models, roles=roles)
    assert counted == {"lead": 2, "hand": 2, "eye": 1}
    assert {name: one.requests for name, one in result.usage_by_model.items()} == counted
    assert result.cost_usd == pytest.approx(sum(one.cost_usd or 0 for one in result.usage_by_model.values()))
    assert result.cost_usd
