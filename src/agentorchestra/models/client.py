"""What a model client is: the one thing the rest of the package knows about a provider."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, runtime_checkable

from agentorchestra.core.budget import Usage
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import ModelProfile

Media = Callable[[str], Awaitable[bytes]]
"""Reads the bytes of a media block by their SHA-256."""

OnDelta = Callable[[str], None]
"""Takes each piece of streamed text."""


@runtime_checkable
class ModelClient(Protocol):
    """Serves requests of one model. One client serves many runs at once.

    Attributes:
        name: the name it is asked for by.
        profile: parameters and limits of its model.
        native_tools: whether tools are offered natively; without them decisions are JSON text.
    """

    name: str
    profile: ModelProfile
    native_tools: bool

    async def request(self, request: ModelRequest, *, media: Media, on_delta: OnDelta | None = None) -> ModelResponse:
        """Answer one request; one attempt, nothing is repeated here.

        Args:
            request: what is asked.
            media: reads the bytes of a media block.
            on_delta: when given, the answer is streamed and each piece of visible text goes here.

        Raises:
            ModelError: of the kind that says whether repeating may help.
        """
        ...

    def price(self, usage: Usage) -> float | None:
        """US dollars for this usage, None when the price is unknown."""
        ...

    async def aclose(self) -> None:
        """Release connections; idempotent."""
        ...
