"""Fallbacks, concurrency and rate: attempts of ours, each in the log, each paid where it was made."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.budget import Budget
from agentorchestra.core.errors import BudgetError, SettingsError
from agentorchestra.core.messages import ModelResponse
from agentorchestra.core.settings import ModelProfile, Price, Settings
from agentorchestra.core.spec import RunResult, RunStatus
from agentorchestra.models.manager import ModelManager, RateLimiter
from agentorchestra.testing import LoopbackModelServer, ServerReply, ServerScript, call, decide, http_error, silence
from agentorchestra.workspace import Workspace
from tests.support.formats import LoopbackAnthropicServer, LoopbackGoogleServer
from tests.support.patience import LONGEST_S, growing

DEAR, CHEAP = Price(input=1000, output=1000), Price(input=1, output=1)
FORMATS: dict[str, tuple[type[LoopbackModelServer], str]] = {
    "openai": (LoopbackModelServer, "openai:gpt-5"),
    "anthropic": (LoopbackAnthropicServer, "anthropic:claude-opus-4-5"),
    "google": (LoopbackGoogleServer, "google:gemini-2.5-flash"),
}
ANSWER = decide(calls=[call("done", answer="from the second")])


async def run(
    tmp_path: Path, first: ServerScript, second: ServerScript, **profile: Any
) -> tuple[RunResult, Any, Any, Any]:
    """A run whose model has one fallback: the result, both servers, the failed attempts in the log."""
    async with LoopbackModelServer(first) as one, LoopbackModelServer(second) as two:
        fields = {"max_attempts": 1, "price": DEAR, "fallbacks": ("second",), **profile}
        models = {
            "first": ModelProfile(model="openai:one", base_url=one.base_url, **fields),
            "second": ModelProfile(model="openai:two", base_url=two.base_url, price=CHEAP, max_attempts=1),
        }
        settings = Settings(models=models, model="first", system="react", budget=Budget(cost_usd=50))
        async with Workspace(tmp_path / "ws", settings=settings) as ws:
            result = await ws.run("Answer.")
            events = await ws.log.events(result.run_id)
            if result.status is RunStatus.COMPLETED:
                assert (await ws.replay(result.run_id)).answer == result.answer_text
    return result, one, two, [event.body for event in events if event.type == "attempt_failed"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("failure", "says"),
    [
        (http_error(401, "bad key"), "refused the credentials"),
        (http_error(404, "no such model"), "does not know this model"),
        (http_error(402, "no credit"), "the account is used up"),
        (http_error(500), "failed"),
        (http_error(429, retry_after_s=3600), "is limiting the rate"),
        (ServerReply(drop=True), "broke the connection off"),
        (ServerReply(body=b"{}"), "gave an answer that cannot be read"),
    ],
)
async def test_another_server_answers_in_its_place(tmp_path: Path, failure: ServerReply, says: str) -> None:
    result, one, two, failed = await run(tmp_path, [failure], [ANSWER])
    assert (result.status, result.answer) == (RunStatus.COMPLETED, "from the second")
    assert (one.count, two.count) == (1, 1)
    assert [(body["target"], says in body["error"]) for body in failed] == [("openai:one", True)]
    assert "openai:two" in result.usage_by_model
    (second,) = [usage for name, usage in result.usage_by_model.items() if name == "openai:two"]
    assert second.cost_usd == pytest.approx((second.input_tokens + second.output_tokens) / 1e6)


async def test_what_every_provider_would_refuse_is_not_passed_on(tmp_path: Path) -> None:
    result, one, two, _ = await run(tmp_path, [http_error(400, "tool names must match")], [ANSWER])
    assert result.status is RunStatus.FAILED
    assert "refused the request" in (result.error or "")
    assert (one.count, two.count) == (1, 0)


async def test_its_own_attempts_come_first(tmp_path: Path) -> None:
    result, one, two, failed = await run(tmp_path, [http_error(500), ANSWER], [], max_attempts=2)
    assert result.answer == "from the second"
    assert (one.count, two.count, len(failed)) == (2, 0, 1)


async def test_the_last_error_is_told_when_all_fail(tmp_path: Path) -> None:
    result, *_, failed = await run(tmp_path, [http_error(500, "one")], [http_error(503, "two")])
    assert result.status is RunStatus.FAILED
    assert "two" in (result.error or "")
    assert [body["target"] for body in failed] == ["openai:one", "openai:two"]


async def test_silence_is_paid_at_its_bound_and_the_fallback_answers(tmp_path: Path) -> None:
    for seconds in growing(0.5):
        place = tmp_path / f"{seconds:g}"
        result, first, *_ = await run(place, [silence()], [ANSWER], timeout_s=seconds, max_tokens=100)
        assert result.answer == "from the second"
        if first.count:  # the request was sent in this time
            break
    silent = result.usage_by_model["openai:one"]
    assert (silent.requests, silent.tokens, silent.cost_usd) == (0, 0, 0.0)
    assert silent.uncertain_tokens > 100 and silent.uncertain_usd  # it may have been paid


async def test_a_prompt_too_long_goes_to_a_larger_window(tmp_path: Path) -> None:
    long = http_error(400, "maximum context length is 100 tokens", code="context_length_exceeded")
    result, one, two, _ = await run(tmp_path, [long], [ANSWER], context_window=64_000)
    assert result.answer == "from the second"
    assert (one.count, two.count) == (1, 1)


@pytest.mark.long
async def test_a_window_that_is_no_larger_is_passed_over(tmp_path: Path) -> None:
    long = http_error(400, "maximum context length is 100 tokens", code="context_length_exceeded")
    async with (
        LoopbackModelServer([long]) as one,
        LoopbackModelServer([]) as small,
        LoopbackModelServer([ANSWER]) as large,
    ):
        models = {
            "first": ModelProfile(model="openai:a", base_url=one.base_url, context_window=64_000, fallbacks=("s", "l")),
            "s": ModelProfile(model="openai:b", base_url=small.base_url, context_window=32_000),
            "l": ModelProfile(model="openai:c", base_url=large.base_url, context_window=128_000),
        }
        settings = Settings(models=models, model="first", system="react")
        async with Workspace(tmp_path / "ws", settings=settings) as ws:
            result = await ws.run("Answer.")
    assert result.answer == "from the second"
    assert (one.count, small.count, large.count) == (1, 0, 1)


async def test_one_that_failed_is_asked_last_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead server costs its time once, not in every step, nor in every run."""
    monkeypatch.setattr("agentorchestra.models.manager.REST_S", 3600.0)
    async with LoopbackModelServer(lambda body: http_error(500)) as one, LoopbackModelServer(twice) as two:
        models = {
            "first": ModelProfile(model="openai:a", base_url=one.base_url, fallbacks=("second",), max_attempts=1),
            "second": ModelProfile(model="openai:b", base_url=two.base_url),
        }
        settings = Settings(models=models, model="first", system="react")
        async with Workspace(tmp_path / "ws", settings=settings) as ws:
            for _ in range(2):
                assert (await ws.run("Answer.")).answer == "from the second"
    assert (one.count, two.count) == (1, 4)


def twice(body: dict[str, Any]) -> ModelResponse:
    """A step, then the answer."""
    worked = any(message["role"] == "tool" for message in body["messages"])
    return ANSWER if worked else decide(calls=[call("todo", action="list")])


@pytest.mark.long
async def test_a_rested_model_is_asked_again_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentorchestra.models.manager.REST_S", 0.0)
    async with (
        LoopbackModelServer([http_error(500), ANSWER]) as one,
        LoopbackModelServer([decide(calls=[call("todo", action="list")])]) as two,
    ):
        models = {
            "first": ModelProfile(model="openai:a", base_url=one.base_url, fallbacks=("second",), max_attempts=1),
            "second": ModelProfile(model="openai:b", base_url=two.base_url),
        }
        settings = Settings(models=models, model="first", system="react")
        async with Workspace(tmp_path / "ws", settings=settings) as ws:
            assert (await ws.run("Answer.")).answer == "from the second"
    assert (one.count, two.count) == (2, 1)


async def test_a_rested_model_is_still_asked_when_the_other_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentorchestra.models.manager.REST_S", 3600.0)
    async with (
        LoopbackModelServer([http_error(500), ANSWER]) as one,
        LoopbackModelServer([decide(calls=[call("todo")]), http_error(500)]) as two,
    ):
        models = {
            "first": ModelProfile(model="openai:a", base_url=one.base_url, fallbacks=("second",), max_attempts=1),
            "second": ModelProfile(model="openai:b", base_url=two.base_url, max_attempts=1),
        }
        settings = Settings(models=models, model="first", system="react")
        async with Workspace(tmp_path / "ws", settings=settings) as ws:
            assert (await ws.run("Answer.")).answer == "from the second"
    assert (one.count, two.count) == (2, 2)


async def test_a_fallback_has_its_own_bounds(tmp_path: Path) -> None:
    """A local model's answers are shorter than those of the one it stands in for."""
    async with LoopbackModelServer([http_error(401)]) as one, LoopbackModelServer([ANSWER]) as two:
        models = {
            "first": ModelProfile(model="openai:a", base_url=one.base_url, fallbacks=("second",), max_tokens=30_000),
            "second": ModelProfile(model="openai:b", base_url=two.base_url, max_tokens=500),
        }
        settings = Settings(models=models, model="first", system="react")
        async with Workspace(tmp_path / "ws", settings=settings) as ws:
            assert (await ws.run("Answer.")).answer == "from the second"
    assert [server.requests[0]["max_tokens"] for server in (one, two)] == [30_000, 500]


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("first", "second"), [(a, b) for a in FORMATS for b in FORMATS if a != b], ids=lambda one: str(one)
)
async def test_another_format_takes_over_in_the_middle(tmp_path: Path, first: str, second: str) -> None:
    """The conversation is in our own types: calls and results of one provider's form go on in another's."""
    replies: list[Any] = [decide(calls=[call("todo", action="list"), call("python", code="print(6 * 7)")])]
    async with FORMATS[first][0]([]) as one, FORMATS[second][0]([ANSWER]) as two:
        one_fields: dict[str, Any] = {"model": FORMATS[first][1], "fallbacks": ("second",), "max_attempts": 1}
        models = {
            "first": ModelProfile(base_url=one.base_url, **one_fields),
            "second": ModelProfile(model=FORMATS[second][1], base_url=two.base_url),
        }
        replies.append(one.error(503, "down"))
        one._steps = iter(replies)
        settings = Settings(models=models, model="first", system="react")
        async with Workspace(tmp_path / "ws", settings=settings) as ws:
            result = await ws.run("Answer.")
            assert (await ws.replay(result.run_id)).answer == result.answer
    assert result.answer == "from the second", result.error
    assert (one.count, two.count) == (2, 1)
    sent = json.dumps(two.requests[0])
    assert "python" in sent and "42" in sent, "the second one sees what the first one did"


async def test_the_dearest_of_the_chain_is_held(tmp_path: Path) -> None:
    """A cheap model with a dear fallback may not begin what the fallback could not pay."""
    async with LoopbackModelServer([ANSWER]) as server:
        models = {
            "cheap": ModelProfile(model="openai:a", base_url=server.base_url, price=CHEAP, fallbacks=("dear",)),
            "dear": ModelProfile(model="openai:b", base_url=server.base_url, price=DEAR),
        }
        settings = Settings(models=models, model="cheap", system="react", budget=Budget(cost_usd=0.05))
        async with Workspace(tmp_path / "ws", settings=settings) as ws:
            result = await ws.run("Answer.")
        assert (result.status, server.count) == (RunStatus.BUDGET_EXHAUSTED, 0)


async def test_a_fallback_without_a_price_is_refused_where_dollars_are_held(tmp_path: Path) -> None:
    models = {
        "first": ModelProfile(model="openai:a", base_url="http://127.0.0.1:9", price=CHEAP, fallbacks=("second",)),
        "second": ModelProfile(model="openai:b", base_url="http://127.0.0.1:9"),
    }
    settings = Settings(models=models, model="first", system="react", budget=Budget(cost_usd=1))
    async with Workspace(tmp_path / "ws", settings=settings) as ws:
        with pytest.raises(BudgetError, match="the price of model 'second' is unknown"):
            await ws.run("Answer.")


def test_a_fallback_that_is_no_model_is_refused() -> None:
    models = {"first": ModelProfile(model="openai:a", base_url="http://127.0.0.1:9", fallbacks=("secnd",))}
    manager = ModelManager(Settings(models={**models, "second": models["first"]}), {})
    with pytest.raises(SettingsError, match=r"fallbacks of \[models\.first\] names 'secnd': no model 'secnd', did you"):
        manager.check("first")


def test_fallbacks_of_fallbacks_come_after_and_circles_end() -> None:
    def profile(*fallbacks: str) -> ModelProfile:
        return ModelProfile(model="openai:a", base_url="http://127.0.0.1:9", fallbacks=fallbacks)

    manager = ModelManager(
        Settings(models={"a": profile("b", "c"), "b": profile("d", "a"), "c": profile(), "d": profile()}), {}
    )
    assert manager.chain("a") == ("a", "b", "c", "d")


@pytest.mark.long
async def test_so_many_requests_at_a_time_over_all_runs(tmp_path: Path) -> None:
    async def slow(body: dict[str, Any]) -> ServerReply:
        return ServerReply(answer=ANSWER, latency_s=0.05)

    async with LoopbackModelServer(slow) as server:
        models = {"m": ModelProfile(model="openai:a", base_url=server.base_url, concurrency=3)}
        settings = Settings(models=models, model="m", system="react")
        async with Workspace(tmp_path / "ws", settings=settings) as ws:
            results = await asyncio.gather(*(ws.run("Answer.") for _ in range(12)))
        assert {result.status for result in results} == {RunStatus.COMPLETED}
        assert (server.count, server.most_at_once) == (12, 3)


async def test_a_cancelled_wait_takes_no_place() -> None:
    gate = RateLimiter(1, None)
    async with gate:
        waiting = asyncio.create_task(gate.__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    async with asyncio.timeout(LONGEST_S):
        await gate.__aenter__()


async def test_so_many_requests_a_minute() -> None:
    """The first sixty of a minute pass at once, the next one waits for its turn."""
    gate = RateLimiter(None, 60)
    loop = asyncio.get_running_loop()
    began = loop.time()  # a place becomes free each second from now on
    for _ in range(60):
        async with gate:
            pass
    async with gate:
        assert loop.time() - began > 0.5


async def test_the_response_names_who_answered(tmp_path: Path) -> None:
    result, *_ = await run(tmp_path, [http_error(500)], [ANSWER])
    assert isinstance(ANSWER, ModelResponse)
    assert set(result.usage_by_model) >= {"openai:two"}
    assert "openai:one" not in result.usage_by_model or result.usage_by_model["openai:one"].output_tokens == 0
