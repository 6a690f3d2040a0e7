"""The handler of RequestModel: attempts, what they cost, trust and streaming."""

from __future__ import annotations

import random
from typing import Any

import pytest

from agentorchestra.core.budget import Bound, Usage
from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Mode, Provenance
from agentorchestra.core.errors import (
    ModelAuthError,
    ModelError,
    ModelRateLimitError,
    ModelRequestError,
    ModelServerDownError,
    ModelUnavailableError,
    ScriptError,
)
from agentorchestra.core.messages import ModelRequest, ModelResponse, user
from agentorchestra.core.protocols import Handler
from agentorchestra.core.settings import ModelProfile, Price, Settings
from agentorchestra.models.client import with_usage
from agentorchestra.models.handler import RequestModelHandler
from agentorchestra.models.manager import ModelManager
from agentorchestra.models.prices import uncertain
from agentorchestra.models.retries import MAX_WAIT_S
from agentorchestra.testing import LoopbackModelServer, Reply, ScriptedModel, http_error, say
from tests.models.support import Context, asking, effect_of, schema

PRICE = Price(input=1, output=2)


class Pauses:
    """Stands in for sleeping; keeps how long it was asked to."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)


def handling(steps: Any, *, attempts: int = 3, price: Price | None = PRICE) -> tuple[RequestModelHandler, Pauses]:
    """A handler over a scripted model named `local`."""
    profile = ModelProfile(model="local", max_attempts=attempts, price=price)
    model = ScriptedModel(steps, name="local", price=price, profile=profile)
    pauses = Pauses()
    return RequestModelHandler(ModelManager(Settings(), {}, extra={"local": model}), sleep=pauses), pauses


async def test_an_answer_is_recorded_with_what_it_cost() -> None:
    usage = Usage(requests=1, input_tokens=1000, output_tokens=500)
    handler, pauses = handling([ModelResponse(text="5", usage=usage)])
    assert isinstance(handler, Handler)
    effect = effect_of(asking())
    assert handler.mode(effect) is Mode.REPEATABLE
    context = Context()
    outcome = await handler.execute(effect, context)
    assert outcome.ok and outcome.response.text == "5"
    assert outcome.usage.cost_usd == pytest.approx(0.002)
    assert outcome.response.usage == outcome.usage
    assert (context.attempts, context.failures, pauses.taken) == (1, [], [])


async def test_an_unknown_price_is_none_and_not_nothing() -> None:
    usage = Usage(requests=1, input_tokens=10)
    handler, _ = handling([ModelResponse(text="5", usage=usage)], price=None)
    outcome = await handler.execute(effect_of(asking()), Context())
    assert outcome.usage.cost_usd is None


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ((Trust.SYSTEM,), Trust.AGENT),
        ((Trust.SYSTEM, Trust.USER), Trust.AGENT),
        ((Trust.USER, Trust.UNTRUSTED), Trust.UNTRUSTED),
        ((), Trust.AGENT),
    ],
)
async def test_an_answer_is_trusted_as_its_sources_but_never_above_an_agent(
    seen: tuple[Trust, ...], expected: Trust
) -> None:
    handler, _ = handling(["5"])
    provenance = tuple(Provenance(kind="task", trust=trust) for trust in seen)
    outcome = await handler.execute(effect_of(asking(), provenance=provenance), Context())
    assert outcome.trust is expected


async def test_every_failed_attempt_is_logged_with_its_pause() -> None:
    handler, pauses = handling([ModelUnavailableError("down"), ModelRateLimitError("slow", retry_after_s=7), say("5")])
    context = Context()
    outcome = await handler.execute(effect_of(asking()), context)
    assert outcome.response.text == "5" and context.attempts == 3
    assert [(number, str(error), target) for number, error, target, _ in context.failures] == [
        (1, "down", "local"),
        (2, "slow", "local"),
    ]
    assert [delay for *_, delay in context.failures] == pauses.taken
    assert 0.5 <= pauses.taken[0] <= 1 and pauses.taken[1] == 7


async def test_pauses_double_and_repeat_with_the_run() -> None:
    taken = []
    for _ in range(2):
        handler, pauses = handling([ModelUnavailableError("down")] * 4 + [say("5")], attempts=5)
        await handler.execute(effect_of(asking()), Context())
        taken.append(pauses.taken)
    assert taken[0] == taken[1], "jitter comes from the run's generator"
    assert all(2**n * 0.5 <= pause <= 2**n for n, pause in enumerate(taken[0]))


@pytest.mark.parametrize(
    ("kind", "fields", "attempts"),
    [(ModelServerDownError, {}, 3), (ModelServerDownError, {"max_attempts": 5}, 5), (ModelUnavailableError, {}, 7)],
)
async def test_a_server_nearby_that_nobody_started_is_not_waited_for(
    kind: type[ModelError], fields: dict[str, Any], attempts: int
) -> None:
    pauses, context = Pauses(), Context()
    model = ScriptedModel([kind("away")] * attempts, name="local", profile=ModelProfile(model="local", **fields))
    handler = RequestModelHandler(ModelManager(Settings(), {}, extra={"local": model}), sleep=pauses)
    with pytest.raises(kind):
        await handler.execute(effect_of(asking()), context)
    assert context.attempts == attempts
    assert (sum(pauses.taken) <= 3) is (attempts == 3)


async def test_a_pause_doubles_up_to_a_minute() -> None:
    handler, pauses = handling([ModelUnavailableError("down")] * 9 + [say("5")], attempts=10)
    await handler.execute(effect_of(asking()), Context())
    assert max(pauses.taken) <= MAX_WAIT_S == 60.0 and min(pauses.taken[6:]) >= 30


async def test_a_provider_cannot_make_us_wait_for_ever() -> None:
    handler, pauses = handling([ModelRateLimitError("slow", retry_after_s=86_400), say("never")])
    with pytest.raises(ModelRateLimitError):
        await handler.execute(effect_of(asking()), Context())
    assert pauses.taken == [], "asking sooner than a day from now would be refused again"


async def test_a_rate_limit_is_waited_for_apart_from_failures() -> None:
    """Ten refusals for the rate are no failures: it waits as long as it was asked to, and the two attempts remain."""
    limited = [ModelRateLimitError("slow", retry_after_s=30)] * 10
    handler, pauses = handling([*limited, ModelUnavailableError("down"), *limited, say("5")], attempts=2)
    outcome = await handler.execute(effect_of(asking()), Context())
    assert outcome.response.text == "5" and pauses.taken.count(30) == 20

    handler, pauses = handling([*limited, *limited, *limited], attempts=2)
    with pytest.raises(ModelRateLimitError):
        await handler.execute(effect_of(asking()), Context())
    assert sum(pauses.taken) == ModelProfile(model="m").rate_limit_s == 600


async def test_a_server_that_is_away_for_twenty_seconds_is_waited_for() -> None:
    """By the clock of the pauses: with the settings as they come, whatever the chance."""
    for seed in range(20):
        pauses = Pauses()

        def answer(request: ModelRequest, pauses: Pauses = pauses) -> Reply:
            if sum(pauses.taken) < 20:
                raise ModelUnavailableError("local cannot be reached (connection refused)")
            return say("5")

        model = ScriptedModel(answer, name="local", profile=ModelProfile(model="local", price=PRICE))
        handler = RequestModelHandler(ModelManager(Settings(), {}, extra={"local": model}), sleep=pauses)
        context = Context()
        context.random = random.Random(seed)
        outcome = await handler.execute(effect_of(asking()), context)
        assert outcome.response.text == "5" and context.spent == [Usage()] * len(context.spent)


async def test_what_may_have_been_paid_is_not_risked_more_than_three_times() -> None:
    def lost() -> Exception:
        return with_usage(ModelUnavailableError("cut"), uncertain(Usage(input_tokens=10, output_tokens=90), 0.5))

    handler, _ = handling([lost() for _ in range(5)], attempts=7)
    context = Context()
    with pytest.raises(ModelUnavailableError, match="cut"):
        await handler.execute(effect_of(asking()), context)
    assert context.attempts == 3
    assert sum(context.spent, Usage()) == Usage(uncertain_tokens=300, uncertain_usd=1.5)


async def test_the_last_failure_is_logged_and_raised() -> None:
    handler, pauses = handling([ModelUnavailableError("down"), ModelUnavailableError("still down")], attempts=2)
    context = Context()
    with pytest.raises(ModelUnavailableError, match="still down"):
        await handler.execute(effect_of(asking()), context)
    assert [delay is None for *_, delay in context.failures] == [False, True]
    assert len(pauses.taken) == 1


@pytest.mark.parametrize("error", [ModelAuthError("bad key"), ModelRequestError("bad request"), ScriptError("bad")])
async def test_what_would_fail_again_is_not_repeated(error: Exception) -> None:
    handler, pauses = handling([error, say("never")])
    context = Context()
    with pytest.raises(type(error)):
        await handler.execute(effect_of(asking()), context)
    assert context.attempts == len(context.failures) == 1 and pauses.taken == []


async def test_answers_come_in_pieces_and_are_passed_on_to_whoever_listens() -> None:
    for listening in (True, False):
        async with LoopbackModelServer(lambda body: "one\ntwo\n") as server:
            profile = ModelProfile(model="m", base_url=server.base_url)
            manager = ModelManager(Settings(models={"local": profile}), {})
            context = Context(listening=listening)
            outcome = await RequestModelHandler(manager).execute(effect_of(asking()), context)
            await manager.aclose()
        assert outcome.response.text == "one\ntwo\n"
        assert "".join(context.deltas) == ("one\ntwo\n" if listening else "")
        assert server.requests[0]["stream"]


async def test_a_limited_rate_over_real_http() -> None:
    replies: list[Any] = [http_error(429, "slow down", retry_after_s=2), http_error(503, "overloaded"), "5"]
    pauses = Pauses()
    async with LoopbackModelServer(replies) as server:
        profile = ModelProfile(model="m", base_url=server.base_url, price=PRICE)
        manager = ModelManager(Settings(models={"local": profile}), {})
        context = Context()
        outcome = await RequestModelHandler(manager, sleep=pauses).execute(effect_of(asking()), context)
        await manager.aclose()
    assert server.count == 3 and outcome.response.text == "5"
    assert [type(error) for _, error, *_ in context.failures] == [ModelRateLimitError, ModelUnavailableError]
    assert pauses.taken[0] == 2
    assert outcome.usage.cost_usd and context.spent == [Usage(), Usage()]


async def test_an_unknown_model_spends_nothing() -> None:
    handler = RequestModelHandler(ModelManager(Settings(), {}))
    effect = effect_of(asking())
    assert handler.bound(effect) == Bound()
    context = Context()
    outcome = await handler.execute(effect, context)
    assert outcome.status == "error" and "no model 'local'" in str(outcome.error) and context.attempts == 0


async def test_the_bound_holds_what_is_spent() -> None:
    async with LoopbackModelServer(lambda body: "word " * 40) as server:
        profile = ModelProfile(model="m", base_url=server.base_url, price=PRICE)
        manager = ModelManager(Settings(models={"local": profile}), {})
        handler = RequestModelHandler(manager)
        effect = effect_of(asking(user("x" * 3000), tools=tuple(schema(f"t{n}") for n in range(20)), max_tokens=100))
        bound = handler.bound(effect)
        outcome = await handler.execute(effect, Context())
        await manager.aclose()
    assert outcome.usage.input_tokens + 100 <= bound.tokens < 10 * outcome.usage.tokens
    assert bound.cost_usd >= (outcome.usage.cost_usd or 0) > 0
    assert bound.cost_usd == pytest.approx(((bound.tokens - 100) * 1 + 100 * 2) / 1e6)
    assert bound.steps == 1 and handler.bound(effect_of(asking(), purpose="summary")).steps == 0
