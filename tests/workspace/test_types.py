"""What a type checker knows of a result: `make lint` reads this file with mypy, the long tier with basedpyright."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, assert_type

import pytest
from pydantic import BaseModel

from agentorchestra import Message, ModelResponse, RunNotCompleted, RunResult, ToolCall, ToolSchema, Workspace
from agentorchestra.core.errors import UsageError
from agentorchestra.testing import call


class Price(BaseModel):
    """A price."""

    item: str
    cents: int


@dataclass
class Pair:
    """Two numbers."""

    a: int
    b: int


async def priced(messages: Sequence[Message], tools: Sequence[ToolSchema]) -> ToolCall:
    """Answer with a price."""
    assert messages[-1].text and "done" in [one.name for one in tools]
    return call("done", answer="40 cents", output={"item": "apple", "cents": 40})


async def test_the_output_has_the_type_that_was_asked_for(tmp_path: Path) -> None:
    async with Workspace(tmp_path / "ws", models={"mine": priced}) as ws:
        result = await ws.run("x", system="react", output_type=Price, model=priced)
        assert_type(result, RunResult[Price])
        assert_type(result.output, Price)
        assert_type(result.output.cents, int)
        assert result.output == Price(item="apple", cents=40) and result.model == "priced"
        again = await ws.resume(result.run_id, output_type=Price)
        assert_type(again.output, Price)
        turn = await ws.session("s").run("x", system="react", model="mine", output_type=dict[str, Any])
        assert_type(turn.output, dict[str, Any])
        assert turn.output["cents"] == 40
        assert_type(await ws.run("x", system="react", model="mine"), RunResult[Any])


def test_without_async_too(tmp_path: Path) -> None:
    def halves(messages: Sequence[Message], tools: Sequence[ToolSchema]) -> list[ToolCall]:
        return [call("done", answer="2 and 3", output={"a": 2, "b": 3})]

    result = Workspace(tmp_path / "ws").run_sync("x", system="react", output_type=Pair, model=halves)
    assert_type(result.output, Pair)
    assert result.output == Pair(2, 3)


async def test_a_function_is_a_model(tmp_path: Path) -> None:
    """It returns a text, a call, calls or a response; whatever else it does is a sentence of the run."""

    async def words(messages: Sequence[Message], tools: Sequence[ToolSchema]) -> str:
        return f"You said {messages[1].text.split('</task>')[0].split('<task>')[1].strip()}."

    async def whole(messages: Sequence[Message], tools: Sequence[ToolSchema]) -> ModelResponse:
        return ModelResponse(text="four", thinking="two and two")

    async def broken(messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Any:
        raise ZeroDivisionError("by nothing")

    async def silent(messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Any:
        return 4

    async with Workspace(tmp_path / "ws") as ws:
        said = await ws.run("good day", system="react", model=words)
        assert (said.answer, said.cost_usd, said.usage.requests) == ("You said good day.", None, 1)
        assert (await ws.run("2 + 2?", system="react", model=whole)).answer == "four"
        for model, sentence in (
            (broken, "ZeroDivisionError: by nothing"),
            (silent, "returned 4; return a text, a call"),
        ):
            failed = await ws.run("x", system="react", model=model)
            with pytest.raises(RunNotCompleted, match=f"the model function '{model.__name__}' .*{sentence}"):
                _ = failed.answer
        with pytest.raises(UsageError, match="neither a model's name, nor a function, nor a ModelClient"):
            await ws.run("x", model=4)
