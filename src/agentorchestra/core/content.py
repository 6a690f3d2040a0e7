"""Content blocks: every piece of text or media says where it came from and how far it is trusted."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Discriminator, Tag

from agentorchestra.core.frozen import Hashed
from agentorchestra.core.ids import canonical_json


class Trust(StrEnum):
    """The trust in content: how far it may steer the run, lowest first.

    `untrusted`: files, web, tools, mail from such. `agent`: written by a model that saw nothing untrusted.
    `user`: the user's own words. `system`: the framework's prompts.
    """

    UNTRUSTED = "untrusted"
    AGENT = "agent"
    USER = "user"
    SYSTEM = "system"

    __hash__ = str.__hash__

    @property
    def rank(self) -> int:
        """0 for the lowest trust."""
        return _RANK[self]


_RANK = {Trust.UNTRUSTED: 0, Trust.AGENT: 1, Trust.USER: 2, Trust.SYSTEM: 3}


def lowest(*levels: Trust, default: Trust = Trust.SYSTEM) -> Trust:
    """Return the lowest of the levels, `default` for none."""
    minimum, rank = default, 4
    for level in levels:
        if _RANK[level] < rank:
            minimum, rank = level, _RANK[level]
    return minimum


class FieldMark:
    """Said of a field in the result type of a tool: whether the system made its value, or others wrote it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


Trusted = FieldMark("Trusted")
"""`Annotated[T, Trusted]`: values that the system made itself, such as its ids, dates and amounts."""

Untrusted = FieldMark("Untrusted")
"""`Annotated[T, Untrusted]`: what others wrote, inside of something that is trusted."""

SourceKind = Literal["prompt", "task", "file", "web", "tool", "environment", "agent", "human", "memory", "mail"]


class Source(BaseModel, frozen=True):
    """The origin of a block.

    Attributes:
        kind: the sort of origin.
        ref: its name: a file's name in the run, an address, a tool, an agent.
        place: where inside it: `p. 3`, `lines 10-12`, `B7`.
    """

    kind: SourceKind
    ref: str = ""
    place: str | None = None


class TextBlock(Hashed):
    """Text with its origin."""

    type: Literal["text"] = "text"
    text: str
    source: Source | None = None
    trust: Trust = Trust.UNTRUSTED


class MediaBlock(Hashed):
    """An image, a sound, a document: its bytes are a blob of the workspace, named by hash."""

    type: Literal["media"] = "media"
    media_type: str
    sha256: str
    size: int
    name: str = ""
    source: Source | None = None
    trust: Trust = Trust.UNTRUSTED


def _block_type(value: Any) -> str:
    # Stored blocks leave defaults out, their type too: media are told by their hash.
    if isinstance(value, dict):
        return str(value.get("type") or ("media" if "sha256" in value else "text"))
    return str(getattr(value, "type", "text"))


Block = Annotated[Annotated[TextBlock, Tag("text")] | Annotated[MediaBlock, Tag("media")], Discriminator(_block_type)]
"""A piece of content: text or media."""


def text_of(blocks: tuple[Block, ...] | list[Block]) -> str:
    """Return the text of the blocks, media as a line that names them."""
    parts = []
    for block in blocks:
        if isinstance(block, TextBlock):
            parts.append(block.text)
        else:
            parts.append(f"[{block.media_type} {block.name or block.sha256[:12]}, {block.size} bytes]")
    return "\n".join(parts)


_NUMBER = re.compile(r"(\d{1,9})(?:, characters \d{1,9}-\d{1,9})?\t")


def without_numbers(block: Block) -> str:
    """Return a block's text as it stands in its source, without the numbers of lines that were read."""
    unit, _, span = ((block.source.place or "") if block.source else "").rpartition("!")[2].partition(" ")
    first = re.match(r"\d+", span)
    if unit not in ("line", "lines") or first is None or not isinstance(block, TextBlock):
        return text_of((block,))
    lines = block.text.split("\n")
    for at, line in enumerate(lines):
        number = _NUMBER.match(line)
        if number is None or int(number[1]) != int(first[0]) + at:
            return block.text
        lines[at] = line[number.end() :]
    return "\n".join(lines)


def block_from(value: Any, *, source: Source | None = None, trust: Trust = Trust.UNTRUSTED) -> Block:
    """Return a block from a block, a string or any JSON value; TypeError if the value is none of these."""
    if isinstance(value, TextBlock | MediaBlock):
        return value
    text = value if isinstance(value, str) else canonical_json(value)
    return TextBlock(text=text, source=source, trust=trust)
