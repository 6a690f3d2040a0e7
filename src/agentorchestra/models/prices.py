"""What requests cost: known prices, overrides, and the upper bound that the door reserves before it asks."""

from __future__ import annotations

import ipaddress
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain
from urllib.parse import urlsplit

from agentorchestra.core.budget import Bound, Usage
from agentorchestra.core.ids import canonical_json
from agentorchestra.core.messages import Message, ModelRequest, ToolSchema
from agentorchestra.core.settings import ModelProfile, Price

FREE = Price(input=0.0, output=0.0)  # the price of models that run here and cost nothing
CHARS_PER_TOKEN = 3
"""English has some four characters to a token; three keeps the estimate an upper bound for code and JSON too."""

IMAGE_TOKENS = 3_000  # more than any provider counts for one image at full detail
BYTES_PER_MEDIA_TOKEN = 20  # documents and sound: a page of a PDF has some 50 kB and costs up to 2,500 tokens
_THIN_WAV = 16_000  # bytes a second: 8 kHz, 16 bits
_THIN_SOUND = 2_000  # 16 kbit/s
_MESSAGE_CHARS = 4 * CHARS_PER_TOKEN  # role, separators
_MILLION = 1_000_000


def price_of(profile: ModelProfile, usage: Usage, *, address: str | None = None) -> float | None:
    """Return US dollars for a usage, None when the price is unknown.

    The profile's own price goes first, then the published price of `provider:model`. A model behind a loopback
    address has no published price: what serves there may bear any name.
    """
    if profile.price is not None:
        return _at(profile.price, usage)
    if profile.model in ("offline", "scripted"):
        return 0.0
    if address is not None and is_loopback(address):
        return None
    provider, _, model = profile.model.partition(":")
    return _list_price(provider, model, usage)


def price_of_sound(profile: ModelProfile, usage: Usage, seconds: float, *, address: str | None = None) -> float | None:
    """Return US dollars of a transcription, None if unknown: by the minute, else by tokens if they were counted."""
    price = profile.price
    if price is not None and price.audio_minute is not None:
        return round(seconds / 60 * price.audio_minute, 12)
    if price is None and not usage.tokens:
        return None
    cost = price_of(profile, usage, address=address)
    return cost if price is not None or cost else None  # a model that is paid by the minute is listed with zero


def sound_seconds(size: int, media_type: str) -> float:
    """Return the longest duration of a recording of this size, by the thinnest sound in common use."""
    return size / (_THIN_WAV if "wav" in media_type else _THIN_SOUND)


def sound_usage(seconds: float) -> Usage:
    """Return the tokens that a recording may cost where it is paid by tokens."""
    return Usage(requests=1, input_tokens=math.ceil(10 * seconds), output_tokens=math.ceil(5 * seconds))


def _at(price: Price, usage: Usage) -> float:
    plain = max(0, usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens)
    read = price.input if price.cache_read is None else price.cache_read
    write = price.input if price.cache_write is None else price.cache_write
    total = (
        plain * price.input
        + usage.cache_read_tokens * read
        + usage.cache_write_tokens * write
        + usage.output_tokens * price.output
    )
    return round(total / _MILLION, 12)


def _list_price(provider: str, model: str, usage: Usage) -> float | None:
    provider_id = _known_as(provider, model)
    if provider_id is None:
        return None
    from genai_prices import Usage as PricedUsage
    from genai_prices import calc_price

    tokens = PricedUsage(
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        output_tokens=usage.output_tokens,
    )
    try:
        return round(float(calc_price(tokens, model, provider_id=provider_id).total_price), 12)
    except (LookupError, ValueError):
        return None


@lru_cache(maxsize=512)
def _known_as(provider: str, model: str) -> str | None:
    from genai_prices import Usage as PricedUsage
    from genai_prices import calc_price

    from agentorchestra.models.providers import PROVIDERS

    entry = PROVIDERS.get(provider)
    name = entry.price_id if entry is not None else provider
    try:
        calc_price(PricedUsage(input_tokens=1, output_tokens=1), model, provider_id=name)
    except (LookupError, ValueError):
        return None
    return name


def is_loopback(address: str, *, nearby: bool = False) -> bool:
    """Return True if an address is on this machine; with `nearby` also for a number of a private network."""
    host = urlsplit(address).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        number = ipaddress.ip_address(host)
        return number.is_private if nearby else number.is_loopback
    except ValueError:
        return False


def estimate_input_tokens(request: ModelRequest, *, context_window: int | None = None) -> int:
    """Return an upper estimate of a request's input tokens; a medium counts `context_window` at most."""
    chars = _messages_chars(request.messages) + sum(
        [_SCHEMA_CHARS.get(tool.digest) or _schema_chars(tool) for tool in request.tools]
    )
    return -(-chars // CHARS_PER_TOKEN) + _media_tokens(request.messages, context_window)


def estimate_messages_tokens(messages: Iterable[Message], *, context_window: int | None = None) -> int:
    messages = tuple(messages)
    return -(-_messages_chars(messages) // CHARS_PER_TOKEN) + _media_tokens(messages, context_window)


def estimate_text_tokens(text: str) -> int:
    """Return an upper estimate of the tokens of a text."""
    return -(-_weight(text) // CHARS_PER_TOKEN)


def _weight(text: str) -> int:
    # Scripts outside ASCII have up to a token per character: their UTF-8 bytes keep the estimate an upper bound.
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _messages_chars(messages: Sequence[Message]) -> int:
    # Without a step of Python per message: this is asked of the whole history in every step.
    chars: int = sum(map(_CHARS, messages))
    return chars + _MESSAGE_CHARS * len(messages)


_CHARS = operator.attrgetter("chars")
_MEDIA = operator.attrgetter("media")


_SCHEMA_CHARS: dict[str, int] = {}


def _schema_chars(tool: ToolSchema) -> int:
    if len(_SCHEMA_CHARS) >= 4096:
        _SCHEMA_CHARS.clear()
    text = tool.name + tool.description + canonical_json(tool.parameters)
    chars = _SCHEMA_CHARS[tool.digest] = _weight(text) + _MESSAGE_CHARS
    return chars


def _media_tokens(messages: Iterable[Message], context_window: int | None) -> int:
    total = 0
    for block in chain.from_iterable(filter(None, map(_MEDIA, messages))):
        tokens = IMAGE_TOKENS
        if not block.media_type.startswith("image/"):
            tokens = max(tokens, block.size // BYTES_PER_MEDIA_TOKEN)
        total += tokens if context_window is None else min(tokens, context_window)
    return total


def bound_of(prompt: int, answer: int, *, price: Callable[[Usage], float | None], purpose: str = "") -> Bound:
    """Return the most so many tokens can cost, as the door holds it; an unknown price bounds no dollars."""
    usage = Usage(requests=1, input_tokens=prompt, output_tokens=answer)
    return Bound(
        steps=1 if purpose in ("decision", "final") else 0,
        tokens=usage.tokens,
        cost_usd=most_dollars(usage, price) or 0.0,
    )


def most_dollars(usage: Usage, price: Callable[[Usage], float | None]) -> float | None:
    """Return the most that tokens can cost (writing to a cache may cost more); None for an unknown price."""
    cache_writes = usage.model_copy(update={"cache_write_tokens": usage.input_tokens})
    costs = [cost for cost in (price(usage), price(cache_writes)) if cost is not None]
    return max(costs) if costs else None


def most_usage(request: ModelRequest) -> Usage:
    """Return the usage of the longest answer to a request as it is sent, without a cost."""
    most = request.settings.max_tokens or 0
    return Usage(requests=1, input_tokens=estimate_input_tokens(request), output_tokens=most)


def uncertain(most: Usage, dollars: float | None) -> Usage:
    """Return the uncertain usage of an attempt without an answer: no figure of what was paid counts it."""
    return Usage(uncertain_tokens=most.tokens, uncertain_usd=dollars)
