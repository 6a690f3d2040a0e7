"""Test-time scaling by settings: choosers, reflection, votes, rival runs, mixtures, and what they cost."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from agentorchestra import tool
from agentorchestra.agents.parts.verifier import form_of, total_reward
from agentorchestra.core.budget import Budget
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import PartSettings, Settings
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.store import MemoryStore
from agentorchestra.testing import ScriptedModel, call, decide, say
from agentorchestra.workspace import Workspace

Worker = Callable[[str, int], ModelResponse]
"""A worker's decision, from all it is shown and the number of its proposal (1 without rivals)."""


def scripted(worker: Worker, verifier: Callable[[str, set[str]], Any] = lambda *_: {"score": 5}) -> ScriptedModel:
    """A model for both: a request for JSON is the verifier's."""

    def reply(request: ModelRequest) -> ModelResponse:
        text = "\n".join(message.text for message in request.messages)
        if request.settings.output_schema is not None:
            said = verifier(text, {*request.settings.output_schema["properties"]})
            return say(said if isinstance(said, str) else json.dumps(said))
        number = re.search(r"This is proposal (\d+)/", request.messages[-1].text)
        return worker(text, int(number[1]) if number else 1)

    return ScriptedModel(reply)


def workspace(folder: Path, parts: Mapping[str, Any], model: ScriptedModel, **more: Any) -> Workspace[Any]:
    """A workspace in memory whose agents have these parts."""
    settings = Settings(model=model.name, system="react", parts=PartSettings(**parts))
    given: dict[str, Any] = {"settings": settings, "models": {model.name: model}, "store": MemoryStore(), "environ": {}}
    return Workspace(folder / "ws", **given | more)


def answer(text: str) -> ModelResponse:
    """A decision to finish."""
    return decide(calls=[call("done", answer=text)])


def proposals(model: ScriptedModel) -> list[ModelRequest]:
    """The requests for decisions."""
    return [one for one in model.requests if one.settings.output_schema is None]


# -- the world ---------------------------------------------------------------------------------------------------------


async def test_the_losers_files_are_gone_and_the_winners_stay(tmp_path: Path) -> None:
    def worker(text: str, number: int) -> ModelResponse:
        if ".txt" in text:
            return answer("done")
        return decide(calls=[call("files_write", path=f"{number}.txt", content=f"by {number}")])

    model = scripted(worker, lambda text, _: {"score": 9 if "3.txt" in text else 1})
    async with workspace(tmp_path, {"candidates": 3}, model) as ws:
        result = await ws.run("Write a file.", environments=["files"])
        assert (result.status, result.answer) == (RunStatus.COMPLETED, "done")
        folder = ws.files.folder(result.run_id)
        assert [path.name for path in folder.rglob("*.txt")] == ["3.txt"]
        assert next(folder.rglob("3.txt")).read_text() == "by 3"
        assert (await ws.replay(result.run_id)).answer == "done"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("action", ["tools", "code"])
async def test_a_tool_that_acts_once_is_called_once(tmp_path: Path, action: Any) -> None:
    sent: list[int] = []
    looked: list[int] = []

    @tool(effect="write")
    async def send(to: int) -> str:
        """Send it."""
        sent.append(to)
        return f"sent to {to}"

    @tool(effect="read")
    async def look(at: int) -> str:
        """Look at it."""
        looked.append(at)
        return f"looked at {at}"

    def worker(text: str, number: int) -> ModelResponse:
        if "sent to" in text:
            ends = answer("sent")
            return say('```python\ndone(answer="sent")\n```') if action == "code" else ends
        calls = [call("look", at=number), call("send", to=number)]
        code = f"```python\nprint(look({number}))\nprint(send({number}))\n```"
        return say(code) if action == "code" else decide(calls=calls)

    shown: list[str] = []

    def verifier(text: str, wanted: set[str]) -> Any:
        shown.append(text)
        return {"score": 9 if "to=3" in text or "send(3)" in text else 1}

    async with workspace(tmp_path, {"candidates": 4}, scripted(worker, verifier), tools=[send, look]) as ws:
        result = await ws.run("Send it.", action=action)
        assert (result.answer, sent) == ("sent", [3])
        assert sorted(looked) == ([3] if action == "code" else [1, 2, 3, 4])  # a program is a proposal as a whole
    assert all("Proposed: it cannot be taken back" in text for text in shown[:4])


async def test_programs_that_only_read_run_in_every_candidate(tmp_path: Path) -> None:
    looked: list[int] = []

    @tool(effect="read")
    async def look(at: int) -> str:
        """Look at it."""
        looked.append(at)
        return f"looked at {at}"

    def worker(text: str, number: int) -> ModelResponse:
        if "looked at" in text:
            return say("```python\ndone(answer=str(kept))\n```")
        return say(f"```python\nkept = {number}\nprint(look({number}))\n```")

    model = scripted(worker, lambda text, _: {"score": 9 if "looked at 2" in text else 1})
    async with workspace(tmp_path, {"candidates": 3}, model, tools=[look]) as ws:
        result = await ws.run("Look.", action="code")
    assert result.answer == "2" and sorted(looked) == [1, 2, 3]  # with the variables of the winner's program


@pytest.mark.sampled(2)
@pytest.mark.parametrize("system", ["agentorchestra", "aorchestra"])
@pytest.mark.parametrize("parts", [{"candidates": 3}, {"rollouts": 2}])
async def test_a_setting_puts_rivals_into_other_systems(tmp_path: Path, system: str, parts: dict[str, Any]) -> None:
    """What a candidate hands on is a proposal: one sub-agent works, for the winner. Each whole run has its own."""
    worked: list[str] = []

    @tool(effect="read")
    async def look(at: str) -> str:
        """Look at it."""
        raise AssertionError

    def reply(request: ModelRequest) -> ModelResponse:
        offered, text = {one.name for one in request.tools}, "\n".join(message.text for message in request.messages)
        if request.settings.output_schema is not None:
            return say(json.dumps({"score": 9 if "part 2" in text else 1, "index": 1}))
        hands = next((name for name in ("worker", "delegate_task") if name in offered), None)
        if hands is None:
            worked.append(text)
        if hands is None or "found it" in text:
            return decide(calls=[call("complete" if "complete" in offered else "done", answer="found it")])
        number = re.search(r"This is proposal (\d+)/", request.messages[-1].text)
        words = f"Look at part {number[1] if number else 0}."
        given = {"task": words} if hands == "worker" else {"task_instruction": words, "tools": ["look"]}
        return decide(calls=[call(hands, **given)])

    async with workspace(tmp_path, parts, ScriptedModel(reply), tools=[look]) as ws:
        result = await ws.run("Find it in one of three parts.", system=system)
    assert result.answer == "found it"
    assert sorted("part 2" in one for one in worked) == ([True] if "candidates" in parts else [False, True])


async def test_whole_runs_that_cannot_be_taken_back_are_refused_before_anything_is_asked(tmp_path: Path) -> None:
    @tool(effect="write")
    async def send(to: int) -> str:
        """Send it."""
        raise AssertionError

    model = scripted(lambda *_: answer("sent"))
    async with workspace(tmp_path, {"rollouts": 3}, model, tools=[send]) as ws:
        result = await ws.run("Send it.")
    assert result.status is RunStatus.FAILED and not model.requests
    assert "parts.rollouts = 3 would do the work 3 times, and this cannot be taken back: send." in str(result.error)
    assert "set parts.candidates instead" in str(result.error)


# -- verifiers that err ------------------------------------------------------------------------------------------------


@pytest.mark.sampled(4)
@pytest.mark.parametrize("score", ["ten", 11, -1, None, "NaN", True, [9], 1e999])
async def test_a_reward_that_is_no_number_from_0_to_10_is_none(tmp_path: Path, score: Any) -> None:
    def verifier(text: str, wanted: set[str]) -> Any:
        return {"score": 3} if "answer='2'" in text else f'{{"score": {json.dumps(score)}}}'

    model = scripted(lambda text, number: answer(str(number)), verifier)
    async with workspace(tmp_path, {"candidates": 3}, model) as ws:
        result = await ws.run("Which one?")
    # The others were asked for twice; the one that has a reward comes first.
    assert result.answer == "2" and len(model.requests) == 3 + 1 + 2 * 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize("choose", ["process", "outcome", "listwise", "pairwise"])
async def test_without_any_reply_of_use_the_first_candidate_is_kept(tmp_path: Path, choose: str) -> None:
    model = scripted(lambda text, number: answer(str(number)), lambda *_: "I like the second one.")
    async with workspace(tmp_path, {"candidates": 3, "choose": choose}, model) as ws:
        result = await ws.run("Which one?")
    assert (result.status, result.answer) == (RunStatus.COMPLETED, "1")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("parts", [{"candidates": 5}, {"rollouts": 5}])
async def test_the_better_of_each_two_goes_on_until_one_is_left(tmp_path: Path, parts: dict[str, Any]) -> None:
    pairs: list[list[str]] = []

    def verifier(text: str, wanted: set[str]) -> Any:
        pairs.append(re.findall(r"answer='(\d)'", text))
        return {"index": 1 + pairs[-1].index(max(pairs[-1]))}

    model = scripted(lambda text, number: answer(str(number)), verifier)
    async with workspace(tmp_path, {**parts, "choose": "pairwise"}, model) as ws:
        assert (await ws.run("Which one?")).answer == "5"
    assert [sorted(one) for one in pairs] == [["1", "2"], ["3", "4"], ["2", "4"], ["4", "5"]]


@pytest.mark.parametrize("choose", ["process", "vote"])
async def test_a_tie_goes_to_the_earlier_candidate(tmp_path: Path, choose: str) -> None:
    model = scripted(lambda text, number: answer(str(number)))
    async with workspace(tmp_path, {"candidates": 3, "choose": choose}, model) as ws:
        assert (await ws.run("Which one?")).answer == "1"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "parts",
    [{"candidates": 3}, {"candidates": 3, "choose": "pairwise"}, {"rollouts": 3}, {"rollouts": 3, "choose": "outcome"}],
)
async def test_an_empty_answer_is_never_chosen_while_there_is_another(tmp_path: Path, parts: dict[str, Any]) -> None:
    def worker(text: str, number: int) -> ModelResponse:
        return answer("found" if number == 3 else " ")

    def verifier(text: str, wanted: set[str]) -> Any:
        empty = re.search(r"Candidate (\d+):(?:(?!Candidate).)*answer=' '", text, re.DOTALL)
        return (
            {"index": int(empty[1]) if empty else 1} if "index" in wanted else {"score": 0 if "found" in text else 10}
        )

    async with workspace(tmp_path, parts, scripted(worker, verifier)) as ws:
        assert (await ws.run("Which one?")).answer == "found"


@pytest.mark.parametrize("choose", ["process", "vote"])
async def test_where_all_candidates_fail_the_run_goes_on_with_what_failed(tmp_path: Path, choose: str) -> None:
    @tool(effect="read")
    async def look(at: str) -> str:
        """Look."""
        raise ValueError(f"nothing is {at}")

    def worker(text: str, number: int) -> ModelResponse:
        failed = re.findall(r"nothing is place (\d)", text)
        return answer(f"not at {failed}") if failed else decide(calls=[call("look", at=f"place {number}")])

    async with workspace(tmp_path, {"candidates": 3, "choose": choose}, scripted(worker), tools=[look]) as ws:
        result = await ws.run("Which one?")
    assert (result.status, result.answer) == (RunStatus.COMPLETED, "not at ['1']")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("choose", ["outcome", "listwise", "pairwise", "vote"])
async def test_where_all_runs_fail_the_best_partial_result_is_kept(tmp_path: Path, choose: str) -> None:
    def worker(text: str, number: int) -> ModelResponse:
        return decide(calls=[call("done", answer="half of it" if number == 2 else "", status="partial")])

    model = scripted(worker, lambda text, wanted: {"index": 1} if "index" in wanted else {"score": 0})
    async with workspace(tmp_path, {"rollouts": 3, "choose": choose}, model) as ws:
        result = await ws.run("Which one?")
    assert (result.status, result.answer) == (RunStatus.PARTIAL, "half of it")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("answers", "chosen"),
    [
        (["7", "1,204", "1204", "8"], "1,204"),
        (["Paris.", "Rome", "paris", "Milan"], "Paris."),
        (["4 May 2021", "2021-05-04", "May 5, 2021", "x"], "4 May 2021"),
        (["", "b", "", ""], "b"),
    ],
)
async def test_answers_that_differ_in_form_only_count_as_one(tmp_path: Path, answers: list[str], chosen: str) -> None:
    model = scripted(lambda text, number: answer(answers[number - 1]))
    async with workspace(tmp_path, {"rollouts": 4, "choose": "vote"}, model) as ws:
        assert (await ws.run("Which one?")).answer == chosen


def test_the_form_of_an_answer() -> None:
    same = [("1,000", "1000.0"), ("$5", "5 USD"), ('"New York."', "new  york"), ("a, b; c", "A B C")]
    same += [('{"a": 1, "b": [2]}', '{"b":[2],"a":1}'), ("−5", "-5"), ("**42**", "42")]
    for one, other in same:
        assert form_of(one) == form_of(other), (one, other)
    for one, other in [("-5", "5"), ("5%", "5"), ("1.5", "15"), ("v1.2", "v12"), ("C", "C++"), ("{", "[")]:
        assert form_of(one) != form_of(other), (one, other)


def test_rewards_of_rivals_that_ended_earlier_compare() -> None:
    assert total_reward((8.0,)) == total_reward((8.0, 8.0, 8.0)) == pytest.approx(8.0)
    assert total_reward((9.0,)) > total_reward((9.0, 5.0)) > total_reward((5.0, 9.0))
    assert total_reward((6.0, 3.0)) == pytest.approx((6.0 + 0.9 * 3.0) / 1.9) and total_reward(()) == 0.0


# -- reflection, mixtures, memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("score", "reflects"), [(4, True), (4.5, False)])
async def test_a_step_at_or_under_the_threshold_is_looked_back_on(tmp_path: Path, score: float, reflects: bool) -> None:
    @tool(effect="read")
    async def look(at: str) -> str:
        """Look."""
        return f"nothing at {at}"

    def worker(text: str, number: int) -> ModelResponse:
        if "nothing at" not in text:
            return decide(calls=[call("look", at="north")])
        return answer("with lessons" if "Lessons: try the south" in text else "without")

    def verifier(text: str, wanted: set[str]) -> Any:
        if "score" in wanted:
            return {"score": score}
        return {"experience_summary": "It looked north.", "lessons_learned": "try the south"}

    model = scripted(worker, verifier)
    async with workspace(tmp_path, {"threshold": 4}, model, tools=[look]) as ws:
        result = await ws.run("Find it.")
    assert result.answer == ("with lessons" if reflects else "without")
    judged = [one for one in model.requests if one.settings.output_schema is not None]
    assert {one.settings.temperature for one in judged} == {0.0} and len(judged) == 2 + reflects


@pytest.mark.long
async def test_candidates_ask_the_models_of_a_mixture_by_their_weights(tmp_path: Path) -> None:
    def called(name: str) -> ScriptedModel:
        return ScriptedModel(lambda request: answer(name), name=name)

    models = {name: called(name) for name in ("often", "rarely")}
    parts = PartSettings(candidates=16, choose="vote", mixture={"often": 3, "rarely": 1})
    settings = Settings(model="often", system="react", parts=parts)
    options: dict[str, Any] = {"settings": settings, "models": models, "store": MemoryStore(), "environ": {}}
    async with Workspace(tmp_path / "ws", **options) as ws:
        result = await ws.run("Who are you?", seed="a")
        assert result.answer == "often"
        often, rarely = (len(models[name].requests) for name in ("often", "rarely"))
        assert often + rarely == 16 and often > rarely > 0
        assert (await ws.replay(result.run_id)).answer == "often"
        again = await ws.run("Who are you?", seed="a")
        assert again.usage.requests == 16 and len(models["often"].requests) == 2 * often


async def test_a_mixture_of_two_kinds_of_models_is_refused(tmp_path: Path) -> None:
    models = {name: ScriptedModel([], name=name, native_tools=name == "calls") for name in ("calls", "words")}
    settings = Settings(model="calls", system="react", parts=PartSettings(mixture={"calls": 1, "words": 1}))
    options: dict[str, Any] = {"settings": settings, "models": models, "store": MemoryStore(), "environ": {}}
    async with Workspace(tmp_path / "ws", **options) as ws:
        result = await ws.run("Who are you?")
    assert "parts.mixture names models that take native tool calls and others that do not: calls, words" in str(
        result.error
    )


async def test_the_winners_steps_are_remembered(tmp_path: Path) -> None:
    @tool(effect="read")
    async def look(at: str) -> str:
        """Look."""
        return f"seen at {at}"

    def worker(text: str, number: int) -> ModelResponse:
        if "Second" in text:
            return answer("told" if "seen at 2" in text and "seen at 1" not in text else "untold")
        return answer("first") if "seen at" in text else decide(calls=[call("look", at=str(number))])

    model = scripted(worker, lambda text, _: {"score": 9 if "at='2'" in text else 1})
    async with workspace(tmp_path, {"candidates": 2}, model, tools=[look]) as ws:
        options: dict[str, Any] = {"session": "s", "memory": "window"}
        assert (await ws.run("First.", **options)).answer == "first"
        second = await ws.run("Second.", **options)
        assert second.answer == "told" and (await ws.replay(second.run_id)).answer == "told"


# -- what it costs -----------------------------------------------------------------------------------------------------


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("parts", "multiple"),
    [
        ({}, 1),
        ({"candidates": 3}, 6),
        ({"candidates": 3, "choose": "vote"}, 3),
        ({"candidates": 3, "choose": "listwise"}, 4),
        ({"candidates": 3, "choose": "pairwise"}, 5),
        ({"candidates": 2, "width": 2}, 8),
        ({"candidates": 2, "threshold": 5}, 5),
        ({"threshold": 5}, 3),
        ({"threshold": 5, "choose": "vote"}, 3),
        ({"rollouts": 3}, 3),
        ({"rollouts": 2, "choose": "process"}, 4),
        ({"rollouts": 2, "candidates": 2, "choose": "outcome"}, 8),
    ],
)
async def test_the_requests_are_foreseen(tmp_path: Path, parts: dict[str, Any], multiple: int) -> None:
    @tool(effect="read")
    async def look(at: str) -> str:
        """Look."""
        return "nothing"

    def worker(text: str, number: int) -> ModelResponse:
        return answer("none") if "<last_step>" in text else decide(calls=[call("look", at=f"{len(text)}")])

    def verifier(text: str, wanted: set[str]) -> Any:
        full = {"score": 4, "index": 1, "experience_summary": "It looked."}
        return {name: value for name, value in full.items() if name in wanted}

    model = scripted(worker, verifier)
    async with workspace(tmp_path, parts, model, tools=[look]) as ws:
        foreseen = await ws.runs.foresee("Look.", max_steps=6)
        assert not model.requests and await ws.runs.list() == []
        result = await ws.run("Look.", max_steps=6)
    assert (foreseen.multiple, foreseen.steps) == (multiple, 6)
    # The first step of a beam has fewer courses, the last one is not looked back on.
    least = foreseen.multiple * (2 if parts.get("width") else 5)
    assert least <= result.usage.requests <= foreseen.multiple * 6 + foreseen.runs <= foreseen.requests_at_most + 1


async def test_limits_bound_what_is_foreseen(tmp_path: Path) -> None:
    async with workspace(tmp_path, {"candidates": 4, "choose": "vote"}, scripted(lambda *_: answer("x"))) as ws:
        foreseen = await ws.runs.foresee("Look.", max_steps=20, budget=Budget(steps=10, cost_usd=0.5))
    assert (foreseen.decisions_at_most, foreseen.requests_at_most) == (10, 10)
    assert foreseen.budget == Budget(steps=10, cost_usd=0.5)


@pytest.mark.parametrize("parts", [{"candidates": 8}, {"rollouts": 8}])
async def test_more_candidates_than_the_budget_pays_leave_the_best_that_came(
    tmp_path: Path, parts: dict[str, Any]
) -> None:
    @tool(effect="read")
    async def look(at: str) -> str:
        """Look."""
        return "nothing"

    model = scripted(
        lambda text, _: answer("so far") if "<last_step>" in text else decide(calls=[call("look", at="x")])
    )
    async with workspace(tmp_path, parts, model, tools=[look]) as ws:
        result = await ws.run("Look.", budget=Budget(steps=5))
        assert (result.status, result.answer) == (RunStatus.BUDGET_EXHAUSTED, "so far") and result.steps <= 5
        assert (await ws.replay(result.run_id)).answer == "so far"


def test_settings_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValidationError, match=r"parts.width = 2 follows several courses, and there is one candidate"):
        PartSettings(width=2)
    for wrong in ({"threshold": 11}, {"candidates": 0}, {"rollouts": 17}, {"mixture": {"a": 0}}, {"choose": "best"}):
        with pytest.raises(ValidationError):
            PartSettings.model_validate(wrong)
