"""Loopback servers in the formats of Anthropic and Google, for the official SDK clients."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from agentorchestra.core.budget import Usage
from agentorchestra.core.messages import ModelResponse
from agentorchestra.testing import Body, LoopbackModelServer, ServerReply

_STATUS = {
    400: ("invalid_request_error", "INVALID_ARGUMENT"),
    401: ("authentication_error", "UNAUTHENTICATED"),
    403: ("permission_error", "PERMISSION_DENIED"),
    404: ("not_found_error", "NOT_FOUND"),
    429: ("rate_limit_error", "RESOURCE_EXHAUSTED"),
    500: ("api_error", "INTERNAL"),
    503: ("overloaded_error", "UNAVAILABLE"),
    529: ("overloaded_error", "UNAVAILABLE"),
}


def _counted(reply: ServerReply, response: ModelResponse, body: Body) -> Usage:
    """Return the usage the script gives, else one from the sizes."""
    if "usage" in response.model_fields_set:
        return response.usage
    written = len(response.text) + sum(len(str(one.arguments)) for one in response.tool_calls)
    return Usage(input_tokens=max(1, len(json.dumps(body)) // 4), output_tokens=max(1, written // 4))


class LoopbackAnthropicServer(LoopbackModelServer):
    """The Messages API on 127.0.0.1, scripted like LoopbackModelServer. `base_url` is for a profile `anthropic:...`."""

    _root = ""

    def _error_body(self, status: int, message: str, code: str) -> Body:
        kind = code or _STATUS.get(status, ("api_error", ""))[0]
        return {"type": "error", "error": {"type": kind, "message": message}}

    def _serves(self, path: str) -> bool:
        return path.endswith("/v1/messages")

    def _key_of(self, headers: Mapping[str, str]) -> str:
        return headers.get("x-api-key") or super()._key_of(headers)

    def _event(self, piece: Body | bytes) -> bytes:
        assert isinstance(piece, dict)
        return f"event: {piece['type']}\ndata: {json.dumps(piece)}\n\n".encode()

    def _completion(self, reply: ServerReply, response: ModelResponse, body: Body) -> Body:
        return {
            **self._message(body),
            "content": self._content(response),
            "stop_reason": self._reason(reply, response),
            "usage": self._tokens(reply, response, body),
        }

    def _message(self, body: Body) -> Body:
        return {
            "id": f"msg_{self.count}",
            "type": "message",
            "role": "assistant",
            "model": body.get("model", ""),
            "stop_sequence": None,
        }

    def _content(self, response: ModelResponse) -> list[Body]:
        blocks: list[Body] = []
        if response.thinking:
            blocks.append({"type": "thinking", "thinking": response.thinking, "signature": "c2lnbmF0dXJl"})
        if response.text:
            blocks.append({"type": "text", "text": response.text})
        for index, one in enumerate(response.tool_calls):
            ident = one.id or f"toolu_{self.count}_{index}"
            blocks.append({"type": "tool_use", "id": ident, "name": one.name, "input": one.arguments})
        return blocks

    def _reason(self, reply: ServerReply, response: ModelResponse) -> str:
        if reply.finish_reason is not None:
            return reply.finish_reason
        if response.finish_reason == "length":
            return "max_tokens"
        if response.finish_reason == "content_filter":
            return "refusal"
        return "tool_use" if response.tool_calls else "end_turn"

    def _tokens(self, reply: ServerReply, response: ModelResponse, body: Body) -> Body:
        if reply.usage is not None:
            return dict(reply.usage)
        usage = _counted(reply, response, body)
        return {
            # This API counts what comes from the cache, or goes into it, apart.
            "input_tokens": usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens,
            "cache_read_input_tokens": usage.cache_read_tokens,
            "cache_creation_input_tokens": usage.cache_write_tokens,
            "output_tokens": usage.output_tokens,
        }

    async def _pieces(self, reply: ServerReply, response: ModelResponse, body: Body) -> AsyncIterator[Body | bytes]:
        usage = self._tokens(reply, response, body)
        start = {**self._message(body), "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
        yield {"type": "message_start", "message": start}
        for index, block in enumerate(self._content(response)):
            for piece in _block_pieces(index, block):
                yield piece
        yield {
            "type": "message_delta",
            "delta": {"stop_reason": self._reason(reply, response), "stop_sequence": None},
            "usage": {"output_tokens": usage.get("output_tokens", 0)},
        }
        yield {"type": "message_stop"}


def _block_pieces(index: int, block: Body) -> list[Body]:
    kind = block["type"]
    if kind == "text":
        empty: Body = {"text": ""}
        deltas = [{"type": "text_delta", "text": part} for part in _parts(block["text"])]
    elif kind == "thinking":
        empty = {"thinking": "", "signature": ""}
        deltas = [{"type": "thinking_delta", "thinking": part} for part in _parts(block["thinking"])]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    else:
        empty = {"input": {}}
        given = block["input"]
        text = given if isinstance(given, str) else json.dumps(given)
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in _parts(text)]
    pieces: list[Body] = [{"type": "content_block_start", "index": index, "content_block": {**block, **empty}}]
    pieces += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    return [*pieces, {"type": "content_block_stop", "index": index}]


def _parts(text: str) -> list[str]:
    return [text[start : start + 12] for start in range(0, len(text), 12)]


class LoopbackGoogleServer(LoopbackModelServer):
    """The Gemini API on 127.0.0.1, scripted like LoopbackModelServer. `base_url` is for a profile `google:...`."""

    _root = ""

    def _error_body(self, status: int, message: str, code: str) -> Body:
        name = code or _STATUS.get(status, ("", "UNKNOWN"))[1]
        return {"error": {"code": status, "message": message, "status": name}}

    def _serves(self, path: str) -> bool:
        return path.endswith((":generateContent", ":streamGenerateContent"))

    def _key_of(self, headers: Mapping[str, str]) -> str:
        return headers.get("x-goog-api-key", "")

    def _body(self, path: str, data: bytes) -> Body:
        name = path.rpartition("/")[2].partition(":")[0]
        return {**json.loads(data), "model": name, "stream": path.endswith(":streamGenerateContent")}

    def _conversation(self, body: Body) -> Any:
        return body.get("contents", [])

    def _completion(self, reply: ServerReply, response: ModelResponse, body: Body) -> Body:
        return self._chunk(reply, response, body, self._parts_of(response), last=True)

    def _chunk(self, reply: ServerReply, response: ModelResponse, body: Body, parts: list[Body], *, last: bool) -> Body:
        candidate: Body = {"content": {"role": "model", "parts": parts}, "index": 0}
        if last:
            candidate["finishReason"] = self._reason(reply, response)
        chunk: Body = {"candidates": [candidate], "modelVersion": body["model"], "responseId": f"answer-{self.count}"}
        return chunk | ({"usageMetadata": self._tokens(reply, response, body)} if last else {})

    def _parts_of(self, response: ModelResponse) -> list[Body]:
        parts: list[Body] = []
        if response.thinking:
            parts.append({"text": response.thinking, "thought": True})
        if response.text:
            parts.append({"text": response.text})
        for one in response.tool_calls:
            call: Body = {"name": one.name, "args": one.arguments}
            parts.append({"functionCall": {**call, "id": one.id} if one.id else call})
        return parts

    def _reason(self, reply: ServerReply, response: ModelResponse) -> str:
        if reply.finish_reason is not None:
            return reply.finish_reason
        return {"length": "MAX_TOKENS", "content_filter": "SAFETY"}.get(response.finish_reason, "STOP")

    def _tokens(self, reply: ServerReply, response: ModelResponse, body: Body) -> Body:
        if reply.usage is not None:
            return dict(reply.usage)
        usage = _counted(reply, response, body)
        return {
            "promptTokenCount": usage.input_tokens,
            "cachedContentTokenCount": usage.cache_read_tokens,
            "candidatesTokenCount": usage.output_tokens - usage.reasoning_tokens,
            "thoughtsTokenCount": usage.reasoning_tokens,
            "totalTokenCount": usage.input_tokens + usage.output_tokens,
        }

    async def _pieces(self, reply: ServerReply, response: ModelResponse, body: Body) -> AsyncIterator[Body | bytes]:
        pieces: list[Body] = []
        for part in self._parts_of(response):
            text = part.get("text")
            pieces += [{**part, "text": one} for one in _parts(text)] if isinstance(text, str) else [part]
        for index, piece in enumerate(pieces):
            yield self._chunk(reply, response, body, [piece], last=index == len(pieces) - 1)
        if not pieces:
            yield self._chunk(reply, response, body, [], last=True)
