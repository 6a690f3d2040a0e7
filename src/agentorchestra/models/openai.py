"""The client for real providers: OpenAI-compatible servers by address, and whatever else pydantic-ai speaks to.

Importing this module imports no provider. The library (a second of imports) comes with the first request, in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from agentorchestra.core.budget import Usage
from agentorchestra.core.errors import AgentOrchestraError, MissingExtraError, ModelError
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.resources import refuse_shortage
from agentorchestra.models.client import Media, OnDelta, with_usage
from agentorchestra.models.endpoint import Endpoint
from agentorchestra.models.failures import Target, of_media, of_schema, silent, translate
from agentorchestra.models.limits import answer_tokens
from agentorchestra.models.media import takes
from agentorchestra.models.prices import (
    estimate_text_tokens,
    most_dollars,
    most_usage,
    price_of,
    price_of_sound,
    sound_seconds,
    sound_usage,
    uncertain,
)
from agentorchestra.models.providers import PROVIDERS

if TYPE_CHECKING:
    from agentorchestra.models.wire import Wire

T = TypeVar("T")


class PydanticAIClient:
    """A `ModelClient` over pydantic-ai's model layer; ModelManager makes it."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.name = endpoint.profile.model
        self.profile = endpoint.profile
        self.native_tools = endpoint.profile.tools
        self._endpoint = endpoint
        self._target = Target.of(endpoint)
        self._wire: Wire | None = None
        self._making = asyncio.Lock()

    async def request(self, request: ModelRequest, *, media: Media, on_delta: OnDelta | None = None) -> ModelResponse:
        if request.settings.max_tokens is None:
            room = {"max_tokens": answer_tokens(request, self.profile)}
            request = request.model_copy(update={"settings": request.settings.model_copy(update=room)})
        try:
            return await self._ask(
                lambda wire, on_piece: wire.ask(request, media=media, on_delta=on_delta, on_piece=on_piece),
                request.settings.timeout_s,
                lambda: self._loss(most_usage(request)),
            )
        except ModelError as error:
            cause = error.__cause__
            raise of_media(of_schema(error, request, self._target), request, self._target) from cause

    def takes(self, media_type: str) -> bool:
        """Return True if a medium is sent along; one that is not is named in the text."""
        return takes(media_type, provider=self._endpoint.provider, profile=self.profile)

    async def embed(self, texts: Sequence[str]) -> tuple[list[list[float]], Usage]:
        tokens = sum(estimate_text_tokens(text) for text in texts)
        return await self._ask(
            lambda wire, on_piece: wire.embed(texts),
            self.profile.timeout_s,
            lambda: self._loss(Usage(input_tokens=tokens)),
        )

    async def transcribe(self, data: bytes, name: str, media_type: str) -> tuple[str, Usage]:
        """Return what is said in a recording, and what it cost; raise as `request`."""
        longest = sound_seconds(len(data), media_type)
        most = uncertain(sound_usage(longest), self.sound_price(sound_usage(longest), longest))
        text, usage, seconds = await self._ask(
            lambda wire, on_piece: wire.transcribe(data, name, media_type), self.profile.timeout_s, lambda: most
        )
        cost = self.sound_price(usage, longest if seconds is None else seconds)
        return text, usage.model_copy(update={"cost_usd": cost})

    def sound_price(self, usage: Usage, seconds: float) -> float | None:
        """Return US dollars for a transcription; None when the price is unknown."""
        return price_of_sound(self.profile, usage, seconds, address=self._endpoint.address)

    def _loss(self, most: Usage) -> Usage:
        """Return the bound of a request that reached the provider and brought no answer (docs/door.md)."""
        return uncertain(most, most_dollars(most, self.price))

    async def _ask(
        self, ask: Callable[[Wire, Callable[[], None]], Awaitable[T]], timeout_s: float, at_most: Callable[[], Usage]
    ) -> T:
        """Ask, and give up after so much silence: each piece of an answer starts the time anew."""
        limit = asyncio.timeout(timeout_s)
        clock = asyncio.get_running_loop()
        try:
            wire = self._wire or await self._connect()
            async with limit:
                return await ask(wire, lambda: limit.reschedule(clock.time() + timeout_s))
        except AgentOrchestraError:
            raise
        except Exception as exc:
            if limit.expired():
                raise with_usage(silent(self._target, timeout_s), at_most()) from None
            error, uncertain = translate(exc, self._target)
            raise (with_usage(error, at_most()) if uncertain else error) from exc

    def price(self, usage: Usage) -> float | None:
        """Return US dollars by the profile's price, else the published one; None when there is neither."""
        return price_of(self.profile, usage, address=self._endpoint.address)

    async def aclose(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            await wire.aclose()

    async def _connect(self) -> Wire:
        async with self._making:
            if self._wire is None:
                wire = await asyncio.to_thread(_make, self._endpoint)
                await wire.open()
                self._wire = wire
            return self._wire


def _make(endpoint: Endpoint) -> Wire:
    try:
        from agentorchestra.models.wire import Wire

        return Wire(endpoint)
    except ImportError as exc:
        refuse_shortage(exc)
        extra = PROVIDERS[endpoint.provider].extra if endpoint.provider in PROVIDERS else "openai"
        raise MissingExtraError(
            f"model {endpoint.name!r} needs a package that is not installed ({exc.name or exc}); "
            f'run: pip install "pydantic-ai-slim[{extra}]"'
        ) from exc
