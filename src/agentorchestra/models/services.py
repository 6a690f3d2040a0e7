"""The handlers of Embed and Transcribe: the same attempts and fallbacks as for a request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from agentorchestra.core.budget import NO_COST, Bound, Usage
from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Effect, Outcome, failed
from agentorchestra.core.errors import BudgetError, ModelError, ModelRequestError, UsageError
from agentorchestra.core.vectors import pack
from agentorchestra.models.client import ModelClient
from agentorchestra.models.handler import RequestModelHandler, with_cost
from agentorchestra.models.prices import estimate_text_tokens, sound_seconds, sound_usage
from agentorchestra.models.providers import model_id

T = TypeVar("T")


class _ServiceHandler(RequestModelHandler):
    """Base of both handlers: the model's name is an argument of the effect."""

    def bound(self, effect: Effect) -> Bound:
        """Return the bound at the dearest price of the chain."""
        try:
            clients = self._chain(str(effect.arguments.get("model", "")))
        except UsageError:
            return NO_COST
        costs = [self._cost(effect, client) or 0.0 for _, client in clients]
        return Bound(tokens=self._most(effect).tokens, cost_usd=max(costs))

    def _most(self, effect: Effect) -> Usage:
        raise NotImplementedError

    def _cost(self, effect: Effect, client: ModelClient) -> float | None:
        raise NotImplementedError

    async def _serve(
        self, effect: Effect, ctx: Any, ask: Callable[[ModelClient], Awaitable[tuple[T, Usage]]]
    ) -> tuple[T, Usage, str] | Outcome:
        name = str(effect.arguments.get("model", ""))

        async def attempt(client: ModelClient) -> tuple[T, Usage, str]:
            value, usage = await ask(client)
            return value, with_cost(client, usage), client.name

        try:
            clients = self._chain(name)
            if any(node.limits.cost_usd is not None for node in ctx.node.chain()):
                for model, client in clients:
                    self._require_price(effect, model, client)
            return await self._first_answer(clients, attempt, ctx)
        except (UsageError, ModelError) as exc:
            # What is done beside an agent's work is an observation: the agent may go on without it.
            return failed("error", str(exc), error_type=type(exc).__name__)

    def _require_price(self, effect: Effect, name: str, client: ModelClient) -> None:
        if hasattr(client, "embed") and self._cost(effect, client) is None:
            raise BudgetError(
                f"the price of model {name!r} is unknown for this, so a budget in US dollars cannot be held; give it "
                f"in agentorchestra.toml ([models.{name}.price]: input and output per million tokens, audio_minute per "
                "minute of sound), or limit tokens or steps instead"
            )


class EmbedHandler(_ServiceHandler):
    """Executes Embed: arguments `texts` and `model`.

    The value holds `vectors` (the SHA-256 of a blob in the form of core.vectors), `dimensions`, `count` and `model`.
    """

    def _chain(self, name: str) -> list[tuple[str, ModelClient]]:
        # Vectors of different models cannot be compared: only the same model elsewhere can stand in.
        first, *fallbacks = super()._chain(name)
        same = model_id(first[1].profile.model)
        return [first, *(pair for pair in fallbacks if model_id(pair[1].profile.model) == same)]

    def _most(self, effect: Effect) -> Usage:
        return Usage(input_tokens=sum(estimate_text_tokens(text) for text in _texts(effect)))

    def _cost(self, effect: Effect, client: ModelClient) -> float | None:
        return client.price(self._most(effect))

    async def execute(self, effect: Effect, ctx: Any) -> Outcome:
        texts = _texts(effect)

        async def ask(client: ModelClient) -> tuple[list[list[float]], Usage]:
            return await _able(client, "embed")(texts)  # type: ignore[no-any-return]

        answer = await self._serve(effect, ctx, ask)
        if isinstance(answer, Outcome):
            return answer
        vectors, usage, name = answer
        blob = await ctx.artifact("vectors", pack(vectors))
        dimensions = len(vectors[0]) if vectors else 0
        return Outcome(
            value={"vectors": blob.sha256, "dimensions": dimensions, "count": len(vectors), "model": name},
            usage=usage,
            trust=effect.lowest_trust,
        )


class TranscribeHandler(_ServiceHandler):
    """Executes Transcribe: arguments `file` (its name), `sha256`, `size`, `media_type` and `model`.

    The value holds `text` and `model`.
    """

    def _most(self, effect: Effect) -> Usage:
        return sound_usage(_seconds(effect))

    def _cost(self, effect: Effect, client: ModelClient) -> float | None:
        price = getattr(client, "sound_price", None)
        return price(self._most(effect), _seconds(effect)) if price is not None else None

    async def execute(self, effect: Effect, ctx: Any) -> Outcome:
        """Return what is said in the file; untrusted, like everything from a file."""
        name, media_type = str(effect.arguments.get("file", "")), str(effect.arguments.get("media_type", ""))
        digest = str(effect.arguments.get("sha256", ""))
        is_input = any(ref.name == name and ref.sha256 == digest for ref in ctx.manifest.files)
        # Bytes of files lie in the run's folder, those of artifacts and media among the blobs.
        data = await asyncio.to_thread(ctx.file(name).read_bytes) if is_input else await ctx.blob(digest)

        async def ask(client: ModelClient) -> tuple[str, Usage]:
            return await _able(client, "transcribe")(data, name, media_type)  # type: ignore[no-any-return]

        answer = await self._serve(effect, ctx, ask)
        if isinstance(answer, Outcome):
            return answer
        text, usage, model = answer
        return Outcome(value={"text": text, "model": model}, usage=usage, trust=Trust.UNTRUSTED)


def _texts(effect: Effect) -> list[str]:
    texts = effect.arguments.get("texts")
    return [str(text) for text in texts] if isinstance(texts, list) else []


def _seconds(effect: Effect) -> float:
    size = effect.arguments.get("size")
    return sound_seconds(size if isinstance(size, int) else 0, str(effect.arguments.get("media_type", "")))


def _able(client: ModelClient, service: str) -> Callable[..., Awaitable[Any]]:
    method = getattr(client, service, None)
    if method is None:
        raise ModelRequestError(f"{client.name} cannot {service}; name another model for it in agentorchestra.toml")
    return method  # type: ignore[no-any-return]
