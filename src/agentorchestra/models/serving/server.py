"""A model on this machine's loopback address, for programs that speak to OpenAI: whoever serves it answers."""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from aiohttp import web

from agentorchestra.core.errors import HttpRequestError
from agentorchestra.core.messages import ModelResponse
from agentorchestra.models.serving.completions import (
    CompletionRequest,
    completion,
    completion_pieces,
    error_body,
    model_list,
    read_completion,
)

MAX_BODY_BYTES = 64 << 20

Answer = Callable[[CompletionRequest], Awaitable[ModelResponse]]
"""Answers one request; an HttpRequestError is sent on with its status."""


class ServedModel:
    """An OpenAI-compatible address with one model, for whoever has its key: `async with ServedModel(...) as served`.

    Attributes:
        base_url: `http://127.0.0.1:PORT/v1`, while it is open.
        key: random, of this address alone.
    """

    def __init__(self, model: str, answer: Answer) -> None:
        self.model = model
        self.base_url = ""
        self.key = secrets.token_urlsafe(32)
        self._answer = answer
        self._count = 0
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/chat/completions", self._completions)
        app.router.add_route("*", "/{path:.*}", self._unknown_path)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.base_url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    def _refusal(self, request: web.Request) -> web.Response | None:
        key = request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
        if hmac.compare_digest(key.encode(), self.key.encode()):
            return None
        return _error(401, "the key does not fit this address; take the one in OPENAI_API_KEY", "authentication_error")

    async def _models(self, request: web.Request) -> web.StreamResponse:
        return self._refusal(request) or web.json_response(model_list([self.model]))

    async def _unknown_path(self, request: web.Request) -> web.StreamResponse:
        message = (
            f"there is no {request.method} {request.path} here; there are GET /v1/models, POST /v1/chat/completions"
        )
        return self._refusal(request) or _error(404, message)

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        try:
            chat = read_completion(await _json(request))
            if chat.model != self.model:
                message = f"there is no model {chat.model!r} here; ask for {self.model!r}, which is in OPENAI_MODEL"
                raise HttpRequestError(message, status=404)
            response = await self._answer(chat)
        except HttpRequestError as exc:
            return _error(exc.status, str(exc))
        self._count += 1
        id_ = f"chatcmpl-{self._count}"
        if not chat.stream:
            return web.json_response(completion(response, id_=id_, model=self.model, created=0))
        usage = chat.stream_options is not None and chat.stream_options.include_usage
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
        await stream.prepare(request)
        for piece in completion_pieces(response, id_=id_, model=self.model, created=0, usage=usage):
            await stream.write(b"data: " + json.dumps(piece).encode() + b"\n\n")
        await stream.write(b"data: [DONE]\n\n")
        return stream


async def _json(request: web.Request) -> object:
    try:
        return await request.json()
    except web.HTTPRequestEntityTooLarge:
        raise HttpRequestError(f"the body has more than {MAX_BODY_BYTES >> 20} MiB; send less", status=413) from None
    except ValueError as exc:
        raise HttpRequestError(f"the body is no JSON: {exc}") from None


def _error(status: int, message: str, type_: str = "invalid_request_error") -> web.Response:
    # The run has made its attempts, or refuses for good: a client that tries again would hear the same.
    return web.json_response(error_body(message, type_), status=status, headers={"x-should-retry": "false"})
