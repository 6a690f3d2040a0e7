"""Which media go along with a request. The others are named in its text, so that no request fails for them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Literal

from agentorchestra.core.content import Block, MediaBlock, TextBlock
from agentorchestra.core.messages import Message, ModelRequest
from agentorchestra.core.settings import ModelProfile
from agentorchestra.models.render import render_block

Kind = Literal["image", "audio", "video", "document", "text", "other"]

_SAME = {"audio/x-wav": "audio/wav", "audio/wave": "audio/wav", "audio/mp3": "audio/mpeg", "image/jpg": "image/jpeg"}
_COMMON = frozenset({"image/png", "image/jpeg", "image/webp", "application/pdf"})
_FORMATS: dict[str, frozenset[str]] = {
    "anthropic": _COMMON | {"image/gif"},
    "google": _COMMON
    | {"image/heic", "image/heif"}
    | {f"audio/{name}" for name in ("wav", "mpeg", "aiff", "aac", "ogg", "flac")}
    | {f"video/{name}" for name in ("mp4", "mpeg", "quicktime", "x-msvideo", "x-flv", "webm")},
}
"""What a format has a place for, by provider; the rest is as OpenAI's."""
_OPENAI = _COMMON | {"image/gif", "audio/wav", "audio/mpeg", "video/mp4", "video/webm", "video/quicktime"}

has_media = operator.attrgetter("media")


def plain_type(media_type: str) -> str:
    name = media_type.partition(";")[0].strip().lower()
    return _SAME.get(name, name)


def kind_of(media_type: str) -> Kind:
    name = plain_type(media_type)
    first = name.partition("/")[0]
    if first in ("image", "audio", "video", "text"):
        return first  # type: ignore[return-value]
    return "document" if name == "application/pdf" else "other"


def takes(media_type: str, *, provider: str, profile: ModelProfile) -> bool:
    """Return True if a medium is sent: its format has a place, and the profile does not say no (says yes: video)."""
    kind = kind_of(media_type)
    if kind == "text":
        return True
    support = {"image": profile.vision, "audio": profile.audio, "document": profile.document}.get(kind)
    formats = _FORMATS.get("google" if provider.startswith("google") else provider, _OPENAI)
    if kind == "video" and not profile.video:
        return False
    return support is not False and plain_type(media_type) in formats


def without_media(request: ModelRequest, left_out: Callable[[MediaBlock], bool]) -> ModelRequest:
    """Return the request with some media named in place of shown."""
    messages = tuple(
        message if not any(map(left_out, message.media)) else _without_media(message, left_out)
        for message in request.messages
    )
    return request.model_copy(update={"messages": messages})


def _without_media(message: Message, left_out: Callable[[MediaBlock], bool]) -> Message:
    blocks: list[Block] = []
    for block in message.content:
        if isinstance(block, MediaBlock) and left_out(block):
            text = f"{render_block(block)} (not shown: the model does not take it)"
            blocks.append(TextBlock(text=text, source=block.source, trust=block.trust))
        else:
            blocks.append(block)
    return message.model_copy(update={"content": tuple(blocks)})
