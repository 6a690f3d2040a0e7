"""Embeddings and transcription: through the door, in the log, paid once."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.budget import Budget, Usage
from agentorchestra.core.content import MediaBlock
from agentorchestra.core.errors import ModelResponseError
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.settings import ModelProfile, Price, Settings
from agentorchestra.core.spec import RunStatus
from agentorchestra.models.manager import ModelManager
from agentorchestra.runtime.results import ToolResult
from agentorchestra.tea.calling.tool import tool
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
from tests.support.formats import LoopbackGoogleServer


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
            name: ModelProfile(
                model=f"openai:{name}",
                base_url=server.base_url,
                price=price,
                max_attempts=2,
                backoff_s=0.01,
                rate_limit_s=0.01,
            )
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
        events = await ws.log.events(result.run_id)
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


async def test_an_artifact_is_transcribed(tmp_path: Path) -> None:
    """A recording that a tool made, in the same call or an earlier one; a medium too."""

    @tool(effect="composite")
    async def record(ctx: RunContext[Any]) -> ToolResult:
        """Record."""
        kept = await ctx.artifact("tape.wav", b"RIFF....", "audio/wav")
        medium = MediaBlock(sha256=kept.sha256, media_type="audio/wav", name="medium.wav", size=kept.size)
        said = [await ctx.transcribe(kept), await ctx.transcribe(medium)]
        return ToolResult(content=" and ".join(said), artifacts=(kept,))

    script = ScriptedModel(
        [
            decide(calls=[call("record")]),
            decide(calls=[call("listen", name="tape.wav")]),
            lambda request: decide(
                calls=[call("done", answer=" then ".join(one.text for one in request.messages if one.role == "tool"))]
            ),
        ]
    )
    async with working(tmp_path, ["one", "two", "three"]) as (server, ws):
        result = await ws.run("Record.", model=script, tools=[record])
        assert result.answer == "one and two then three"
        assert [body["file"] for body in server.requests] == ["tape.wav", "medium.wav", "tape.wav"]
        assert (await ws.replay(result.run_id)).answer == result.answer_text


async def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    result, _ = await transcribed(tmp_path, [], name="other.wav")
    assert "the run has no file 'other.wav'; its files: talk.txt; the run has no artifact 'other.wav'" in result.answer


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


async def test_many_texts_are_several_effects_and_stay_in_order(tmp_path: Path) -> None:
    """What was embedded before a failure is recorded: it is not paid again."""
    texts = ["a" * 1000 + "eiou"[n % 4] * n for n in range(300)]

    @tool(effect="composite")
    async def embed_all(ctx: RunContext[Any]) -> str:
        """Embed."""
        vectors = await ctx.embed(texts)
        again = await ctx.embed(texts[-1:])
        assert vectors[-1] == again[0]
        return f"{len(vectors)} vectors of {len(vectors[0])}, {len({tuple(one) for one in vectors})} different"

    async with working(tmp_path, "unused") as (server, ws):
        result = await ws.run("Embed.", model=seen(call("embed_all")), tools=[embed_all])
        assert result.answer == "300 vectors of 10, 300 different"
        assert [text for body in server.requests[:-1] for text in body["input"]] == texts
        assert len(server.requests) == 3
        events = await ws.log.events(result.run_id)
        rows = [event.model_dump_json() for event in events if event.type == "completed"]
        assert max(map(len, rows)) < 400_000, "vectors are kept as bytes, not as text in the log"
        assert (await ws.replay(result.run_id)).answer == result.answer_text


@pytest.mark.long
async def test_vectors_of_another_model_never_stand_in(tmp_path: Path) -> None:
    """They could not be compared; the same model elsewhere can."""
    async with LoopbackModelServer(lambda body: http_error(401, "no")) as down, LoopbackModelServer("x") as up:
        price = Price(input=10, output=10)
        models = {
            "first": ModelProfile(
                model="openai:bge", base_url=down.base_url, price=price, fallbacks=("other", "mirror"), max_attempts=1
            ),
            "other": ModelProfile(model="openai:e5", base_url=up.base_url, price=price),
            "mirror": ModelProfile(model="vllm:bge", base_url=up.base_url, price=price),
        }
        settings = Settings(models=models, system="react", embedding_model="first")
        async with Workspace(tmp_path / "ws", tools=[nearest], settings=settings) as ws:
            result = await ws.run("Find.", model=seen(NEAREST))
        assert result.answer == "steel wheels"
        assert (down.count, [body["model"] for body in up.requests]) == (1, ["bge"])
        assert "vllm:bge" in result.usage_by_model and "openai:e5" not in result.usage_by_model


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("failure", "says", "requests"),
    [
        (http_error(401, "bad key"), "refused the credentials (HTTP 401: bad key)", 1),
        (http_error(404, "no such model"), "does not know this model", 1),
        (http_error(429, "slow", retry_after_s=0.01), "limiting the rate", 2),
        (http_error(500, "down"), "failed (HTTP 500: down)", 2),
        (ServerReply(drop=True), "broke the connection off", 2),
        (ServerReply(body=b'{"text": '), "cannot be read", 2),
        (ServerReply(body=b'{"words": "hi"}'), "cannot be read (no transcript", 2),
    ],
)
async def test_what_goes_wrong_with_a_recording_is_told(
    tmp_path: Path, failure: ServerReply, says: str, requests: int
) -> None:
    result, server = await transcribed(tmp_path, lambda body: failure)
    assert result.status is RunStatus.COMPLETED and says in result.answer
    assert server.count == requests, "what repeating does not help is not repeated"


MINUTE = {"type": "duration", "seconds": 90}


@pytest.mark.parametrize(
    ("price", "cost"),
    [(Price(input=0, output=0, audio_minute=0.006), 0.009), (Price(input=0, output=0), 0.0), (None, None)],
)
async def test_a_model_that_is_paid_by_the_minute(tmp_path: Path, price: Price | None, cost: float | None) -> None:
    """Its price list says zero for tokens, which is not what it costs."""
    async with LoopbackModelServer([ServerReply(answer="hello", usage=MINUTE)]) as server:
        models = {"ears": ModelProfile(model="openai:whisper-1", base_url=server.base_url, price=price)}
        manager = ModelManager(Settings(models=models), {})
        client: Any = manager.client("ears")
        text, usage = await client.transcribe(b"x" * 1000, "a.mp3", "audio/mpeg")
        await manager.aclose()
    assert (text, usage.cost_usd) == ("hello", cost)
    published: Any = ModelManager(Settings(), {"OPENAI_API_KEY": "k"}).client("openai:whisper-1")
    assert published.sound_price(Usage(requests=1), 90.0) is None


@pytest.mark.sampled(2)
@pytest.mark.parametrize("what", ["embed", "transcribe"])
async def test_dollars_cannot_be_held_without_a_price(tmp_path: Path, what: str) -> None:
    (tmp_path / "talk.mp3").write_bytes(b"x" * 1000)
    async with LoopbackModelServer("x") as server:
        models = {"one": ModelProfile(model="openai:one", base_url=server.base_url)}
        settings = Settings(models=models, system="react", embedding_model="one", transcription_model="one")
        asked = NEAREST if what == "embed" else call("listen", name="talk.mp3")
        async with Workspace(tmp_path / "ws", tools=[nearest, listen], settings=settings) as ws:
            result = await ws.run("Go.", model=seen(asked), files=[tmp_path / "talk.mp3"], budget=Budget(cost_usd=1))
        assert "the price of model 'one' is unknown for this" in result.answer
        assert "[models.one.price]" in result.answer
        assert server.count == 0


async def test_a_bound_is_held_while_it_listens(tmp_path: Path) -> None:
    """Two hours of sound are not begun with the rest of a cent."""
    (tmp_path / "long.mp3").write_bytes(b"x" * 14_400_000)
    async with LoopbackModelServer("x") as server:
        price = Price(input=0, output=0, audio_minute=0.006)
        models = {"ears": ModelProfile(model="openai:ears", base_url=server.base_url, price=price)}
        settings = Settings(models=models, system="react", transcription_model="ears")
        async with Workspace(tmp_path / "ws", tools=[listen], settings=settings) as ws:
            asked = seen(call("listen", name="long.mp3"))
            result = await ws.run("Go.", model=asked, files=[tmp_path / "long.mp3"], budget=Budget(cost_usd=0.01))
        # What is asked beside an agent's work is not worth the run: it hears that there is no money for it.
        assert (result.status, server.count) == (RunStatus.COMPLETED, 0)
        assert "the run's budget of 0.01 US dollars does not cover the next effect" in result.answer
        assert "up to 0.72 more needed" in result.answer


async def test_google_embeds(tmp_path: Path) -> None:
    """Another format than OpenAI's: the provider's own client, closed with the rest."""
    body = json.dumps({"embeddings": [{"values": [1.0, 0.0]}, {"values": [0.0, 1.0]}]}).encode()

    class Embeds(LoopbackGoogleServer):
        def _serves(self, path: str) -> bool:
            return path.endswith(":batchEmbedContents")

    async with Embeds(lambda given: ServerReply(body=body), key="k") as server:
        profile = ModelProfile(model="google:gemini-embedding-001", base_url=server.base_url, api_key_env="K")
        manager = ModelManager(Settings(models={"g": profile}), {"K": "k"})
        client: Any = manager.client("g")
        vectors, usage = await client.embed(["a", "b"])
        await client.embed(["a", "b"])
        with pytest.raises(ModelResponseError, match="2 vectors for 1 texts"):
            await client.embed(["a"])
        await manager.aclose()
    assert vectors == [[1.0, 0.0], [0.0, 1.0]] and usage.input_tokens > 0


async def test_only_openai_and_its_likes_transcribe(tmp_path: Path) -> None:
    manager = ModelManager(Settings(), {"ANTHROPIC_API_KEY": "k"})
    client: Any = manager.client("anthropic:claude-one")
    with pytest.raises(Exception, match="transcribes nothing here: only OpenAI and servers with its API do"):
        await client.transcribe(b"", "a.wav", "audio/wav")
    await manager.aclose()
