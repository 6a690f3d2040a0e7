"""A model that does not keep to the form is understood where it is plain what it meant, and told where it is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.budget import Budget, Usage
from agentorchestra.core.content import Trust
from agentorchestra.core.errors import ModelContextError
from agentorchestra.core.messages import ModelRequest, ModelResponse, ToolCall, ToolSchema
from agentorchestra.core.settings import RoleSettings, Settings
from agentorchestra.core.spec import RunResult, RunStatus
from agentorchestra.models.render import render_message
from agentorchestra.tea.calling.tool import Tool, tool, tool_from_schema
from agentorchestra.testing import ScriptedModel, call, decide, say
from tests.systems.support import seen, text_model, workspace


@tool(effect="pure")
def add(a: int, b: int, text: str = "") -> str:
    """Add."""
    return f"{a + b}{text}"


async def ran(folder: Path, model: ScriptedModel, *tools: Tool[..., Any], **options: Any) -> RunResult:
    settings = options.pop("settings", Settings())
    async with workspace(folder, model, tools=[add, *tools], settings=settings) as ws:
        result = await ws.run("What is 2 + 3?", model=model, system="react", **options)
        if result.status is not RunStatus.FAILED:
            assert (await ws.replay(result.run_id)).answer == result.answer_text
        return result


def results(request: ModelRequest) -> list[str]:
    """The results of the last decision, as the model sees them."""
    found: list[str] = []
    for message in reversed(request.messages):
        if message.role == "assistant":
            break
        if message.role == "tool":
            found.insert(0, render_message(message))
    return found


def answers_with_results(request: ModelRequest) -> ModelResponse:
    return decide(calls=[call("done", answer=" | ".join(results(request)) or "nothing came back")])


ADD = '{"name": "add", "arguments": {"a": 2, "b": 3}}'


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "reply",
    [
        decide(calls=[ToolCall(id="1", name="add", arguments='{"a": 2, "b": 3, "text": ""}')]),
        decide(calls=[ToolCall(id="1", name="add", arguments='```json\n{"a": 2, "b": 3}\n```')]),
        say(f"I add them.\n<tool_call>\n{ADD}\n</tool_call>"),
        say("<function=add>\n<parameter=a>\n2\n</parameter>\n<parameter=b>\n3\n</parameter>\n</function>"),
        say(f"```json\n[{ADD}]\n```"),
    ],
)
@pytest.mark.parametrize("native", [True, False])
async def test_calls_in_other_forms(tmp_path: Path, reply: ModelResponse, native: bool) -> None:
    steps: list[Any] = [reply, ask_again if not native else answers_with_results]
    result = await ran(tmp_path, ScriptedModel(steps, native_tools=native))
    assert result.answer == "5", result.report


def ask_again(request: ModelRequest) -> ModelResponse:
    """Without native calls results stand in a message of the user."""
    (said,) = [one for one in request.messages if "Result of add" in one.text]
    return decide(calls=[call("done", answer=said.text.splitlines()[-1])])


async def test_raw_new_lines_in_arguments(tmp_path: Path) -> None:
    reply = decide(calls=[ToolCall(id="1", name="add", arguments='{"a": 2, "b": 3, "text": " is\nfive"}')])
    assert (await ran(tmp_path, ScriptedModel([reply, answers_with_results]))).answer == "5 is\nfive"


async def test_raw_new_lines_in_the_json_of_a_decision(tmp_path: Path) -> None:
    reply = say('{"memory": "two\nlines", "tool": [{"name": "add", "args": {"a": 2, "b": 3}}]}')
    assert (await ran(tmp_path, text_model([reply, ask_again]))).answer == "5"


@pytest.mark.long
async def test_a_program_in_place_of_json(tmp_path: Path) -> None:
    def computed(request: ModelRequest) -> ModelResponse:
        (said,) = [one for one in request.messages if "Result of python" in one.text]
        return decide(calls=[call("done", answer=said.text.splitlines()[-1])])

    reply = say("I compute it:\n```python\nprint(2 + 3)\n```")
    assert (await ran(tmp_path, text_model([reply, computed]))).answer == "5"
    bare = decide(calls=[ToolCall(id="1", name="python", arguments="```python\nx = 2\nprint(x + 3)\n```")])
    assert (await ran(tmp_path, ScriptedModel([bare, answers_with_results]))).answer == "5"


async def test_words_with_a_program_may_be_the_answer_of_a_model_with_native_calls(tmp_path: Path) -> None:
    model = ScriptedModel([say("Write:\n```python\nprint(2 + 3)\n```")])
    assert "print(2 + 3)" in (await ran(tmp_path, model, finish="text")).answer


async def test_arguments_that_a_tool_does_not_have_are_left_out_and_it_is_said(tmp_path: Path) -> None:
    model = ScriptedModel([decide(calls=[call("add", a=2, b="3", reason="to know", c=1)]), answers_with_results])
    answer = (await ran(tmp_path, model)).answer
    assert answer == "5\nNote: left out of this call, because it has no such argument: reason, c."


async def test_nothing_is_left_out_of_a_call_that_changes_something(tmp_path: Path) -> None:
    sent: list[str] = []

    @tool(effect="send")
    def send(text: str) -> str:
        """Send."""
        sent.append(text)
        return "sent"

    model = ScriptedModel([decide(calls=[call("send", text="2 + 3", dry_run=True)]), answers_with_results])
    assert "dry_run: Extra inputs are not permitted" in (await ran(tmp_path, model, send)).answer
    assert sent == []


async def test_numbers_as_texts_reach_a_tool_with_a_schema_from_elsewhere(tmp_path: Path) -> None:
    def twice(number: int) -> str:
        return str(number * 2)

    parameters = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
    schema = ToolSchema(name="twice", description="Twice.", parameters=parameters)
    made = tool_from_schema(twice, schema, effect="pure", trust=Trust.SYSTEM)
    model = ScriptedModel([decide(calls=[call("twice", number="21")]), answers_with_results])
    assert (await ran(tmp_path, model, made)).answer == "42"


# -- thoughts, and answers of another type -----------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("native", [True, False])
async def test_thoughts_in_the_text_are_neither_answer_nor_history(tmp_path: Path, native: bool) -> None:
    def answers(request: ModelRequest) -> ModelResponse:
        assert "Hmm" not in seen(request) and "think>" not in seen(request)
        return decide(calls=[call("done", answer="5")])

    first = '<think>Hmm, <tool_call>{"name": "done", "arguments": {"answer": "6"}}</tool_call></think>'
    written = f"I add.\n<tool_call>{ADD}</tool_call>" if native else f'{{"tool": [{ADD}]}}'
    model = ScriptedModel([say(f"{first}\n{written}"), answers], native_tools=native)
    assert (await ran(tmp_path, model)).answer == "5"
    words = ScriptedModel([say("Hmm, five it is.\n</think>\n\nIt is 5.")])
    assert (await ran(tmp_path / "words", words, finish="text")).answer == "It is 5."


async def test_a_call_in_a_thought_without_end_is_not_made_and_it_is_said(tmp_path: Path) -> None:
    def told(request: ModelRequest) -> ModelResponse:
        assert "nothing but thoughts, and no call in them is made" in seen(request)
        return decide(calls=[call("done", answer="5")])

    model = ScriptedModel([say(f"<think>I add.\n<tool_call>{ADD}</tool_call>"), told])
    assert (await ran(tmp_path, model)).answer == "5"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ({"answer": 42}, "42"),
        ({"answer": {"town": "Ulm"}, "status": "success"}, '{"town":"Ulm"}'),
        ({"town": "Ulm"}, '{"town":"Ulm"}'),
        ("42", "42"),
        ({"result": "five"}, "five"),
    ],
)
async def test_an_answer_of_another_type_is_an_answer(tmp_path: Path, arguments: Any, answer: str) -> None:
    model = ScriptedModel([decide(calls=[ToolCall(id="1", name="functions.done", arguments=arguments)])])
    result = await ran(tmp_path, model)
    assert (result.answer, result.status, result.steps) == (answer, RunStatus.COMPLETED, 1)


async def test_failures_of_form_end_no_run_and_each_is_a_line_in_the_log(tmp_path: Path) -> None:
    forms: list[Any] = [
        say('[add(a=2, b=3, text=" by python")]'),
        say('[TOOL_CALLS]add[ARGS]{"a": "2", "b": "3", "text": " by mistral",}'),
        say(
            "<tool_call>add\n<arg_key>a</arg_key><arg_value>2</arg_value><arg_key>b</arg_key>"
            "<arg_value>3</arg_value></tool_call>"
        ),
        decide(calls=[ToolCall(id="1", name="functions.add", arguments="{'a': 2, 'b': 3, 'text': ' by quotes'}")]),
        say('analysisFive.assistantcommentary to=functions.done json{"answer": 5}'),
    ]
    model = ScriptedModel(forms)
    async with workspace(tmp_path, model, tools=[add]) as ws:
        result = await ws.run("What is 2 + 3?", model=model, system="react")
        assert (result.answer, result.steps) == ("5", 5)
        effects = [one.body["effect"] for one in await ws.log.events(result.run_id) if one.body.get("effect")]
        assert (await ws.replay(result.run_id)).answer == "5"
    repaired = [one["repaired"] for one in effects if "repaired" in one]
    assert "written into the text" in repaired
    assert "called functions.add; written otherwise: a, b, text" in repaired


async def test_a_program_that_is_cut_does_not_run_and_gets_more_room(tmp_path: Path) -> None:
    rooms: list[int] = []

    def cut(request: ModelRequest) -> ModelResponse:
        rooms.append(request.settings.max_tokens or 0)
        if len(rooms) == 1:
            code = ToolCall(id="1", name="python", arguments="print('cut, and run')\nanswer = '")
            return ModelResponse(tool_calls=(code,), finish_reason="length", usage=Usage(output_tokens=rooms[0]))
        assert results(request) == ["your reply was cut at 4096 tokens within this call"]
        return decide(calls=[call("done", answer="5")])

    model = ScriptedModel(cut)
    settings = Settings(roles={"agent": RoleSettings(max_tokens=4096)})
    assert (await ran(tmp_path, model, settings=settings)).answer == "5"
    assert rooms == [4096, 8192]


async def test_runs_that_began_before_are_read_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentorchestra.workspace.creation.CHECKS", 2)
    model = ScriptedModel([say("[add(a=2, b=3)]"), decide(calls=[call("add", a=2, b=3)]), answers_with_results])
    async with workspace(tmp_path, model, tools=[add]) as ws:
        result = await ws.run("What is 2 + 3?", model=model, system="react")
        assert (result.answer, result.steps) == ("5", 3)
        assert (await ws.replay(result.run_id)).answer == "5"


# -- done beside other calls -------------------------------------------------------------------------------------------


async def test_done_may_stand_behind_calls_that_succeed(tmp_path: Path) -> None:
    model = ScriptedModel([decide(calls=[call("add", a=2, b=3), call("done", answer="5")])])
    result = await ran(tmp_path, model)
    assert (result.answer, result.steps, len(model.requests)) == ("5", 1, 1)


async def test_done_is_not_taken_where_a_call_beside_it_failed(tmp_path: Path) -> None:
    def told(request: ModelRequest) -> ModelResponse:
        failed, not_taken = results(request)
        assert failed.startswith("add: b: Field required")
        said = "done was not taken, because add failed in the same step: see what it says, then call done again"
        assert not_taken == said
        return decide(calls=[call("done", answer="really 5")])

    model = ScriptedModel([decide(calls=[call("add", a=2), call("done", answer="5")]), told])
    assert (await ran(tmp_path, model)).answer == "really 5"


# -- replies that hold nothing -----------------------------------------------------------------------------------------


EMPTY = ModelResponse(text="", finish_reason="stop", usage=Usage(output_tokens=3))
CUT = ModelResponse(text="Let me think about", finish_reason="length", usage=Usage(output_tokens=4096))


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (EMPTY, "your reply was empty; call at least one of: add, "),
        (CUT, " tokens before a call; this one may be longer, but be brief"),
    ],
)
async def test_each_says_what_it_was_and_is_no_lack_of_progress(
    tmp_path: Path, reply: ModelResponse, said: str
) -> None:
    prompts: list[str] = []

    def told(request: ModelRequest) -> ModelResponse:
        prompts.append(seen(request))
        return reply if len(prompts) < 3 else decide(calls=[call("done", answer="5")])

    assert (await ran(tmp_path, ScriptedModel([reply, told, told, told]))).answer == "5"
    assert all(said in one and "<no_progress>" not in one for one in prompts)


async def test_a_model_that_never_says_anything_is_asked_for_its_answer(tmp_path: Path) -> None:
    asked = 0

    def silent(request: ModelRequest) -> ModelResponse:
        nonlocal asked
        asked += 1
        return decide(calls=[call("done", answer="none")]) if "<last_step>" in seen(request) else EMPTY

    assert (await ran(tmp_path, ScriptedModel(silent))).answer == "none"
    assert asked == 5


async def test_a_reply_that_was_cut_is_asked_for_again_with_more_room(tmp_path: Path) -> None:
    rooms: list[tuple[int | None, int]] = []

    def long(request: ModelRequest) -> ModelResponse:
        room = request.settings.max_tokens or 0
        rooms.append((room, request.settings.least_tokens))
        if len(rooms) < 3:
            cut = ToolCall(id="1", name="done", arguments='{"answer": "five, beca')
            return ModelResponse(tool_calls=(cut,), finish_reason="length", usage=Usage(output_tokens=room))
        if len(rooms) == 3:
            assert results(request) == ["your reply was cut at 8192 tokens within this call"]
            return decide(calls=[call("add", a=2, b=3)])
        return answers_with_results(request)

    result = await ran(tmp_path, ScriptedModel(long), settings=Settings(roles={"agent": RoleSettings(max_tokens=4096)}))
    assert (result.answer, rooms) == ("5", [(4096, 0), (8192, 8192), (16384, 16384), (4096, 0)])


async def test_a_reply_that_was_cut_gets_more_of_the_budget_than_usual(tmp_path: Path) -> None:
    """It has as much as the budget affords to each; the second one may take what others would need."""
    rooms: list[int] = []

    def long(request: ModelRequest) -> ModelResponse:
        room = request.settings.max_tokens or 0
        rooms.append(room)
        if len(rooms) == 1:
            return ModelResponse(text="five, beca", finish_reason="length", usage=Usage(output_tokens=room))
        return decide(calls=[call("done", answer="5")])

    result = await ran(tmp_path, ScriptedModel(long), budget=Budget(tokens=40_000))
    assert result.answer == "5" and 4_096 < rooms[0] < rooms[1], rooms


async def test_a_prompt_that_is_too_long_is_no_lack_of_progress(tmp_path: Path) -> None:
    prompts: list[str] = []

    def short(request: ModelRequest) -> ModelResponse:
        prompts.append(seen(request))
        if len(prompts) in (2, 3, 4):
            raise ModelContextError("the prompt is too long")
        if len(prompts) == 1:
            return decide(calls=[call("add", a=2, b=3, text="x" * 5_000)])
        return decide(calls=[call("done", answer="5")])

    assert (await ran(tmp_path, ScriptedModel(short))).answer == "5"
    assert "<no_progress>" not in prompts[-1]
