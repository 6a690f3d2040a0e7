"""Embeddings and transcription: through the door, in the log, paid once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.protocols import RunContext
from agentorchestra.core.settings import ModelProfile, Price, Settings
from agentorchestra.core.spec import RunStatus
from agentorchestra.models.manager import ModelManager
from agentorchestra.tea.tool import tool
from agentorchestra.testing import (
    LoopbackModelServer,
    ScriptedModel,
    ServerReply,
    ServerScript,
    call,
    decide,
    http_error,
)
from agentorchestra.workspace import Workspace


@tool(effect="composite")
async def nearest(ctx: RunContext[Any], query: str, texts: list[str]) -> str:
    """The text nearest in meaning.

    Args:
        query: what is looked for.
        texts: among which.
    """
    wanted, *vectors = await ctx.embed([query, *texts])
    score = [sum(a * b for a, b in zip(wanted, vector, strict=True)) for vector in vectors]
    return texts[score.index(max(score))]


@tool(effect="composite")
async def listen(ctx: RunContext[Any], name: str) -> str:
    """What is said in a recording.

    Args:
        name: of the file.
    """
    return await ctx.transcribe(name)


def seen(model_call: Any) -> ScriptedModel:
    """Makes one call and answers with what it gave."""
    return ScriptedModel(
        lambda request: (
            decide(calls=[call("done", answer=request.messages[-2].text)])
            if request.messages[-2].role == "tool"
            else decide(calls=[model_call])
        )
    )


@asynccontextmanager
async def working(
    tmp_path: Path, script: ServerScript, **settings: Any
) -> AsyncIterator[tuple[LoopbackModelServer, Workspace[Any]]]:
    async with LoopbackModelServer(script) as server:
        price = Price(input=10, output=10)
        models = {
            name: ModelProfile(model=f"openai:{name}", base_url=server.base_url, price=price, max_attempts=2)
            for name in ("small", "ears")
        }
        given: dict[str, Any] = {"embedding_model": "small", "transcription_model": "ears", **settings}
        chosen = Settings(models=models, system="react", **given)
        async with Workspace(tmp_path / "ws", tools=[nearest, listen], settings=chosen) as ws:
            yield server, ws


NEAREST = call("nearest", query="eels", texts=["a lake", "steel wheels", "noon"])


async def test_embeddings(tmp_path: Path) -> None:
    async with working(tmp_path, "unused") as (server, ws):
        result = await ws.run("Find.", model=seen(NEAREST))
        assert result.answer == "steel wheels"
        assert [body["input"] for body in server.requests] == [["eels", "a lake", "steel wheels", "noon"]]
        usage = result.usage_by_model["openai:small"]
        assert (usage.requests, usage.input_tokens) == (1, 10)
        assert usage.cost_usd == pytest.approx(10 * 10 / 1e6)
        assert (await ws.replay(result.run_id)).answer == "steel wheels"
        assert server.count == 1


async def test_a_failed_attempt_is_retried_and_logged(tmp_path: Path) -> None:
    async with working(tmp_path, [http_error(500), "unused"]) as (server, ws):
        result = await ws.run("Find.", model=seen(NEAREST))
        assert result.answer == "steel wheels"
        events = await ws.events(result.run_id)
        assert [event.body["target"] for event in events if event.type == "attempt_failed"] == ["openai:small"]
        assert server.count == 2


async def test_a_refusal_is_an_observation(tmp_path: Path) -> None:
    async with working(tmp_path, [http_error(401, "bad"), http_error(401, "bad")]) as (_, ws):
        result = await ws.run("Find.", model=seen(NEAREST))
        assert result.status is RunStatus.COMPLETED
        assert "refused the credentials (HTTP 401: bad)" in result.answer


async def transcribed(tmp_path: Path, script: ServerScript, name: str = "talk.txt", **settings: Any) -> tuple[Any, Any]:
    """A run that listens to a file; what is in it is the server's business."""
    (tmp_path / "talk.txt").write_text("a recording")
    async with working(tmp_path, script, **settings) as (server, ws):
        result = await ws.run("Listen.", model=seen(call("listen", name=name)), files=[tmp_path / "talk.txt"])
        return result, server


async def test_transcription(tmp_path: Path) -> None:
    result, server = await transcribed(tmp_path, [ServerReply(answer="Meet me at noon.")])
    assert result.answer == "Meet me at noon."
    (body,) = server.requests
    assert (body["endpoint"], body["model"], body["file"]) == ("audio/transcriptions", "ears", "talk.txt")
    usage = result.usage_by_model["openai:ears"]
    assert (usage.input_tokens, usage.output_tokens) == (30, 5)
    assert usage.cost_usd == pytest.approx(35 * 10 / 1e6)


async def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    result, _ = await transcribed(tmp_path, [], name="other.wav")
    assert "the run has no file 'other.wav'; its files: talk.txt" in result.answer


@pytest.mark.parametrize(("setting", "asked"), [("embedding_model", NEAREST), ("transcription_model", None)])
async def test_without_a_model_a_sentence_says_what_to_set(tmp_path: Path, setting: str, asked: Any) -> None:
    if asked is None:
        result, _ = await transcribed(tmp_path, [], transcription_model="")
    else:
        async with working(tmp_path, [], embedding_model="") as (_, ws):
            result = await ws.run("Find.", model=seen(asked))
    assert f"no model is named for this; set {setting} in agentorchestra.toml" in result.answer


async def test_a_model_that_cannot(tmp_path: Path) -> None:
    async with working(tmp_path, [], embedding_model="offline") as (_, ws):
        result = await ws.run("Find.", model=seen(NEAREST))
    assert "offline cannot embed; name another model for it" in result.answer


async def test_only_openai_and_its_likes_transcribe(tmp_path: Path) -> None:
    manager = ModelManager(Settings(), {"ANTHROPIC_API_KEY": "k"})
    client: Any = manager.client("anthropic:claude-one")
    with pytest.raises(Exception, match="transcribes nothing here: only OpenAI and servers with its API do"):
        await client.transcribe(b"", "a.wav", "audio/wav")
    await manager.aclose()
