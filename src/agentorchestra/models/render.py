"""How content blocks become text for a model: the one place where origin and trust are written out.

Content from outside stands between two marks that share an id; nothing inside is changed:

    <content id="3fa9c1d2" source="file:notes.txt" place="lines 1-40" trust="untrusted">
    ...
    </content id="3fa9c1d2">

Several blocks of one source that follow each other stand between one pair of marks, each behind a line with its place:
`[3fa9c1d2: lines 4-9]`. The id does not occur in the content, so content can neither end its quotation nor begin a
block of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from pydantic import BaseModel

from agentorchestra.core.content import Block, MediaBlock, Source, TextBlock, Trust, text_of
from agentorchestra.core.ids import sha256_text
from agentorchestra.core.messages import Message

_ID_CHARS = 8
_STRING = r'"(?:[^"\\]|\\.)*"'
_HEAD = re.compile(
    rf'<content id="(?P<id>[0-9a-f]{{{_ID_CHARS}}})" source=(?P<source>{_STRING})(?: place=(?P<place>{_STRING}))?'
    r' trust="untrusted">\n'
)


def render_block(block: Block) -> str:
    """Return a block's text; content from outside stands between marks that name its source."""
    return render_blocks((block,))


def render_blocks(blocks: Sequence[Block]) -> str:
    """Return the text of blocks, one below the other; those from one outside source that follow each other in one."""
    return "\n".join(_lines(blocks))


def render_message(message: Message) -> str:
    """Return the text of a message as every model sees it. A model's own words stand without marks."""
    return message.text if message.role == "assistant" else render_blocks(message.content)


def _lines(blocks: Sequence[Block]) -> Iterator[str]:
    for origin, group in groupby(blocks, key=_origin):
        if origin is None:
            yield from (text_of((block,)) for block in group)
        else:
            yield _frame(origin, [(_place(block), block.text) for block in group if isinstance(block, TextBlock)])


def _origin(block: Block) -> Source | None:
    """Return the source, without a place, of what has to stand between marks; None for all else."""
    if isinstance(block, MediaBlock) or block.source is None or block.trust is not Trust.UNTRUSTED:
        return None
    return Source(kind=block.source.kind, ref=block.source.ref)


def _place(block: Block) -> str:
    return (block.source.place or "") if block.source is not None else ""


def _frame(origin: Source, pieces: list[tuple[str, str]]) -> str:
    """Return the pieces, as place and text, between one pair of marks."""
    source = f"{origin.kind}:{origin.ref}"
    id_ = _free_id(source, pieces)
    attrs = f'id="{id_}" source={_string(source)}'
    if len(pieces) == 1:
        place, inner = pieces[0]
        attrs += f" place={_string(place)}" if place else ""
    else:
        inner = "\n".join(f"{_piece_line(id_, place)}\n{text}" for place, text in pieces)
    return f'<content {attrs} trust="untrusted">\n{inner}\n{_close(id_)}'


def _free_id(source: str, pieces: list[tuple[str, str]]) -> str:
    """Return a hash of source and text that stands nowhere in them."""
    words = [source, *(word for piece in pieces for word in piece)]
    id_ = ""
    while True:
        id_ = sha256_text("\0".join([id_, *words]))[:_ID_CHARS]
        if not any(id_ in word for word in words):
            return id_


def _string(text: str) -> str:
    """Return the text in quotation marks; only what would end them is escaped."""
    return json.dumps(text, ensure_ascii=False)


def _piece_line(id_: str, place: str) -> str:
    return f"[{id_}: {_string(place)[1:-1]}]" if place else f"[part {id_}]"


def _close(id_: str) -> str:
    return f'</content id="{id_}">'


class RenderedContent(BaseModel, frozen=True):
    """A block of content from outside, read back from rendered text."""

    kind: str
    ref: str
    place: str
    text: str


@dataclass(frozen=True)
class _Mark:
    """A pair of marks in a text: where it begins and ends, its attributes, and what stands between."""

    start: int
    end: int
    id_: str
    source: str
    place: str
    inner: str


def _marks(text: str) -> Iterator[_Mark]:
    at = 0
    while (head := _HEAD.search(text, at)) is not None:
        close = f"\n{_close(head['id'])}"
        end = text.find(close, head.end())
        if end < 0:  # somebody's words that look like a mark
            at = head.end()
            continue
        at = end + len(close)
        source, place = _unquote(head["source"]), _unquote(head["place"] or '""')
        yield _Mark(head.start(), at, head["id"], source, place, text[head.end() : end])


def _unquote(string: str) -> str:
    try:
        return str(json.loads(string))
    except ValueError:
        return string[1:-1]


def parse_contents(text: str) -> list[RenderedContent]:
    contents = []
    for mark in _marks(text):
        kind, _, ref = mark.source.partition(":")
        for place, piece in _pieces(mark):
            contents.append(RenderedContent(kind=kind, ref=ref, place=place, text=piece))
    return contents


def _pieces(mark: _Mark) -> list[tuple[str, str]]:
    line = re.compile(rf"(?:^|\n)\[(?:part {mark.id_}|{mark.id_}: (?P<place>[^\n]+))\]\n")
    heads = list(line.finditer(mark.inner))
    if not heads:
        return [(mark.place, mark.inner)]
    ends = [*(head.start() for head in heads[1:]), len(mark.inner)]
    return [
        (_unquote(f'"{head["place"] or ""}"'), mark.inner[head.end() : end])
        for head, end in zip(heads, ends, strict=True)
    ]


def content_spans(text: str) -> list[tuple[int, int]]:
    """Return where outside blocks with their marks begin and end in rendered text."""
    return [(mark.start, mark.end) for mark in _marks(text)]


def without_contents(text: str) -> str:
    rest, at = [], 0
    for start, end in content_spans(text):
        rest.append(text[at:start])
        at = end
    return "".join([*rest, text[at:]])
