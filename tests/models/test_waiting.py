"""Silence, slow streams, servers that restart, limited rates: over real HTTP, by a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.budget import Budget, Usage
from agentorchestra.core.errors import ModelUnavailableError
from agentorchestra.core.settings import ModelProfile, Price, Settings
from agentorchestra.core.spec import RunStatus
from agentorchestra.models.client import spent_by
from agentorchestra.models.handler import RequestModelHandler
from agentorchestra.models.manager import ModelManager
from agentorchestra.testing import LoopbackModelServer, ServerReply, call, decide, http_error
from agentorchestra.workspace import Workspace
from tests.models.support import Context, Pieces, asking, effect_of, no_media
from tests.support.formats import LoopbackAnthropicServer, LoopbackGoogleServer
from tests.support.patience import growing

SERVERS: dict[str, type[LoopbackModelServer]] = {
    "openai": LoopbackModelServer,
    "anthropic": LoopbackAnthropicServer,
    "google": LoopbackGoogleServer,
}
MODELS = {"openai": "openai:gpt-5", "anthropic": "anthropic:claude-opus-4-5", "google": "google:gemini-2.5-flash"}
WORDLESS = {"openai": 1, "anthropic": 2, "google": 0}
"""Pieces of a stream before the first one with a word."""
TEXT = "an answer of some words that comes in many pieces, one after the other"
PRICE = Price(input=1, output=1)

both = pytest.mark.parametrize("format_", ["openai", "anthropic"])
every = pytest.mark.parametrize("format_", list(SERVERS))


class Hours:
    """The loop's clock, moved on by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        real, self.ahead = loop.time, 0.0
        monkeypatch.setattr(loop, "time", lambda: real() + self.ahead)


async def arrived(heard: Pieces, count: int) -> None:
    """Let the client read until it has so many pieces."""
    while len(heard) < count:  # noqa: ASYNC110 - the clock must not move meanwhile
        await asyncio.sleep(0)


async def streamed(format_: str, pause: Callable[[int], Any], heard: Pieces) -> str:
    """The answer of a server that waits before each piece."""
    async with SERVERS[format_]([ServerReply(answer=TEXT, pause=pause)]) as server:
        profile = ModelProfile(model=MODELS[format_], base_url=server.base_url, timeout_s=600)
        manager = ModelManager(Settings(models={"local": profile}), {})
        try:
            request = asking(timeout_s=600)
            return (await manager.client("local").request(request, media=no_media, on_delta=heard)).text
        finally:
            await manager.aclose()


@pytest.mark.sampled(2)
@every
async def test_a_slow_stream_that_keeps_coming_is_no_failure(monkeypatch: pytest.MonkeyPatch, format_: str) -> None:
    """Five minutes between two pieces, half an hour in all: the limit of ten minutes is one of silence."""
    hours, heard = Hours(monkeypatch), Pieces()

    async def pause(sent: int) -> None:
        await arrived(heard, min(sent - WORDLESS[format_], 5))
        if 0 < sent - WORDLESS[format_] <= 5:
            hours.ahead += 300

    assert await streamed(format_, pause, heard) == TEXT
    assert hours.ahead == 1500 and "".join(heard) == TEXT


@pytest.mark.sampled(2)
@every
async def test_a_stream_that_stalls_is_given_up(monkeypatch: pytest.MonkeyPatch, format_: str) -> None:
    hours, heard = Hours(monkeypatch), Pieces()

    async def pause(sent: int) -> None:
        if sent - WORDLESS[format_] == 2:
            await arrived(heard, 2)
            hours.ahead += 601
            await asyncio.Event().wait()

    with pytest.raises(ModelUnavailableError, match="fell silent for so long within its answer") as raised:
        await streamed(format_, pause, heard)
    assert len(heard) == 2 and spent_by(raised.value).uncertain_tokens > 0


@both
async def test_a_restart_of_twenty_seconds(format_: str) -> None:
    """Connections are refused meanwhile: nothing is paid, and the attempts of a hosted provider wait long enough."""
    server = SERVERS[format_](["5"])
    await server.start()
    address, port = server.base_url, int(server.base_url.split(":")[2].partition("/")[0])
    await server.stop()
    slept = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal slept
        back = slept < 20 <= slept + seconds
        slept += seconds
        if back:
            await server.start(port)

    manager = ModelManager(
        Settings(models={"local": ModelProfile(model=MODELS[format_], base_url=address, max_attempts=7)}), {}
    )
    context = Context()
    outcome = await RequestModelHandler(manager, sleep=sleep).execute(effect_of(asking()), context)
    await manager.aclose()
    await server.stop()
    assert outcome.response.text == "5" and server.count == 1
    assert slept >= 20 and len(context.failures) >= 3
    assert all("nothing listens at" in str(error) for _, error, *_ in context.failures)
    assert context.spent == [Usage()] * len(context.failures)


@pytest.mark.sampled(2)
@both
async def test_a_run_goes_on_when_its_server_is_back(tmp_path: Path, format_: str) -> None:
    steps = [decide(calls=[call("todo", action="list")]), decide(calls=[call("done", answer="five")])]
    server = SERVERS[format_](steps)
    await server.start()
    address, port = server.base_url, int(server.base_url.split(":")[2].partition("/")[0])
    profile = ModelProfile(model=MODELS[format_], base_url=address, price=PRICE, backoff_s=0.05, max_attempts=50)
    settings = Settings(models={"m": profile}, model="m", system="react", budget=Budget(cost_usd=1))
    refused = 0
    result: Any = None
    async with Workspace(tmp_path / "ws", settings=settings) as ws:
        async for notice in ws.stream("What is 2 + 3?"):
            event: Any = notice.event
            if event is not None and event.type == "completed" and server.count == 1 and not refused:
                await server.stop()
            if event is not None and event.type == "attempt_failed":
                refused += 1
                if refused == 3:
                    await server.start(port)
            result = notice.result or result
    await server.stop()
    assert result is not None and (result.status, result.answer) == (RunStatus.COMPLETED, "five")
    # A second request that was on its way when the server stopped is uncertain; the refused ones cost nothing.
    assert refused >= 3 and server.count in (2, 3) and result.usage.requests == 2


async def test_waiting_for_a_server_ends_with_the_runs_deadline(tmp_path: Path) -> None:
    """It would wait for minutes; the run has seconds. Between two attempts nothing is under way that could be paid."""
    server = LoopbackModelServer([])
    await server.start()
    profile = ModelProfile(model="openai:m", base_url=server.base_url, price=PRICE, backoff_s=60)
    await server.stop()
    for seconds in growing(1.0):
        budget = Budget(cost_usd=1, active_s=seconds)
        settings = Settings(models={"m": profile}, model="m", system="react", budget=budget)
        async with Workspace(tmp_path / f"{seconds:g}", settings=settings) as ws:
            result = await ws.run("What is 2 + 3?")
            events = await ws.log.events(result.run_id)
        assert result.status is RunStatus.TIMED_OUT and "--timeout-s" in (result.error or "")
        if "attempt_failed" in [event.type for event in events]:  # it came to wait
            break
    assert not result.usage.uncertain
    stopped = [event.body for event in events if event.type == "interrupted" and event.body.get("unpaid")]
    assert len(stopped) == 1, "a resume has the whole budget"


@both
async def test_429_is_waited_for_as_long_as_it_is_asked_to(format_: str) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async with SERVERS[format_]([]) as server:
        replies = iter([*[server.error(429, "slow down", retry_after_s=20)] * 8, server.error(503), "5"])
        server._function = lambda body: next(replies)
        profile = ModelProfile(model=MODELS[format_], base_url=server.base_url, max_attempts=2)
        manager = ModelManager(Settings(models={"local": profile}), {})
        context = Context()
        outcome = await RequestModelHandler(manager, sleep=sleep).execute(effect_of(asking()), context)
        await manager.aclose()
    assert outcome.response.text == "5"
    assert slept[:8] == [20.0] * 8 and 0.5 <= slept[8] <= 1
    assert context.spent == [Usage()] * 9


async def test_no_attempt_is_made_that_the_budget_does_not_cover(tmp_path: Path) -> None:
    """Each lost attempt may cost what is held for it: a third one would be over the limit."""
    async with LoopbackModelServer(lambda body: ServerReply(drop=True)) as server:
        price = Price(input=0, output=100)
        fields: dict[str, Any] = {"backoff_s": 0, "max_tokens": 1_000, "price": price}
        profile = ModelProfile(model="openai:m", base_url=server.base_url, **fields)
        settings = Settings(models={"m": profile}, model="m", system="react", budget=Budget(cost_usd=0.25))
        async with Workspace(tmp_path / "ws", settings=settings) as ws:
            result = await ws.run("What is 2 + 3?")
    assert (result.status, server.count) == (RunStatus.FAILED, 2)
    assert "broke the connection off" in (result.error or "")
    assert result.usage.uncertain_usd == pytest.approx(0.2) and result.cost_usd == 0


async def test_what_a_provider_refused_costs_nothing(tmp_path: Path) -> None:
    replies: list[Any] = [http_error(429, retry_after_s=0), http_error(500), http_error(503), ServerReply(status=502)]
    async with LoopbackModelServer([*replies, decide(calls=[call("done", answer="five")])]) as server:
        profile = ModelProfile(model="openai:m", base_url=server.base_url, price=PRICE, backoff_s=0.001)
        settings = Settings(models={"m": profile}, model="m", system="react", budget=Budget(cost_usd=1))
        async with Workspace(tmp_path / "ws", settings=settings) as ws:
            result = await ws.run("What is 2 + 3?")
            failed = [e.body for e in await ws.log.events(result.run_id) if e.type == "attempt_failed"]
    assert result.answer == "five" and not result.usage.uncertain and result.usage.requests == 1
    assert len(failed) == 4 and not any("usage" in body for body in failed)
