"""Searches, and reads the best of what was found: every search, page and picture is an effect."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import JsonValue

from agentorchestra.agents.forms import Inquiry, Questioner, call_tools, material
from agentorchestra.agents.research.allowance import ResearchAllowance
from agentorchestra.agents.research.findings import (
    Dropped,
    Insight,
    Piece,
    about,
    brief,
    goes_on,
    insights_in,
    picture_of,
    piece_blocks,
    pieces_of,
    top_insights,
)
from agentorchestra.agents.research.questions import insights_form
from agentorchestra.agents.search.queries import NO_RESULTS, Hit, Hits, ResearchQuery
from agentorchestra.core.content import Block, text_of
from agentorchestra.core.effects import Outcome
from agentorchestra.core.settings import ResearchSettings
from agentorchestra.runtime.context import BranchContext

SEARCH, FETCH, READ, PYTHON = "search", "fetch", "read_file", "python"

_PICTURES = "pictures"
PAGES_PER_ROUND = 5
PARTS_PER_PAGE = 2  # of a long one that are read, the first one included
PICTURES_PER_PAGE = 2  # that a model which sees is shown of a page
_PICTURE_LINE = re.compile(r"^- (?P<words>.*): (?P<address>https?://\S+)$", re.MULTILINE)
_LONGEST_PART = 60
_LONGEST_TITLE = 160


@dataclass
class _Read:
    """A page, or a part of it, as its reader is shown it."""

    hit: Hit
    pieces: list[Piece]
    around: tuple[Block, ...] = ()


@dataclass
class ResearchReader:
    ctx: BranchContext[Any]
    questioner: Questioner
    limits: ResearchSettings
    allowance: ResearchAllowance
    tools: frozenset[str]  # it may use
    sees: bool = False  # whether its model is shown pictures
    values: Mapping[str, Any] = field(default_factory=dict)  # what each reader is told: task and questions
    hits: Hits = field(default_factory=Hits)
    pages: int = 0  # that were read
    titles: dict[str, str] = field(default_factory=dict)  # of these, by their addresses
    notes: list[str] = field(default_factory=list)  # what a reader of the report should know, a sentence each
    distrusted_pages: list[str] = field(default_factory=list)  # pages that give orders to their readers

    async def search(self, queries: Sequence[ResearchQuery]) -> None:
        """Ask the engines; what became of it stands in the queries."""
        outcomes = await call_tools(self.ctx, [(SEARCH, query.arguments) for query in queries])
        for query, outcome in zip(queries, outcomes, strict=True):
            value: dict[str, Any] = outcome.value if outcome.ok and isinstance(outcome.value, dict) else {}
            results = [row for row in value.get("results", ()) if isinstance(row, dict)]
            query.addresses = tuple(str(result.get("address", "")) for result in results)
            failed = value.get("failed")
            query.engines = {name: str(reason) for name, reason in failed.items()} if isinstance(failed, dict) else {}
            if not outcome.ok:
                query.failed = outcome.error or outcome.status
                self.notes.append(f"Not searched: {query.query!r}: {query.failed}")
            elif not results:
                query.failed = NO_RESULTS
            self.hits.take(query.number, results)

    async def read_named(self, addresses: Sequence[str]) -> list[Insight]:
        """Return what the pages say that the task names; later rounds may choose those that have no room now."""
        self.hits.take(0, [{"address": address} for address in addresses])
        return await self.read(())

    async def read(self, queries: Sequence[ResearchQuery]) -> list[Insight]:
        room = min(PAGES_PER_ROUND, self.limits.pages - self.pages)
        files = {ref.name for ref in self.ctx.manifest.files} if READ in self.tools else set()
        hits = self.hits.best(room, [query.number for query in queries], lambda name: "://" in name or name in files)
        if self.allowance.ends("not read", [hit.address for hit in hits]):
            return []
        self.pages += len(hits)
        places = [(hit, hit.place) for hit in hits]
        facts: dict[str, list[Insight]] = {hit.address: [] for hit in hits}
        for part in range(PARTS_PER_PAGE):
            left = [f"{hit.address}, {place}" for hit, place in places]
            if not places or (part and self.allowance.ends("not read on", left)):
                break
            outcomes = await call_tools(self.ctx, [self._reading(hit, place) for hit, place in places])
            read = await self._pieces([hit for hit, _ in places], outcomes, pictures=part == 0)
            # A page is read on where its reader says that what is wanted stands there.
            places = await self._take(read, facts, last=part + 1 == PARTS_PER_PAGE)
        return [insight for page in facts.values() for insight in top_insights(page, self.limits.insights_per_page)]

    def _reading(self, hit: Hit, part: str) -> tuple[str, dict[str, JsonValue]]:
        place: dict[str, JsonValue] = {"part": part} if part else {}
        return (
            (FETCH, {"url": hit.address, **place}) if "://" in hit.address else (READ, {"name": hit.address, **place})
        )

    async def _pieces(self, hits: Sequence[Hit], outcomes: Sequence[Outcome], *, pictures: bool) -> list[_Read]:
        """Return what of the pages is shown to their readers."""
        read: list[_Read] = []
        for hit, outcome in zip(hits, outcomes, strict=True):
            if not outcome.ok:
                self.notes.append(f"Not read: {hit.address}: {outcome.error}")
                continue
            pieces = pieces_of(outcome)
            self.titles |= {piece.source: brief(hit.title, _LONGEST_TITLE) for piece in pieces if hit.title.strip()}
            picture = picture_of(outcome, hit.address, hit.title) if self.sees else None
            pieces += [picture] if picture is not None else []
            if pieces:
                read.append(_Read(hit, pieces, about(outcome)))
        if pictures and self.sees:
            listing = [hit for hit, outcome in zip(hits, outcomes, strict=True) if _has_pictures(outcome)]
            if not self._no_pictures(listing):
                await self._add_pictures(listing, read)
        return read

    def _no_pictures(self, hits: Sequence[Hit]) -> bool:
        return not hits or self.allowance.ends("its pictures not looked at", [hit.address for hit in hits])

    async def _add_pictures(self, hits: Sequence[Hit], read: Sequence[_Read]) -> None:
        lists = await call_tools(self.ctx, [self._reading(hit, _PICTURES) for hit in hits])
        pictures = [
            (hit, match["words"], match["address"])
            for hit, outcome in zip(hits, lists, strict=True)
            for match in [*_PICTURE_LINE.finditer(text_of(outcome.blocks()))][:PICTURES_PER_PAGE]
        ]
        if self._no_pictures([hit for hit, _, _ in pictures]):
            return
        outcomes = await call_tools(self.ctx, [(FETCH, {"url": address}) for _, _, address in pictures])
        behind = {id(page.hit): page.pieces for page in read}
        for (hit, words, address), outcome in zip(pictures, outcomes, strict=True):
            piece = picture_of(outcome, address, words)
            if piece is not None and id(hit) in behind:
                behind[id(hit)].append(piece)

    async def _take(
        self, read: Sequence[_Read], facts: dict[str, list[Insight]], *, last: bool
    ) -> list[tuple[Hit, str]]:
        """Take the insights out of pages, to those of each page; the parts that are to be read on."""
        questions = [self._question(page.pieces, page.around, on=not last and goes_on(page.around)) for page in read]
        replies = await self.questioner.all(questions)
        on: list[tuple[Hit, str]] = []
        strays: list[tuple[Hit, list[Dropped]]] = []
        for page, question, reply in zip(read, questions, replies, strict=True):
            hit = page.hit
            if self.questioner.left_out(question):
                self.allowance.leave("not read by the model", [hit.address])
                continue
            if reply is None:
                self.notes.append(f"Read, but nothing could be taken out of it: {hit.address}")
                continue
            if self._orders(reply, hit, facts):
                continue
            insights, strange = insights_in(reply, page.pieces, hit.query, self.limits.insights_per_page)
            facts[hit.address] += insights
            if strange:
                strays.append((hit, strange))
            part = str(reply.get("read_on") or "").strip()[:_LONGEST_PART]
            if part and part != _PICTURES:
                on.append((hit, part))
        if strays:
            await self._asked_again(strays, facts)
        return on

    def _question(
        self, pieces: Sequence[Piece], around: Sequence[Block], *, on: bool = False, again: bool = False
    ) -> Inquiry:
        pictures = any(piece.picture is not None for piece in pieces)
        values = {**self.values, "most": self.limits.insights_per_page}
        values |= {"pictures": pictures, "goes_on": on, "again": again}
        return Inquiry("research_insights", insights_form(goes_on=on), values, piece_blocks(pieces, around))

    def _orders(self, reply: Mapping[str, Any], hit: Hit, facts: dict[str, list[Insight]]) -> bool:
        """Leave out a page that gives orders to its reader, with all its parts; return whether it does."""
        if reply.get("orders"):
            self.notes.append(f"Left out, since it gives orders to its reader: {hit.address}")
            self.distrusted_pages.append(hit.address)
            facts[hit.address].clear()
        return bool(reply.get("orders"))

    async def _asked_again(self, strays: Sequence[tuple[Hit, list[Dropped]]], facts: dict[str, list[Insight]]) -> None:
        """Ask readers once more for the words behind statements whose words do not stand there."""
        questions = []
        places = []
        for _, statements in strays:
            pieces = [*dict.fromkeys(piece for statement in statements for piece in statement.pieces)]
            question = self._question(pieces, (), again=True)
            questions.append(replace(question, content=(*question.content, _dropped_block(statements)), beside=True))
            places.append(pieces)
        for (hit, statements), pieces, reply in zip(strays, places, await self.questioner.all(questions), strict=True):
            insights: list[Insight] = []
            strange = statements
            if reply is not None:
                if self._orders(reply, hit, facts):
                    continue
                insights, strange = insights_in(reply, pieces, hit.query, len(statements))
            facts[hit.address] += insights
            if strange:
                self.notes.append(
                    f"{len(strange)} statements about {hit.address} were left out: their words do not stand there"
                )


def _dropped_block(statements: Sequence[Dropped]) -> Block:
    """Return the statements whose words do not stand in the page, as material: they may be the page's words."""
    lines = ["Statements, each with the quote that was given:", *(f"- {row.fact}: “{row.quote}”" for row in statements)]
    return material("\n".join(lines), "statements")


def _has_pictures(outcome: Outcome) -> bool:
    return outcome.ok and f"part='{_PICTURES}'" in text_of(outcome.blocks()[:1])
