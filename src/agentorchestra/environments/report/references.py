"""The references of all items as one list, and texts numbered by it. Code, no model's word (000, app. D.7)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel

from agentorchestra.core.spec import Citation
from agentorchestra.environments.report.addresses import escape, key_of, usable_address
from agentorchestra.environments.report.items import MOST_DESCRIBED, ReportItem
from agentorchestra.environments.report.marks import (
    CITATION,
    closed_up,
    mark_name,
    marks_in,
    outside_code,
    without_list,
)

# Where the mark of a source leads that has no address: to the list.
NO_ADDRESS = "#references"
_MOST_CITED = 50  # citations of one source that are kept
_MOST_QUOTES = 5  # of one source that the list shows
_LINK = r"\[\d{1,4}\]\([^()\s]{1,3000}\)"


class Listed(BaseModel, frozen=True):
    number: int  # from 1, in the order in which the items name the sources
    url: str = ""  # its address, "" for none
    description: str = ""  # in words
    cited: tuple[Citation, ...] = ()  # what was cited of it, where and in which words

    @property
    def address(self) -> str:
        return escape(self.url) if self.url else NO_ADDRESS


class ReportPiece(BaseModel, frozen=True):
    title: str = ""
    content: str = ""  # its marks are the report's
    summary: str = ""
    by: str = ""  # the agent that added it
    # The content with marks of single quotes, `[2.1]` for the first of what is cited of reference 2; "" in old reports.
    quoted: str = ""


class CollectedReferences(BaseModel, frozen=True):
    """All of a report: its pieces and its sources, each once."""

    pieces: tuple[ReportPiece, ...] = ()
    references: tuple[Listed, ...] = ()


@dataclass
class _Merged:
    """What the items say of one source."""

    url: str
    words: list[str] = field(default_factory=list)
    citations: list[Citation] = field(default_factory=list)


def collect(items: Sequence[ReportItem]) -> CollectedReferences:
    """Gather the references of all items, merge those of one address (or of the same words), number them from 1."""
    order: dict[str, int] = {}
    sources: list[_Merged] = []
    pieces = []
    for item in items:
        numbers: dict[int, int] = {}
        quotes: dict[int, Citation] = {}
        for reference in item.references:
            key = key_of(reference.url, reference.description)
            number = order.setdefault(key, len(order) + 1)
            if number > len(sources):
                sources.append(_Merged(key if reference.url else ""))
            numbers[reference.id] = number
            source = sources[number - 1]
            source.words.append(reference.description)
            quotes[reference.id] = Citation(source=reference.source, place=reference.place, quote=reference.quote)
            source.citations.append(quotes[reference.id])
        pieces.append((item, numbers, quotes))
    references = tuple(
        Listed(
            number=number,
            url=source.url,
            description=_words_of(source.words),
            cited=tuple(dict.fromkeys(source.citations))[:_MOST_CITED],
        )
        for number, source in enumerate(sources, start=1)
    )
    return CollectedReferences(
        pieces=tuple(
            ReportPiece(
                title=item.title,
                summary=item.summary,
                by=item.by,
                content=_renumber(item.content, {old: str(number) for old, number in numbers.items()}),
                quoted=_renumber(item.content, _of_quotes(numbers, quotes, references)),
            )
            for item, numbers, quotes in pieces
        ),
        references=references,
    )


def _words_of(descriptions: Sequence[str]) -> str:
    """Descriptions of one source as one: the first, with those that say something else."""
    words: list[str] = []
    for description in descriptions:
        if description and not any(description.casefold() in other.casefold() for other in words):
            words = [other for other in words if other.casefold() not in description.casefold()] + [description]
    return "; ".join(words)[:MOST_DESCRIBED]


def _of_quotes(
    numbers: Mapping[int, int], quotes: Mapping[int, Citation], references: Sequence[Listed]
) -> dict[int, str]:
    """Return the names of an item's quotes in the report, by the numbers of its references."""
    names = {}
    for old, number in numbers.items():
        citations = references[number - 1].cited
        names[old] = f"{number}.{citations.index(quotes[old]) + 1 if quotes[old] in citations else 1}"
    return names


def _renumber(content: str, numbers: Mapping[int, str]) -> str:
    """Return an item's text with other numbers, as bare marks."""

    def mark(match: re.Match[str]) -> str:
        text = match["mark"] or match["text"] or ""
        if not text.isdigit() or int(text) not in numbers:
            return match[0]
        return f"[{numbers[int(text)]}]"

    return outside_code(content, lambda part: CITATION.sub(mark, part))


@dataclass(frozen=True)
class Finished:
    text: str  # Markdown; `[n](address)` behind the claims, the list of references at the end
    references: tuple[Listed, ...]  # the sources as they are numbered in it
    struck: tuple[str, ...]  # citations that name none of the sources and were taken out
    left_out: tuple[Listed, ...]  # those that the text does not cite


@dataclass
class _Numbering:
    references: Sequence[Listed]
    used: dict[int, int] = field(default_factory=dict)  # numbers by first use
    struck: list[str] = field(default_factory=list)
    by_key: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for reference in self.references:
            self.by_key.setdefault(key_of(reference.url, reference.description), reference.number)

    def link(self, number: int) -> str:
        new = self.used.setdefault(number, len(self.used) + 1)
        return f"[{new}]({self.references[number - 1].address})"

    def replace(self, match: re.Match[str]) -> str:
        if match["mark"] is not None:
            return self._marks(match["mark"], match[0])
        address = match["address"] or match["auto"] or match["bare"] or match["doi"]
        text = (match["text"] or "").strip()
        number = self.by_key.get(usable_address(address) or address, 0)
        if match["address"] is None:
            return self.link(number) if number else match[0]
        is_mark = re.fullmatch(r"\^?E?\d{1,3}", text) is not None
        if not number and address == NO_ADDRESS and is_mark:
            return self._marks(text, match[0])
        if not number:
            self.struck.append(match[0] if is_mark else address)
            return "" if is_mark else text
        return self.link(number) if is_mark or not text else f"{text} {self.link(number)}"

    def _marks(self, text: str, whole: str) -> str:
        marks = []
        for mark in marks_in(text):
            name = mark_name(mark)
            if name.isdigit() and 0 < int(name) <= len(self.references):
                marks.append(self.link(int(name)))
            else:
                self.struck.append(f"[{mark}]")
        return "".join(dict.fromkeys(marks))


def finish(text: str, references: Sequence[Listed], *, every: bool = True) -> Finished:
    """Number a text by first use, strike out what names no source, and put the list of references at its end.

    It has marks `[2]` for reference 2, or links to sources. With `every`, the list also has what is not cited.
    """
    numbering = _Numbering(references)
    body, _ = without_list(text)
    body = outside_code(body, lambda part: CITATION.sub(numbering.replace, part))
    body = outside_code(body, deduplicate)
    if numbering.struck:
        body = outside_code(body, closed_up)
    missing = [reference.number for reference in references if reference.number not in numbering.used]
    if every:
        for number in missing:
            numbering.link(number)
    listing = tuple(
        references[old - 1].model_copy(update={"number": new})
        for old, new in sorted(numbering.used.items(), key=lambda pair: pair[1])
    )
    lines = "\n".join(_line(reference) for reference in listing)
    whole = "\n\n".join(part for part in (body.strip(), f"## References\n\n{lines}" if lines else "") if part)
    left_out = tuple(references[number - 1] for number in missing)
    return Finished(f"{whole}\n", listing, tuple(dict.fromkeys(numbering.struck)), left_out)


def assemble(collection: CollectedReferences, title: str = "") -> str:
    """Return the pieces one after the other, as a text with marks: where no model writes it."""
    parts = [f"# {title}"] if title else []
    for piece in collection.pieces:
        heading = "" if not piece.title or re.match(r"#{1,3}\s", piece.content) else f"## {piece.title}"
        parts.append("\n\n".join(part for part in (heading, piece.content) if part))
    return "\n\n".join(part for part in parts if part)


def deduplicate(text: str) -> str:
    def once(match: re.Match[str]) -> str:
        marks = re.findall(_LINK, match[0])
        return match[0] if len(marks) == len({*marks}) else "".join(dict.fromkeys(marks))

    return re.sub(rf"{_LINK}(?:[ \t]{{0,3}}{_LINK})+", once, text)


def _line(reference: Listed) -> str:
    name = reference.description or reference.url
    texts = dict.fromkeys(_quotation(citation) for citation in reference.cited)
    quotes = "; ".join([text for text in texts if text][:_MOST_QUOTES])
    link = f"[{plain(name)}]({reference.address})" if reference.url else plain(name)
    return f"{reference.number}. {link}{': ' + quotes if quotes else ''}"


def _quotation(citation: Citation) -> str:
    words = " ".join(citation.quote.split())
    words = f"“{plain(words[:200])}{'…' if len(words) > 200 else ''}”" if words else ""
    return " ".join(part for part in (plain(citation.place), words) if part)


def plain(text: str) -> str:
    """Text inside Markdown that makes no link of its own."""
    return re.sub(r"([\[\]<>`])", r"\\\1", text)
