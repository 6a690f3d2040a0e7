"""Our messages in pydantic-ai's, and back. The only module that imports a provider's library; import it lazily.

Requests go past the SDK's walk over its own types, which is most of a long one's time, and connections use aiohttp.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

import httpx2
from openai import AsyncOpenAI, AsyncStream, DefaultAioHttpClient, NotGiven, Omit, not_given
from openai.resources.chat import AsyncChat
from openai.resources.chat.completions import AsyncCompletions
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import JsonValue
from pydantic_ai import messages as theirs
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.profiles import merge_profile
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers import Provider, infer_provider_class
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings as TheirSettings
from pydantic_ai.tools import ToolDefinition

from agentorchestra.core.budget import Usage
from agentorchestra.core.content import Block, MediaBlock, Source, TextBlock
from agentorchestra.core.errors import ModelRequestError
from agentorchestra.core.ids import canonical_json
from agentorchestra.core.messages import (
    FinishReason,
    Message,
    ModelRequest,
    ModelResponse,
    Thought,
    ToolCall,
    ToolSchema,
)
from agentorchestra.core.reply_text import whole_characters
from agentorchestra.models.client import Media, OnDelta
from agentorchestra.models.endpoint import Endpoint
from agentorchestra.models.failures import OPENAI_ADDRESS, Unreadable
from agentorchestra.models.limits import LEAST, UNKNOWN
from agentorchestra.models.media import kind_of, plain_type, takes
from agentorchestra.models.prices import estimate_input_tokens, estimate_text_tokens, is_loopback
from agentorchestra.models.providers import FAMILIES, PROVIDERS
from agentorchestra.models.render import render_block, render_blocks, render_message
from agentorchestra.models.schemas import strict_schema

if TYPE_CHECKING:
    from pydantic_ai.embeddings import EmbeddingModel


CONNECT_TIMEOUT_S = 15.0
_KEY_CHARS = 32
_LEAST_THOUGHT = 1_024  # Anthropic takes no smaller number
_NOT_WHILE_THINKING = ("tool_choice", "temperature", "top_p")
_CACHED = {"anthropic_cache_instructions": True, "anthropic_cache_tool_definitions": True}

_FINISH: dict[str | None, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content_filter",
    "tool_call": "tool_calls",
    "error": "error",
}


# --- OpenAI's format -------------------------------------------------------------------------------------------------


class _PlainCompletions(AsyncCompletions):
    """Hands requests over unchanged: the SDK's walk against its types is most of a long one's time."""

    async def create(  # type: ignore[override]
        self,
        *,
        extra_headers: Any = None,
        extra_query: Any = None,
        extra_body: Any = None,
        timeout: Any = not_given,
        stream: bool = False,
        **fields: Any,
    ) -> Any:
        body = {name: value for name, value in fields.items() if not isinstance(value, Omit | NotGiven)}
        shape = body.get("response_format")
        if isinstance(shape, dict) and "json_schema" in shape:  # the library adds empty lists of properties again
            output = shape["json_schema"]
            body["response_format"] = {**shape, "json_schema": {**output, "schema": strict_schema(output["schema"])}}
        request = {"headers": extra_headers, "params": extra_query, "extra_json": extra_body}
        options: Any = {name: value for name, value in request.items() if value is not None}
        if not isinstance(timeout, NotGiven):
            options["timeout"] = timeout
        answer = await self._client.post(
            "/chat/completions",
            body={**body, "stream": stream},
            options=options,
            cast_to=ChatCompletion,
            stream=stream,
            stream_cls=AsyncStream[ChatCompletionChunk],
        )
        return await _check(answer)


async def _check(answer: Any) -> Any:
    """Return the answer if it can be one; the library takes whatever a server says and fails later."""
    if isinstance(answer, AsyncStream):
        kind = answer.response.headers.get("content-type", "").partition(";")[0].strip()
        if kind in ("text/html", "application/json"):
            await answer.close()
            raise Unreadable(f"{kind} in place of a stream of events; stream = false in its profile asks for none")
    elif isinstance(answer, str):
        raise Unreadable(f"no JSON but {answer[:200]!r}" if answer else "nothing at all")
    elif not getattr(answer, "choices", None):
        error = (getattr(answer, "model_extra", None) or {}).get("error")
        raise Unreadable(error or "it holds no choices")
    return answer


class _PlainChat(AsyncChat):
    @cached_property
    def completions(self) -> AsyncCompletions:
        return _PlainCompletions(self._client)


class PlainOpenAI(AsyncOpenAI):
    """The SDK's client with cheaper `chat.completions.create`."""

    @cached_property
    def chat(self) -> AsyncChat:
        return _PlainChat(self)


class _Compatible(OpenAIChatModel):
    """The library's model of OpenAI's format, which sends videos too."""

    _unsupported_file_inputs = frozenset()

    async def _map_binary_content_item(self, item: theirs.BinaryContent) -> Any:
        """Videos as the servers that take them have them (vLLM, OpenRouter): OpenAI's own have no place for one."""
        if item.is_video:
            return {"type": "video_url", "video_url": {"url": item.data_uri}}
        return await super()._map_binary_content_item(item)


def _definition(tool: ToolSchema) -> ToolDefinition:
    """Return the definition of a tool; strict mode is off because it changes what a schema means."""
    return ToolDefinition(
        name=tool.name, description=tool.description, parameters_json_schema=tool.parameters, strict=False
    )


# --- the wire -------------------------------------------------------------------------------------------------------


class Wire:
    """A model of pydantic-ai, asked once per `ask`."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._sent = partial(takes, provider=endpoint.provider, profile=endpoint.profile)
        self._name = endpoint.profile.model

        self._google = endpoint.provider.startswith("google")
        self._anthropic = endpoint.provider == "anthropic"
        # These say beside a result that it is an error; of others the library would make JSON of it.
        self._says_errors = self._google or endpoint.provider in ("anthropic", "bedrock")
        self._keyed = _is_openai(endpoint)
        self._endpoint = endpoint
        self._client: PlainOpenAI | None = None
        self._embedder: EmbeddingModel | None = None
        self._further = contextlib.AsyncExitStack()
        self._http: httpx2.AsyncClient | None = None
        self._model = self._build(endpoint)

    async def open(self) -> None:
        await self._model.__aenter__()

    async def aclose(self) -> None:
        await self._model.__aexit__(None, None, None)
        await self._further.aclose()
        if self._http is not None:
            await self._http.aclose()

    async def ask(
        self, request: ModelRequest, *, media: Media, on_delta: OnDelta | None, on_piece: Callable[[], None]
    ) -> ModelResponse:
        """Ask the model once; `on_piece` is told of each streamed piece. Raise whatever the library raises."""
        cache_marks = self._anthropic and request.settings.cached and _goes_on(request)
        messages = await to_theirs(
            request.messages,
            media=media,
            is_sent=self._sent,
            provider=self._model.system,
            says_errors=self._says_errors,
            cache_marks=cache_marks,
        )
        parameters = ModelRequestParameters(function_tools=[_definition(tool) for tool in request.tools])
        if request.settings.output_schema is not None and not request.tools:
            parameters = self._output_parameters(
                parameters, request.settings.output_schema, request.settings.output_mode
            )
        settings = self._settings(request)
        if self._google:
            settings["timeout"] = request.settings.timeout_s + 5.0  # the only form its client takes
        if self._http is None:
            # Our own client has it already, and would be copied for every request.
            settings["max_retries"] = 0
        options: Any = {"model_settings": settings, "model_request_parameters": parameters}
        if not (request.settings.stream and self._endpoint.profile.stream):
            answer = await model_request(self._model, messages, **options)
            return to_ours(answer, request, name=self._name)
        async with model_request_stream(self._model, messages, **options) as stream:
            on_piece()
            calls: dict[int, str] = {}
            async for event in stream:
                on_piece()
                if on_delta is not None:
                    _tell(event, calls, on_delta)
            return to_ours(stream.get(), request, name=self._name)

    def _settings(self, request: ModelRequest) -> TheirSettings:
        options = request.settings
        # The client counts the silence; this limit only must not come first.
        limit: Any = httpx2.Timeout(options.timeout_s + 5.0, connect=min(CONNECT_TIMEOUT_S, options.timeout_s))
        settings: dict[str, Any] = {"max_tokens": options.max_tokens or UNKNOWN, "timeout": limit}
        choice = options.tool_choice if request.tools else "auto"
        if choice in ("required", "none"):
            settings["tool_choice"] = choice
        elif choice != "auto" and self._endpoint.profile.may_force:
            settings["tool_choice"] = [choice]  # asked for in words too: a fallback may not take it
        sampling = {"temperature": options.temperature, "top_p": options.top_p, "seed": options.seed}
        settings |= {name: value for name, value in sampling.items() if value is not None}
        more: dict[str, Any] = {}
        if self._anthropic and options.cached:
            # The front of the prompt is the same in every step: this provider serves it from its cache if told to.
            more |= _CACHED
        elif self._keyed and options.cached and request.chain:
            # Requests of one conversation go to the machine that has its front in its cache.
            more["openai_prompt_cache_key"] = request.chain[min(1, len(request.chain) - 1)][:_KEY_CHARS]
        if options.thinking_tokens is not None and self._anthropic:
            # They are part of the answer, and need room for the words after them.
            room = min(options.thinking_tokens, (options.max_tokens or UNKNOWN) - LEAST)
            if room >= _LEAST_THOUGHT:
                more["anthropic_thinking"] = {"type": "enabled", "budget_tokens": room}
        elif options.thinking_tokens is not None and self._google:
            more["google_thinking_config"] = {"thinking_budget": options.thinking_tokens}
        elif options.reasoning_effort is not None and isinstance(self._model, OpenAIChatModel):
            more["openai_reasoning_effort"] = options.reasoning_effort
        elif options.reasoning_effort is not None:
            more["thinking"] = False if options.reasoning_effort == "none" else options.reasoning_effort
        if self._anthropic and (more.get("anthropic_thinking") or more.get("thinking")):
            return cast("TheirSettings", {k: v for k, v in settings.items() if k not in _NOT_WHILE_THINKING} | more)
        return cast("TheirSettings", {**settings, **more})

    def _output_parameters(
        self, parameters: ModelRequestParameters, schema: dict[str, Any], mode: str
    ) -> ModelRequestParameters:
        """Ask for JSON: by the provider's parameter unless that would change what the schema means."""
        native = mode == "auto" and bool(self._model.profile.get("supports_json_schema_output"))
        strict = None if self._anthropic else False
        if native and self._anthropic:
            # Its structured output is always strict, where maps of free names are emptied.
            transformer = self._model.profile.get("json_schema_transformer")
            native = transformer is None or _keeps_meaning(transformer, schema)
        if native:
            schema = strict_schema(schema)
        output = OutputObjectDefinition(json_schema=schema, name="answer", strict=strict if native else None)
        return dataclasses.replace(parameters, output_mode="native" if native else "prompted", output_object=output)

    async def embed(self, texts: Sequence[str]) -> tuple[list[list[float]], Usage]:
        """Return a vector for each text, and what it cost; raise whatever the library raises."""
        if self._embedder is None:
            self._embedder = await self._make_embedder()
        result = await self._embedder.embed(list(texts), input_type="document")
        vectors = [[float(number) for number in vector] for vector in result.embeddings]
        if len(vectors) != len(texts) or len({len(vector) for vector in vectors}) > 1:
            raise Unreadable(f"{len(vectors)} vectors for {len(texts)} texts, or vectors of different lengths")
        tokens = result.usage.input_tokens or sum(estimate_text_tokens(text) for text in texts)
        return vectors, Usage(requests=1, input_tokens=tokens)

    async def _make_embedder(self) -> EmbeddingModel:
        from pydantic_ai.embeddings import infer_embedding_model
        from pydantic_ai.embeddings.openai import OpenAIEmbeddingModel

        if self._client is not None:
            return OpenAIEmbeddingModel(self._endpoint.model, provider=OpenAIProvider(openai_client=self._client))
        provider = await self._further.enter_async_context(_provider(self._endpoint.provider, self._endpoint))
        model_name = f"{self._endpoint.provider}:{self._endpoint.model}"
        return infer_embedding_model(model_name, provider_factory=lambda name: provider)

    async def transcribe(self, data: bytes, name: str, media_type: str) -> tuple[str, Usage, float | None]:
        """Return what a recording says, its usage and the seconds counted; raise whatever the SDK raises."""
        if self._client is None:
            raise ModelRequestError(
                f"{self._name} transcribes nothing here: only OpenAI and servers with its API do; name such a model "
                "with transcription_model in agentorchestra.toml"
            )
        transcript = await self._client.audio.transcriptions.create(
            model=self._endpoint.model, file=(name, data, media_type), response_format="json"
        )
        text = getattr(transcript, "text", None)
        if not isinstance(text, str):
            raise Unreadable(f"no transcript but {str(transcript)[:200]!r}")
        counts = getattr(transcript, "usage", None)
        seconds = getattr(counts, "seconds", None)
        usage = Usage(
            requests=1,
            input_tokens=int(getattr(counts, "input_tokens", 0) or 0),
            output_tokens=int(getattr(counts, "output_tokens", 0) or 0),
        )
        return text, usage, None if seconds is None else float(seconds)

    def _build(self, endpoint: Endpoint) -> Model:
        entry = PROVIDERS.get(endpoint.provider)
        is_openai = endpoint.provider in ("openai", "openai-chat")
        if is_openai or (endpoint.address is not None and (entry is None or entry.compatible)):
            return self._compatible(endpoint)
        return infer_model(f"{endpoint.provider}:{endpoint.model}", lambda name: _provider(name, endpoint))

    def _compatible(self, endpoint: Endpoint) -> Model:
        """Return an OpenAI-compatible server, OpenAI's own included."""
        address = endpoint.address or OPENAI_ADDRESS
        self._http = DefaultAioHttpClient(
            # No proxy stands between this process and its own machine, whatever the environment says.
            trust_env=not is_loopback(address),
            # Small servers close an idle connection after five seconds; a request sent just then would be lost.
            limits=httpx2.Limits(
                max_connections=1_000,
                max_keepalive_connections=100,
                keepalive_expiry=30.0 if endpoint.address is None else 3.0,
            ),
        )
        client = PlainOpenAI(base_url=address, api_key=endpoint.key or "no-key", http_client=self._http, max_retries=0)
        self._client = client
        profile = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True)
        if endpoint.address is not None:
            # Set for OpenAI's account, and no other server's business.
            client.organization = client.project = None
            if not _is_openai(endpoint):
                profile["openai_chat_supports_max_completion_tokens"] = False
        provider = OpenAIProvider(openai_client=client)
        return _Compatible(
            endpoint.model, provider=provider, profile=merge_profile(provider.model_profile(endpoint.model), profile)
        )


def _is_openai(endpoint: Endpoint) -> bool:
    """Return True if what is asked is OpenAI's own, or bears the name of one of its models: a proxy hands that on."""
    if endpoint.provider not in ("", "openai", "openai-chat"):
        return False
    return endpoint.address is None or endpoint.model.startswith(tuple(FAMILIES))


def _goes_on(request: ModelRequest) -> bool:
    """Return True if a conversation will be sent again, longer: a single question is not worth a place in a cache."""
    return bool(request.tools) or any(message.role == "assistant" for message in request.messages)


def _keeps_meaning(transformer: Any, schema: dict[str, Any]) -> bool:
    """Return True if strict output keeps a schema's meaning: it refuses recursion and empties free maps."""
    if _holds_map(schema):
        return False
    try:
        transformer(schema, strict=True).walk()
    except UserError:
        return False
    return True


def _holds_map(schema: Any) -> bool:
    if isinstance(schema, list):
        return any(map(_holds_map, schema))
    if not isinstance(schema, dict):
        return False
    free = schema.get("additionalProperties", "properties" not in schema)
    if schema.get("type") == "object" and free is not False:
        return True
    return "patternProperties" in schema or any(map(_holds_map, schema.values()))


def _provider(name: str, endpoint: Endpoint) -> Provider[Any]:
    """Return a provider with the key that was looked up, not the one in the process's environment."""
    options: dict[str, Any] = {}
    if endpoint.key is not None:
        options["api_key"] = endpoint.key
    if endpoint.address is not None:
        options["base_url"] = endpoint.address
        options.setdefault("api_key", "no-key")  # else the library sends the environment's
    return infer_provider_class(name)(**options)


def _tell(event: Any, calls: dict[int, str], on_delta: OnDelta) -> None:
    """Hand on the piece of an event; `calls` has the names of the calls that began, by their part's index."""
    match event:
        case theirs.PartStartEvent(part=theirs.TextPart(content=text)) if text:
            on_delta(text)
        case theirs.PartDeltaEvent(delta=theirs.TextPartDelta(content_delta=text)) if text:
            on_delta(text)
        case theirs.PartStartEvent(part=theirs.ThinkingPart(content=text)) if text:
            on_delta(text, "thought")
        case theirs.PartDeltaEvent(delta=theirs.ThinkingPartDelta(content_delta=str(text))) if text:
            on_delta(text, "thought")
        case theirs.PartStartEvent(part=theirs.ToolCallPart(tool_name=name, args=args)):
            calls[event.index] = name
            if args:
                on_delta(args if isinstance(args, str) else canonical_json(args), "arguments", name)
        case theirs.PartDeltaEvent(delta=theirs.ToolCallPartDelta(tool_name_delta=more, args_delta=args)):
            calls[event.index] = name = calls.get(event.index, "") + (more or "")
            if args:
                on_delta(args if isinstance(args, str) else canonical_json(args), "arguments", name)


# --- ours to theirs -------------------------------------------------------------------------------------------------


async def to_theirs(
    messages: Sequence[Message],
    *,
    media: Media,
    is_sent: Callable[[str], bool],
    provider: str,
    says_errors: bool,
    cache_marks: bool = False,
) -> list[theirs.ModelMessage]:
    """Return our messages as pydantic-ai's. Text is written by render.py, as for every model.

    A message of the user without a word is left out: providers refuse it. Where only the system speaks, its words are
    sent as the user's. `says_errors`: the format says of a result that it is an error, else its text does. `marked`:
    the end of what the next request repeats is marked, for providers that cache up to such marks.
    """
    messages = _with_words(messages)
    # The last message of the user changes with every step: what stands before it is repeated.
    passing = len(messages) - 1 if messages and messages[-1].role == "user" else len(messages)
    result: list[theirs.ModelMessage] = []
    parts: list[theirs.ModelRequestPart] = []
    tool_media: list[theirs.UserContent] = []  # media that tools returned: they follow the tools' texts
    names: dict[str, str] = {}

    def end_results() -> None:
        if tool_media:
            parts.append(theirs.UserPromptPart(content=list(tool_media)))
            tool_media.clear()

    def end_request() -> None:
        end_results()
        if parts:
            result.append(theirs.ModelRequest(parts=list(parts)))
            parts.clear()

    for index, message in enumerate(messages):
        if cache_marks and index == passing > 0 and messages[index - 1].role != "system":
            end_results()
            parts.append(theirs.UserPromptPart(content=[theirs.CachePoint()]))
        if message.role == "assistant":
            end_request()
            answer = _answer(message, provider)
            names.update({call.id: call.name for call in message.tool_calls})
            if answer.parts:
                result.append(answer)
        elif message.role == "tool":
            call_id = message.tool_call_id or ""
            name = message.name or names.get(call_id, "tool")
            in_words = message.is_error and not says_errors
            parts.append(
                theirs.ToolReturnPart(
                    tool_name=name,
                    content=f"Error: {render_message(message)}" if in_words else render_message(message),
                    tool_call_id=call_id,
                    outcome="failed" if message.is_error and says_errors else "success",
                )
            )
            for block in message.content:
                if isinstance(block, MediaBlock) and is_sent(block.media_type):
                    tool_media.extend([render_block(block), await _binary(block, media)])
        elif message.role == "system":
            end_results()
            parts.append(theirs.SystemPromptPart(content=render_message(message)))
        else:
            end_results()
            parts.append(theirs.UserPromptPart(content=await _user_content(message, media, is_sent)))
    if cache_marks and passing == len(messages) and messages[-1].role == "tool":
        end_results()
        parts.append(theirs.UserPromptPart(content=[theirs.CachePoint()]))
    end_request()
    return result


def _with_words(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the conversation as providers take it, see `to_theirs`."""
    remaining = [message for message in messages if message.role != "user" or message.media or message.text.strip()]
    if not remaining:
        return messages
    if all(message.role == "system" for message in remaining):
        remaining[-1] = remaining[-1].model_copy(update={"role": "user"})
    return remaining if len(remaining) < len(messages) or remaining[-1] is not messages[-1] else messages


def _answer(message: Message, provider: str) -> theirs.ModelResponse:
    parts: list[theirs.ModelResponsePart] = [
        theirs.ThinkingPart(
            content=thought.text, signature=thought.signature, id=thought.id, provider_name=thought.provider
        )
        for thought in message.thoughts
        if thought.provider == provider
    ]
    text = render_message(message)
    if text:
        parts.append(theirs.TextPart(content=text))
    for call in message.tool_calls:
        # Arguments that were no object go back as an object: servers refuse a conversation that holds any other.
        parts.append(theirs.ToolCallPart(tool_name=call.name, args=call.arguments, tool_call_id=call.id))
    return theirs.ModelResponse(parts=parts)


async def _user_content(
    message: Message, media: Media, is_sent: Callable[[str], bool]
) -> str | list[theirs.UserContent]:
    if not any(is_sent(block.media_type) for block in message.media):
        return render_message(message)
    content: list[theirs.UserContent] = []
    before: list[Block] = []
    for block in message.content:
        before.append(block)
        if isinstance(block, MediaBlock) and is_sent(block.media_type):
            content.extend([render_blocks(before), await _binary(block, media)])
            before = []
    if before:
        content.append(render_blocks(before))
    return content


async def _binary(block: MediaBlock, media: Media) -> theirs.UserContent:
    data = await media(block.sha256)
    if kind_of(block.media_type) == "text":
        # Like all text: from outside, it stands between its marks.
        text = data.decode("utf-8", "replace")
        return render_block(TextBlock(text=text, source=block.source or Source(kind="file"), trust=block.trust))
    return theirs.BinaryContent(data=data, media_type=plain_type(block.media_type))


# --- theirs to ours -------------------------------------------------------------------------------------------------


def to_ours(answer: theirs.ModelResponse, request: ModelRequest, *, name: str) -> ModelResponse:
    text: list[str] = []
    thinking: list[str] = []
    thoughts: list[Thought] = []
    calls: list[ToolCall] = []
    for part in answer.parts:
        if isinstance(part, theirs.TextPart):
            text.append(part.content)
        elif isinstance(part, theirs.ThinkingPart):
            thinking.append(part.content)
            if part.signature and part.provider_name:
                thoughts.append(
                    Thought(
                        text=whole_characters(part.content),
                        signature=part.signature,
                        id=part.id,
                        provider=part.provider_name,
                    )
                )
        elif isinstance(part, theirs.ToolCallPart):
            calls.append(
                ToolCall(
                    id=whole_characters(part.tool_call_id),
                    name=whole_characters(part.tool_name),
                    arguments=_arguments(part.args),
                )
            )
    last = answer.parts[-1] if answer.parts else None
    if answer.finish_reason == "length" and isinstance(last, theirs.ToolCallPart) and isinstance(last.args, dict):
        # An object as far as it came: nothing says that it is whole.
        calls[-1] = calls[-1].model_copy(update={"arguments": canonical_json(calls[-1].arguments)})
    refusal = (answer.provider_details or {}).get("refusal")
    reason = _FINISH.get(answer.finish_reason, "other")
    if isinstance(refusal, str) and not text:
        text.append(refusal)
        reason = "content_filter"
    content = whole_characters("".join(text))
    return ModelResponse(
        text=content,
        thinking=whole_characters("\n".join(thinking)),
        thoughts=tuple(thoughts),
        tool_calls=tuple(calls),
        finish_reason="tool_calls" if calls and reason == "stop" else reason,
        model=name,
        usage=_usage(answer, request, content, calls),
    )


def _arguments(args: Any) -> dict[str, JsonValue] | str:
    if args is None or args == "":
        return {}
    raw = args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)
    try:
        value = json.loads(raw, parse_constant=_refuse, strict=False)  # models write new lines into strings
        text = canonical_json(value)
    except ValueError:  # no JSON, or a number that JSON does not have
        return whole_characters(raw)
    if not isinstance(value, dict):
        return whole_characters(raw)
    clean = whole_characters(text)
    arguments: dict[str, JsonValue] = value if clean == text else json.loads(clean)
    return arguments


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _usage(answer: theirs.ModelResponse, request: ModelRequest, text: str, calls: list[ToolCall]) -> Usage:
    """Return tokens by class; estimated for servers that do not count, so that budgets hold there too."""
    counts = answer.usage
    if not counts.input_tokens and not counts.output_tokens:
        output = text + "".join(call.name + str(call.arguments) for call in calls)
        return Usage(
            requests=1,
            input_tokens=estimate_input_tokens(request),
            output_tokens=min(estimate_text_tokens(output), request.settings.max_tokens or UNKNOWN),
        )
    return Usage(
        requests=1,
        input_tokens=counts.input_tokens,
        cache_read_tokens=counts.cache_read_tokens,
        cache_write_tokens=counts.cache_write_tokens,
        output_tokens=counts.output_tokens,
        # Google's word for it; Anthropic counts them with the rest only.
        reasoning_tokens=counts.details.get("reasoning_tokens") or counts.details.get("thoughts_tokens", 0),
    )
