"""The public test doubles: fake only the model, and let it fail loudly.

`ScriptedModel` answers in place of a model; `LoopbackModelServer` answers in place of a provider, over real HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Literal, Self

from agentorchestra.core.budget import Usage
from agentorchestra.core.errors import ScriptError
from agentorchestra.core.messages import ModelResponse, ToolCall
from agentorchestra.models.scripted import Reply, ScriptedModel, ScriptFunction, call, decide, say


@dataclass(frozen=True)
class Misbehaviour:
    """A way in which a provider fails.

    Attributes:
        kind: `status`: an error status with OpenAI's error object. `garbage`: JSON that ends early. `html`: a page, as
            a proxy sends it. `empty`: an answer without choices. `silence`: nothing, until the client gives up.
            `cut`: the connection is closed in the middle of the answer.
        status: the status of `status` and `html`.
        message: what the error object or the page says.
        retry_after: the Retry-After header, seconds or a date.
    """

    kind: Literal["status", "garbage", "html", "empty", "silence", "cut"]
    status: int = 200
    message: str = "the script says no"
    retry_after: str | None = None


ServerReply = ModelResponse | str | ToolCall | Sequence[ToolCall] | Misbehaviour
"""What the server answers."""

ServerScript = Callable[[dict[str, Any]], ServerReply | Awaitable[ServerReply]]
"""From the JSON of a request to the answer."""

_REQUEST_TIMEOUT_S = 30.0  # a client that never finishes its request must not hold a test


class LoopbackModelServer:
    """A provider on the loopback address: OpenAI's chat completions over real HTTP, plain and streamed.

        async with LoopbackModelServer(lambda body: "yes") as server:
            profile = ModelProfile(model="any", base_url=server.base_url, api_key_env="")

    Args:
        script: answers a request from its JSON.
        latency_s: seconds before each answer starts.

    Attributes:
        bodies: the JSON of the requests, in the order in which they arrived.
        headers: their headers, names in lower case.
        base_url: the address for clients, with `/v1`; empty before the server runs.
    """

    def __init__(self, script: ServerScript, *, latency_s: float = 0.0) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.base_url = ""
        self._script = script
        self._latency_s = latency_s
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._failure: Exception | None = None

    @property
    def count(self) -> int:
        """Requests seen."""
        return len(self.bodies)

    @property
    def connections(self) -> int:
        """Connections that are open now."""
        return len(self._connections)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=2**26)
        port = self._server.sockets[0].getsockname()[1]
        self.base_url = f"http://127.0.0.1:{port}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop at once.

        Raises:
            ScriptError: if the script itself failed on a request.
        """
        assert self._server is not None
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()
        if self._failure is not None:
            raise ScriptError(
                f"the script of the loopback server failed: {type(self._failure).__name__}: {self._failure}"
            ) from self._failure

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError):
            pass  # the client went away, which is its right
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer; whether the connection stays open."""
        first = await reader.readline()
        if not first.strip():
            return False
        async with asyncio.timeout(_REQUEST_TIMEOUT_S):
            headers: dict[str, str] = {}
            while line := (await reader.readline()).decode("latin-1").strip():
                name, _, value = line.partition(":")
                headers[name.lower()] = value.strip()
            data = await reader.readexactly(int(headers.get("content-length", 0)))
        method, path, _ = first.decode("latin-1").split()
        if method != "POST" or not path.endswith("/chat/completions"):
            await _send(writer, 404, _error(f"no such address: {method} {path}", "not_found"))
            return True
        body = json.loads(data)
        self.bodies.append(body)
        self.headers.append(headers)
        if self._latency_s:
            await asyncio.sleep(self._latency_s)
        try:
            reply = self._script(body)
            reply = await reply if inspect.isawaitable(reply) else reply
        except Exception as exc:
            self._failure = self._failure or exc
            await _send(writer, 500, _error(f"the script failed: {exc}", "script"))
            return True
        if isinstance(reply, Misbehaviour):
            return await _misbehave(writer, reply, streamed=bool(body.get("stream")), model=str(body.get("model")))
        await _answer(writer, _response(reply), body)
        return True


# --- answers --------------------------------------------------------------------------------------------------------


def _response(reply: ModelResponse | str | ToolCall | Sequence[ToolCall]) -> ModelResponse:
    if isinstance(reply, ModelResponse):
        return reply
    if isinstance(reply, str):
        return ModelResponse(text=reply)
    return ModelResponse(tool_calls=(reply,) if isinstance(reply, ToolCall) else tuple(reply))


async def _answer(writer: asyncio.StreamWriter, response: ModelResponse, body: dict[str, Any]) -> None:
    if not body.get("stream"):
        await _send(writer, 200, _completion(response, body))
        return
    _start_stream(writer)
    for chunk in _chunks(response, body):
        _write_chunk(writer, f"data: {json.dumps(chunk)}\n\n")
        await writer.drain()
    _write_chunk(writer, "data: [DONE]\n\n")
    writer.write(b"0\r\n\r\n")
    await writer.drain()


def _completion(response: ModelResponse, body: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": response.text or None}
    if response.thinking:
        message["reasoning_content"] = response.thinking
    if response.tool_calls:
        message["tool_calls"] = _calls(response)
    choice = {"index": 0, "message": message, "finish_reason": _finish(response), "logprobs": None}
    return {**_head(body, "chat.completion"), "choices": [choice], "usage": _usage(response, body)}


def _chunks(response: ModelResponse, body: dict[str, Any]) -> list[dict[str, Any]]:
    """The pieces of a streamed answer: text by lines, each call's arguments in two halves."""
    head = _head(body, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    chunks = [chunk({"role": "assistant", "content": ""})]
    if response.thinking:
        chunks.append(chunk({"reasoning_content": response.thinking}))
    chunks += [chunk({"content": piece}) for piece in response.text.splitlines(keepends=True)]
    for index, one in enumerate(_calls(response)):
        arguments = one["function"]["arguments"]
        half = len(arguments) // 2
        start = {**one, "index": index, "function": {"name": one["function"]["name"], "arguments": arguments[:half]}}
        chunks.append(chunk({"tool_calls": [start]}))
        chunks.append(chunk({"tool_calls": [{"index": index, "function": {"arguments": arguments[half:]}}]}))
    chunks.append(chunk({}, _finish(response)))
    if (body.get("stream_options") or {}).get("include_usage"):
        chunks.append({**head, "choices": [], "usage": _usage(response, body)})
    return chunks


def _calls(response: ModelResponse) -> list[dict[str, Any]]:
    return [
        {
            "id": one.id or f"call_{index}",
            "type": "function",
            "function": {
                "name": one.name,
                "arguments": one.arguments if isinstance(one.arguments, str) else json.dumps(one.arguments),
            },
        }
        for index, one in enumerate(response.tool_calls)
    ]


def _finish(response: ModelResponse) -> str:
    if "finish_reason" in response.model_fields_set:
        return response.finish_reason
    return "tool_calls" if response.tool_calls else "stop"


def _head(body: dict[str, Any], kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-loopback", "object": kind, "created": 1_700_000_000, "model": body.get("model", "")}


def _usage(response: ModelResponse, body: dict[str, Any]) -> dict[str, Any]:
    usage = response.usage
    if "usage" not in response.model_fields_set:
        asked = len(json.dumps(body.get("messages", []))) + len(json.dumps(body.get("tools", [])))
        said = len(response.text) + len(json.dumps(_calls(response)))
        usage = Usage(input_tokens=asked // 4, output_tokens=max(1, said // 4))
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.tokens,
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


# --- misbehaviour ---------------------------------------------------------------------------------------------------


async def _misbehave(writer: asyncio.StreamWriter, fault: Misbehaviour, *, streamed: bool, model: str) -> bool:
    """Fail as asked; whether the connection stays open."""
    extra = {} if fault.retry_after is None else {"Retry-After": fault.retry_after}
    if fault.kind == "silence":
        await asyncio.Event().wait()
    if fault.kind == "status":
        await _send(writer, fault.status, _error(fault.message, "scripted_error"), extra=extra)
    elif fault.kind == "html":
        page = f"<!DOCTYPE html><html><body><h1>{fault.message}</h1></body></html>"
        await _send(writer, fault.status, page, content_type="text/html; charset=utf-8", extra=extra)
    elif fault.kind == "empty":
        answer = {**_head({"model": model}, "chat.completion"), "choices": []}
        if streamed:
            _start_stream(writer)
            _write_chunk(writer, "data: [DONE]\n\n")
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        else:
            await _send(writer, 200, answer)
    elif fault.kind == "garbage":
        text = '{"id": "chatcmpl-loopback", "object": "chat.completion", "choices": [{"ind'
        if streamed:
            _start_stream(writer)
            _write_chunk(writer, f"data: {text}\n\n")
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        else:
            await _send(writer, 200, text)
    else:
        await _cut(writer, model, streamed=streamed)
        return False
    return True


async def _cut(writer: asyncio.StreamWriter, model: str, *, streamed: bool) -> None:
    """Begin an answer and close the connection before its end."""
    if streamed:
        _start_stream(writer)
        for chunk in _chunks(ModelResponse(text="the beginning\nof an answer"), {"model": model})[:2]:
            _write_chunk(writer, f"data: {json.dumps(chunk)}\n\n")
    else:
        writer.write(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10000\r\n\r\n{"id": "chat')
    await writer.drain()


def _error(message: str, kind: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


# --- HTTP -----------------------------------------------------------------------------------------------------------


async def _send(
    writer: asyncio.StreamWriter,
    status: int,
    body: dict[str, Any] | str,
    *,
    content_type: str = "application/json",
    extra: dict[str, str] | None = None,
) -> None:
    data = (body if isinstance(body, str) else json.dumps(body)).encode()
    headers = {"Content-Type": content_type, "Content-Length": str(len(data)), **(extra or {})}
    writer.write(_header(status, headers) + data)
    await writer.drain()


def _start_stream(writer: asyncio.StreamWriter) -> None:
    writer.write(_header(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"}))


def _write_chunk(writer: asyncio.StreamWriter, text: str) -> None:
    data = text.encode()
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


def _header(status: int, headers: dict[str, str]) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Other"
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


__all__ = [
    "LoopbackModelServer",
    "Misbehaviour",
    "Reply",
    "ScriptFunction",
    "ScriptedModel",
    "ServerReply",
    "ServerScript",
    "call",
    "decide",
    "say",
]
