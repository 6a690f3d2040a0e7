"""What a model client is: the one thing the rest of the package knows about a provider."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, runtime_checkable

from agentorchestra.core.budget import Usage
from agentorchestra.core.errors import ModelError
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import ModelProfile

Media = Callable[[str], Awaitable[bytes]]  # reads the bytes of a media block by their SHA-256
OnDelta = Callable[[str], None]  # takes each piece of streamed text


@runtime_checkable
class ModelClient(Protocol):
    """Serves requests of one model. One client serves many runs at once.

    A client that replays a script may also have `finish()`, which raises ScriptError if steps were not used, and
    `spent`, True once that cannot happen any more: a workspace then lets go of it. One that cannot
    state what the user's words call for (`policy.plan`) says `states_plans = False`, one that cannot look at a call
    again (`policy.review`) `reviews_calls = False`.
    """

    name: str  # the canonical name, e.g. `openai:gpt-5`, `offline`, `scripted`; usage is counted under it
    profile: ModelProfile  # parameters, price and limits of its model
    native_tools: bool  # whether tools are offered natively; without them decisions are JSON text

    async def request(self, request: ModelRequest, *, media: Media, on_delta: OnDelta | None = None) -> ModelResponse:
        """Answer one request; one attempt, nothing is repeated here.

        Args:
            request: what is asked; `request.settings.timeout_s` limits the silence before the answer and within it.
            media: reads the bytes of a media block.
            on_delta: takes each piece of visible text of an answer that is streamed. What an attempt streamed before
                it failed is not taken back.

        Raises:
            ModelError: of the kind that says whether repeating may help; no other library's exception gets out.
        """
        ...

    def price(self, usage: Usage) -> float | None:
        """Return US dollars for this usage, None when the price is unknown."""
        ...

    async def aclose(self) -> None:
        """Release connections; idempotent."""
        ...


def spent_by(error: ModelError) -> Usage:
    """Return what a failed request may have cost; nothing if it never went out or the provider refused it."""
    usage = getattr(error, "usage", None)
    return usage if isinstance(usage, Usage) else Usage()


def with_usage(error: ModelError, usage: Usage) -> ModelError:
    """Return the error, carrying what the failed request may have cost; `spent_by` reads it."""
    error.__dict__["usage"] = usage
    return error
