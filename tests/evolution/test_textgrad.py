"""Textual gradients: a critique flows back through recorded runs to the line that caused it, which is changed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.budget import Budget, Usage
from agentorchestra.core.errors import EvidenceError, UsageError
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import ModelProfile
from agentorchestra.core.spec import RunStatus
from agentorchestra.evaluation.plan import Arm
from agentorchestra.evolution.evidence import evidence_of
from agentorchestra.systems.reflection import Reflection
from agentorchestra.systems.textgrad import TextGrad
from agentorchestra.testing import ScriptedModel
from tests.evaluation.support import Trial, write_set
from tests.evolution.optimising import (
    RIGHT,
    TASK,
    WRONG,
    Critic,
    options,
    priced,
    prompt_file,
    shop,
    two_prompts,
    under,
    variables_of,
    worker,
)
from tests.systems.support import seen


async def _given(ws: Any, **more: Any) -> dict[str, Any]:
    """The options of an optimiser over runs that a prompt led astray."""
    return options(variables_of(await ws.components.prompts.vars("react"), "prompt:react"), await priced(ws, **more))


async def test_the_line_that_led_to_a_wrong_answer_is_found_and_changed(tmp_path: Path) -> None:
    critic = Critic()
    async with shop(tmp_path, critic, "- Be brief in all you say.", WRONG) as ws:
        given = await _given(ws)
        result = await ws.run("Improve it.", model="optimiser", system="textgrad", options=given)
        assert result.status is RunStatus.COMPLETED
        (change,) = result.output
        assert (change["component"], change["variable"]) == ("prompt:react", "task_rules")
        assert change["text"] == f"- Be brief in all you say.\n{RIGHT}\n"
        assert WRONG in change["feedback"] and WRONG in result.report
        await ws.components.prompts.setvars("react", {change["variable"]: change["text"]})
        assert (await ws.run(TASK, model="worker", system="react")).answer == "30 euros"
        assert (await ws.replay(result.run_id)).answer == result.answer
    # one critique, one step on the way, each part of the prompt, one new text: only the guilty part
    assert {part: len(asked) for part, asked in critic.asked.items()} == {
        "loss": 1, "backward": 1, "gradient": 3, "step": 1,
    }  # fmt: skip


@pytest.mark.long
async def test_the_gradients_of_a_batch_are_gathered_before_the_step(tmp_path: Path) -> None:
    critic = Critic()
    async with shop(tmp_path, critic) as ws:
        given = await _given(ws, times=3)
        result = await ws.run("Improve it.", model="optimiser", system="textgrad", options=given)
    assert [one["variable"] for one in result.output] == ["task_rules"]
    (step,) = critic.asked["step"]
    assert all(under(step, f"What was said of a run and of this text's part in it ({number})") for number in (1, 2, 3))


async def test_a_run_without_fault_changes_nothing(tmp_path: Path) -> None:
    critic = Critic()
    async with shop(tmp_path, critic, RIGHT) as ws:
        given = await _given(ws, score=1.0)
        with pytest.raises(EvidenceError, match="nothing in the runs says that anything is to be bettered"):
            await ws.run("Improve it.", model="optimiser", system="textgrad", options=given)
        given["loss"] = "The currency that was asked for."
        result = await ws.run("Improve it.", model="optimiser", system="textgrad", options=given)
    assert (result.status, result.output) == (RunStatus.COMPLETED, [])
    assert result.report == "The critique found nothing to better in the outcomes, so nothing is proposed."
    assert [*critic.asked] == ["loss"]


async def test_feedback_flows_back_over_every_effect_on_the_way_and_over_no_other(tmp_path: Path) -> None:
    critic = Critic(writes=lambda old, line: old.replace("in pounds", "in the currency of the task"))
    async with shop(tmp_path, critic) as ws:
        result = await ws.run("Improve it.", model="optimiser", system="textgrad", options=options(*two_prompts()))
    assert [under(one, "What came out") for one in critic.asked["backward"]] == [
        "30 pounds", "30 pounds", "the pounds list",
    ]  # fmt: skip
    assert "'pounds'" in under(critic.asked["backward"][2], "What is said of a later step")
    asked = [under(one, "The text:") for one in critic.asked["gradient"]]
    assert asked == ["- Take the list in pounds.", "- Say what is there."]  # what was asked aside led nowhere
    assert [(one["component"], one["text"]) for one in result.output] == [
        ("prompt:lists", "- Take the list in the currency of the task.")
    ]


async def test_a_text_that_breaks_a_constraint_is_asked_for_again_with_the_reason(tmp_path: Path) -> None:
    texts = iter(["- Price.", "- Give the price of {{ item }} in the task's currency."])
    critic = Critic(writes=lambda old, line: next(texts))
    variables, evidence = two_prompts()
    variables[0] = variables[0].model_copy(update={"text": "- Take the list in pounds for {{ item }}."})
    async with shop(tmp_path, critic) as ws:
        given = options(variables, evidence)
        result = await ws.run("Improve it.", model="optimiser", system="textgrad", options=given)
    first, second = critic.asked["step"]
    assert "{{ item }}" in first.messages[0].text
    assert "lacks {{ item }}; keep what is rendered" in under(second, "Why it was refused")
    assert under(second, "Your last text, which was refused") == "- Price."
    assert [one["text"] for one in result.output] == ["- Give the price of {{ item }} in the task's currency."]


async def test_after_the_last_attempt_a_text_stays_as_it_is(tmp_path: Path) -> None:
    critic = Critic(writes=lambda old, line: "x" * 5_000)
    async with shop(tmp_path, critic) as ws:
        result = await ws.run("Improve it.", model="optimiser", system="textgrad", options=options(*two_prompts()))
    assert (result.output, len(critic.asked["step"])) == ([], 2)
    assert (
        "prompt:lists/rules stays as it is: the new text for prompt:lists/rules has 5,000 characters" in result.report
    )


async def test_earlier_values_and_what_was_said_of_them_are_shown(tmp_path: Path) -> None:
    critic = Critic()
    variables, evidence = two_prompts()
    past = {"text": "- Take any list.", "feedback": "It took the oldest list.", "score": 0.25}
    given = options(variables, evidence)
    given["variables"][0]["past"] = [past]
    async with shop(tmp_path, critic) as ws:
        await ws.run("Improve it.", model="optimiser", system="textgrad", options=given)
    (step,) = critic.asked["step"]
    assert under(step, "An earlier version, which scored 0.25:") == "- Take any list."
    assert under(step, "What was said of that version:") == "It took the oldest list."


async def test_without_a_readable_critique_nothing_is_proposed(tmp_path: Path) -> None:
    model = ScriptedModel(lambda request: "It is not good.", name="vague")
    async with shop(tmp_path, Critic(), models={"vague": model}) as ws:
        result = await ws.run("Improve it.", model="vague", system="textgrad", options=options(*two_prompts()))
        assert (result.status, result.output_value) == (RunStatus.BLOCKED, [])
    assert result.report == "No critique of an outcome could be had, so nothing is proposed."
    assert len(model.requests) == 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize("at", [0, 1, 3])
async def test_what_was_stopped_goes_on_without_asking_again(tmp_path: Path, at: int) -> None:
    """Cut off at a request of each part: the run ends in the same proposal, after as many requests as undisturbed."""
    asked: list[ModelRequest] = []
    stop = asyncio.Event()
    critic = Critic()

    async def slow(request: ModelRequest) -> ModelResponse:
        asked.append(request)
        if len(asked) == at + 1:
            stop.set()
            await asyncio.Event().wait()  # never answered: the process is gone
        return critic.reply(request)

    stopped = {"optimiser": ScriptedModel(slow, name="optimiser")}
    given = options(*two_prompts())
    async with shop(tmp_path, critic, models=stopped) as ws:
        run = await ws.create("Improve it.", model="optimiser", system="textgrad", options=given)
        work = asyncio.create_task(ws.resume(run))
        await stop.wait()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
    again = Critic()
    async with shop(tmp_path, again) as ws:
        result = await ws.resume(run)
        assert [one["component"] for one in result.output] == ["prompt:lists"]
        assert (await ws.replay(run)).answer == result.answer_text
    assert sum(map(len, critic.asked.values())) + sum(map(len, again.asked.values())) == 7


async def test_a_budget_that_ends_in_the_middle_goes_on_later(tmp_path: Path) -> None:
    critic = Critic()

    def dear(request: ModelRequest) -> ModelResponse:
        return critic.reply(request).model_copy(
            update={"usage": Usage(requests=1, input_tokens=900, output_tokens=100)}
        )

    profile = ModelProfile(model="dear", max_tokens=500)
    models = {"dear": ScriptedModel(dear, name="dear", profile=profile)}
    async with shop(tmp_path, critic, models=models) as ws:
        given = options(*two_prompts())
        result = await ws.run(
            "Improve it.", model="dear", system="textgrad", options=given, budget=Budget(tokens=4_500)
        )
        assert result.status is RunStatus.BUDGET_EXHAUSTED
        assert result.usage.tokens <= 4_500
        before = sum(map(len, critic.asked.values()))
        more = await ws.resume(result.run_id, budget=Budget(tokens=100_000))
        assert (more.status, len(more.output)) == (RunStatus.COMPLETED, 1)
    assert 0 < before < sum(map(len, critic.asked.values())) == 7


async def test_no_truth_stands_in_the_log_of_an_optimiser_or_of_a_refinement(tmp_path: Path) -> None:
    """An evaluation knows the truths. Of what it found, its runs and an optimiser over them know the scores alone."""
    critic = Critic()

    def either(request: ModelRequest) -> ModelResponse:
        form = (request.settings.output_schema or {}).get("properties", {})
        if not form:
            return worker(request)
        said = {"problems": ["'pounds' is wrong."], "feedback": "Say 'euros'.", "answer": "30 euros"}
        return ModelResponse(text=json.dumps({name: said[name] for name in form}))

    prompt_file(tmp_path, WRONG)
    (tmp_path / "ws").rename(tmp_path / "workspace")
    trial = Trial(tmp_path, {"worker": either, "optimiser": critic.reply})
    lines = [{"id": f"q{n}", "question": f"{TASK} It is lamp {n}.", "answer": f"canary{n}"} for n in range(2)]
    write_set(trial.data, lines)
    refined: dict[str, Any] = {"parts.refine": "textgrad", "parts.rounds": 1}
    plan = trial.plan(Arm(name="plain", system="react"), Arm(name="refined", system="react", settings=refined))
    await trial.run(plan)
    scores = await trial.score(plan)
    assert [one.score for one in scores] == [0.0] * 4 and "canary" in (trial.data / "questions.jsonl").read_text()
    async with trial.workspace(trial.folder) as ws:
        variables = variables_of(await ws.components.prompts.vars("react"), "prompt:react")
        evidence = [evidence_of(await ws.log.events(one.run_id), variables, score=one.score) for one in scores]
        assert [one.answer for one in evidence] == ["30 pounds", "30 euros"] * 2
        result = await ws.run("Improve it.", model="optimiser", system="textgrad", options=options(variables, evidence))
        logs = [json.dumps([each.body for each in await ws.log.events(one.id)]) for one in await ws.runs.list()]
    assert [one["variable"] for one in result.output] == ["task_rules"]
    assert "Score: 0 of 1" in seen(critic.asked["loss"][0])
    assert len(logs) == 5 and not [one for one in logs if "canary" in one]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"variables": []}, "the options of textgrad do not fit: variables: "),
        ({"evidence": []}, "the options of textgrad do not fit: evidence: "),
        ({"limits": {"growth": 0}}, "the options of textgrad do not fit: limits.growth: "),
        ({"truths": ["30"]}, "the options of textgrad do not fit: truths: Extra inputs"),
        ({"loss": "  "}, "the loss is blank; say what is wanted of an outcome"),
        ({"loss": "x" * 20_001}, "the options of textgrad do not fit: loss: String should have at most 20000"),
    ],
)
def test_options_that_are_of_no_use_are_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(EvidenceError) as caught:
        TextGrad().check_options(options(*two_prompts()) | change, (), "optimiser")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "evidence", "said"),
    [
        ({"component": "react"}, {}, "'react' names no component; write kind:name, the kind one of tool, "),
        ({"component": "prompt:answers"}, {}, "the variable prompt:answers/rules is given twice"),
        ({"text": " "}, {}, "the variable prompt:lists/rules has no text, so textgrad has nothing to change"),
        ({"variable": "other"}, {}, "the evidence of run_1 uses the variable prompt:lists/rules, which is not given"),
        ({}, {"edges": [("a", "z")]}, "the evidence of run_1 has an edge a -> z without such effects"),
        ({}, {"edges": [("a", "b"), ("b", "a")]}, "the edges of run_1 run in a circle: "),
        ({}, {"nodes": [{"key": "a", "kind": "X"}, {"key": "a", "kind": "X"}]}, "names an effect twice"),
        ({}, {"nodes": [], "edges": []}, "none of the variables took part in the runs: prompt:lists/rules, "),
    ],
)
def test_evidence_that_does_not_fit_is_refused(variable: dict[str, Any], evidence: dict[str, Any], said: str) -> None:
    given = options(*two_prompts())
    given["variables"][0] |= variable
    given["evidence"][0] |= evidence
    for name, system in (("textgrad", TextGrad()), ("reflection", Reflection())):
        with pytest.raises(EvidenceError) as caught:
            system.check_options(given, (), "optimiser")
        assert said.replace("textgrad", name) in str(caught.value)


async def test_nothing_is_spent_on_what_is_refused(tmp_path: Path) -> None:
    async with shop(tmp_path, Critic()) as ws:
        for system in ("textgrad", "reflection"):
            with pytest.raises(EvidenceError, match=f"the options of {system} do not fit: variables: Field required"):
                await ws.run("Improve it.", model="optimiser", system=system)
        assert await ws.runs.list() == []


async def test_the_offline_model_is_no_optimiser(tmp_path: Path) -> None:
    async with shop(tmp_path, Critic()) as ws:
        for system in ("textgrad", "reflection"):
            with pytest.raises(UsageError, match=f"the offline model judges nothing, so {system} cannot work with it"):
                await ws.create("Improve it.", model="offline", system=system, options=options(*two_prompts()))


def test_the_worker_does_what_its_prompt_says() -> None:
    """The model of the tests reads its rules: other rules, another answer."""
    request = ModelRequest(model="worker", messages=())
    from agentorchestra.core.messages import system

    answers = [
        worker(request.model_copy(update={"messages": (system(rule),)})).tool_calls[0].arguments
        for rule in (WRONG, RIGHT)
    ]
    assert answers == [{"answer": "30 pounds"}, {"answer": "30 euros"}]
