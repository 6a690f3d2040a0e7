"""What a model client is: the one thing the rest of the package knows about a provider."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol, runtime_checkable

from agentorchestra.core.budget import Usage
from agentorchestra.core.errors import ModelError
from agentorchestra.core.ids import canonical_json
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import ModelProfile

Media = Callable[[str], Awaitable[bytes]]  # reads the bytes of a media block by their SHA-256


class OnDelta(Protocol):
    """Takes each piece of an answer that is streamed."""

    def __call__(self, text: str, part: Literal["text", "thought", "arguments"] = "text", call: str = "", /) -> None:
        """Take a piece.

        Args:
            part: of the answer's words, its thoughts, or the arguments of a call as JSON.
            call: the name of that call's tool.
        """


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
            on_delta: takes each piece of an answer that is streamed.

        Raises:
            ModelError: of the kind that says whether repeating may help; no other library's exception gets out.
        """

    def price(self, usage: Usage) -> float | None:
        """Return US dollars for this usage, None when the price is unknown."""

    async def aclose(self) -> None:
        """Release connections; idempotent."""


def stream_whole(response: ModelResponse, on_delta: OnDelta) -> None:
    """Stream an answer that is there as a whole: thoughts, words line by line, the arguments of each call.

    Of such an answer it is known that its words stand beside a call: they are thoughts.
    """
    if response.thinking:
        on_delta(response.thinking, "thought")
    for line in response.text.splitlines(keepends=True):
        on_delta(line, "thought" if response.tool_calls else "text")
    for call in response.tool_calls:
        arguments = call.arguments
        on_delta(arguments if isinstance(arguments, str) else canonical_json(arguments), "arguments", call.name)


def spent_by(error: ModelError) -> Usage:
    """Return what a failed request may have cost; nothing if it never went out or the provider refused it."""
    usage = getattr(error, "usage", None)
    return usage if isinstance(usage, Usage) else Usage()


def with_usage(error: ModelError, usage: Usage) -> ModelError:
    """Return the error, carrying what the failed request may have cost; `spent_by` reads it."""
    error.__dict__["usage"] = usage
    return error
