"""What stands in the bodies of requests, and what is read from answers, in each provider's own form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentorchestra.core.budget import Usage
from agentorchestra.core.content import TextBlock
from agentorchestra.core.messages import (
    FinishReason,
    Message,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    ToolCall,
    system,
    user,
)
from agentorchestra.core.settings import ModelProfile, Settings
from agentorchestra.models.handler import RequestModelHandler
from agentorchestra.models.manager import ModelManager
from agentorchestra.testing import LoopbackModelServer
from tests.models.support import Context, Pieces, asking, effect_of, no_media, schema
from tests.support.formats import LoopbackAnthropicServer, LoopbackGoogleServer

SERVERS: dict[str, tuple[type[LoopbackModelServer], str]] = {
    "openai": (LoopbackModelServer, "openai:gpt-5"),
    "anthropic": (LoopbackAnthropicServer, "anthropic:claude-opus-4-5"),
    "google": (LoopbackGoogleServer, "google:gemini-2.5-flash"),
}
CALLS = (
    ToolCall(id="call_a", name="add", arguments={"a": 2}),
    ToolCall(id="call_b", name="double", arguments={"a": 5}),
)
HISTORY = (
    system("Be brief."),
    user("What is it?"),
    Message(role="assistant", content=(TextBlock(text="I compute."),), tool_calls=CALLS),
    Message(role="tool", content=(TextBlock(text="five"),), tool_call_id="call_a", name="add"),
    Message(role="tool", content=(TextBlock(text="no such"),), tool_call_id="call_b", name="double", is_error=True),
    user("Go on."),
)
USED = Usage(input_tokens=100, cache_read_tokens=40, cache_write_tokens=20, output_tokens=30, reasoning_tokens=10)


async def exchanged(
    format_: str, answer: ModelResponse, *, streamed: bool = False, forces: bool | None = None, **settings: Any
) -> tuple[dict[str, Any], ModelResponse]:
    """The body a server got for HISTORY, and what was made of its answer."""
    make, model = SERVERS[format_]
    async with make([answer]) as server:
        profile = ModelProfile(model=model, base_url=server.base_url, stream=streamed, forces_tools=forces)
        client = ModelManager(Settings(models={"m": profile}), {}).client("m")
        tools = (schema("add"), schema("double"))
        request = ModelRequest(model="m", messages=HISTORY, tools=tools, settings=ModelSettings(**settings))
        listener = Pieces() if streamed else None
        response = await client.request(request, media=no_media, on_delta=listener)
        await client.aclose()
    return server.requests[0], response


@pytest.mark.sampled(4)
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("reason", ["stop", "length", "content_filter"])
@pytest.mark.parametrize("format_", list(SERVERS))
async def test_why_an_answer_ended(format_: str, reason: FinishReason, streamed: bool) -> None:
    _, response = await exchanged(format_, ModelResponse(text="so far", finish_reason=reason), streamed=streamed)
    assert (response.finish_reason, response.text) == (reason, "so far")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("format_", "unknown"), [("openai", ()), ("anthropic", ("reasoning",)), ("google", ("cache_write",))]
)
async def test_tokens_by_class(format_: str, unknown: tuple[str, ...], streamed: bool) -> None:
    """What was read from a cache or written to it is part of the input, thinking part of the output."""
    _, response = await exchanged(format_, ModelResponse(text="x", thinking="hm", usage=USED), streamed=streamed)
    expected = USED.model_copy(update={"requests": 1, **{f"{name}_tokens": 0 for name in unknown}})
    assert response.usage.model_copy(update={"cost_usd": 0.0}) == expected
    assert response.thinking == "hm"


async def test_results_in_openais_form() -> None:
    body, _ = await exchanged("openai", ModelResponse(text="x"), max_tokens=77)
    roles = [message["role"] for message in body["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "tool", "user"]
    assert [message["tool_call_id"] for message in body["messages"][3:5]] == ["call_a", "call_b"]
    assert [one["id"] for one in body["messages"][2]["tool_calls"]] == ["call_a", "call_b"]
    assert body["messages"][4]["content"] == "Error: no such"
    assert body["max_completion_tokens"] == 77
    assert body["tools"][0]["function"]["parameters"] == schema("add").parameters


async def test_results_in_anthropics_form() -> None:
    body, _ = await exchanged("anthropic", ModelResponse(text="x"), max_tokens=77)
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    results = body["messages"][2]["content"]
    # All results of a turn stand in the message that follows it, before anything else.
    assert [(one["type"], one.get("tool_use_id"), one.get("is_error")) for one in results] == [
        ("tool_result", "call_a", False),
        ("tool_result", "call_b", True),
        ("text", None, None),
    ]
    assert body["max_tokens"] == 77
    assert body["tools"][0]["input_schema"] == schema("add").parameters


async def test_anthropics_cache_serves_the_front_of_the_prompt() -> None:
    """System prompt and tools are the same in every step, and so is all but the last message."""
    body, _ = await exchanged("anthropic", ModelResponse(text="x"))
    assert ["cache_control" in one for one in body["tools"]] == [False, True]
    assert "cache_control" in body["system"][-1]
    marked = ["cache_control" in part for message in body["messages"] for part in message["content"]]
    assert marked == [False, False, False, False, False, True, False], "the results, not what follows them"
    assert body["messages"][-1]["content"][-1]["text"] == "Go on."


async def test_results_in_googles_form() -> None:
    body, _ = await exchanged("google", ModelResponse(text="x"), max_tokens=77)
    assert [one["role"] for one in body["contents"]] == ["user", "model", "user", "user"]
    answers = [part["functionResponse"] for part in body["contents"][2]["parts"]]
    assert [(one["id"], one["name"]) for one in answers] == [("call_a", "add"), ("call_b", "double")]
    assert answers[0]["response"] != answers[1]["response"] and "error" in answers[1]["response"]
    assert body["generationConfig"]["maxOutputTokens"] == 77


CHOICES: dict[str, dict[str, Any]] = {
    "openai": {"required": "required", "none": "none"},
    "anthropic": {"required": {"type": "any"}, "none": {"type": "none"}},
    "google": {"required": "ANY", "none": "NONE"},
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("choice", ["required", "none"])
@pytest.mark.parametrize("format_", list(SERVERS))
async def test_whether_tools_must_or_may_be_called(format_: str, choice: str) -> None:
    body, _ = await exchanged(format_, ModelResponse(text="x"), tool_choice=choice)
    given = body["toolConfig"]["functionCallingConfig"]["mode"] if format_ == "google" else body["tool_choice"]
    assert given == CHOICES[format_][choice]


FORCED: dict[str, Any] = {
    "openai": {"type": "function", "function": {"name": "double"}},
    "anthropic": {"type": "tool", "name": "double"},
    "google": {"mode": "ANY", "allowedFunctionNames": ["double"]},
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("forces", [True, None])
@pytest.mark.parametrize("format_", list(SERVERS))
async def test_the_call_of_one_tool_is_forced_where_the_profile_says_so(format_: str, forces: bool | None) -> None:
    """A server of one's own is not asked to unless its profile says so; what is offered stays the same."""
    body, _ = await exchanged(format_, ModelResponse(text="x"), forces=forces, tool_choice="double")
    config = body.get("toolConfig", {}).get("functionCallingConfig")
    given = config if format_ == "google" else body.get("tool_choice")
    if forces:
        assert given == FORCED[format_]
    else:
        assert given not in FORCED.values()
    assert "add" in json.dumps(body["tools"]) and "double" in json.dumps(body["tools"])


@pytest.mark.parametrize("format_", ["openai", "anthropic"])
async def test_arguments_that_are_no_json_come_as_they_are(format_: str) -> None:
    """In a stream every provider can send them; a conversation that holds them can go on with the same provider."""
    broken = ToolCall(id="call_x", name="add", arguments='{"a": 2,')
    _, response = await exchanged(format_, ModelResponse(tool_calls=(broken,)), streamed=True)
    assert [one.arguments for one in response.tool_calls] == ['{"a": 2,']
    make, model = SERVERS[format_]
    async with make(["sorry"]) as server:
        client = ModelManager(Settings(models={"m": ModelProfile(model=model, base_url=server.base_url)}), {}).client(
            "m"
        )
        history = (
            user("x"),
            Message(role="assistant", tool_calls=response.tool_calls),
            Message(
                role="tool", tool_call_id=response.tool_calls[0].id, name="add", content=(TextBlock(text="no JSON"),)
            ),
        )
        again = ModelRequest(model="m", messages=history, tools=(schema("add"),))
        assert (await client.request(again, media=no_media)).text == "sorry"
        await client.aclose()
    sent = server.requests[0]["messages"][1]
    given = sent["tool_calls"][0]["function"]["arguments"] if format_ == "openai" else sent["content"][0]["input"]
    assert isinstance(json.loads(given) if isinstance(given, str) else given, dict), "servers refuse anything else"


EFFORT: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "openai": ("openai:gpt-5", {"reasoning_effort": "low"}, {"reasoning_effort": "low"}),
    "own": ("openai:qwen3", {"reasoning_effort": "high"}, {"reasoning_effort": "high"}),
    "anthropic": (
        "anthropic:claude-opus-4-5",
        {"thinking_tokens": 2_000, "temperature": 0.0},
        {"thinking": {"type": "enabled", "budget_tokens": 2_000}},
    ),
    "anthropic-effort": ("anthropic:claude-opus-4-5", {"reasoning_effort": "none"}, {}),
    "google": ("google:gemini-2.5-flash", {"thinking_tokens": 1_500}, {"thinkingConfig": {"thinking_budget": 1_500}}),
}


@pytest.mark.parametrize("name", list(EFFORT))
async def test_how_much_a_model_thinks_in_the_providers_own_form(name: str) -> None:
    model, settings, expected = EFFORT[name]
    async with SERVERS[model.partition(":")[0]][0](["x"]) as server:
        profile = ModelProfile(model=model, base_url=server.base_url)
        client = ModelManager(Settings(models={"m": profile}), {}).client("m")
        request = ModelRequest(model="m", messages=(user("What is 2 + 3?"),), settings=ModelSettings(**settings))
        await client.request(request, media=no_media)
        await client.aclose()
    (body,) = server.requests
    sent = body["generationConfig"] if name == "google" else body
    assert {key: sent[key] for key in ("reasoning_effort", "thinking", "thinkingConfig") if key in sent} == expected
    if name == "anthropic":
        assert "temperature" not in body and body["max_tokens"] > 2_000


async def test_anthropic_gets_its_thoughts_back_with_the_calls_that_followed() -> None:
    """It refuses to think on about results whose calls come without them; another provider never sees them."""
    added = ToolCall(id="call_a", name="add", arguments={"a": 2, "b": 3})
    settings = ModelSettings(thinking_tokens=2_000)
    first = ModelResponse(thinking="2 + 3 is to be added", tool_calls=(added,))
    told: tuple[Message, ...] = (user("What is 2 + 3?"),)
    bodies = []
    for format_ in ("anthropic", "openai"):
        make, model = SERVERS[format_]
        async with make([first, "5"] if format_ == "anthropic" else ["5"]) as server:
            profile = ModelProfile(model=model, base_url=server.base_url)
            client = ModelManager(Settings(models={"m": profile}), {}).client("m")
            if format_ == "anthropic":
                request = ModelRequest(model="m", messages=told, tools=(schema("add"),), settings=settings)
                response = await client.request(request, media=no_media)
                result = Message(role="tool", content=(TextBlock(text="5"),), tool_call_id="call_a", name="add")
                said = Message(role="assistant", tool_calls=response.tool_calls, thoughts=response.thoughts)
                told = (*told, said, result)
            request = ModelRequest(model="m", messages=told, tools=(schema("add"),), settings=settings)
            await client.request(request, media=no_media)
            await client.aclose()
        bodies.append(server.requests[-1])
    thought, use = bodies[0]["messages"][1]["content"]
    assert (thought["type"], thought["thinking"], thought["signature"]) == (
        "thinking",
        "2 + 3 is to be added",
        "c2lnbmF0dXJl",
    )
    assert use["type"] == "tool_use"
    assert "to be added" not in str(bodies[1])


async def test_openai_is_told_which_requests_are_of_one_conversation() -> None:
    """By a key: its cache lies on many machines. A server of one's own, whose model is not OpenAI's, gets none."""
    keys: dict[str, list[Any]] = {}
    for model in ("openai:gpt-5", "openai:qwen3"):
        async with LoopbackModelServer(lambda body: "x") as server:
            profile = ModelProfile(model=model, base_url=server.base_url)
            client = ModelManager(Settings(models={"m": profile}), {}).client("m")
            for messages in (HISTORY[:2], HISTORY, (HISTORY[0], user("Another question."))):
                await client.request(ModelRequest(model="m", messages=messages), media=no_media)
            await client.aclose()
        keys[model] = [body.get("prompt_cache_key") for body in server.requests]
    one, other, another = keys["openai:gpt-5"]
    assert one == other != another and len(one) == 32
    assert keys["openai:qwen3"] == [None, None, None]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "messages",
    [(system("Plan it."), user("")), (system("Plan it."), user("  \n"), user("How?"), user("")), (system("Plan it."),)],
)
@pytest.mark.parametrize("format_", list(SERVERS))
async def test_no_message_goes_without_a_word(format_: str, messages: tuple[Message, ...]) -> None:
    """Where only the system speaks, providers want its words from the user."""
    make, model = SERVERS[format_]
    async with make(["x"]) as server:
        profile = ModelProfile(model=model, base_url=server.base_url)
        client = ModelManager(Settings(models={"m": profile}), {}).client("m")
        await client.request(ModelRequest(model="m", messages=messages), media=no_media)
        await client.aclose()
    sent = server.requests[0]["contents" if format_ == "google" else "messages"]
    said = [one for one in sent if one["role"] == "user"]
    texts = [one["content"] if format_ == "openai" else (one.get("content") or one["parts"])[0]["text"] for one in said]
    assert texts == (["How?"] if len(messages) == 4 else ["Plan it."])


@pytest.mark.parametrize(
    ("refused", "settings", "said"),
    [
        ("reasoning_effort", {"reasoning_effort": "low"}, "Unrecognized request argument supplied: reasoning_effort"),
        ("prompt_cache_key", {}, "Unknown parameter: 'prompt_cache_key'"),
        ("stream", {}, "Your organization must be verified to stream this model"),
    ],
)
async def test_a_parameter_that_is_refused_is_left_out(refused: str, settings: dict[str, Any], said: str) -> None:
    async with LoopbackModelServer(lambda body: server.error(400, said) if body.get(refused) else "5") as server:
        profile = ModelProfile(model="openai:gpt-5", base_url=server.base_url, max_attempts=1)
        manager = ModelManager(Settings(models={"local": profile}), {})
        handler = RequestModelHandler(manager)
        outcomes = [await handler.execute(effect_of(asking(**settings)), Context()) for _ in range(2)]
        await manager.aclose()
    assert [one.response.text for one in outcomes] == ["5", "5"]
    assert [bool(body.get(refused)) for body in server.requests] == [True, False, False]
