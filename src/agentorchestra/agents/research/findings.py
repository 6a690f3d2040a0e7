"""The findings of a research: pages, what stands on them, and what was computed from it."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from agentorchestra.agents.forms import material, piece_block
from agentorchestra.core.content import Block, MediaBlock, Source, TextBlock
from agentorchestra.core.effects import Outcome
from agentorchestra.core.spec import Citation
from agentorchestra.tools.files.places import parse_place
from agentorchestra.tools.files.quotes import alike, squeeze
from agentorchestra.tools.files.views import stretches_of
from agentorchestra.tools.web.search.merge import page_key

KEY, ADDITIONAL = 0.8, 0.5
"""Relevance from which an insight is a key one, or an additional one; the others are supplementary."""

PICTURES = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})  # types of pictures that models take
PICTURE = "picture"  # the place of what is seen in one

LONGEST = 600
"""Characters of a fact and of its quote. A reader's words go into every further prompt, and a page may speak by it."""

_NEAR = 3  # pieces in which the words of a quote that stands nowhere may have been meant


@dataclass(frozen=True)
class Insight:
    """A fact with its source (000, app. D.3; relevance as in 001's implementation)."""

    fact: str
    quote: str  # the page's words, which stand there; "" of a picture, in which nobody can look words up
    source: str
    place: str
    relevance: float  # 0 to 1
    query: int = 0  # the number of the query that led there; 0 for a page of the task and a calculation
    kind: Literal["text", "picture", "calculation"] = "text"

    @property
    def citation(self) -> Citation:
        return Citation(source=self.source, place=self.place, quote=self.quote)

    @property
    def group(self) -> str:
        return "key" if self.relevance >= KEY else "additional" if self.relevance >= ADDITIONAL else "supplementary"

    @property
    def mark(self) -> str:
        """Return what two insights have in common that say the same: of a page each quote counts once."""
        words = {"text": self.quote, "picture": self.fact, "calculation": f"{self.place}\n{self.quote}"}[self.kind]
        return hashlib.sha256(f"{page_key(self.source)}\n{squeeze(words)}".encode()).hexdigest()


@dataclass(frozen=True)
class Piece:
    """A part of a page with its place, or a picture on it."""

    text: str
    source: str
    place: str
    picture: MediaBlock | None = None


def pieces_of(outcome: Outcome) -> list[Piece]:
    return [
        Piece(text, block.source.ref, place)
        for block in outcome.blocks()
        if isinstance(block, TextBlock) and block.source is not None and block.source.place
        for place, text in stretches_of(block)
        if text.strip()
    ]


_TOOL_NOTES = (
    (re.compile(r"; (?:kept since|read at|the whole is the artifact|\d+ (?:links|pictures) \(part=)[^;\n]*"), ""),
    (re.compile(r"Read on with part=(['\"])(.*?)\1"), r"It goes on at \2"),
    (re.compile(r"Read on with view_range=\[(\d+), (\d+)\]"), r"It goes on at lines \1-\2"),
    (re.compile(r"; (?:ask_media|analyze_file)[^\n]*"), ""),
)
"""Words of a page's head about tools, which its reader does not have."""


def about(outcome: Outcome) -> tuple[Block, ...]:
    """Return the blocks around the pieces of a page: what was read, of how much, and where it goes on."""
    blocks: list[Block] = []
    for block in outcome.blocks():
        if isinstance(block, TextBlock) and (block.source is None or not block.source.place):
            text = block.text
            for pattern, put in _TOOL_NOTES:
                text = pattern.sub(put, text)
            blocks.append(block.model_copy(update={"text": text}))
    return tuple(blocks)


def goes_on(around: Sequence[Block]) -> bool:
    """Return whether a page has more than is shown."""
    return any(isinstance(block, TextBlock) and " goes on" in block.text for block in around)


def picture_of(outcome: Outcome, address: str, words: str = "") -> Piece | None:
    """Return a picture that was read, for a model that sees, with the words that its page has for it."""
    for ref in outcome.artifacts if outcome.ok else ():
        if ref.media_type in PICTURES:
            source = Source(kind="web", ref=address, place=PICTURE)
            block = MediaBlock(media_type=ref.media_type, sha256=ref.sha256, size=ref.size, name=address, source=source)
            return Piece(
                f"the picture {address}" + (f", on the page: {words}" if words else ""), address, PICTURE, block
            )
    return None


def piece_blocks(pieces: Sequence[Piece], around: Sequence[Block] = ()) -> tuple[Block, ...]:
    """Return the pieces for a prompt, numbered, behind what is said of their page."""
    blocks: list[Block] = [*around]
    for number, piece in enumerate(pieces, start=1):
        blocks.append(piece_block(number, piece.text, piece.source, piece.place))
        if piece.picture is not None:
            blocks.append(piece.picture)
    return tuple(blocks)


@dataclass(frozen=True)
class Dropped:
    """A reader's statement whose words do not stand in its piece; `pieces` are those it is asked about again."""

    fact: str
    quote: str
    pieces: tuple[Piece, ...]


def insights_in(
    reply: Mapping[str, Any], pieces: Sequence[Piece], query: int, most: int
) -> tuple[list[Insight], list[Dropped]]:
    """Return the insights whose words stand in the page, and the statements whose words do not."""
    insights: list[Insight] = []
    strays: list[Dropped] = []
    for row in reply["insights"][:most]:
        fact = brief(str(row["fact"]), LONGEST)
        quote = squeeze(str(row["quote"]))
        if len(quote) > LONGEST:  # its beginning stands there, too, up to a whole word
            quote = quote[:LONGEST].rpartition(" ")[0] or quote[:LONGEST]
        number = int(row["piece"])
        candidates = [pieces[number - 1]] if 0 < number <= len(pieces) else []
        relevance = min(1.0, max(0.0, float(row["relevance"])))
        if candidates and candidates[0].picture is not None:
            seen = candidates[0]
            insights.append(Insight(fact, "", seen.source, seen.place, relevance, query, "picture"))
            continue
        texts = [piece for piece in pieces if piece.picture is None]
        piece = next((candidate for candidate in (*candidates, *texts) if quote and alike(quote, candidate.text)), None)
        if piece is not None:
            insights.append(Insight(fact, quote, piece.source, _lines_of(quote, piece), relevance, query))
            continue
        near = sorted(texts, key=lambda candidate: -_common(quote, candidate.text))[:_NEAR]
        strays.append(Dropped(fact, quote, tuple(candidates or near)))
    return insights, strays


def _lines_of(quote: str, piece: Piece) -> str:
    """Return the lines of a piece in which a quote stands: as few as hold it."""
    place, lines = parse_place(piece.place), piece.text.split("\n")
    if place is None or place.unit != "line" or place.first_char or len(lines) != place.last - place.first + 1:
        return piece.place
    # What holds the quote still does with more lines around it, so both ends are found by halves.
    last = bisect_left(range(len(lines)), True, key=lambda at: alike(quote, "\n".join(lines[: at + 1])))
    after = bisect_left(range(last + 1), True, key=lambda at: not alike(quote, "\n".join(lines[at : last + 1])))
    first = max(0, after - 1)
    if last == len(lines):
        return piece.place
    return str(replace(place, first=place.first + first, last=place.first + last))


def _common(quote: str, text: str) -> int:
    return len({*re.findall(r"\w+", quote.casefold())} & {*re.findall(r"\w+", text.casefold())})


def brief(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def top_insights(insights: Sequence[Insight], most: int) -> list[Insight]:
    by_mark: dict[str, Insight] = {}
    for insight in sorted(insights, key=lambda insight: -insight.relevance):
        by_mark.setdefault(insight.mark, insight)
    return [*by_mark.values()][:most]


def evidence(insights: Sequence[Insight]) -> Block:
    lines = [f"[E{number}] ({row.group}, {row.relevance:.1f}; {_from(row)}" for number, row in enumerate(insights, 1)]
    return material("\n".join(lines) or "nothing was found", "findings")


def _from(insight: Insight) -> str:
    if insight.kind == "picture":
        return f"{insight.source}, seen in the picture) {insight.fact}"
    return f"{insight.source}, {insight.place}) {insight.fact}: “{insight.quote}”"
