"""The handler of RequestModel: attempts with back-off around a client, each of them logged."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from agentorchestra.core.budget import NO_COST, Bound, Usage
from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Effect, Mode, Outcome, failed
from agentorchestra.core.errors import ModelContextError, ModelError, ModelRequestError, UsageError
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.models.client import Media, ModelClient, OnDelta, spent_by
from agentorchestra.models.manager import ModelManager
from agentorchestra.models.prices import bound_of

MAX_WAIT_S = 60.0
"""The longest pause between two attempts, whatever the provider asks for."""


class RequestModelHandler:
    """Executes RequestModel (core.protocols.Handler).

    Of its RunContext it uses `attempt()`, `random`, and three things a Session has beyond the protocol: `blob(sha256)`
    (a coroutine with the bytes of a medium), `listening` (whether anybody watches; only then is the answer streamed)
    and `delta(text)` (a piece of streamed text). A context without them serves requests without media or streaming.

    Args:
        models: finds the clients.
        backoff_s: the first pause; it doubles with each attempt, up to `MAX_WAIT_S`.
        sleep: waits between attempts.
    """

    def __init__(
        self,
        models: ModelManager,
        *,
        backoff_s: float = 0.5,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._models = models
        self._backoff_s = backoff_s
        self._sleep = sleep

    def mode(self, effect: Effect) -> Mode:
        """Repeatable: a request lost in a crash is asked again and counted as possibly paid."""
        return Mode.REPEATABLE

    def bound(self, effect: Effect) -> Bound:
        """The longest answer at the client's price.

        A model that cannot be had bounds nothing: `execute` says why and spends nothing.
        """
        if effect.request is None:
            return NO_COST
        try:
            client = self._models.client(effect.request.model)
        except UsageError:
            return NO_COST
        return bound_of(
            effect.request,
            price=client.price,
            purpose=effect.purpose,
            context_window=client.profile.context_window,
        )

    def redact(self, effect: Effect) -> Effect:
        """The effect as it is: messages hold only what was recorded, which is redacted already."""
        return effect

    async def execute(self, effect: Effect, ctx: Any) -> Outcome:
        """Ask until there is an answer or the attempts are used up.

        Raises:
            ModelError: the last attempt's; nothing is recorded as the outcome, so that a resume asks again.
        """
        request = effect.request
        if request is None:
            raise ModelRequestError("a RequestModel effect came without a request; give it request=ModelRequest(...)")
        try:
            client = self._models.client(request.model)
        except UsageError as exc:
            return failed("error", str(exc), error_type=type(exc).__name__)
        try:
            response = await self._ask(client, request, ctx)
        except ModelContextError as exc:
            # The agent can do something about it: shorten its history and ask again.
            return failed("error", str(exc), error_type=type(exc).__name__)
        return Outcome(
            value=response.model_dump(mode="json", exclude_defaults=True),
            usage=response.usage,
            trust=min(effect.lowest_trust, Trust.AGENT, key=lambda trust: trust.rank),
        )

    async def _ask(self, client: ModelClient, request: ModelRequest, ctx: Any) -> ModelResponse:
        attempts = client.profile.max_attempts
        tried = 0
        while True:
            tried += 1
            async with ctx.attempt() as attempt:
                try:
                    response = await client.request(request, media=_media(ctx), on_delta=_listener(ctx))
                except ModelError as exc:
                    again = exc.retryable and tried < attempts
                    delay = self._delay(exc, tried, ctx.random) if again else None
                    spent = priced(client, spent_by(exc))
                    await attempt.fail(exc, usage=spent, target=client.name, retry_in_s=delay)
                    if delay is None:
                        raise
                else:
                    update = {"usage": priced(client, response.usage), "model": response.model or client.name}
                    return response.model_copy(update=update)
            await self._sleep(delay)

    def _delay(self, error: ModelError, tried: int, chance: random.Random) -> float:
        """Seconds until the next attempt: what the provider asks for, else doubling, with jitter."""
        if error.retry_after_s is not None:
            return min(max(error.retry_after_s, 0.0), MAX_WAIT_S)
        ceiling = min(self._backoff_s * 2.0 ** (tried - 1), MAX_WAIT_S)
        # Jitter from the run's own generator: many agents that failed together do not come back together.
        return ceiling * (0.5 + chance.random() / 2)


def priced(client: ModelClient, usage: Usage) -> Usage:
    """The usage with its cost; one that the client named itself stays."""
    if "cost_usd" in usage.model_fields_set or usage == Usage():
        return usage
    return usage.model_copy(update={"cost_usd": client.price(usage)})


def _media(ctx: Any) -> Media:
    blob: Media | None = getattr(ctx, "blob", None)
    if blob is not None:
        return blob

    async def none(sha256: str) -> bytes:
        raise ModelRequestError(f"the bytes of medium {sha256[:12]} cannot be read: this context keeps no blobs")

    return none


def _listener(ctx: Any) -> OnDelta | None:
    delta: OnDelta | None = getattr(ctx, "delta", None)
    return delta if delta is not None and getattr(ctx, "listening", False) else None


__all__ = ["MAX_WAIT_S", "RequestModelHandler", "priced"]
