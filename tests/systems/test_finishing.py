"""The end of a run in plain words: what is an answer, what is still open, and refusals."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentorchestra import tool
from agentorchestra.agents.plain_answer import PLAIN, answer_of
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.spec import RunManifest, RunStatus
from agentorchestra.testing import ScriptedModel, call, decide, say
from agentorchestra.workspace import creation
from tests.systems.support import seen, text_model, workspace

TERM = "The notice period is three months."
CITED: dict[str, Any] = {"source": "lease.txt", "place": "line 1", "quote": TERM}
REFUSED = ModelResponse(text="I cannot help with that.", finish_reason="content_filter")


async def ran(folder: Path, model: ScriptedModel, *, files: bool = False, **options: Any) -> Any:
    (folder / "lease.txt").write_text(TERM)
    given = [folder / "lease.txt"] if files else []
    async with workspace(folder, model) as ws:
        return await ws.run("What is the notice period?", model=model, files=given, **{"system": "react", **options})


@pytest.mark.parametrize(
    ("answer", "plain"),
    [
        ("**42**", "42"),
        ("It is **three months**, not __two__.", "It is three months, not __two__."),
        ("`ls -l`", "ls -l"),
        ("``a**b**``", "a**b**"),
        ("Call `f(**a)` with **two** words.", "Call `f(**a)` with two words."),
        ("2**3 and 4**5", "2**3 and 4**5"),
        ("f(**a, **b)", "f(**a, **b)"),
        ("`a` or `b`", "`a` or `b`"),
        ("**Answer**\n\n42", "**Answer**\n\n42"),
        ("Final answer: 42", "Final answer: 42"),
        ("****", "****"),
        ("", ""),
    ],
)
def test_a_short_answer_loses_its_marks(answer: str, plain: str) -> None:
    ctx: Any = SimpleNamespace(manifest=SimpleNamespace(checks=PLAIN))
    assert answer_of(answer, ctx) == plain


@pytest.mark.sampled(2)
@pytest.mark.parametrize("system", ["react", "agentorchestra"])
async def test_the_first_plain_reply_is_the_answer(tmp_path: Path, system: str) -> None:
    result = await ran(tmp_path, ScriptedModel([say("**Three months.**")]), system=system)
    assert (result.status, result.answer, result.usage.requests) == (RunStatus.COMPLETED, "Three months.", 1)


@pytest.mark.parametrize("system", ["react", "agentorchestra"])
async def test_an_answer_from_a_file_is_asked_for_its_sources(tmp_path: Path, system: str) -> None:
    def cited(request: ModelRequest) -> ModelResponse:
        assert "your answer lacks its sources. Call done with the same answer" in seen(request)
        assert "what it takes from lease.txt, name, place and exact words." in seen(request)
        return decide(calls=[call("done", answer="three months", sources=[CITED])])

    result = await ran(tmp_path, ScriptedModel([say("Three months."), cited]), files=True, system=system)
    assert (result.answer, result.usage.requests) == ("three months", 2)
    assert [one.model_dump() for one in result.sources] == [CITED]


async def test_an_answer_without_sources_is_given_twice(tmp_path: Path) -> None:
    result = await ran(tmp_path, ScriptedModel([say("Hello."), say("Hello!")]), files=True)
    assert (result.status, result.answer, result.sources) == (RunStatus.COMPLETED, "Hello!", ())


async def test_names_of_files_alone_are_no_material(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("word " * 10_000)
    model = ScriptedModel([say("Hello.")])
    async with workspace(tmp_path, model) as ws:
        result = await ws.run("Say hello.", files=[tmp_path / "long.txt"], model=model, system="react")
    assert (result.answer, result.usage.requests) == ("Hello.", 1)


async def test_an_open_step_of_its_plan_keeps_an_agent_at_work(tmp_path: Path) -> None:
    def told(request: ModelRequest) -> ModelResponse:
        assert "your plan has open steps: 0 (count), 2 (tell)." in seen(request)
        return decide(calls=[call("todo", action="complete", step_index=n) for n in (0, 2)])

    planned = [
        decide(calls=[call("open_tools", names=["todo"])]),
        decide(calls=[call("todo", action="create", steps=["count", "ask", "tell"])]),
        decide(calls=[call("todo", action="mark_step", step_index=1, step_status="blocked")]),
    ]
    model = ScriptedModel([*planned, say("I have counted."), told, say("There are 5.")])
    assert (await ran(tmp_path, model)).answer == "There are 5."


async def test_words_of_work_that_no_longer_moves_forward_are_a_partial_answer(tmp_path: Path) -> None:
    wrong = [decide(calls=[call(f"nothing{n}")]) for n in range(4)]
    result = await ran(tmp_path, ScriptedModel([*wrong, say("I could not.")]))
    assert (result.status, result.answer) == (RunStatus.PARTIAL, "I could not.")


async def test_words_in_the_last_allowed_step_are_the_answer(tmp_path: Path) -> None:
    result = await ran(tmp_path, ScriptedModel([say("Three months.")]), files=True, max_steps=1)
    assert (result.status, result.answer) == (RunStatus.COMPLETED, "Three months.")


@pytest.mark.parametrize("action", ["tools", "code"])
async def test_prose_of_a_model_without_native_calls_is_an_answer(tmp_path: Path, action: str) -> None:
    result = await ran(tmp_path, text_model(["It is three months."]), action=action)
    assert (result.status, result.answer, result.usage.requests) == (RunStatus.COMPLETED, "It is three months.", 1)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("tried", ['{"thought": "I answer"', "```\ndone\n```", '{"memory": "m"}'])
async def test_json_that_a_model_tried_to_write_is_none(tmp_path: Path, tried: str) -> None:
    model = text_model([tried, '{"tool": [{"name": "done", "args": {"answer": "three months"}}]}'])
    assert (await ran(tmp_path, model)).answer == "three months"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("options", [{}, {"system": "direct"}, {"action": "code"}, {"finish": "done"}])
async def test_a_refusal_ends_the_work(tmp_path: Path, options: dict[str, Any]) -> None:
    result = await ran(tmp_path, ScriptedModel([REFUSED]), **options)
    assert (result.status, result.answer_text, result.usage.requests) == (RunStatus.BLOCKED, "", 1)
    assert result.report == "The model refused, or its provider withheld the reply: I cannot help with that."


async def test_a_withheld_reply_without_words_ends_the_work(tmp_path: Path) -> None:
    result = await ran(tmp_path, ScriptedModel([ModelResponse(finish_reason="content_filter")]))
    assert (result.status, result.report) == (
        RunStatus.BLOCKED,
        "The model refused, or its provider withheld the reply: without a word",
    )


async def test_a_run_from_before_ends_as_it_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its log has no question for sources, its answer its marks, and what was withheld was asked for again."""
    assert RunManifest.model_fields["finish"].default == "done"
    monkeypatch.setattr(creation, "CHECKS", 2)
    result = await ran(tmp_path, ScriptedModel([REFUSED, say("**Three months.**")]), files=True, finish="text")
    assert (result.answer, result.usage.requests) == ("**Three months.**", 2)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("options", "finish"),
    [
        ({}, "text"),
        ({"system": "agentorchestra"}, "text"),
        ({"system": "oagents"}, "text"),
        ({"output_type": int}, "done"),
        ({"system": "aorchestra"}, "done"),
        ({"system": "coral"}, "done"),
        ({"system": "coral", "finish": "text"}, "text"),
        ({"finish": "done"}, "done"),
    ],
)
async def test_who_keeps_the_call(tmp_path: Path, options: dict[str, Any], finish: str) -> None:
    async with workspace(tmp_path, ScriptedModel([])) as ws:
        run_id = await ws.create("What is 2 + 3?", **{"system": "react", "model": "scripted", **options})
        record = await ws.store.get_run(run_id)
        assert record is not None and record.manifest.finish == finish


async def test_its_own_earlier_answer_needs_no_source(tmp_path: Path) -> None:
    @tool(effect="read")
    def thermometer() -> str:
        """Read the thermometer."""
        return "21 degrees"

    model = ScriptedModel([call("thermometer"), say("It is 21 degrees."), say("Yes, it is warm.")])
    async with workspace(tmp_path, model, tools=[thermometer]) as ws:
        session = ws.session("weather")
        await session.run("How warm is it?", system="react", model=model)
        second = await session.run("Is that warm?", model=model)
        assert (second.answer, second.usage.requests) == ("Yes, it is warm.", 1)


# -- later turns -------------------------------------------------------------------------------------------------------

RENT = "The rent is 35.25 euros, for 1234 feet."


async def later(folder: Path, *turns: tuple[Any, ...], system: str = "agentorchestra", first: Any = None) -> list[Any]:
    """The results of the later turns of a session whose first one read the lease; a turn: its files, its replies."""
    (folder / "lease.txt").write_text(f"{TERM}\n{RENT}\n")
    (folder / "annex.txt").write_text("There is a garage.")
    results = []
    async with workspace(folder, ScriptedModel([])) as ws:
        session = ws.session("flat")
        model = ScriptedModel([call("done", answer="three months", sources=[CITED])])
        await session.run("What is the notice period?", files=[folder / "lease.txt"], system=system, model=model)
        for names, *replies in turns:
            model = ScriptedModel([*replies])
            results.append(await session.run("And now?", files=[folder / name for name in names], model=model))
            assert (await ws.replay(results[-1].run_id)).answer == results[-1].answer_text
    return results


@pytest.mark.sampled(2)
@pytest.mark.parametrize("system", ["react", "agentorchestra"])
async def test_what_an_earlier_turn_read_is_not_asked_for(tmp_path: Path, system: str) -> None:
    plain = ["apple", "Which of the two do you mean?", "Hello!", "35.25 euros", "It ended in 1945."]
    found = await later(tmp_path, *(((), say(one)) for one in plain), system=system)
    assert [(one.answer, one.usage.requests) for one in found] == [(one, 1) for one in plain]
    assert {one.status for one in found} == {RunStatus.COMPLETED}


@pytest.mark.long
async def test_what_this_turn_read_is(tmp_path: Path) -> None:
    def asked(names: str) -> Any:
        def reply(request: ModelRequest) -> ModelResponse:
            assert f"what it takes from {names}, name, place and exact words. If it takes" in request.messages[-1].text
            return say("A garage.")

        return reply

    again = call("read_file", name="lease.txt")
    found = await later(
        tmp_path,
        (["annex.txt"], say("A garage."), asked("annex.txt")),
        ([], again, say("A garage."), asked("lease.txt")),
        system="react",
    )
    assert [(one.answer, one.usage.requests) for one in found] == [("A garage.", 2), ("A garage.", 3)]


async def test_a_later_turn_of_a_run_from_before_ends_as_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(creation, "CHECKS", 3)
    (result,) = await later(tmp_path, ((), say("apple"), say("apple")))
    assert (result.answer, result.usage.requests) == ("apple", 2)


async def test_an_answer_that_is_given_again_is_not_asked_for_its_figures(tmp_path: Path) -> None:
    (tmp_path / "lease.txt").write_text(TERM)
    replies = [say("It was built in 1945."), say("It was built in 1945."), say('{"supported": true}')]
    async with workspace(tmp_path, ScriptedModel([])) as ws:
        model = ScriptedModel(replies)
        result = await ws.run("How old is it?", files=[tmp_path / "lease.txt"], model=model, system="agentorchestra")
    assert (result.status, result.answer, len(model.requests)) == (RunStatus.COMPLETED, "It was built in 1945.", 3)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("answer", "quote"),
    [
        ("35,25 euros", "35.25 euros"),
        ("35.25 euros", "35,25 euros"),
        ("1,234 feet", "1,234 feet"),
        ("1.234 feet", "1234 feet"),
    ],
)
@pytest.mark.parametrize("system", ["react", "agentorchestra"])
async def test_numbers_are_compared_by_value(tmp_path: Path, system: str, answer: str, quote: str) -> None:
    cited: Any = {"source": "lease.txt", "place": "line 2", "quote": quote}
    done = call("done", answer=answer, sources=[cited])
    found = await later(tmp_path, ((), done), system=system)
    assert [(one.answer, one.usage.requests) for one in found] == [(answer, 1)]
    assert found[0].sources[0].quote in RENT and found[0].report == ""


@pytest.mark.long
async def test_another_number_is_another_one(tmp_path: Path) -> None:
    cited: Any = {"source": "lease.txt", "place": "line 2", "quote": "The rent is 352,5 euros"}
    (result,) = await later(tmp_path, ((), *[call("done", answer="352,5", sources=[cited])] * 3), system="react")
    assert result.sources == () and "352,5" in result.report
