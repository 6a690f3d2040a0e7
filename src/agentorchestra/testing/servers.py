"""Loopback servers that answer in place of a provider, in the format of OpenAI's chat completions."""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import re
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from agentorchestra.core.budget import Usage
from agentorchestra.core.ids import sha256_json
from agentorchestra.core.messages import ModelResponse
from agentorchestra.models.scripted import Reply, response_of
from agentorchestra.models.serving.completions import Body, call_body, completion, usage_body


@dataclass(frozen=True)
class ServerReply:
    """An answer of `LoopbackModelServer` to one request.

    Attributes:
        answer: the model's answer, as a script gives it.
        body: raw bytes in place of the answer.
        content_type: of the raw bytes.
        latency_s: seconds before the first byte.
        silent: read the request and never answer.
        cut_after: close the connection after so many pieces of a streamed answer, or half-way through a plain one.
        pause: awaited before each piece of a streamed answer, with the number of those that were sent.
        drop: close the connection instead of answering.
        usage: replaces the `usage` object of the answer; `{}` leaves it out.
        finish_reason: replaces the answer's; "" leaves it out.
    """

    answer: Reply = "ok"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"
    latency_s: float = 0.0
    silent: bool = False
    cut_after: int | None = None
    pause: Callable[[int], Awaitable[None]] | None = None
    drop: bool = False
    usage: Mapping[str, Any] | None = None
    finish_reason: str | None = None


def http_error(status: int, message: str = "", *, retry_after_s: float | None = None, code: str = "") -> ServerReply:
    """Return an error as OpenAI's API words it."""
    return LoopbackModelServer().error(status, message, retry_after_s=retry_after_s, code=code)


def html(text: str = "<html><body><h1>Sign in</h1></body></html>", *, status: int = 200) -> ServerReply:
    """Return a page where an answer was expected, as a proxy gives it."""
    return ServerReply(status=status, body=text.encode(), content_type="text/html; charset=utf-8")


def garbage(body: bytes = b'{"id": "x", "choices": [{"mess') -> ServerReply:
    """Return a body that is no JSON, with a status and a type that promise some."""
    return ServerReply(body=body)


def silence() -> ServerReply:
    """Return no answer at all."""
    return ServerReply(silent=True)


ServerScript = (
    Callable[[Body], "Reply | ServerReply | Awaitable[Reply | ServerReply]"] | Iterable["Reply | ServerReply"]
)
"""Answers by a function of the request, or in the order in which requests arrive."""


class LoopbackModelServer:
    """An OpenAI-compatible server on 127.0.0.1, scripted, and able to misbehave.

    It serves chat completions, `/embeddings` (a vector of the text's letters, whatever the script says) and
    `/audio/transcriptions` (the script's text); the bodies of the last two are marked by `endpoint`.

    A request without a step left is answered by HTTP 400 that says so.

    Args:
        script: a function of the request's JSON body, or replies in order: text, ToolCall, list of ToolCall,
            ModelResponse (its usage is sent), or ServerReply.
        key: refuse requests that do not carry this key.

    Attributes:
        requests: the JSON bodies, in order of arrival.
        headers: the headers of each, names in lower case.
        seen: a digest of each request's messages: a digest that occurs twice was asked twice.
        most_at_once: the greatest number of requests that were open at the same time.
    """

    _root = "/v1"

    def __init__(self, script: ServerScript = "ok", *, key: str | None = None) -> None:
        self.requests: list[Body] = []
        self.headers: list[dict[str, str]] = []
        self.seen: list[str] = []
        self.most_at_once = 0
        self._open = 0
        self._key = key
        self._function: Callable[[Body], Any] | None = None
        self._steps: Iterator[Any] = iter(())
        if isinstance(script, str):
            self._function = lambda body: script
        elif callable(script):
            self._function = script
        else:
            self._steps = iter(script)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def count(self) -> int:
        """Return how many requests arrived."""
        return len(self.requests)

    @property
    def base_url(self) -> str:
        """Return the address for `ModelProfile.base_url`; RuntimeError if the server is not running."""
        if self._server is None or not self._server.sockets:
            raise RuntimeError("the server is not running; use `async with LoopbackModelServer(...) as server:`")
        port = self._server.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}{self._root}"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self, port: int = 0) -> None:
        """Listen on a free port, or on the one given."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port)

    async def stop(self) -> None:
        """Close everything, open requests too; idempotent."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await server.wait_closed()

    # -- the format ------------------------------------------------------------------------------------------------

    def error(
        self, status: int, message: str = "", *, retry_after_s: float | None = None, code: str = ""
    ) -> ServerReply:
        """Return an error as this API words it."""
        headers = {} if retry_after_s is None else {"Retry-After": f"{retry_after_s:g}"}
        body = self._error_body(status, message or f"error {status}", code)
        return ServerReply(status=status, headers=headers, body=json.dumps(body).encode())

    def _error_body(self, status: int, message: str, code: str) -> Body:
        return {"error": {"message": message, "type": "error", "code": code or None}}

    def _serves(self, path: str) -> bool:
        return path.endswith(("/chat/completions", "/embeddings", "/audio/transcriptions"))

    def _key_of(self, headers: Mapping[str, str]) -> str:
        return headers.get("authorization", "").removeprefix("Bearer ")

    def _body(self, path: str, data: bytes) -> Body:
        if path.endswith("/audio/transcriptions"):  # a form with the recording in it
            model = re.search(rb'name="model"\r\n\r\n([^\r\n]*)', data)
            filename = re.search(rb'name="file"; filename="([^"]*)"', data)
            return {
                "endpoint": "audio/transcriptions",
                "model": model[1].decode() if model else "",
                "file": filename[1].decode() if filename else "",
                "size": len(data),
            }
        body: Body = json.loads(data)
        return {**body, "endpoint": "embeddings"} if path.endswith("/embeddings") else body

    def _conversation(self, body: Body) -> Any:
        return body.get("messages", [])

    def _event(self, piece: Body | bytes) -> bytes:
        return b"data: " + (piece if isinstance(piece, bytes) else json.dumps(piece).encode()) + b"\n\n"

    # -- connections ----------------------------------------------------------------------------------------------

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await _read(reader)) is not None:
                if not await self._respond(*request, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client went away, which is its right
        finally:
            # abort, not close: a client that reads no more would hold the connection open.
            writer.transport.abort()

    async def _respond(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        data: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        """Answer one request; False when the connection must end."""
        if method == "GET" and path.endswith("/models"):
            return await _send(writer, ServerReply(), b'{"object": "list", "data": []}')
        if method != "POST" or not self._serves(path):
            return await self._answer(self.error(404, f"no {method} {path} here"), {}, reader, writer)
        if self._key is not None and self._key_of(headers) != self._key:
            return await self._answer(
                self.error(401, "Incorrect API key provided", code="invalid_api_key"), {}, reader, writer
            )
        body: Body = self._body(path, data)
        self.requests.append(body)
        self.headers.append(headers)
        self.seen.append(sha256_json(self._conversation(body)))
        self._open += 1
        self.most_at_once = max(self.most_at_once, self._open)
        try:
            return await self._answer(await self._script_reply(body), body, reader, writer)
        finally:
            self._open -= 1

    async def _script_reply(self, body: Body) -> ServerReply:
        if self._function is not None:
            reply = self._function(body)
            if inspect.isawaitable(reply):
                reply = await reply
        else:
            reply = next(self._steps, None)
            if reply is None:
                reply = self.error(400, f"the script has no step left for request {self.count}")
        return reply if isinstance(reply, ServerReply) else ServerReply(answer=reply)

    async def _answer(
        self, reply: ServerReply, body: Body, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        if reply.silent:
            await reader.read()  # until the client gives up
            return False
        if reply.latency_s:
            await asyncio.sleep(reply.latency_s)
        if reply.drop:
            return False
        if reply.body is not None:
            return await _send(writer, reply, reply.body)
        endpoint = body.get("endpoint")
        if endpoint is not None:
            return await _send(writer, reply, json.dumps(_side_answer(endpoint, reply, body)).encode())
        response = _response(reply.answer)
        if body.get("stream"):
            return await self._stream(reply, response, body, writer)
        data = json.dumps(self._completion(reply, response, body)).encode()
        if reply.cut_after is None:
            return await _send(writer, reply, data)
        await _send(writer, reply, data[: len(data) // 2], length=len(data))
        return False

    # -- answers --------------------------------------------------------------------------------------------------

    def _completion(self, reply: ServerReply, response: ModelResponse, body: Body) -> Body:
        answer = completion(self._numbered(response), **self._head(body))
        (choice,) = answer["choices"]
        choice["finish_reason"] = _reason(reply, response)
        if response.thinking:
            choice["message"]["reasoning_content"] = response.thinking
        usage = _usage(reply, response, body)
        return answer | {"usage": usage} if usage else {name: answer[name] for name in answer if name != "usage"}

    async def _stream(
        self, reply: ServerReply, response: ModelResponse, body: Body, writer: asyncio.StreamWriter
    ) -> bool:
        head = {"Transfer-Encoding": "chunked", **reply.headers}
        await _send(writer, replace(reply, headers=head, content_type="text/event-stream"), None)
        count = 0
        async for piece in self._pieces(reply, response, body):
            if reply.cut_after is not None and count >= reply.cut_after:
                await writer.drain()
                return False
            if reply.pause is not None:
                await reply.pause(count)
            data = self._event(piece)
            writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            await writer.drain()
            count += 1
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def _pieces(self, reply: ServerReply, response: ModelResponse, body: Body) -> AsyncIterator[Body | bytes]:
        names = self._head(body)
        head = {"id": names.pop("id_"), "object": "chat.completion.chunk", **names}

        def chunk(delta: Body, reason: str | None = None) -> Body:
            return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

        yield chunk({"role": "assistant", "content": ""})
        if response.thinking:
            yield chunk({"reasoning_content": response.thinking})
        for word in response.text.splitlines(keepends=True):
            for start in range(0, len(word), 12):
                yield chunk({"content": word[start : start + 12]})
        for index, call in enumerate(map(call_body, self._numbered(response).tool_calls)):
            function = call["function"]
            yield chunk({"tool_calls": [{"index": index, **call, "function": {**function, "arguments": ""}}]})
            text = function["arguments"]
            for part in (text[: len(text) // 2], text[len(text) // 2 :]):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
        reason = _reason(reply, response)
        if reason:
            yield chunk({}, reason)
        usage = _usage(reply, response, body)
        if usage and (body.get("stream_options") or {}).get("include_usage"):
            yield {**head, "choices": [], "usage": usage}
        yield b"[DONE]"

    def _head(self, body: Body) -> Body:
        return {"id_": f"answer-{self.count}", "created": 1_700_000_000, "model": body.get("model", "")}

    def _numbered(self, response: ModelResponse) -> ModelResponse:
        """Return a response whose calls all have ids."""
        calls = [
            call.model_copy(update={"id": call.id or f"call_{self.count}_{index}"})
            for index, call in enumerate(response.tool_calls)
        ]
        return response.model_copy(update={"tool_calls": calls})


def _side_answer(endpoint: str, reply: ServerReply, body: Body) -> Body:
    """Return an embedding of each text, made of its letters, or the scripted words of a recording."""
    if endpoint == "audio/transcriptions":
        usage = {"type": "tokens", "input_tokens": 30, "output_tokens": 5, "total_tokens": 35}
        return {"text": _response(reply.answer).text, "usage": dict(reply.usage or usage)}
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    vectors = [[text.lower().count(letter) / max(1, len(text)) for letter in "aeiourstln"] for text in texts]
    tokens = sum(len(text) // 4 + 1 for text in texts)
    encodings = [
        base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
        if body.get("encoding_format") == "base64"
        else vector
        for vector in vectors
    ]
    return {
        "object": "list",
        "model": body.get("model", ""),
        "data": [{"object": "embedding", "index": n, "embedding": encoding} for n, encoding in enumerate(encodings)],
        "usage": dict(reply.usage or {"prompt_tokens": tokens, "total_tokens": tokens}),
    }


async def _read(reader: asyncio.StreamReader) -> tuple[str, str, dict[str, str], bytes] | None:
    """Read one request, None at the end of the connection."""
    line = await reader.readline()
    if not line.strip():
        return None
    method, path, _ = line.decode("latin-1").split(" ", 2)
    headers: dict[str, str] = {}
    while (line := await reader.readline()).strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    return method, path.partition("?")[0], headers, await reader.readexactly(int(headers.get("content-length", "0")))


async def _send(
    writer: asyncio.StreamWriter, reply: ServerReply, data: bytes | None, *, length: int | None = None
) -> bool:
    """Send data with a reply's head, None for the head only; `length` promises another length. The connection stays."""
    status = f"{reply.status} {'OK' if reply.status == 200 else 'Status'}"
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {reply.content_type}"]
    lines += [f"{name}: {value}" for name, value in reply.headers.items()]
    if data is not None:
        lines.append(f"Content-Length: {len(data) if length is None else length}")
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + (data or b""))
    await writer.drain()
    return True


def _response(answer: Reply) -> ModelResponse:
    if isinstance(answer, Exception):
        raise answer
    return response_of(answer) or ModelResponse(tool_calls=tuple(answer))  # type: ignore[arg-type]


def _reason(reply: ServerReply, response: ModelResponse) -> str | None:
    if reply.finish_reason is not None:
        return reply.finish_reason or None
    if "finish_reason" in response.model_fields_set:
        return response.finish_reason
    return "tool_calls" if response.tool_calls else "stop"


def _usage(reply: ServerReply, response: ModelResponse, body: Body) -> Body:
    if reply.usage is not None:
        return dict(reply.usage)
    usage = response.usage
    if "usage" not in response.model_fields_set:
        read = len(json.dumps([body.get("messages"), body.get("tools")])) // 4
        chars = len(response.text) + sum(len(str(call.arguments)) for call in response.tool_calls)
        usage = Usage(input_tokens=max(1, read), output_tokens=max(1, chars // 4))
    tokens = usage_body(usage)
    if usage.cache_write_tokens:
        tokens["prompt_tokens_details"]["cache_write_tokens"] = usage.cache_write_tokens
    return tokens
