"""The handlers of Embed and Transcribe: the same attempts and fallbacks as for a request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pydantic import JsonValue

from agentorchestra.core.budget import NO_COST, Bound, Usage
from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Effect, Mode, Outcome, failed
from agentorchestra.core.errors import ModelError, ModelRequestError, UsageError
from agentorchestra.models.client import ModelClient
from agentorchestra.models.handler import RequestModelHandler, priced
from agentorchestra.models.prices import estimate_text_tokens

T = TypeVar("T")


class _SideHandler(RequestModelHandler):
    """What both have in common: the model's name is an argument of the effect."""

    def redact(self, effect: Effect) -> Effect:
        """The effect as it is: the door replaces the values of known secrets."""
        return effect

    async def _answered(
        self, effect: Effect, ctx: Any, ask: Callable[[ModelClient], Awaitable[tuple[T, Usage]]]
    ) -> tuple[T, Usage, str] | Outcome:
        name = str(effect.arguments.get("model", ""))
        try:
            clients = self._chain(name)
        except UsageError as exc:
            return failed("error", str(exc), error_type=type(exc).__name__)

        async def one(client: ModelClient) -> tuple[T, Usage, str]:
            value, usage = await ask(client)
            return value, priced(client, usage), client.name

        try:
            return await self._in_turn(clients, one, ctx)
        except ModelError as exc:
            # What is done beside an agent's work is an observation: the agent may go on without it.
            return failed("error", str(exc), error_type=type(exc).__name__)


class EmbedHandler(_SideHandler):
    """Executes Embed: arguments `texts` and `model`; the value holds `vectors`, one for each text, and `model`."""

    def bound(self, effect: Effect) -> Bound:
        """All texts at the dearest price of the chain."""
        texts = effect.arguments.get("texts")
        tokens = sum(estimate_text_tokens(str(text)) for text in texts) if isinstance(texts, list) else 0
        try:
            clients = self._chain(str(effect.arguments.get("model", "")))
        except UsageError:
            return NO_COST
        costs = [client.price(Usage(input_tokens=tokens)) or 0.0 for _, client in clients]
        return Bound(tokens=tokens, cost_usd=max(costs))

    async def execute(self, effect: Effect, ctx: Any) -> Outcome:
        """The vectors."""
        given = effect.arguments.get("texts")
        texts = [str(text) for text in given] if isinstance(given, list) else []

        async def ask(client: ModelClient) -> tuple[list[list[float]], Usage]:
            return await _able(client, "embed")(texts)  # type: ignore[no-any-return]

        answer = await self._answered(effect, ctx, ask)
        if isinstance(answer, Outcome):
            return answer
        vectors, usage, name = answer
        shown: list[JsonValue] = [[*vector] for vector in vectors]
        return Outcome(value={"vectors": shown, "model": name}, usage=usage, trust=effect.lowest_trust)


class TranscribeHandler(_SideHandler):
    """Executes Transcribe: arguments `file` (a file of the task), `sha256` and `model`; the value holds `text`."""

    def bound(self, effect: Effect) -> Bound:
        """Unknown before it was heard: nothing is held, what it cost is counted."""
        return NO_COST

    async def execute(self, effect: Effect, ctx: Any) -> Outcome:
        """What is said in the file; untrusted, like everything from a file."""
        name = str(effect.arguments.get("file", ""))
        ref = next(one for one in ctx.manifest.files if one.name == name)
        data = ctx.file(name).read_bytes()

        async def ask(client: ModelClient) -> tuple[str, Usage]:
            return await _able(client, "transcribe")(data, name, ref.media_type)  # type: ignore[no-any-return]

        answer = await self._answered(effect, ctx, ask)
        if isinstance(answer, Outcome):
            return answer
        text, usage, model = answer
        return Outcome(value={"text": text, "model": model}, usage=usage, trust=Trust.UNTRUSTED)


def _able(client: ModelClient, what: str) -> Callable[..., Awaitable[Any]]:
    found = getattr(client, what, None)
    if found is None:
        raise ModelRequestError(f"{client.name} cannot {what}; name another model for it in agentorchestra.toml")
    return found  # type: ignore[no-any-return]


__all__ = ["EmbedHandler", "Mode", "TranscribeHandler"]
