"""Where the tokens of a run went."""

from __future__ import annotations

from pathlib import Path

from agentorchestra.core.budget import Usage
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace


@tool(effect="pure")
def short() -> str:
    """Give a word."""
    return "word"


@tool(effect="pure")
def long() -> str:
    """Give many words."""
    return "words " * 1_000


async def test_tokens_go_to_the_sources_that_took_them(tmp_path: Path) -> None:
    counted: list[int] = []

    def model(request: ModelRequest) -> ModelResponse:
        results = sum(message.role == "tool" for message in request.messages)
        calls = [[call("long")], [call("short")], [call("done", answer="ok")]][results]
        counted.append(10_000 * (results + 1))  # what this provider says it has read
        return decide(calls=calls).model_copy(update={"usage": Usage(requests=1, input_tokens=counted[-1])})

    async with Workspace(tmp_path / "ws", tools=[short, long]) as ws:
        result = await ws.run("Go.", model=ScriptedModel(model), system="react")
        found = {one.source: one for one in await ws.log.tokens(result.run_id)}
    assert abs(sum(one.tokens for one in found.values()) - sum(counted)) <= len(found)
    assert (found["tool long"].requests, found["tool short"].requests) == (2, 1)
    assert found["tool long"].tokens > 20 * found["tool short"].tokens
    assert found["prompt"].requests == found["tool schemas"].requests == found["task"].requests == 3
    assert found["tool long"].largest < found["tool long"].tokens < sum(counted)
    assert list(found) == sorted(found, key=lambda name: (-found[name].tokens, name))
