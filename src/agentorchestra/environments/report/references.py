"""The references of all items as one list, and texts numbered by it. Code, no model's word (000, app. D.7)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel

from agentorchestra.core.spec import Citation
from agentorchestra.environments.report.addresses import escaped, key_of, usable_address
from agentorchestra.environments.report.items import MOST_DESCRIBED, Item
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
_LINKED = r"\[\d{1,4}\]\([^()\s]{1,3000}\)"


class Listed(BaseModel, frozen=True):
    number: int  # from 1, in the order in which the items name the sources
    url: str = ""  # its address, "" for none
    description: str = ""  # in words
    cited: tuple[Citation, ...] = ()  # what was cited of it, where and in which words

    @property
    def address(self) -> str:
        return escaped(self.url) if self.url else NO_ADDRESS


class Piece(BaseModel, frozen=True):
    title: str = ""
    content: str = ""  # its marks are the report's
    summary: str = ""
    by: str = ""  # the agent that added it
    # The content with marks of single quotes, `[2.1]` for the first of what is cited of reference 2; "" in old reports.
    quoted: str = ""


class Collected(BaseModel, frozen=True):
    """All of a report: its pieces and its sources, each once."""

    pieces: tuple[Piece, ...] = ()
    references: tuple[Listed, ...] = ()


@dataclass
class _Merged:
    """What the items say of one source."""

    url: str
    words: list[str] = field(default_factory=list)
    cited: list[Citation] = field(default_factory=list)


def collect(items: Sequence[Item]) -> Collected:
    """Gather the references of all items, merge those of one address (or of the same words), number them from 1."""
    order: dict[str, int] = {}
    found: list[_Merged] = []
    pieces = []
    for item in items:
        numbers: dict[int, int] = {}
        quotes: dict[int, Citation] = {}
        for reference in item.references:
            key = key_of(reference.url, reference.description)
            number = order.setdefault(key, len(order) + 1)
            if number > len(found):
                found.append(_Merged(key if reference.url else ""))
            numbers[reference.id] = number
            merged = found[number - 1]
            merged.words.append(reference.description)
            quotes[reference.id] = Citation(source=reference.source, place=reference.place, quote=reference.quote)
            merged.cited.append(quotes[reference.id])
        pieces.append((item, numbers, quotes))
    references = tuple(
        Listed(
            number=number,
            url=one.url,
            description=_words_of(one.words),
            cited=tuple(dict.fromkeys(one.cited))[:_MOST_CITED],
        )
        for number, one in enumerate(found, start=1)
    )
    return Collected(
        pieces=tuple(
            Piece(
                title=item.title,
                summary=item.summary,
                by=item.by,
                content=_renumbered(item.content, {one: str(number) for one, number in numbers.items()}),
                quoted=_renumbered(item.content, _of_quotes(numbers, quotes, references)),
            )
            for item, numbers, quotes in pieces
        ),
        references=references,
    )


def _words_of(descriptions: Sequence[str]) -> str:
    """Descriptions of one source as one: the first, with those that say something else."""
    kept: list[str] = []
    for description in descriptions:
        if description and not any(description.casefold() in other.casefold() for other in kept):
            kept = [other for other in kept if other.casefold() not in description.casefold()] + [description]
    return "; ".join(kept)[:MOST_DESCRIBED]


def _of_quotes(
    numbers: Mapping[int, int], quotes: Mapping[int, Citation], references: Sequence[Listed]
) -> dict[int, str]:
    """Return the names of an item's quotes in the report, by the numbers of its references."""
    found = {}
    for one, number in numbers.items():
        cited = references[number - 1].cited
        found[one] = f"{number}.{cited.index(quotes[one]) + 1 if quotes[one] in cited else 1}"
    return found


def _renumbered(content: str, numbers: Mapping[int, str]) -> str:
    """Return an item's text with other numbers, as bare marks."""

    def mark(found: re.Match[str]) -> str:
        written = found["mark"] or found["text"] or ""
        if not written.isdigit() or int(written) not in numbers:
            return found[0]
        return f"[{numbers[int(written)]}]"

    return outside_code(content, lambda part: CITATION.sub(mark, part))


@dataclass(frozen=True)
class Finished:
    text: str  # Markdown; `[n](address)` behind the claims, the list of references at the end
    references: tuple[Listed, ...]  # the sources as they are numbered in it
    struck: tuple[str, ...]  # citations that name none of the sources and were taken out
    uncited: tuple[Listed, ...]  # those that the text does not cite


@dataclass
class _Numbering:
    references: Sequence[Listed]
    used: dict[int, int] = field(default_factory=dict)  # numbers by first use
    struck: list[str] = field(default_factory=list)
    by_key: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for reference in self.references:
            self.by_key.setdefault(key_of(reference.url, reference.description), reference.number)

    def linked(self, number: int) -> str:
        new = self.used.setdefault(number, len(self.used) + 1)
        return f"[{new}]({self.references[number - 1].address})"

    def replaced(self, found: re.Match[str]) -> str:
        if found["mark"] is not None:
            return self._marks(found["mark"], found[0])
        address = found["address"] or found["auto"] or found["bare"] or found["doi"]
        text = (found["text"] or "").strip()
        known = self.by_key.get(usable_address(address) or address, 0)
        if found["address"] is None:
            return self.linked(known) if known else found[0]
        is_mark = re.fullmatch(r"\^?E?\d{1,3}", text) is not None
        if not known and address == NO_ADDRESS and is_mark:
            return self._marks(text, found[0])
        if not known:
            self.struck.append(found[0] if is_mark else address)
            return "" if is_mark else text
        return self.linked(known) if is_mark or not text else f"{text} {self.linked(known)}"

    def _marks(self, written: str, whole: str) -> str:
        made = []
        for one in marks_in(written):
            name = mark_name(one)
            if name.isdigit() and 0 < int(name) <= len(self.references):
                made.append(self.linked(int(name)))
            else:
                self.struck.append(f"[{one}]")
        return "".join(dict.fromkeys(made))


def finish(text: str, references: Sequence[Listed], *, every: bool = True) -> Finished:
    """Number a text by first use, strike out what names no source, and put the list of references at its end.

    It has marks `[2]` for reference 2, or links to sources. With `every`, the list also has what is not cited.
    """
    numbering = _Numbering(references)
    body, _ = without_list(text)
    body = outside_code(body, lambda part: CITATION.sub(numbering.replaced, part))
    body = outside_code(body, one_each)
    if numbering.struck:
        body = outside_code(body, closed_up)
    missing = [reference.number for reference in references if reference.number not in numbering.used]
    if every:
        for number in missing:
            numbering.linked(number)
    numbered = tuple(
        references[old - 1].model_copy(update={"number": new})
        for old, new in sorted(numbering.used.items(), key=lambda one: one[1])
    )
    lines = "\n".join(_line(one) for one in numbered)
    whole = "\n\n".join(part for part in (body.strip(), f"## References\n\n{lines}" if lines else "") if part)
    uncited = tuple(references[one - 1] for one in missing)
    return Finished(f"{whole}\n", numbered, tuple(dict.fromkeys(numbering.struck)), uncited)


def assembled(collected: Collected, title: str = "") -> str:
    """Return the pieces one after the other, as a text with marks: where no model writes it."""
    parts = [f"# {title}"] if title else []
    for piece in collected.pieces:
        heading = "" if not piece.title or re.match(r"#{1,3}\s", piece.content) else f"## {piece.title}"
        parts.append("\n\n".join(part for part in (heading, piece.content) if part))
    return "\n\n".join(part for part in parts if part)


def one_each(text: str) -> str:
    def once(found: re.Match[str]) -> str:
        marks = re.findall(_LINKED, found[0])
        return found[0] if len(marks) == len({*marks}) else "".join(dict.fromkeys(marks))

    return re.sub(rf"{_LINKED}(?:[ \t]{{0,3}}{_LINKED})+", once, text)


def _line(one: Listed) -> str:
    name = one.description or one.url
    said = dict.fromkeys(_quoted(each) for each in one.cited)
    quotes = "; ".join([each for each in said if each][:_MOST_QUOTES])
    shown = f"[{plain(name)}]({one.address})" if one.url else plain(name)
    return f"{one.number}. {shown}{': ' + quotes if quotes else ''}"


def _quoted(citation: Citation) -> str:
    words = " ".join(citation.quote.split())
    words = f"“{plain(words[:200])}{'…' if len(words) > 200 else ''}”" if words else ""
    return " ".join(part for part in (plain(citation.place), words) if part)


def plain(text: str) -> str:
    """Text inside Markdown that makes no link of its own."""
    return re.sub(r"([\[\]<>`])", r"\\\1", text)
