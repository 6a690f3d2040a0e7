"""The handler of RequestModel: attempts with back-off around a client, each of them logged."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from pydantic import JsonValue

from agentorchestra.core.budget import NO_COST, Bound, Room, Usage
from agentorchestra.core.content import Trust
from agentorchestra.core.effects import BESIDE, Effect, Mode, Outcome, failed
from agentorchestra.core.errors import (
    ModelContextError,
    ModelError,
    ModelMediaError,
    ModelRequestError,
    ScriptError,
    UsageError,
)
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.policy import PLAN, REVIEW
from agentorchestra.core.reply_text import split_thoughts
from agentorchestra.models.adapter import RequestAdapter
from agentorchestra.models.allowance import Allowance
from agentorchestra.models.client import Media, ModelClient, OnDelta, spent_by
from agentorchestra.models.limits import USUAL
from agentorchestra.models.manager import ModelManager
from agentorchestra.models.retries import RetryPolicy

T = TypeVar("T")

Mend = Callable[[ModelClient, ModelError], str | None]
"""Changes what is asked of a client after an error, and says what was changed; None where nothing can be."""


class _TooLateError(Exception):
    """The turn of a request came when no more were to begin."""


class RequestModelHandler:
    """Executes RequestModel (core.protocols.Handler).

    Of its RunContext it uses `attempt()`, `random`, and four things a BranchContext has beyond the protocol:
    `blob(sha256)` (a coroutine with the bytes of a medium), `listening` (whether anybody watches), `delta(text)` (a
    piece of streamed text) and `affords(usage)` (whether the budget has room for a further attempt after one that may
    have been paid). A context without them serves requests without media or watchers.
    Requests with a `begin_by` need a BranchContext, which has the clock of its run.
    """

    def __init__(self, models: ModelManager, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._models = models
        self._sleep = sleep
        self._adapter = RequestAdapter()

    def mode(self, effect: Effect) -> Mode:
        """Repeatable: a request lost in a crash is asked again and counted as possibly paid."""
        return Mode.REPEATABLE

    def bound(self, effect: Effect) -> Bound:
        """Return the bound of the longest answer; a model that cannot be had bounds nothing, and `execute` says why."""
        allowance = self._allowance(effect)
        return NO_COST if allowance is None else allowance.bound(allowance.most)

    def fit(self, effect: Effect, room: Callable[[Bound], Room]) -> tuple[Effect, Bound, Bound]:
        """Return the effect with as long an answer as there is money for (core.protocols.Sizing)."""
        allowance = self._allowance(effect)
        if allowance is None or effect.request is None:
            return effect, NO_COST, NO_COST
        settings = effect.request.settings
        demand = max(USUAL, settings.least_tokens) + (settings.thinking_tokens or 0)
        tokens, reserve = allowance.affordable(demand, room)
        if tokens < allowance.most:
            settings = settings.model_copy(update={"max_tokens": tokens})
            effect = effect.model_copy(update={"request": effect.request.model_copy(update={"settings": settings})})
        return effect, allowance.bound(tokens), allowance.bound(reserve)

    def _allowance(self, effect: Effect) -> Allowance | None:
        if effect.request is None:
            return None
        try:
            clients = self._chain(effect.request.model)
        except UsageError:
            return None
        return Allowance.of(effect.request, [client for _, client in clients], purpose=effect.purpose)

    async def execute(self, effect: Effect, ctx: Any) -> Outcome:
        """Ask until there is an answer, or raise the last ModelError: it is not recorded, so a resume asks again."""
        request = effect.request
        if request is None:
            raise ModelRequestError("a RequestModel effect came without a request; give it request=ModelRequest(...)")
        try:
            clients = self._chain(request.model)
            if effect.purpose == "tool" and any(node.limits.cost_usd is not None for node in ctx.node.chain()):
                for name, _ in clients:  # an agent's own model was looked at before its first step
                    self._models.require_price(name)
        except UsageError as exc:
            return failed("error", str(exc), error_type=type(exc).__name__)
        try:
            response = await self._answer(clients, request, ctx, effect.begin_by, effect.purpose)
        except _TooLateError:
            return failed("timeout", "not asked: its turn came after the time at which the last one could begin")
        except ModelContextError as exc:
            # The agent can do something about it: shorten its history and ask again.
            return failed("error", str(exc), error_type=type(exc).__name__)
        except ModelError as exc:
            is_script = isinstance(exc, ScriptError) and effect.purpose in (PLAN, REVIEW)
            if effect.purpose not in BESIDE or is_script:
                raise
            details: JsonValue = {"kinds": list(exc.kinds)} if isinstance(exc, ModelMediaError) else None
            return failed("error", str(exc), error_type=type(exc).__name__, value=details)
        return Outcome(
            value=response.model_dump(mode="json", exclude_defaults=True),
            usage=response.usage,
            trust=min(effect.lowest_trust, Trust.AGENT, key=lambda trust: trust.rank),
        )

    def _chain(self, name: str) -> list[tuple[str, ModelClient]]:
        """Return the model and its fallbacks; a fallback that cannot be had (no key) is left out."""
        first, *fallbacks = self._models.chain(name)
        clients = [(first, self._models.client(first))]
        for other in fallbacks:
            with contextlib.suppress(UsageError):
                clients.append((other, self._models.client(other)))
        return clients

    async def _answer(
        self,
        clients: list[tuple[str, ModelClient]],
        request: ModelRequest,
        ctx: Any,
        begin_by: datetime | None,
        purpose: str,
    ) -> ModelResponse:
        """Ask a model or its fallbacks, each for what it can take; the cost is counted where the answer comes."""
        usable = [clients[0], *(pair for pair in clients[1:] if pair[1].native_tools or not request.tools)]
        if len(usable) < len(clients):
            names = ", ".join(name for name, client in clients if (name, client) not in usable)
            notice = f"{names} takes no native tool calls, so it cannot stand in for {clients[0][0]}"
            self._adapter.once(notice, partial(_note, ctx))

        variant = request
        started = begin_by is None

        async def ask(client: ModelClient) -> ModelResponse:
            nonlocal variant, started
            # What has begun is not given up: an attempt after a failed one is no new question.
            if not started and ctx.run.clock.now() >= begin_by:
                raise _TooLateError
            started = True
            variant = self._adapter.adapt(request, client, partial(_note, ctx), stands_in=client is not clients[0][1])
            stream = getattr(ctx, "reply_stream", None)  # a call outside of a run has none
            listener: OnDelta | None = stream(purpose) if stream is not None else None
            response = await client.request(variant, media=_media(ctx), on_delta=listener)
            thoughts, text = split_thoughts(response.text)
            thinking = "\n\n".join(part for part in (response.thinking, thoughts) if part)
            update = {"usage": with_cost(client, response.usage), "model": response.model or client.name}
            return response.model_copy(update={**update, "text": text, "thinking": thinking})

        return await self._first_answer(
            usable, ask, ctx, lambda client, error: self._adapter.relax(variant, client, error)
        )

    async def _first_answer(
        self,
        clients: list[tuple[str, ModelClient]],
        ask: Callable[[ModelClient], Awaitable[T]],
        ctx: Any,
        mend: Mend | None = None,
    ) -> T:
        waiting = self._models.rested_last(clients)
        while True:
            (name, client), *waiting = waiting
            try:
                return await self._attempts(name, client, ask, ctx, patient=not waiting, mend=mend)
            except ModelError as exc:
                waiting = [pair for pair in waiting if _helps(exc, client, pair[1])]
                if not waiting:
                    raise
                if not isinstance(exc, ModelContextError | ModelMediaError):
                    self._models.rest(name, exc.retry_after_s)
                _note(ctx, f"{name} cannot serve the request; {waiting[0][0]} is asked in its place")

    async def _attempts(
        self,
        name: str,
        client: ModelClient,
        ask: Callable[[ModelClient], Awaitable[T]],
        ctx: Any,
        *,
        patient: bool,
        mend: Mend | None = None,
    ) -> T:
        retries = RetryPolicy.of(client.profile, ctx.random, last=patient)
        while True:
            async with self._models.place(name), ctx.attempt() as attempt:
                try:
                    return await ask(client)
                except ModelError as exc:
                    remedy = mend(client, exc) if mend is not None else None
                    if remedy is not None:
                        _note(ctx, remedy)  # something else is asked: it repeats nothing
                    delay = 0.0 if remedy is not None else retries.pause(exc)
                    usage = with_cost(client, spent_by(exc))
                    affords = getattr(ctx, "affords", None)
                    if usage.uncertain and affords is not None and not affords(usage):
                        delay = None
                    await attempt.fail(exc, usage=usage, target=client.name, retry_in_s=delay)
                    if delay is None:
                        raise
            if delay:
                await self._sleep(delay)


def _helps(error: ModelError, client: ModelClient, other: ModelClient) -> bool:
    """Return True if the next model may serve what this one did not."""
    if isinstance(error, ModelContextError):
        return other.profile.context_window > client.profile.context_window
    return error.elsewhere and not isinstance(error, ScriptError)


def _note(ctx: Any, message: str) -> None:
    run = getattr(ctx, "run", None)
    if run is not None:
        run.note(message, level="warning")


def with_cost(client: ModelClient, usage: Usage) -> Usage:
    """Return the usage with its cost; a cost that the client named itself stays."""
    if "cost_usd" in usage.model_fields_set or not (usage.requests or usage.tokens):
        return usage
    return usage.model_copy(update={"cost_usd": client.price(usage)})


def _media(ctx: Any) -> Media:
    blob: Media | None = getattr(ctx, "blob", None)
    if blob is not None:
        return blob

    async def no_blobs(sha256: str) -> bytes:
        raise ModelRequestError(f"the bytes of medium {sha256[:12]} cannot be read: this context keeps no blobs")

    return no_blobs
