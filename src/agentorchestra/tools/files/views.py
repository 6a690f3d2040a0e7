"""Text and pages as they are read: exactly, in one piece, with the numbers of the lines beside them.

A line is shown as its number, a tab, and its characters. Without the numbers the lines are the file's own. A line that
is too long is cut, and the stretch that is shown stands beside it: `12, characters 1-4000`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from agentorchestra.tools.files.documents import PdfDocument, TextDocument
from agentorchestra.tools.files.places import Place

LINE_CHARS = 4_000
"""After so many characters a line is cut where not everything fits."""

_NUMBER = re.compile(r"^\d{1,9}(?:, characters \d{1,9}-\d{1,9})?\t", re.MULTILINE)
_SLACK = 8
"""A rest of this part of the limit is shown along: nobody has to ask for a few lines."""


class View(NamedTuple):
    """What is shown of a document.

    Attributes:
        text: the lines with their numbers, or the pages below their heads.
        place: what is shown.
        cut: the stretches of lines or pages that are shown in place of the whole.
    """

    text: str
    place: Place
    cut: tuple[Place, ...] = ()


def text_view(document: TextDocument, place: Place, limit: int) -> View:
    """Lines of a text with their numbers, in about `limit` characters; at least a piece of one.

    Args:
        document: the text.
        place: lines that it has, or characters of one that it has.
        limit: characters.
    """
    if place.first == place.last:
        return _one_line(document, place, limit)
    start, end = document.span(place.first, place.last)
    lines = place.last - place.first + 1
    room = limit + limit // _SLACK
    whole = end - start + lines * (len(str(place.last)) + 2) <= room
    shown: list[str] = []
    cut: list[Place] = []
    spent = 0
    for number in range(place.first, place.last + 1):
        begin, stop = document.span(number, number)
        beside = str(number)
        if stop - begin > LINE_CHARS and not whole:
            cut.append(Place("line", number, number, first_char=1, last_char=LINE_CHARS))
            stop, beside = begin + LINE_CHARS, f"{number}, characters 1-{LINE_CHARS}"
        line = f"{beside}\t{document.text[begin:stop]}"
        if shown and not whole and spent + len(line) > limit:
            cut = cut[:-1] if cut and cut[-1].first == number else cut
            break
        shown.append(line)
        spent += len(line) + 1
    return View("\n".join(shown), Place("line", place.first, place.first + len(shown) - 1), tuple(cut))


def _one_line(document: TextDocument, place: Place, limit: int) -> View:
    text = document.lines(place.first, place.first)
    begin, end = (place.first_char - 1, place.last_char) if place.first_char else (0, len(text))
    if not place.first_char and end <= limit + limit // _SLACK:
        return View(f"{place.first}\t{text}", place)
    end = min(end, begin + limit, len(text))
    shown = Place("line", place.first, place.first, first_char=begin + 1, last_char=end)
    return View(f"{str(shown).removeprefix('line ')}\t{text[begin:end]}", shown, (shown,))


def page_view(document: PdfDocument, place: Place, limit: int) -> View:
    """Pages, each below a line with its place where there are several, in about `limit` characters."""
    if place.first == place.last:
        text = document.pages[place.first - 1]
        begin, end = (place.first_char - 1, place.last_char) if place.first_char else (0, len(text))
        if not place.first_char and end <= limit + limit // _SLACK:
            return View(text, place)
        end = min(end, begin + limit, len(text))
        shown = Place("page", place.first, place.first, first_char=begin + 1, last_char=end)
        return View(text[begin:end], shown, (shown,))
    pages: list[str] = []
    cut: list[Place] = []
    spent = 0
    for number in range(place.first, place.last + 1):
        text = document.pages[number - 1]
        if pages and spent + len(text) > limit:
            break
        if len(text) > limit:
            cut.append(Place("page", number, number, first_char=1, last_char=limit))
            text = text[:limit]
        pages.append(f"{head(str(Place('page', number, number)))}\n{text}")
        spent += len(text)
    return View("\n".join(pages), Place("page", place.first, place.first + len(pages) - 1), tuple(cut))


def head(place: str) -> str:
    """The line above a piece that stands among others."""
    return f"--- {place} ---"


def without_numbers(text: str) -> str:
    """The lines as they stand in the file, of text as `text_view` shows it."""
    return _NUMBER.sub("", text)


def length(document: TextDocument | PdfDocument, number: int) -> int:
    """Characters of a line or a page."""
    if isinstance(document, PdfDocument):
        return len(document.pages[number - 1])
    start, end = document.span(number, number)
    return end - start


__all__ = ["LINE_CHARS", "View", "head", "length", "page_view", "text_view", "without_numbers"]
