"""Answers at the edge of what a model may say, and estimates where a server does not count."""

from __future__ import annotations

from typing import Any

import pytest

from agentorchestra.core.content import MediaBlock, TextBlock, Trust
from agentorchestra.core.errors import ModelContextError, ModelRateLimitError
from agentorchestra.core.ids import canonical_json
from agentorchestra.core.messages import Message, ModelResponse, ToolCall, user
from agentorchestra.core.settings import ModelProfile
from agentorchestra.models.prices import estimate_input_tokens, is_loopback, most_usage, price_of
from agentorchestra.testing import ServerReply, call, http_error
from tests.models.support import asking, no_media, schema, serving


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("", {}),
        ("{}", {}),
        ('{"a": 1}', {"a": 1}),
        ('{"a": 1', '{"a": 1'),
        ("[1, 2]", "[1, 2]"),
        ('"text"', '"text"'),
        ('{"a": NaN}', '{"a": NaN}'),
        ('{"a": 1e999}', '{"a": 1e999}'),
        ('{"a": "\\ud800b"}', {"a": "?b"}),
        ('{"a": "\u00e9\\u0000"}', {"a": "é\x00"}),
    ],
)
async def test_arguments_are_an_object_or_what_was_written(written: str, read: Any) -> None:
    answer = ToolCall(id="c1", name="add", arguments=written)
    async with serving(lambda body: answer) as (_, client):
        response = await client.request(asking(tools=(schema(),)), media=no_media)
    [one] = response.tool_calls
    assert one.arguments == read
    canonical_json(response.model_dump(mode="json")).encode()  # it can be recorded


async def test_arguments_that_were_no_object_go_back_as_one() -> None:
    bad = Message(role="assistant", tool_calls=(ToolCall(id="c1", name="add", arguments='{"a": '),))
    told = Message(role="tool", tool_call_id="c1", content=(TextBlock(text="no", trust=Trust.SYSTEM),))
    async with serving(lambda body: "ok") as (server, client):
        await client.request(asking(user("go"), bad, told), media=no_media)
    sent = server.requests[0]["messages"][1]["tool_calls"][0]["function"]
    assert sent == {"name": "add", "arguments": '{"INVALID_JSON":"{\\"a\\": "}'}


@pytest.mark.parametrize("reason", ["length", "content_filter"])
async def test_why_an_answer_ended(reason: Any) -> None:
    async with serving(lambda body: ModelResponse(text="cut", finish_reason=reason)) as (_, client):
        assert (await client.request(asking(), media=no_media)).finish_reason == reason


async def test_a_server_that_does_not_count_is_estimated() -> None:
    request = asking(tools=(schema(),))
    async with serving(lambda body: ServerReply([call("add", a=1)], usage={})) as (_, client):
        usage = (await client.request(request, media=no_media)).usage
    assert usage.requests == 1 and usage.input_tokens == estimate_input_tokens(request)
    assert 0 < usage.output_tokens < 20


async def test_a_medium_nobody_can_send_is_named() -> None:
    film = MediaBlock(media_type="video/mp4", sha256="a" * 64, size=15, name="film.mp4", trust=Trust.USER)
    async with serving(lambda body: "ok", vision=True) as (server, client):
        await client.request(asking(Message(role="user", content=(film,))), media=no_media)
    assert server.requests[0]["messages"][0]["content"] == "[video/mp4 film.mp4, 15 bytes]"


def test_estimates_are_upper_bounds() -> None:
    ascii_text, chinese = asking(user("x" * 3_000)), asking(user("字" * 3_000))
    assert 1_000 <= estimate_input_tokens(ascii_text) < 1_100
    assert 3_000 <= estimate_input_tokens(chinese) < 3_100, "a character of such scripts can be a token"
    picture = MediaBlock(media_type="image/png", sha256="a" * 64, size=5_000_000)
    pages = MediaBlock(media_type="application/pdf", sha256="b" * 64, size=5_000_000)
    seen = asking(Message(role="user", content=(picture, pages)))
    assert estimate_input_tokens(seen) > 3_000 + 250_000
    assert estimate_input_tokens(seen, context_window=100_000) < 104_000, "no model reads more than its window"
    assert most_usage(asking(max_tokens=77)).output_tokens == 77


def test_prices_are_of_providers_not_of_this_machine() -> None:
    usage = most_usage(asking())
    published = ModelProfile(model="openai:gpt-4o")
    assert price_of(published, usage)
    assert price_of(published, usage, address="https://relay.example.org/v1")
    assert price_of(published, usage, address="http://localhost:8000/v1") is None
    assert price_of(ModelProfile(model="offline"), usage) == 0
    assert [is_loopback(f"http://{host}:1/v1") for host in ("[::1]", "127.0.0.9", "10.0.0.1", "example.org")] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), ("0.5", 0.5), ("soon", None), ("-3", None), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0)],
)
async def test_how_long_a_provider_asks_to_wait(header: str, seconds: float | None) -> None:
    reply = ServerReply(status=429, headers={"Retry-After": header}, body=b'{"error": {"message": "slow down"}}')
    async with serving(lambda body: reply) as (_, client):
        with pytest.raises(ModelRateLimitError) as caught:
            await client.request(asking(), media=no_media)
    assert caught.value.retry_after_s == seconds


@pytest.mark.parametrize(
    "said",
    [
        "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "the request exceeds the available context size, try increasing it",
    ],
)
async def test_a_prompt_that_is_too_long_is_an_error_of_its_own(said: str) -> None:
    async with serving([http_error(400, said)]) as (_, client):
        with pytest.raises(ModelContextError, match=r"cannot read a prompt this long .*; set context_window"):
            await client.request(asking(), media=no_media)
