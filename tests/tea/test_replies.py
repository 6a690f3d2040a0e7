"""Each reply of the corpus becomes what it must: read from the provider's library, and through loopback servers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agentorchestra.core.messages import ModelRequest, ModelResponse, ModelSettings, user
from agentorchestra.core.reply_text import split_thoughts
from agentorchestra.core.settings import ModelProfile, Settings
from agentorchestra.models.client import ModelClient
from agentorchestra.models.manager import ModelManager
from agentorchestra.tea.calling.replies import read_reply
from agentorchestra.testing import LoopbackModelServer, ServerReply
from tests.models.support import KEY, Pieces, no_media
from tests.support.formats import LoopbackAnthropicServer, LoopbackGoogleServer
from tests.tea.replying import FINISHED, SCHEMAS, cases, faults, response_of

CASES = cases()
UNLIKE = {"fresh-phi-text-cut": ["thoughts: '', not 'Write the file.'"]}
"""What differs from what the reader asked for, and stays: nothing is read out of a JSON object that is cut."""


def test_the_corpus_is_wide() -> None:
    fresh = [case for case in CASES if case["id"].startswith("fresh-")]
    assert len(CASES) >= 200 and len(fresh) >= len(CASES) / 3
    assert len({case["family"] for case in CASES}) >= 10
    assert len({case["id"] for case in CASES}) == len(CASES)


def test_each_reply_becomes_what_it_must() -> None:
    wrong = {case["id"]: found for case in CASES if (found := faults(case, response_of(case)))}
    assert wrong == UNLIKE


@pytest.mark.long
def test_replies_of_two_megabytes_become_what_they_must() -> None:
    long = [case for case in cases(long=True) if len(response_of(case).model_dump_json()) > 1_000_000]
    assert len(long) >= 5
    assert {case["id"]: found for case in long if (found := faults(case, response_of(case)))} == {}


HARD = {
    "<think>\n": "",
    "</think>\n": "",
    "<tool_call>{\n": "",
    '```python\n"""\n': "",
    "`": "```",
    " ": "",
    '{"': "",
    '\\"': '{"a": "',
    "<|channel|>commentary to=": "",
    "<function=a>\n": "",
    "<parameter=b>\n": "<function=a>\n",
    " json": "[TOOL_CALLS]a",
    "[a(\n": "",
    "(": "[a(",
    "[": "<tool_call>",
    "{/*": "",
    ", ": "{",
    "b:": "<|tool_call>call:a{",
    "</answer> ": "<think>x</think><answer>",
    "assistantfinal": "analysis",
}
"""Texts to be repeated, and what stands before them."""


@pytest.mark.long
@pytest.mark.parametrize("text", list(HARD))
def test_a_long_text_of_marks_that_never_fit_is_read_and_makes_no_call(text: str) -> None:
    long = HARD[text] + text * (400_000 // len(text))
    for native in (True, False):
        reply = read_reply(ModelResponse(text=long, finish_reason="length"), SCHEMAS["code"], native=native)
        assert not reply.calls or (reply.incomplete and len(reply.calls) == 1)


def test_what_was_split_once_has_no_more_thoughts() -> None:
    for case in CASES:
        rest = split_thoughts(response_of(case).text)[1]
        assert split_thoughts(rest) == ("", rest), case["id"]


SERVERS: dict[str, tuple[type[LoopbackModelServer], str]] = {
    "openai": (LoopbackModelServer, "local-model"),
    "anthropic": (LoopbackAnthropicServer, "anthropic:claude-sonnet-4-6"),
    "google": (LoopbackGoogleServer, "google:gemini-2.5-flash"),
}
SAMPLE = [
    case
    for place, case in enumerate(CASES)
    if len(written := json.dumps(case["reply"])) < 5_000
    and "thoughtSignature" not in written
    and (case["family"] not in {one["family"] for one in CASES[:place]} or case["provider"] != "openai")
    and not {"stop_sequence", "SAFETY", "refusal", "MALFORMED_FUNCTION_CALL"} & set(map(str, case["reply"].values()))
]


@asynccontextmanager
async def serving(provider: str, replies: list[ServerReply]) -> AsyncIterator[ModelClient]:
    kind, model = SERVERS[provider]
    async with kind(replies, key=KEY) as server:
        profile = ModelProfile(model=model, base_url=server.base_url, api_key_env="LOCAL_KEY")
        manager = ModelManager(Settings(models={"local": profile}), {"LOCAL_KEY": KEY})
        try:
            yield manager.client("local")
        finally:
            await manager.aclose()


def body(case: dict[str, Any]) -> bytes:
    """The reply in the body that its provider sends."""
    reply = case["reply"]
    if case["provider"] == "anthropic":
        found = {"id": "m", "type": "message", "role": "assistant", "model": "m", **reply}
        found["usage"] = {"input_tokens": 9, "output_tokens": 9}
    elif case["provider"] == "google":
        tokens = {"promptTokenCount": 9, "candidatesTokenCount": 9, "totalTokenCount": 18}
        found = {"candidates": [reply], "modelVersion": "m", "responseId": "r", "usageMetadata": tokens}
    else:
        usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
        found = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": usage}
        found["choices"] = [{"index": 0, **reply}]
    return json.dumps(found).encode()


def asking(case: dict[str, Any], *, stream: bool) -> ModelRequest:
    tools = SCHEMAS[case["tools"]] if case["offered"] == "native" else ()
    return ModelRequest(model="local", messages=(user("Go."),), tools=tools, settings=ModelSettings(stream=stream))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("provider", list(SERVERS))
async def test_a_sample_through_the_formats_of_providers(provider: str) -> None:
    chosen = [case for case in SAMPLE if case["provider"] == provider][: 12 if provider != "openai" else None]
    assert len(chosen) >= 10
    async with serving(provider, [ServerReply(body=body(case)) for case in chosen]) as client:
        for case in chosen:
            response = await client.request(asking(case, stream=False), media=no_media)
            assert faults(case, response) == [], case["id"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("provider", list(SERVERS))
async def test_a_sample_in_pieces(provider: str) -> None:
    chosen = [case for case in SAMPLE if case["provider"] == provider and not cut_object(case)][:12]
    assert len(chosen) >= 10
    async with serving(provider, [ServerReply(answer=response_of(case)) for case in chosen]) as client:
        for case in chosen:
            heard = Pieces()
            given = response_of(case)
            response = await client.request(asking(case, stream=True), media=no_media, on_delta=heard)
            assert "".join(heard) == given.text
            assert faults(case, response.model_copy(update={"thinking": given.thinking})) == [], case["id"]


def cut_object(case: dict[str, Any]) -> bool:
    """Whether a call is cut whose arguments come as an object: in pieces they come as text."""
    return bool(set(map(str, case["reply"].values())) & FINISHED)
