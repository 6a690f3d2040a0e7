"""The same conversation in OpenAI's, Anthropic's and Google's formats, through the official SDKs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.budget import Usage
from agentorchestra.core.content import MediaBlock, TextBlock, Trust
from agentorchestra.core.errors import (
    ModelAuthError,
    ModelContextError,
    ModelRateLimitError,
    ModelRequestError,
    ModelResponseError,
    ModelUnavailableError,
)
from agentorchestra.core.messages import Message, ModelRequest, ModelResponse, ModelSettings, ToolCall, system, user
from agentorchestra.core.settings import ModelProfile, Settings
from agentorchestra.models.client import ModelClient
from agentorchestra.models.manager import ModelManager
from agentorchestra.testing import LoopbackModelServer, ServerReply, ServerScript, call, decide
from agentorchestra.tools.done import done_tool
from agentorchestra.workspace import Workspace
from tests.models.support import KEY, Pieces, no_media, schema
from tests.support.formats import LoopbackAnthropicServer, LoopbackGoogleServer

SERVERS: dict[str, type[LoopbackModelServer]] = {
    "openai": LoopbackModelServer,
    "anthropic": LoopbackAnthropicServer,
    "google": LoopbackGoogleServer,
}
MODELS = {"openai": "openai:gpt-5", "anthropic": "anthropic:claude-sonnet-4-6", "google": "google:gemini-2.5-flash"}
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc000000301010018dd8db0"
    "0000000049454e44ae426082"
)
ADDED = ToolCall(id="call_a", name="add", arguments={"a": 2, "b": 3})
DOUBLED = ToolCall(id="call_b", name="double", arguments={"a": 5})

pytestmark = pytest.mark.parametrize("format_", list(SERVERS))


@asynccontextmanager
async def serving(
    format_: str, script: ServerScript, **profile: Any
) -> AsyncIterator[tuple[LoopbackModelServer, ModelClient]]:
    """A server of a format, and the real client of a profile that points at it."""
    async with SERVERS[format_](script, key=KEY) as server:
        fields = {"model": MODELS[format_], "base_url": server.base_url, "api_key_env": "LOCAL_KEY", **profile}
        manager = ModelManager(Settings(models={"local": ModelProfile(**fields)}), {"LOCAL_KEY": KEY})
        try:
            yield server, manager.client("local")
        finally:
            await manager.aclose()


def asking(*messages: Message, **settings: Any) -> ModelRequest:
    given = messages or (system("Be brief."), user("What is 2 + 3?"))
    tools = (schema("add"), schema("double"))
    return ModelRequest(model="local", messages=given, tools=tools, settings=ModelSettings(**settings))


@pytest.mark.sampled(2)
async def test_text_and_usage(format_: str) -> None:
    usage = Usage(input_tokens=100, cache_read_tokens=40, output_tokens=7)
    async with serving(format_, [ModelResponse(text="It is 5.", usage=usage)]) as (_, client):
        response = await client.request(asking(), media=no_media)
    assert (response.text, response.tool_calls, response.finish_reason) == ("It is 5.", (), "stop")
    counted = response.usage
    assert (counted.input_tokens, counted.cache_read_tokens, counted.output_tokens) == (100, 40, 7)


async def test_calls_come_back_in_their_order(format_: str) -> None:
    async with serving(format_, [[ADDED, DOUBLED]]) as (server, client):
        response = await client.request(asking(), media=no_media)
    assert response.finish_reason == "tool_calls"
    assert [(one.name, one.arguments) for one in response.tool_calls] == [
        ("add", {"a": 2, "b": 3}),
        ("double", {"a": 5}),
    ]
    assert "max" in str(server.requests[0]).lower()  # the bound of the answer is always sent


@pytest.mark.sampled(3)
@pytest.mark.parametrize("listening", [False, True])
async def test_streams_carry_the_same(format_: str, listening: bool) -> None:
    heard = Pieces()
    text = "It will be computed by a tool, in one moment."
    usage = Usage(input_tokens=50, output_tokens=9)
    reply = ModelResponse(text=text, tool_calls=(ADDED, DOUBLED), finish_reason="tool_calls", usage=usage)
    async with serving(format_, [reply], stream=listening) as (server, client):
        response = await client.request(asking(), media=no_media, on_delta=heard)
    assert response.text == text
    assert [one.arguments for one in response.tool_calls] == [{"a": 2, "b": 3}, {"a": 5}]
    assert "".join(heard) == (text if listening else "")
    assert len(heard) > 2 or not listening
    parsed = {name: json.loads(text) for name, text in heard.arguments.items()}
    assert parsed == ({"add": {"a": 2, "b": 3}, "double": {"a": 5}} if listening else {})
    assert (response.usage.input_tokens, response.usage.output_tokens) == (50, 9)
    assert bool(server.requests[0].get("stream")) is listening


async def test_results_errors_and_a_picture_go_in(format_: str) -> None:
    picture = MediaBlock(sha256="0" * 64, media_type="image/png", name="dot.png", size=len(PNG))

    async def media(sha256: str) -> bytes:
        return PNG

    asked = Message(role="user", content=(TextBlock(text="What is in it?", trust=Trust.USER), picture))
    history = (
        system("Be brief."),
        asked,
        Message(role="assistant", content=(TextBlock(text="I compute."),), tool_calls=(ADDED, DOUBLED)),
        Message(role="tool", content=(TextBlock(text="five"),), tool_call_id="call_a", name="add"),
        Message(role="tool", content=(TextBlock(text="no such"),), tool_call_id="call_b", name="double", is_error=True),
        user("Go on."),
    )
    async with serving(format_, ["done"]) as (server, client):
        response = await client.request(asking(*history), media=media)
    assert response.text == "done"
    sent = str(server.requests[0])
    for part in ("Be brief.", "What is in it?", "I compute.", "five", "no such", "Go on.", "add", "double", "png"):
        assert part in sent, part


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("profile", "kind"),
    [({"vision": False}, "image/png"), ({"document": False}, "application/pdf"), ({"audio": False}, "audio/wav")],
)
async def test_what_a_model_does_not_take_is_named(format_: str, profile: dict[str, Any], kind: str) -> None:
    block = MediaBlock(sha256="0" * 64, media_type=kind, name="thing", size=3)
    async with serving(format_, ["seen"], **profile) as (server, client):
        response = await client.request(asking(Message(role="user", content=(block,))), media=no_media)
    assert response.text == "seen"
    assert f"[{kind} thing, 3 bytes]" in str(server.requests[0])


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, ModelRequestError),
        (401, ModelAuthError),
        (403, ModelAuthError),
        (404, ModelRequestError),
        (429, ModelRateLimitError),
        (500, ModelUnavailableError),
        (503, ModelUnavailableError),
    ],
)
async def test_errors_by_status(format_: str, status: int, error: type[Exception]) -> None:
    async with serving(format_, []) as (server, client):
        reply = server.error(status, f"because of {status}", retry_after_s=2.5 if status == 429 else None)
        server._function = lambda body: reply
        with pytest.raises(error, match=f"HTTP {status}: .*because of {status}") as raised:
            await client.request(asking(), media=no_media)
    assert KEY not in str(raised.value)
    assert getattr(raised.value, "retry_after_s", None) == (2.5 if status == 429 else None)


async def test_a_prompt_that_is_too_long(format_: str) -> None:
    async with serving(format_, []) as (server, client):
        reply = server.error(400, "prompt is too long: 300000 tokens > 200000 maximum")
        server._function = lambda body: reply
        with pytest.raises(ModelContextError):
            await client.request(asking(), media=no_media)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("listening", [False, True])
async def test_an_answer_that_is_cut_off(format_: str, listening: bool) -> None:
    cut = ServerReply(answer="a long answer that is cut in the middle", cut_after=2)
    async with serving(format_, [cut], stream=listening) as (_, client):
        with pytest.raises((ModelUnavailableError, ModelResponseError)):
            await client.request(asking(), media=no_media)


async def test_a_body_that_is_no_json(format_: str) -> None:
    async with serving(format_, [ServerReply(body=b'{"id": "x", "cont')]) as (_, client):
        with pytest.raises(ModelResponseError, match="cannot be read"):
            await client.request(asking(), media=no_media)


async def test_silence_ends(format_: str) -> None:
    async with serving(format_, [ServerReply(silent=True)]) as (_, client):
        with pytest.raises(ModelUnavailableError, match=r"(?i)answer"):
            await client.request(asking(timeout_s=0.5), media=no_media)


async def test_no_connection(format_: str) -> None:
    async with serving(format_, []) as (server, client):
        await server.stop()
        with pytest.raises(ModelUnavailableError, match="nothing listens at"):
            await client.request(asking(), media=no_media)


@pytest.mark.sampled(2)
async def test_a_run_through_it(tmp_path: Path, format_: str) -> None:
    replies = [decide(calls=[call("todo", action="list")]), decide(memory="m", calls=[call("done", answer="through")])]
    async with SERVERS[format_](replies, key=KEY) as server:
        fields: dict[str, Any] = {"model": MODELS[format_], "base_url": server.base_url, "api_key_env": "LOCAL_KEY"}
        settings = Settings(models={"local": ModelProfile(**fields)}, model="local", system="react")
        async with Workspace(tmp_path / "ws", settings=settings, environ={"LOCAL_KEY": KEY}) as ws:
            result = await ws.run("Go.")
            assert (result.status, result.answer) == ("completed", "through")
            assert (await ws.replay(result.run_id)).answer == "through"
    assert done_tool().description in str(server.requests[0]) or "Finish the task" in str(server.requests[0])
    assert server.count == 2
