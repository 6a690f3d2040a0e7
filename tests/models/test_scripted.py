"""The scripted model fails loudly where the script does not fit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from agentorchestra.core.errors import ModelUnavailableError, ScriptError
from agentorchestra.core.messages import ModelRequest, ModelResponse, user
from agentorchestra.models.client import ModelClient
from agentorchestra.testing import ScriptedModel, call, decide, say
from tests.models.support import Pieces, asking, no_media, schema


async def test_steps_in_order_and_what_was_seen() -> None:
    steps: list[Any] = [call("add", a=1, b=2), [call("add", a=1), call("add", a=2)], say("done"), "text"]
    model = ScriptedModel(steps)
    assert isinstance(model, ModelClient)
    requests = [asking(user(f"step {n}"), tools=(schema(),)) for n in range(4)]
    answers = [await model.request(one, media=no_media) for one in requests]
    assert [[one.arguments for one in answer.tool_calls] for answer in answers] == [
        [{"a": 1, "b": 2}],
        [{"a": 1}, {"a": 2}],
        [],
        [],
    ]
    assert [answer.text for answer in answers] == ["", "", "done", "text"]
    assert len({one.id for answer in answers for one in answer.tool_calls}) == 3
    assert model.requests == requests
    usage = answers[0].usage
    assert (usage.requests, usage.cost_usd) == (1, 0.0) and usage.input_tokens > 0 and usage.output_tokens > 0
    model.finish()


async def test_one_request_too_many_names_what_was_asked() -> None:
    model = ScriptedModel(["only"])
    await model.request(asking(), media=no_media)
    with pytest.raises(ScriptError) as caught:
        await model.request(asking(user("and " * 200 + "now?"), tools=(schema("add"), schema("sub"))), media=no_media)
    sentence = str(caught.value)
    assert "'scripted' has no step left for request 2" in sentence and "tools offered: add, sub" in sentence
    assert "now?" in sentence and len(sentence) < 500


async def test_steps_left_over_are_counted() -> None:
    def generated() -> Iterator[str]:
        yield from ("one", "two", "three")

    for steps in (["one", "two", "three"], generated()):
        model = ScriptedModel(steps)
        await model.request(asking(), media=no_media)
        with pytest.raises(ScriptError, match="was asked 1 times and 2 steps were not used"):
            model.finish()


async def test_a_function_serves_many_at_once() -> None:
    async def script(request: ModelRequest) -> str:
        await asyncio.sleep(0)
        return request.messages[-1].text

    model = ScriptedModel(script)
    answers = await asyncio.gather(*(model.request(asking(user(str(n))), media=no_media) for n in range(50)))
    assert [answer.text for answer in answers] == [str(n) for n in range(50)]
    model.finish()


async def test_errors_are_raised_and_a_broken_script_is_told() -> None:
    with pytest.raises(ModelUnavailableError, match="down"):
        await ScriptedModel([ModelUnavailableError("down")]).request(asking(), media=no_media)

    def broken(request: ModelRequest) -> ModelResponse:
        raise KeyError("oops")

    with pytest.raises(ScriptError, match=r"the script of 'scripted' failed on request 1 .*KeyError: 'oops'"):
        await ScriptedModel(broken).request(asking(), media=no_media)
    with pytest.raises(ScriptError, match="the script answered 7"):
        await ScriptedModel([7]).request(asking(), media=no_media)  # type: ignore[list-item]


async def test_a_decision_in_both_formats() -> None:
    decision = decide(thinking="t", evaluation="e", memory="m", next_goal="n", calls=[call("add", a=1)])
    native = await ScriptedModel([decision]).request(asking(), media=no_media)
    assert json.loads(native.text) == {
        "thinking": "t",
        "evaluation_previous_goal": "e",
        "memory": "m",
        "next_goal": "n",
    }
    assert [(one.name, one.arguments) for one in native.tool_calls] == [("add", {"a": 1})]
    text = await ScriptedModel([decision], native_tools=False).request(asking(), media=no_media)
    assert text.tool_calls == () and json.loads(text.text)["tool"] == [{"name": "add", "args": {"a": 1}}]


async def test_streams_the_text() -> None:
    pieces = Pieces()
    await ScriptedModel(["one\ntwo"]).request(asking(), media=no_media, on_delta=pieces)
    assert pieces == ["one\n", "two"]
