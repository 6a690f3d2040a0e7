"""How long an answer may be: the model's limit, the window, the budget; and what of it a provider refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.budget import Bound, Budget, Room
from agentorchestra.core.messages import ModelRequest, ModelSettings, user
from agentorchestra.core.settings import ModelProfile, Price, Settings
from agentorchestra.core.spec import RunStatus
from agentorchestra.models.allowance import SHARE
from agentorchestra.models.handler import RequestModelHandler
from agentorchestra.models.limits import LEAST, UNKNOWN, USUAL, longest_answer
from agentorchestra.models.manager import ModelManager
from agentorchestra.models.prices import estimate_input_tokens
from agentorchestra.testing import LoopbackModelServer, ScriptedModel, call, decide, say
from agentorchestra.workspace import Workspace
from tests.models.support import Context, asking, effect_of
from tests.support.formats import LoopbackAnthropicServer

SERVERS = {"openai": LoopbackModelServer, "anthropic": LoopbackAnthropicServer}
MODELS = {"openai": "openai:gpt-5", "anthropic": "anthropic:claude-opus-4-5"}
DEAR = Price(input=15, output=75)

both = pytest.mark.parametrize("format_", list(SERVERS))


def asked_for(body: dict[str, Any]) -> int:
    """The bound of the answer, as it was sent."""
    return int(body["max_completion_tokens"] if "max_completion_tokens" in body else body["max_tokens"])


async def answered(tmp_path: Path, format_: str, budget: Budget, **profile: Any) -> tuple[RunStatus, list[int]]:
    """A run of two decisions: how it ended, and the bounds that were sent."""
    steps = [decide(calls=[call("todo", action="list")]), decide(calls=[call("done", answer="five")])]
    async with SERVERS[format_](steps) as server:
        fields = {"model": MODELS[format_], "base_url": server.base_url, **profile}
        settings = Settings(models={"m": ModelProfile(**fields)}, model="m", system="react", budget=budget)
        async with Workspace(tmp_path / "ws", settings=settings) as ws:
            result = await ws.run("What is 2 + 3?")
            assert (await ws.replay(result.run_id)).answer == result.answer_text
        return result.status, [asked_for(body) for body in server.requests]


@pytest.mark.sampled(2)
@both
async def test_a_model_without_a_budget_is_asked_for_all_that_it_gives(tmp_path: Path, format_: str) -> None:
    status, sent = await answered(tmp_path, format_, Budget(), price=Price(input=0, output=0), context_window=400_000)
    assert (status, sent) == (RunStatus.COMPLETED, [128_000 if format_ == "openai" else 64_000] * 2)


@pytest.mark.sampled(2)
@both
async def test_a_dear_model_at_one_dollar(tmp_path: Path, format_: str) -> None:
    """What the budget affords beside the last answer, and not the 64,000 tokens (4.80 dollars) that the model gives."""
    status, sent = await answered(tmp_path, format_, Budget(cost_usd=1), price=DEAR)
    assert status is RunStatus.COMPLETED
    assert all(one >= USUAL and one * 75 / 1e6 < 1 for one in sent), sent


@pytest.mark.sampled(2)
@both
async def test_a_budget_that_affords_less_than_usual_gives_shorter_answers(tmp_path: Path, format_: str) -> None:
    """A constant bound of 4,096 tokens would refuse the first decision: two of them are 61 cents."""
    status, sent = await answered(tmp_path, format_, Budget(cost_usd=0.6), price=DEAR)
    assert status is RunStatus.COMPLETED
    assert all(LEAST <= one < USUAL for one in sent), sent


@pytest.mark.sampled(2)
@both
async def test_a_window_of_16k(tmp_path: Path, format_: str) -> None:
    free = Price(input=0, output=0)
    status, sent = await answered(tmp_path, format_, Budget(), price=free, context_window=16_384)
    assert status is RunStatus.COMPLETED
    assert all(6_000 < one < 16_384 for one in sent) and sent[1] < sent[0], "what the prompt leaves of it"


def test_what_is_known_of_models() -> None:
    def of(model: str, **profile: Any) -> int:
        return longest_answer(ModelProfile(model=model, **profile))

    assert (of("openai:gpt-4o-mini"), of("openai:gpt-5.1"), of("openai-chat:o3")) == (16_384, 128_000, 100_000)
    assert (of("anthropic:claude-opus-4-1"), of("anthropic:claude-haiku-4-5")) == (32_000, 64_000)
    assert (of("google:gemini-2.0-flash"), of("google:gemini-3-pro")) == (8_192, 65_536)
    assert of("openai:qwen3") == of("mistral:large") == UNKNOWN
    assert of("openai:gpt-5", max_tokens=500) == 500


def handler_of(**profile: Any) -> RequestModelHandler:
    model = ScriptedModel(lambda request: say("5"), name="local", profile=ModelProfile(model="local", **profile))
    return RequestModelHandler(ModelManager(Settings(), {}, extra={"local": model}))


def fit(handler: RequestModelHandler, request: ModelRequest, room: Room) -> tuple[int | None, Bound, Bound]:
    effect, bound, keep = handler.fit(effect_of(request), lambda usual: room)
    assert effect.request is not None
    assert effect.fingerprint == effect_of(effect.request).fingerprint
    return effect.request.settings.max_tokens, bound, keep


def test_more_than_usual_is_a_share_of_what_is_free() -> None:
    """Others may be under way beside it: none takes all."""
    handler, request = handler_of(price=Price(input=0, output=10), max_tokens=100_000), asking(user("x"))
    free = Room(tokens=float("inf"), cost_usd=1.0, free_usd=0.8)
    tokens, bound, keep = fit(handler, request, free)
    assert tokens == SHARE * 0.8 / 10e-6 == 20_000
    assert bound.cost_usd == pytest.approx(0.2) and keep.cost_usd == pytest.approx(USUAL * 10e-6)
    # What others hold will be given back: the usual answer waits for it.
    tokens, bound, _ = fit(handler, request, Room(cost_usd=1.0, free_usd=0.01))
    assert tokens == USUAL and bound.cost_usd == pytest.approx(USUAL * 10e-6)
    # What is spent will not be.
    assert fit(handler, request, Room(cost_usd=0.02, free_usd=0.02))[0] == 2_000
    assert fit(handler, request, Room(cost_usd=0.002, free_usd=0.002))[0] == USUAL, "the door refuses it"


def test_an_answer_may_need_more_room_than_usual() -> None:
    """One that was cut is asked again with more, and a model that thinks needs room for its thoughts."""
    handler = handler_of(price=Price(input=0, output=10), max_tokens=100_000)
    room = Room(cost_usd=0.3, free_usd=0.3)
    assert fit(handler, asking(user("x")), room)[0] == 7_500
    assert fit(handler, asking(user("x"), least_tokens=20_000), room)[0] == 20_000
    tokens, _, keep = fit(handler, asking(user("x"), thinking_tokens=10_000), room)
    assert tokens == USUAL + 10_000 and keep.cost_usd == pytest.approx(USUAL * 10e-6), "the last one need not think"
    assert fit(handler, asking(user("x"), thinking_tokens=10_000), Room(cost_usd=0.05, free_usd=0.05))[0] == 5_000


def test_what_budgets_leave_changes_no_fingerprint() -> None:
    """How much is left depends on what runs beside a request; and earlier versions always asked for 4,096 tokens."""
    now, then = asking(user("x")), asking(user("x"), max_tokens=4_096)
    assert now.digest == then.digest != asking(user("x"), max_tokens=4_095).digest
    assert "max_tokens" not in ModelSettings().model_dump(exclude_defaults=True)


@pytest.mark.parametrize(
    ("said", "bounds"),
    [
        ("max_tokens: 16384 > 8192, which is the maximum allowed number of output tokens for m", [16_384, 8_192]),
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 16384. This model's maximum context length is 9000 "
            "tokens and your request has 500 input tokens",
            [16_384, 8_192],
        ),
    ],
)
async def test_a_model_that_gives_less_is_asked_for_less(said: str, bounds: list[int]) -> None:
    """Nobody knows the limit of every server: what it refuses is no failure, and is asked for once."""

    def script(body: dict[str, Any]) -> Any:
        return "5" if asked_for(body) == bounds[-1] else server.error(400, said)

    async with LoopbackModelServer(script) as server:
        profile = ModelProfile(model="openai:own", base_url=server.base_url, max_attempts=1)
        manager = ModelManager(Settings(models={"local": profile}), {})
        handler = RequestModelHandler(manager)
        outcomes = [await handler.execute(effect_of(asking()), Context()) for _ in range(2)]
        await manager.aclose()
    assert [one.response.text for one in outcomes] == ["5", "5"]
    assert [asked_for(body) for body in server.requests] == [*bounds, bounds[-1]]


async def test_a_prompt_that_fills_the_window_is_still_told_from_a_long_answer() -> None:
    def script(body: dict[str, Any]) -> Any:
        return server.error(400, "prompt is too long: 300000 tokens > 200000 maximum")

    async with LoopbackModelServer(script) as server:
        profile = ModelProfile(model="openai:own", base_url=server.base_url)
        manager = ModelManager(Settings(models={"local": profile}), {})
        outcome = await RequestModelHandler(manager).execute(effect_of(asking()), Context())
        await manager.aclose()
    assert outcome.error_type == "ModelContextError" and server.count == 1


async def test_the_bound_follows_what_is_sent(tmp_path: Path) -> None:
    """What the door holds is the prompt and the answer that is asked for, at the model's price."""
    async with LoopbackModelServer([decide(calls=[call("done", answer="five")])]) as server:
        profile = ModelProfile(model="openai:own", base_url=server.base_url, price=DEAR)
        settings = Settings(models={"m": profile}, model="m", system="react", budget=Budget(cost_usd=1))
        async with Workspace(tmp_path / "ws", settings=settings) as ws:
            result = await ws.run("What is 2 + 3?")
            events = await ws.log.events(result.run_id)
    (mark,) = [e.body for e in events if e.type == "started" and e.body["effect"]["kind"] == "RequestModel"]
    bound = Bound.model_validate(mark["bound"])
    prompt = bound.tokens - asked_for(server.requests[0])
    assert 0 < prompt < 16_000
    assert bound.cost_usd == pytest.approx((prompt * 15 + asked_for(server.requests[0]) * 75) / 1e6)
    assert "max_tokens" not in mark["effect"]["request"].get("settings", {})


def test_a_prompt_is_estimated_as_its_window_reads_it() -> None:
    request = asking(user("x" * 600))
    assert handler_of(max_tokens=100).bound(effect_of(request)).tokens == estimate_input_tokens(request) + 100
