"""OpenAI's chat completions as JSON, from the side of a server: a request that arrives, the answer that is sent."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

from pydantic import BaseModel, Field, JsonValue, ValidationError

from agentorchestra.core.budget import Usage
from agentorchestra.core.content import Trust
from agentorchestra.core.errors import HttpRequestError
from agentorchestra.core.messages import FinishReason, ModelResponse, ModelSettings, ToolCall, ToolSchema
from agentorchestra.core.settings import ReasoningEffort

Body = dict[str, Any]
"""The JSON body of a request or of an answer."""

_REFUSALS = {
    "stop": "words that end an answer are not sent on; look for them in the answer",
    "logprobs": "no probabilities are given",
    "logit_bias": "no biases are sent on",
    "functions": "the older form of tools is not read; use tools",
    "function_call": "the older form of tools is not read; use tool_choice",
    "audio": "answers are text",
}
"""Parameters that would change the answer and are not sent on. Others that are not known change nothing here."""

_REASONS: dict[FinishReason, str] = {"tool_calls": "tool_calls", "length": "length", "content_filter": "content_filter"}


class _Named(BaseModel):
    name: str = Field(min_length=1)
    description: str = ""
    parameters: dict[str, JsonValue] = {"type": "object", "properties": {}}


class _Tool(BaseModel):
    type: Literal["function"] = "function"
    function: _Named


class _Called(BaseModel):
    name: str
    arguments: str = "{}"


class _Call(BaseModel):
    id: str
    type: Literal["function"] = "function"
    function: _Called

    @property
    def call(self) -> ToolCall:
        """Return it in our form; arguments that are no JSON object stay text."""
        try:
            value = json.loads(self.function.arguments)
        except ValueError:
            value = None
        arguments = value if isinstance(value, dict) else self.function.arguments
        return ToolCall(id=self.id, name=self.function.name, arguments=arguments)


class ImageUrl(BaseModel):
    """A picture in a message, as it arrived: an address with the bytes in it."""

    url: str

    def data(self) -> tuple[str, bytes]:
        """Return its media type and bytes; HttpRequestError where the address leads elsewhere, or holds no bytes."""
        head, comma, text = self.url.partition(",")
        media_type, _, coding = head.removeprefix("data:").partition(";")
        if not (head.startswith("data:image/") and comma and coding == "base64"):
            raise HttpRequestError(
                f"the picture at {self.url[:60]!r} is not read; give its bytes: data:image/png;base64,..."
            )
        try:
            return media_type, base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise HttpRequestError(f"the picture {self.url[:40]!r}... is no base64; encode its bytes so") from None


class ContentPart(BaseModel):
    """A part of a message: a text or a picture."""

    type: Literal["text", "image_url"]
    text: str = ""
    image_url: ImageUrl | None = None


class Said(BaseModel):
    """A message as it arrived."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[ContentPart] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None

    @property
    def parts(self) -> list[ContentPart]:
        if isinstance(self.content, str):
            return [ContentPart(type="text", text=self.content)] if self.content else []
        return self.content or []

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(call.call for call in self.tool_calls or ())


class _Format(BaseModel):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: dict[str, JsonValue] | None = None


class _StreamOptions(BaseModel):
    include_usage: bool = False


class CompletionRequest(BaseModel):
    """The body of POST /chat/completions, as far as it is read."""

    model: str
    messages: list[Said] = Field(min_length=1)
    tools: list[_Tool] = []
    tool_choice: Literal["auto", "none", "required"] | _Tool | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    max_tokens: int | None = Field(default=None, gt=0)
    max_completion_tokens: int | None = Field(default=None, gt=0)
    reasoning_effort: ReasoningEffort | None = None
    response_format: _Format | None = None
    n: Literal[1] | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None

    @property
    def schemas(self) -> tuple[ToolSchema, ...]:
        """The tools it offers. Its author wrote the descriptions, which count as material from outside."""
        return tuple(ToolSchema(trust=Trust.UNTRUSTED, **tool.function.model_dump()) for tool in self.tools)

    def settings(self, base: ModelSettings) -> ModelSettings:
        """Return the settings with what it says itself; HttpRequestError for a misfit of tool choice or answer form."""
        own: dict[str, Any] = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "seed": self.seed,
            "max_tokens": self.max_completion_tokens or self.max_tokens,
            "reasoning_effort": self.reasoning_effort,
            "tool_choice": self._choice(),
            "output_schema": self._schema(),
        }
        return base.model_copy(update={name: value for name, value in own.items() if value is not None})

    def _choice(self) -> str | None:
        if self.tool_choice is None or isinstance(self.tool_choice, str):
            return self.tool_choice
        name, names = self.tool_choice.function.name, [tool.function.name for tool in self.tools]
        if name not in names:
            raise HttpRequestError(f"tool_choice {name!r} is none of the request's tools: {', '.join(names) or 'none'}")
        return name

    def _schema(self) -> dict[str, Any] | None:
        form = self.response_format
        if form is None or form.type == "text":
            return None
        if self.tools:
            raise HttpRequestError("response_format and tools exclude each other here; leave one of them out")
        if form.type == "json_object":
            return {"type": "object"}
        schema = (form.json_schema or {}).get("schema")
        if not isinstance(schema, dict):
            raise HttpRequestError('response_format has no schema; give {"json_schema": {"schema": {...}}}')
        return schema


def read_completion(body: object) -> CompletionRequest:
    """Return the body of a request, checked; raise HttpRequestError with what does not fit."""
    if isinstance(body, dict):
        for name, reason in _REFUSALS.items():
            if body.get(name):
                raise HttpRequestError(f"the parameter {name!r} is not taken: {reason}")
    try:
        return CompletionRequest.model_validate(body)
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the body"
        roles = f"; the roles: {', '.join(get_args(Said.model_fields['role'].annotation))}" if "role" in place else ""
        raise HttpRequestError(f"{place} = {str(first['input'])[:80]!r} does not fit: {first['msg']}{roles}") from None


def completion(response: ModelResponse, *, id_: str, model: str, created: int) -> Body:
    """Return the answer in one piece.

    Args:
        model: as it was asked for.
        created: seconds since 1970.
    """
    message: Body = {"role": "assistant", "content": response.text or None}
    if response.tool_calls:
        message["tool_calls"] = [call_body(call) for call in response.tool_calls]
    choice = {"index": 0, "message": message, "finish_reason": _reason(response), "logprobs": None}
    head = {"id": id_, "object": "chat.completion", "created": created, "model": model}
    return {**head, "choices": [choice], "usage": usage_body(response.usage)}


def completion_pieces(response: ModelResponse, *, id_: str, model: str, created: int, usage: bool) -> Iterator[Body]:
    """Yield the answer as a stream gives it: text, calls, the reason of its end; at last the usage, where wanted."""
    head = {"id": id_, "object": "chat.completion.chunk", "created": created, "model": model}

    def piece(delta: Body, reason: str | None = None) -> Body:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}]}

    yield piece({"role": "assistant", "content": response.text})
    for index, call in enumerate(response.tool_calls):
        yield piece({"tool_calls": [{"index": index, **call_body(call)}]})
    yield piece({}, _reason(response))
    if usage:
        yield {**head, "choices": [], "usage": usage_body(response.usage)}


def model_list(models: Sequence[str]) -> Body:
    """Return the answer to GET /models."""
    return {
        "object": "list",
        "data": [{"id": model, "object": "model", "created": 0, "owned_by": "agentorchestra"} for model in models],
    }


def error_body(message: str, type_: str) -> Body:
    """Return an error as this API words it."""
    return {"error": {"message": message, "type": type_, "param": None, "code": None}}


def call_body(call: ToolCall) -> Body:
    """Return a call as an answer has it."""
    arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments, ensure_ascii=False)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _reason(response: ModelResponse) -> str:
    return "tool_calls" if response.tool_calls else _REASONS.get(response.finish_reason, "stop")


def usage_body(used: Usage) -> Body:
    """Return the tokens of an answer as it counts them."""
    return {
        "prompt_tokens": used.input_tokens,
        "completion_tokens": used.output_tokens,
        "total_tokens": used.tokens,
        "prompt_tokens_details": {"cached_tokens": used.cache_read_tokens},
        "completion_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
    }
