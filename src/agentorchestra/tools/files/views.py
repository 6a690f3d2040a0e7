"""Text and pages as they are read: exactly, in one piece, with the numbers of the lines beside them.

A line is shown as its number, a tab, and its characters. Without the numbers the lines are the file's own. A line that
is too long is cut, and the stretch that is shown stands beside it: `12, characters 1-4000`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from agentorchestra.core.content import TextBlock, without_numbers
from agentorchestra.tools.files.documents import PdfDocument, TextDocument
from agentorchestra.tools.files.places import Place, parse_place

LINE_CHARS = 4_000  # after so many characters a line is cut where not everything fits
STRETCH_CHARS = 1_200  # about how much of a text is cited in one piece by who reads all of it

_SLACK = 8  # a rest of this part of the limit is shown along: nobody has to ask for a few lines


class View(NamedTuple):
    """The part of a document that is shown."""

    pieces: list[tuple[Place, str]]  # the place and the text of each: all lines are one piece, each page is one
    last: int  # the last line or page that is shown
    cut: list[Place]  # the stretches of lines or pages that are shown in place of the whole


def text_view(document: TextDocument, place: Place, limit: int) -> View:
    """Return lines of a text (or characters of one) with their numbers, in about `limit` characters."""
    if place.first == place.last:
        span, text, cut = _stretch(document.lines(place.first, place.first), place, limit)
        return View([(span, f"{str(span).removeprefix('line ')}\t{text}")], place.first, cut)
    start, end = document.span(place.first, place.last)
    lines = place.last - place.first + 1
    room = limit + limit // _SLACK
    whole = end - start + lines * (len(str(place.last)) + 2) <= room
    texts: list[str] = []
    cut = []
    chars = 0
    for number in range(place.first, place.last + 1):
        begin, stop = document.span(number, number)
        beside = str(number)
        if stop - begin > LINE_CHARS and not whole:
            cut.append(Place("line", number, number, first_char=1, last_char=LINE_CHARS))
            stop, beside = begin + LINE_CHARS, f"{number}, characters 1-{LINE_CHARS}"
        line = f"{beside}\t{document.text[begin:stop]}"
        if texts and not whole and chars + len(line) > limit:
            cut = [piece for piece in cut if piece.first < number]
            break
        texts.append(line)
        chars += len(line) + 1
    last = place.first + len(texts) - 1
    return View([(Place("line", place.first, last), "\n".join(texts))], last, cut)


def page_view(document: PdfDocument, place: Place, limit: int) -> View:
    """Return pages, in about `limit` characters; at least a piece of one."""
    view = View([], place.first - 1, [])
    chars = 0
    for number in range(place.first, place.last + 1):
        page = place if place.first == place.last else Place("page", number, number)
        span, text, cut = _stretch(document.pages[number - 1], page, limit)
        if view.pieces and chars + len(text) > limit:
            break
        view.pieces.append((span, text))
        view.cut.extend(cut)
        chars += len(text)
    return view._replace(last=view.last + len(view.pieces))


def _stretch(text: str, place: Place, limit: int) -> tuple[Place, str, list[Place]]:
    """Return the characters of a line or a page that are shown, and where they stand, twice if that is not all."""
    if not place.first_char and len(text) <= limit + limit // _SLACK:
        return place, text, []
    begin = max(place.first_char, 1) - 1
    end = min(place.last_char or len(text), begin + limit, len(text))
    span = replace(place, first_char=begin + 1, last_char=end)
    return span, text[begin:end], [span]


def stretches(document: TextDocument) -> Iterator[tuple[Place, str]]:
    """Give all of a text in stretches of lines, cut behind blank lines where that is possible; long lines are cut."""
    first, size, blank = 1, 0, False
    for number in range(1, document.line_count + 1):
        begin, stop = document.span(number, number)
        long = stop - begin > LINE_CHARS
        if number > first and (long or size + stop - begin > STRETCH_CHARS or (blank and size > STRETCH_CHARS // 4)):
            yield Place("line", first, number - 1), document.lines(first, number - 1)
            first, size = number, 0
        if long:
            for at in range(begin, stop, STRETCH_CHARS):
                end = min(at + STRETCH_CHARS, stop)
                place = Place("line", number, number, first_char=at - begin + 1, last_char=end - begin)
                yield place, document.text[at:end]
            first = number + 1
            continue
        size += stop - begin + 1
        blank = not document.text[begin:stop].strip()
    if first <= document.line_count:
        yield Place("line", first, document.line_count), document.lines(first, document.line_count)


def stretches_of(block: TextBlock) -> list[tuple[str, str]]:
    """Return what a block shows, in stretches of its lines, each with its place and without the numbers beside it."""
    name = block.source.place or "" if block.source is not None else ""
    place, text = parse_place(name), without_numbers(block)
    if place is None or text == block.text or place.first_char:
        return [(name, text)]
    on = place.first - 1
    pieces = []
    for span, piece in stretches(TextDocument(text)):
        pieces.append((str(replace(span, first=span.first + on, last=span.last + on, part=place.part)), piece))
    return pieces


def length(document: TextDocument | PdfDocument, number: int) -> int:
    if isinstance(document, PdfDocument):
        return len(document.pages[number - 1])
    start, end = document.span(number, number)
    return end - start
