"""What goes wrong with providers, in two formats: an observation, a retry or a sentence, and nothing paid twice.

Each case is a whole run against a server on the loopback address. Whatever the server answered with a usage is counted
exactly once; each failed attempt is in the log.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.budget import Budget, Usage
from agentorchestra.core.events import Event
from agentorchestra.core.messages import ModelResponse, ToolCall
from agentorchestra.core.settings import ModelProfile, Price, Settings
from agentorchestra.core.spec import RunResult, RunStatus
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import LoopbackModelServer, ServerReply, call, decide, silence
from agentorchestra.workspace import Workspace
from tests.support.formats import LoopbackAnthropicServer
from tests.support.patience import growing

SERVERS = {"openai": LoopbackModelServer, "anthropic": LoopbackAnthropicServer}
MODELS = {"openai": "openai:one", "anthropic": "anthropic:claude-one"}
PAID = Usage(input_tokens=100, output_tokens=10)

booked: list[int] = []


@tool(effect="write")
def book(seat: int) -> str:
    """Book a seat.

    Args:
        seat: its number.
    """
    booked.append(seat)
    return f"seat {seat} is booked"


def paid(response: ModelResponse) -> ModelResponse:
    """An answer whose usage is known to the token."""
    return response.model_copy(update={"usage": PAID})


BOOK = paid(decide(calls=[call("book", seat=7)]))
DONE = paid(decide(calls=[call("done", answer="booked")]))


@dataclass
class Ran:
    """A run and what its servers saw."""

    result: RunResult
    servers: list[LoopbackModelServer]
    events: list[Event]

    @property
    def failed(self) -> list[dict[str, Any]]:
        return [event.body for event in self.events if event.type == "attempt_failed"]


Script = Callable[[LoopbackModelServer], list[Any]]


async def run(tmp_path: Path, format_: str, *scripts: Script, streamed: bool = False, **profile: Any) -> Ran:
    """A run over one server per script; the second one is the fallback of the first."""
    booked.clear()
    servers = []
    for script in scripts:
        server = SERVERS[format_]()
        server._steps = iter(script(server))
        server._function = None
        servers.append(server)
        await server.start()
    try:
        names = [f"m{index}" for index in range(len(servers))]
        fields = {"price": Price(input=1, output=1), "max_attempts": 2, "backoff_s": 0.01, "timeout_s": 60.0, **profile}
        models = {
            name: ModelProfile(
                model=MODELS[format_],
                base_url=server.base_url,
                api_key_env="K",
                fallbacks=tuple(names[i + 1 :]),
                **fields,
            )
            for i, (name, server) in enumerate(zip(names, servers, strict=True))
        }
        settings = Settings(models=models, model="m0", system="react", budget=Budget(cost_usd=10))
        async with Workspace(tmp_path / "ws", tools=[book], settings=settings, environ={"K": "s3cret-4711-4711"}) as ws:
            if streamed:
                async for notice in ws.stream("Book seat 7."):
                    result = notice.result
            else:
                result = await ws.run("Book seat 7.")
            assert result is not None
            return Ran(result, servers, await ws.log.events(result.run_id))
    finally:
        for server in servers:
            await server.stop()


def assert_booked_once(ran: Ran, *, answers: int = 2) -> None:
    """It came to its end; the seat was booked once; each answer is paid once."""
    assert (ran.result.status, ran.result.answer) == (RunStatus.COMPLETED, "booked"), ran.result.error
    assert booked == [7]
    assert ran.result.usage.input_tokens == answers * PAID.input_tokens
    assert ran.result.usage.output_tokens == answers * PAID.output_tokens
    assert ran.result.cost_usd == pytest.approx(answers * 110 / 1e6)


both = pytest.mark.parametrize("format_", list(SERVERS))


@pytest.mark.sampled(2)
@both
async def test_401_is_a_sentence(tmp_path: Path, format_: str) -> None:
    ran = await run(tmp_path, format_, lambda s: [s.error(401, "invalid key")])
    assert ran.result.status is RunStatus.FAILED
    assert "refused the credentials (HTTP 401: invalid key); check the key in K" in (ran.result.error or "")
    assert (ran.servers[0].count, len(ran.failed)) == (1, 1)  # asking again would not help
    assert ran.result.usage.tokens == 0


@pytest.mark.sampled(2)
@both
async def test_429_waits_as_long_as_it_is_asked_to(tmp_path: Path, format_: str) -> None:
    ran = await run(tmp_path, format_, lambda s: [s.error(429, "slow down", retry_after_s=0.2), BOOK, DONE])
    assert_booked_once(ran)
    assert [body["retry_in_s"] for body in ran.failed] == [0.2]


@both
async def test_500_is_retried(tmp_path: Path, format_: str) -> None:
    ran = await run(tmp_path, format_, lambda s: [BOOK, s.error(500, "oops"), DONE])
    assert_booked_once(ran)
    assert ["HTTP 500: oops" in body["error"] for body in ran.failed] == [True]
    assert ran.servers[0].count == 3


@pytest.mark.sampled(2)
@both
async def test_500_again_and_again_is_a_sentence_and_can_be_resumed(tmp_path: Path, format_: str) -> None:
    ran = await run(tmp_path, format_, lambda s: [BOOK, s.error(500), s.error(500)])
    assert ran.result.status is RunStatus.FAILED
    assert "try again later: a resumed run goes on from here" in (ran.result.error or "")
    assert booked == [7]
    assert (ran.servers[0].count, len(ran.failed)) == (3, 2)
    assert ran.result.usage.input_tokens == PAID.input_tokens


@pytest.mark.sampled(2)
@both
async def test_a_stream_that_is_cut(tmp_path: Path, format_: str) -> None:
    """It may have been paid: its bound is held, apart from what was, and it is asked again."""
    cut = ServerReply(answer=BOOK, cut_after=2)
    ran = await run(tmp_path, format_, lambda s: [cut, BOOK, DONE], streamed=True)
    assert all(body["stream"] for body in ran.servers[0].requests)
    assert (ran.result.status, booked) == (RunStatus.COMPLETED, [7])
    assert len(ran.failed) == 1
    assert ran.servers[0].count == 3
    assert ran.result.usage.input_tokens == 2 * PAID.input_tokens
    assert ran.result.usage.uncertain_tokens > 0


@pytest.mark.sampled(2)
@both
async def test_malformed_json_is_retried(tmp_path: Path, format_: str) -> None:
    ran = await run(tmp_path, format_, lambda s: [ServerReply(body=b'{"id": "x", "cho'), BOOK, DONE])
    assert_booked_once(ran)
    assert ["cannot be read" in body["error"] for body in ran.failed] == [True]


@pytest.mark.sampled(2)
@both
async def test_malformed_arguments_are_an_observation(tmp_path: Path, format_: str) -> None:
    wrong: Any = {"seat": "seven"} if format_ == "anthropic" else '{"seat": 7,'
    broken = paid(ModelResponse(tool_calls=(ToolCall(id="call_1", name="book", arguments=wrong),)))
    ran = await run(tmp_path, format_, lambda s: [broken, BOOK, DONE])
    assert_booked_once(ran, answers=3)
    assert ran.failed == []
    assert "seat" in json.dumps(_results(ran)[0])


@pytest.mark.sampled(2)
@both
async def test_an_invented_tool_is_an_observation(tmp_path: Path, format_: str) -> None:
    invented = paid(decide(calls=[call("boook", seat=7)]))
    ran = await run(tmp_path, format_, lambda s: [invented, BOOK, DONE])
    assert_booked_once(ran, answers=3)
    assert "there is no tool 'boook', did you mean 'book'" in json.dumps(_results(ran)[0])


@pytest.mark.sampled(2)
@both
async def test_an_empty_choice(tmp_path: Path, format_: str) -> None:
    """Nothing said and nothing called: retried where it is no answer at all, an observation where it is empty."""
    empty = paid(ModelResponse(text=""))
    none = ServerReply(body=json.dumps({"id": "x", "object": "chat.completion", "choices": []}).encode())
    first = none if format_ == "openai" else empty
    ran = await run(tmp_path, format_, lambda s: [first, BOOK, DONE])
    assert_booked_once(ran, answers=2 if first is none else 3)
    assert len(ran.failed) == (1 if first is none else 0)


@pytest.mark.sampled(2)
@both
async def test_silence_ends_at_the_time_limit(tmp_path: Path, format_: str) -> None:
    for seconds in growing(1.0):
        script = lambda s: [BOOK, silence(), DONE]  # noqa: E731
        ran = await run(tmp_path / f"{seconds:g}", format_, script, timeout_s=seconds, max_tokens=50)
        if len(ran.failed) == 1:
            break
    assert (ran.result.status, booked) == (RunStatus.COMPLETED, [7])
    assert len(ran.failed) == 1
    # The silent one may have been paid: held at its bound, and in no figure of what was.
    usage = ran.result.usage
    assert (usage.requests, usage.output_tokens) == (2, 2 * PAID.output_tokens)
    assert usage.cost_usd == pytest.approx(2 * 110 / 1e6)
    assert usage.uncertain_tokens > 50 and usage.uncertain_usd == pytest.approx(usage.uncertain_tokens / 1e6)


@pytest.mark.sampled(2)
@both
async def test_a_second_server_takes_over_in_the_middle(tmp_path: Path, format_: str) -> None:
    ran = await run(tmp_path, format_, lambda s: [BOOK, s.error(503), s.error(503)], lambda s: [DONE])
    assert_booked_once(ran)
    assert [server.count for server in ran.servers] == [3, 1]
    assert len(ran.failed) == 2
    notes = [event.body["message"] for event in ran.events if event.type == "noted"]
    assert "m0 cannot serve the request; m1 is asked in its place" in notes


def _results(ran: Ran) -> list[Any]:
    """What the tools said to the model in the second request."""
    messages = ran.servers[0].requests[1]["messages"]
    return [
        message
        for message in messages
        if message["role"] == "tool" or any("tool_result" in str(part) for part in message["content"] or ())
    ]
