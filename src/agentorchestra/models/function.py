"""A model that is a function of the application: `async def model(messages, tools): ...`."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from agentorchestra.core.errors import ModelError, ModelRequestError
from agentorchestra.core.messages import Message, ModelRequest, ModelResponse, ToolCall, ToolSchema
from agentorchestra.models.client import Media, OnDelta, stream_whole
from agentorchestra.models.scripted import ScriptedModel, response_of

ModelReply = ModelResponse | str | ToolCall | Sequence[ToolCall]
"""The reply of a model that is a function: a text, a call, several, or a whole response."""

ModelFunction = Callable[[Sequence[Message], Sequence[ToolSchema]], ModelReply | Awaitable[ModelReply]]
"""A model that is a function of the conversation and the tools that may be called."""


class FunctionModel(ScriptedModel):
    """A `ModelClient` made of a function; what its requests cost is unknown unless its response says so."""

    def __init__(self, function: ModelFunction, name: str = "") -> None:
        super().__init__([], name=name or getattr(function, "__name__", "function"), price=None)
        self._asked = function

    async def request(
        self, request: ModelRequest, *, media: Media | None = None, on_delta: OnDelta | None = None
    ) -> ModelResponse:
        """Answer with what the function returns; raise ModelRequestError for what it raises, and for no reply."""
        try:
            reply = self._asked(request.messages, request.tools)
            if inspect.isawaitable(reply):
                reply = await reply
            answer = response_of(reply)
        except ModelError:
            raise
        except Exception as exc:
            raise ModelRequestError(f"the model function {self.name!r} raised {type(exc).__name__}: {exc}") from exc
        if answer is None:
            raise ModelRequestError(
                f"the model function {self.name!r} returned {reply!r}; return a text, a call (`call(name, ...)`), a "
                "list of calls, or a ModelResponse"
            )
        response = self._finished(answer, request)
        if on_delta is not None:
            stream_whole(response, on_delta)
        return response


def as_client(model: Any, name: str = "") -> Any:
    return FunctionModel(model, name) if inspect.isroutine(model) else model
