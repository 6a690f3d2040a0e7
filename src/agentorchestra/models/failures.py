"""Failures of providers in our own words: one sentence each with the model, the address, what was said, what to do."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from agentorchestra.core.errors import (
    ModelAuthError,
    ModelContextError,
    ModelError,
    ModelMediaError,
    ModelRateLimitError,
    ModelRequestError,
    ModelResponseError,
    ModelSchemaError,
    ModelServerDownError,
    ModelUnavailableError,
)
from agentorchestra.core.messages import ModelRequest, ToolSchema
from agentorchestra.models.endpoint import Endpoint
from agentorchestra.models.media import kind_of
from agentorchestra.models.prices import is_loopback
from agentorchestra.models.providers import PROVIDERS

OPENAI_ADDRESS = "https://api.openai.com/v1"

_LONGEST = 200  # characters of what a server said
_KEYLIKE = re.compile(r"\b(?:sk|pk|rk|key|gsk|xai|AIza)[-_][\w*.-]{6,}")
_TAG = re.compile(r"<[^>]*>")


class Unreadable(Exception):
    """Raised inside models/ for an answer that is none; the first argument is what the server said."""


@dataclass(frozen=True)
class Target:
    """Who was asked, for sentences."""

    model: str  # the canonical name
    address: str  # where, without credentials or query
    section: str  # where its address is configured
    key_env: str  # the variable the key came from, "" where none was sent
    key: str | None  # its value, never shown
    own_address: bool  # whether it is not the provider's own server

    @classmethod
    def of(cls, endpoint: Endpoint) -> Target:
        own = endpoint.address is not None
        entry = PROVIDERS.get(endpoint.provider)
        in_settings = endpoint.in_settings and (endpoint.profile.base_url is not None or not own)
        section = endpoint.section if in_settings else entry.address_env if entry is not None and own else ""
        address = endpoint.address or (OPENAI_ADDRESS if endpoint.provider.startswith("openai") else "")
        address = shown_address(address) if address else endpoint.provider
        return cls(endpoint.profile.model, address, section, endpoint.key_env, endpoint.key, own)

    def __str__(self) -> str:
        return f"{self.model} at {self.address}"

    @property
    def key_advice(self) -> str:
        if self.key_env:
            return f"check the key in {self.key_env}"
        if self.section.startswith("["):
            return f"no key was sent: name its variable with api_key_env in {self.section}"
        return "no key was sent" if self.own_address else "no key was sent: set OPENAI_API_KEY"

    @property
    def address_advice(self) -> str:
        if not self.own_address:
            return "check the network connection"
        place = f"base_url in {self.section}" if self.section.startswith("[") else self.section
        return f"check {place}"

    def quote(self, value: object) -> str:
        text = " ".join(_TAG.sub(" ", _text(value)).split())
        if self.key:
            text = text.replace(self.key, "[key]")
        text = _KEYLIKE.sub("[key]", text)
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4]} ..."


def shown_address(address: str) -> str:
    """Return an address without user, password and query, which may be credentials."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    try:
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        port = ""
    return urlunsplit((parts.scheme, f"{host}{port}", parts.path.rstrip("/"), "", ""))


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        for name in ("message", "error", "detail", "msg"):
            inner = value.get(name)
            if inner:
                return _text(inner)
        return str(dict(value))
    if isinstance(value, list) and value:
        return _text(value[0])
    return "" if value is None else str(value)


def silent(target: Target, timeout_s: float) -> ModelError:
    """Return the error of a provider that said nothing within the time limit."""
    place = target.section if target.section.startswith("[") else f"a profile with model = {target.model!r}"
    return ModelUnavailableError(
        f"{target} did not answer within {timeout_s:g} s, or fell silent for so long within its answer; is the server "
        f"busy? raise timeout_s in {place}"
    )


def of_status(
    target: Target, status: int, body: object, *, retry_after_s: float | None = None, quota: bool = False
) -> ModelError:
    """Return the error for an HTTP status of 400 and above; with `quota` the account is used up."""
    quote = target.quote(body)
    text = f"HTTP {status}: {quote}" if quote else f"HTTP {status}"
    if status in (401, 403):
        return ModelAuthError(f"{target} refused the credentials ({text}); {target.key_advice}")
    if quota or status == 402:
        return ModelRequestError(f"{target} says that the account is used up ({text}); add credit or use another model")
    if status == 429:
        wait = f"; it asks to wait {retry_after_s:g} s" if retry_after_s is not None else ""
        return ModelRateLimitError(
            f"{target} is limiting the rate of requests ({text}){wait}; try again later or run fewer tasks at once",
            retry_after_s=retry_after_s,
        )
    if status >= 500 or status == 408:
        return ModelUnavailableError(
            f"{target} failed ({text}); try again later: a resumed run goes on from here", retry_after_s=retry_after_s
        )
    if status == 404:
        advice = f" and {target.address_advice}" if target.own_address else ""
        return ModelRequestError(f"{target} does not know this model or path ({text}); check the model's name{advice}")
    if status in (400, 413, 422) and _TOO_LONG.search(quote or ""):
        return ModelContextError(
            f"{target} cannot read a prompt this long ({text}); set context_window of its profile to what it reads"
        )
    error = ModelRequestError(f"{target} refused the request ({text}); change what it names, or use another model")
    error.elsewhere = False
    return error


_TOO_LONG = re.compile(
    r"context.{0,20}(length|window|size)|prompt is too long|too many (input )?tokens|maximum (context|prompt) length"
    r"|exceeds? the (maximum|max) (number of )?(input )?tokens|input token count",
    re.IGNORECASE,
)
"""How providers and local servers say that a prompt does not fit; they have no common code for it."""


def unreachable(target: Target, reason: object, *, by_machine: bool = False) -> ModelError:
    """Return the error of a connection that could not be made (`by_machine`: refused) or broke before an answer."""
    advice = target.address_advice
    if by_machine and is_loopback(target.address, nearby=True):
        return ModelServerDownError(f"nothing listens at {target.address}; start the server, or {advice}")
    advice = f"is the server running? {advice}" if target.own_address else advice
    return ModelUnavailableError(f"{target} cannot be reached ({target.quote(reason) or 'no connection'}); {advice}")


def broken_off(target: Target, reason: object) -> ModelError:
    return ModelUnavailableError(
        f"{target} broke the connection off before the answer was complete ({target.quote(reason) or 'closed'}); "
        "try again: a resumed run goes on from here"
    )


def unreadable(target: Target, reason: object) -> ModelError:
    advice = (
        f"check that {target.address} is an OpenAI-compatible API" if target.own_address else "try again or use another"
    )
    return ModelResponseError(f"{target} gave an answer that cannot be read ({target.quote(reason)}); {advice}")


def translate(exc: Exception, target: Target) -> tuple[ModelError, bool]:
    """Return the error for what a provider's library raised, and whether the request may have been paid."""
    import openai
    from pydantic_ai import exceptions as raised

    if isinstance(exc, Unreadable):
        return unreadable(target, exc.args[0]), False
    if isinstance(exc, raised.ModelHTTPError):
        quota = isinstance(exc, raised.ModelQuotaExceededError)
        wait = exc.retry_after  # whole seconds and dates; some servers send fractions
        wait = _seconds((exc.headers or {}).get("retry-after", "")) if wait is None else float(wait)
        return of_status(target, exc.status_code, exc.body, retry_after_s=wait, quota=quota), exc.in_stream
    if isinstance(exc, openai.APIStatusError):  # transcriptions go past pydantic-ai
        wait = _seconds(exc.response.headers.get("retry-after", ""))
        quota = exc.code == "insufficient_quota"
        return of_status(target, exc.status_code, exc.body, retry_after_s=wait, quota=quota), False
    connection_errors = openai.APIConnectionError | raised.ModelConnectionError | OSError | EOFError
    if isinstance(exc, connection_errors) or _is_transport(exc):
        return _transport(exc, target)
    if isinstance(exc, raised.ModelAPIError):
        return _api(exc, target)
    if isinstance(exc, raised.UnexpectedModelBehavior):
        return unreadable(target, exc.message), False
    if isinstance(exc, raised.UserError):
        return ModelRequestError(f"{target} cannot be asked this way ({target.quote(exc.message)})"), False
    return unreadable(target, f"{type(exc).__name__}: {exc}"), False


def _body(error: ModelError) -> Any:
    """Return what the provider said: the body of its answer, else the library's exception."""
    body = getattr(error.__cause__, "body", None)
    return error.__cause__ if body is None else body


def _said_by(error: ModelError) -> str:
    body = _body(error)
    return str(body) if body is error.__cause__ else json.dumps(body, default=str)


def _refusal(error: ModelError, *, unknown: bool = False) -> str | None:
    """Return what was said in a refusal with status 400 or 422, or with none if `unknown`; None for other errors."""
    status = getattr(error.__cause__, "status_code", 400 if unknown else None)
    return _said_by(error) if status in (400, 422) else None


def refused_room(error: ModelError, tokens: int) -> int | None:
    """Return how long an answer may be asked of a model that refused one of `asked` tokens; None for other refusals."""
    text = _refusal(error)
    if text is None or not isinstance(error, ModelRequestError):
        return None
    if tokens <= _LEAST_ROOM or not _TOO_MUCH_ROOM.search(text):
        return None
    half = max(_LEAST_ROOM, tokens // 2)
    if "context" in text.casefold():
        return half  # it is too long together with the prompt, whose length the provider counts otherwise than we do
    numbers = [int(number) for number in re.findall(r"\d+", text.replace(",", "").replace("_", ""))]
    return max((number for number in numbers if _LEAST_ROOM <= number < tokens), default=half)


_LEAST_ROOM = 256
_TOO_MUCH_ROOM = re.compile(
    r"max_?(?:completion_?|output_?|new_?)?tokens|in the completion|output tokens|completion tokens", re.IGNORECASE
)


def refused_parameter(error: ModelError, parameters: Iterable[str]) -> str | None:
    """Return which of the parameters that went along a refusal blames; None where it blames something else."""
    text = _refusal(error)
    if text is None or type(error) is not ModelRequestError:
        return None
    return next((name for name in parameters if _PARAMETERS[name].search(text)), None)


_PARAMETERS = {
    "reasoning_effort": re.compile(r"reasoning[_.]?effort|thinking", re.IGNORECASE),
    "thinking_tokens": re.compile(r"thinking|budget_?tokens", re.IGNORECASE),
    "temperature": re.compile(r"\btemperature\b", re.IGNORECASE),
    "cached": re.compile(r"prompt_cache_key|cache_control", re.IGNORECASE),
    "stream": re.compile(r"\bstream(?:ing|_options|ed)?\b", re.IGNORECASE),
}
"""Fields of ModelSettings that change how an answer is had, not which: how refusals name them."""


def of_schema(error: ModelError, request: ModelRequest, target: Target) -> ModelError:
    """Return the error, as a ModelSchemaError if the schema of a tool or of the output was refused."""
    text = _refusal(error, unknown=True)
    if text is None or type(error) is not ModelRequestError:
        return error
    names = refused_tools(text, request.tools)
    if names:
        subject = f"the schema of {', '.join(names)}"
    elif request.settings.output_schema is not None and _OUTPUT.search(text):
        subject = "the schema of the output"
    else:
        return error
    quote = target.quote(_body(error))
    schema_error = ModelSchemaError(f"{target} refuses {subject} ({quote}); change the schema", tools=names)
    schema_error.elsewhere = error.elsewhere
    schema_error.__cause__ = error.__cause__
    return schema_error


def of_media(error: ModelError, request: ModelRequest, target: Target) -> ModelError:
    """Return the error, as a ModelMediaError if a medium of the request was refused."""
    media = {kind_of(block.media_type) for message in request.messages for block in message.media} & {*_MEDIA_WORDS}
    cause = error.__cause__
    status = getattr(cause, "status_code", None)
    local = status is None and isinstance(cause, NotImplementedError | RuntimeError)  # the library has no place for it
    if not media or isinstance(error, ModelSchemaError | ModelContextError) or not (local or status in _REFUSING):
        return error
    text = _said_by(error)
    kinds = tuple(sorted(kind for kind in media if _MEDIA_WORDS[kind].search(text)))
    if not kinds and _ANY_MEDIA.search(text):
        kinds = tuple(sorted(media))
    if not kinds or (status not in (None, 400, 415, 422) and not _NO_SUPPORT.search(text)):
        return error
    quote = target.quote(_body(error))
    media_error = ModelMediaError(
        f"{target} does not take {' or '.join(kinds)} ({quote}); say so in its profile", kinds=kinds
    )
    media_error.__cause__ = cause
    return media_error


_REFUSING = (400, 404, 415, 422, 500, 501)  # small servers and routers have no better status for it
_NO_SUPPORT = re.compile(r"not? (?:\w+ ){0,3}support|unsupported|does not take|no endpoints", re.IGNORECASE)
_ANY_MEDIA = re.compile(r"multi-?modal|modalit|media|content.?(?:type|part)|binary", re.IGNORECASE)
_MEDIA_WORDS = {
    "image": re.compile(r"image|vision|visual|picture", re.IGNORECASE),
    "audio": re.compile(r"audio|speech|sound", re.IGNORECASE),
    "document": re.compile(r"pdf|document|\bfiles?\b", re.IGNORECASE),
    "video": re.compile(r"video", re.IGNORECASE),
}

_PLACE = re.compile(r"(?:function_?declarations|(?<!\w)tools)(?:\[|\.)(\d+)", re.IGNORECASE)
_OUTPUT = re.compile(
    r"response_?format|json_?schema|output_?(?:config|format)|response_?(?:json_?)?schema|structured.?output",
    re.IGNORECASE,
)


def refused_tools(text: str, tools: Sequence[ToolSchema]) -> tuple[str, ...]:
    """Return names of the tools that a refusal blames: by name in quotation marks, or by their place in the list."""
    if "tool_choice" in text:
        return ()
    names = [tool.name for tool in tools if re.search(rf"[\\'\"`“‘]{re.escape(tool.name)}[\\'\"`”’]", text)]
    # Google counts declarations inside its one tool.
    places = [match for match in _PLACE.finditer(text) if match[0].lower().startswith("function")]
    places = places or list(_PLACE.finditer(text))
    names += [tools[int(match[1])].name for match in places if int(match[1]) < len(tools)] if not names else []
    return tuple(dict.fromkeys(names))


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0 <= seconds < math.inf else None


def _api(exc: Any, target: Target) -> tuple[ModelError, bool]:
    """Return the error of a failure without a status: in a stream, or of a body that cannot be decoded."""
    if _is_transport(exc.__cause__):
        return _transport(exc, target)
    if exc.body is not None and exc.in_stream:
        return broken_off(target, exc.body), True
    return unreadable(target, exc.message), exc.in_stream


def _is_transport(exc: BaseException | None) -> bool:
    import httpx2

    return isinstance(exc, httpx2.TransportError | httpx2.StreamError)


def _transport(exc: BaseException, target: Target) -> tuple[ModelError, bool]:
    """Return the error of the transport, and whether the request may have been paid."""
    import httpx2

    chain: list[BaseException] = []
    link: BaseException | None = exc
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or link.__context__
    reason = next((text for cause in reversed(chain) if (text := str(cause).strip())), type(exc).__name__)
    never = (
        httpx2.ConnectError,
        httpx2.PoolTimeout,
        httpx2.ProxyError,
        httpx2.UnsupportedProtocol,
        ConnectionRefusedError,
    )
    if any(isinstance(cause, never) for cause in chain):
        causes = [part for cause in chain for part in getattr(cause, "exceptions", (cause,))]  # of a name's addresses
        by_machine = any(isinstance(cause, ConnectionRefusedError) for cause in causes)
        return unreachable(target, reason, by_machine=by_machine), False
    late = (httpx2.ReadError, httpx2.ReadTimeout, httpx2.RemoteProtocolError, ConnectionResetError, httpx2.WriteError)
    if any(isinstance(cause, late) or type(cause).__name__ == "ServerDisconnectedError" for cause in chain):
        return broken_off(target, reason), True
    return unreachable(target, reason), False
