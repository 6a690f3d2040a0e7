"""Quotes: do the words stand in a text, as a person would compare them?

A person reads past the marks of a format (Markdown, separators of cells, cell addresses, line numbers, hyphens at line
ends), past white space and past the kinds of dashes and quotation marks. Letters, digits, decimal points, signs and
operators are what a quote says: those are compared one by one, whole words and whole numbers only.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import NamedTuple

from agentorchestra.core.content import Block, without_numbers
from agentorchestra.tools.files.documents import (
    Document,
    Leaf,
    PartsDocument,
    PdfDocument,
    TableDocument,
    TextDocument,
    joined,
    leaves,
    locate,
    only_part,
)
from agentorchestra.tools.files.formats.text import with_newlines
from agentorchestra.tools.files.places import Place, column_name, parse_place
from agentorchestra.tools.files.readers import read_document_sync
from agentorchestra.tools.files.tables import labelled_views, table_forms, table_view
from agentorchestra.tools.files.worker import LIMITS, ReadLimits

FEW_WORDS = 3  # words that each piece of a quote with an ellipsis must have
GAP_CHARS = 600  # letters and digits that an ellipsis may stand for
NEAR = 2  # lines or rows by which a place may be off
MOST_SEARCHED = 1_000_000  # characters of a text in which a quote without a place is looked for


def squeeze(text: str) -> str:
    """Return the text with every run of white space as one space."""
    return " ".join(text.split())


def alike(quote: str, text: str) -> bool:
    """Return True if a quote stands in a text as a person compares; "..." in it stands for words without a negation."""
    return any(_stands(phrase, other) for phrase, other in _readings(quote, text))


def stands_in_blocks(quote: str, blocks: Sequence[Block]) -> bool:
    """Return True if a quote stands in what a reading of a file gave, rows of tables in each form they are shown in."""
    texts = [*map(without_numbers, blocks)]
    views = (view for text in texts for view in labelled_views(text))
    return any(alike(quote, text) for text in chain(["\n".join(texts)], views))


def lines_of(quote: str, text: str) -> list[tuple[int, int]]:
    """Return the first and the last line, from 1, of each place in a text where a quote stands."""
    for phrase, other in _readings(quote, text):
        plain = _plain(other)
        if lines := {(plain.line_of(start), plain.line_of(end - 1)) for start, end in _spans(phrase, plain)}:
            return sorted(lines)
    return []


def _readings(quote: str, text: str) -> Iterator[tuple[str, str]]:
    """Give both texts as they are, then without what our own views put before lines and cells.

    The quote loses these only where the text has none to compare them with: else a false one would be read past.
    """
    quote, text = with_newlines(quote), with_newlines(text)
    yield quote, text
    bare = _bare(text)
    if bare != text:
        yield quote, bare
    elif _bare(quote) != quote and not _ADDRESS.search(text):
        yield _bare(quote), text
    if _LINK.search(text):  # the address of a link, too, may be what is quoted
        yield quote, _LINK.sub(r"\1 \2", text)


_LINK = re.compile(r"!?\[([^\[\]]*)\]\([ \t]*+([^()\s]*+)[^()\n]*+\)")
_LINE_NUMBER = re.compile(r"^ *+(\d{1,9})(?:, characters \d+-\d+)?\t", re.MULTILINE)
_LABEL = re.compile(r"(^|[;,|\t] ?)([A-Z]{1,3})(\d{1,7})(?:[ :=] *+)(?=\S)", re.MULTILINE)
_ADDRESS = re.compile(r"\b[A-Z]{1,3}\d{1,7}\b")


def _bare(text: str) -> str:
    """Remove line numbers that follow each other, and the addresses of cells of one row (`A7 x; B7 y`)."""
    numbers = [int(number) for number in _LINE_NUMBER.findall(text)]
    follow = all(after == before + 1 for before, after in pairwise(numbers))
    if numbers and follow and len(numbers) >= text.strip("\n").count("\n"):
        text = _LINE_NUMBER.sub("", text)
    labels = [match.group(2, 3) for match in _LABEL.finditer(text)]
    rows: dict[str, list[str]] = {}
    for column, row in labels:
        rows.setdefault(row, []).append(column)
    if labels and all(len({*columns}) > 1 for columns in rows.values()):
        text = _LABEL.sub(r"\1", text)
    return text


_ELLIPSIS = re.compile(r"[\[(] ?(?:…|\.{3,}) ?[\])]|…|\.{3,}")


def _stands(quote: str, text: str) -> bool:
    if not _plain(quote).text:  # marks alone: a rule, a bracket
        return bool(quote.strip()) and squeeze(quote) in squeeze(text)
    return any(True for _ in _spans(quote, _plain(text)))


def _spans(quote: str, plain: _Plain) -> Iterator[tuple[int, int]]:
    words = _plain(quote).text
    whole = [*_matches(words, plain)] if words else []
    if whole:
        yield from whole
        return
    pieces = [piece for piece in _ELLIPSIS.split(quote) if _plain(piece).text]
    if len(pieces) == 1:
        last = _plain(pieces[0]).text
        # At its end an ellipsis may also stand for the rest of a word ("the harv…"), never for that of a number.
        if quote.rstrip().endswith(("…", "...")) and last[-1].isalpha() and pieces[0] == pieces[0].rstrip():
            yield from _matches(last, plain, ends=False)
    elif all(_plain(piece).words >= FEW_WORDS for piece in pieces):
        yield from _in_order(pieces, plain)


def _in_order(pieces: list[str], plain: _Plain) -> Iterator[tuple[int, int]]:
    open_ = [*_matches(_plain(pieces[0]).text, plain)] if pieces else []
    for piece in pieces[1:]:
        spans = [*_matches(_plain(piece).text, plain)]
        open_ = [
            (begin, end)
            for start, end in spans
            for begin, before in open_
            if 0 <= start - before <= GAP_CHARS and not _negates(plain, before, start)
        ][:_MOST_SPANS]
    yield from open_


_MOST_SPANS = 100


def _negates(plain: _Plain, start: int, end: int) -> bool:
    cuts = [start, *(at for at in range(start + 1, end) if plain.marks[at] & _START), end]
    words = {plain.text[begin:other].strip() for begin, other in pairwise(cuts)}
    return any(word in _NEGATIONS or word.endswith("n't") for word in words)


_NEGATIONS = {
    *("not", "no", "never", "none", "nor", "neither", "nobody", "nothing", "nowhere", "without", "cannot", "hardly"),
    *("nicht", "nie", "niemals", "kein", "keine", "keinen", "keinem", "keiner", "keines", "nichts", "niemand", "ohne"),
    *("ne", "pas", "jamais", "aucun", "aucune", "sans", "nunca", "ninguno", "ninguna", "sin", "non", "senza", "niet"),
    *("weder", "geen", "nessun", "не", "нет", "никогда", "без", "不", "没", "無", "无", "未"),
}


class _Plain(NamedTuple):
    """A text as it is compared: words and numbers without anything between them."""

    text: str  # their letters and digits; only between two digits there is a blank
    marks: bytes  # for each offset whether a quote may begin (_START) or end there (_END)
    words: int  # how many there are
    starts: array[int]  # where each word begins
    lines: array[int]  # on which line of the text

    def line_of(self, offset: int) -> int:
        """Return the line, from 1, of the word that an offset lies in."""
        return self.lines[bisect_right(self.starts, offset) - 1]


_START, _END = 1, 2


def _matches(words: str, plain: _Plain, *, ends: bool = True) -> Iterator[tuple[int, int]]:
    """Give each beginning and end of these words, whole words only."""
    at = plain.text.find(words)
    while at >= 0:
        end = at + len(words)
        if plain.marks[at] & _START and (not ends or plain.marks[end] & _END):
            yield at, end
        at = plain.text.find(words, at + 1)


_ALIKE = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛ʼ´", "'"),
        **dict.fromkeys("“”„‟«»‹›「」『』《》〈〉", '"'),
        **dict.fromkeys("‐‑‒–—―−﹣－", "-"),
        **dict.fromkeys("•‣◦▪●⁃。、", " "),
        "⁄": "/",
        **dict.fromkeys([0xAD, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2065), 0xFEFF]),
    }
)
_POWER = re.compile(r"(?<=\d)(?=[²³¹⁰⁴-⁹⁻⁺])")
_FRACTION = re.compile(r"(?<=\d)(?=[¼-¾⅐-⅞])")
_ESCAPES = re.compile(r"\\([\\`*_{}\[\]()#+\-.!|>~])")
_HEAD = re.compile(r"^[ \t]*+(?:>(?![\d=]|[ \t]+\d)[ \t]*+)*+(?:#{1,6}(?=\s)|[-+*](?=\s))?", re.MULTILINE)

_LETTER = r"[^\W\d_\u0e00-\u1dff\u2e80-\U0003ffff]"  # of scripts that leave blanks between words
_TOKEN = re.compile(
    rf"""
    (?P<number>
        (?:(?<![\w)\]%.])-)? (?:
            (?<!\d)(?<!\d[,.])\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?(?!,?\d)   # 1,234.5
          | (?<!\d)(?<!\d[,.])\d+,\d+(?![,.]?\d)                       # 3,14
          | \d+(?:[.:]\d+)*
          | (?<![\w.])\.\d+
        )
    )
  | (?P<word> {_LETTER}(?:{_LETTER}|\d)*(?:'{_LETTER}+)*(?:(?<=\d)\.\d+)* )
  | (?P<range> (?<=[\d)\]%])-\s*(?=\d) )
  | (?P<mark> \#(?=\w) | [^\s*_`"'|;,.:\[\]\-\#] )
    """,
    re.VERBOSE,
)
_HYPHEN = re.compile(r"[^\W_]-\Z")


@lru_cache(maxsize=16)
def _plain(text: str) -> _Plain:
    text = _FRACTION.sub(" ", _POWER.sub("^", text))
    text = unicodedata.normalize("NFKC", text.translate(_ALIKE)).translate(_ALIKE).casefold()
    text = _HEAD.sub("", _ESCAPES.sub(r"\1", _LINK.sub(r"\1", text)).replace("~~", ""))
    parts: list[str] = []
    marks = bytearray(1)
    starts, lines = array("q"), array("q")
    size = words = offset = 0
    line = 1
    before = ""
    for match in _TOKEN.finditer(text):
        token = match[0]
        if match.lastgroup == "range":
            token = "-"
        elif token[0] == "-":
            token = "−" + token[1:]
        if before.isdigit() and (token[0].isdigit() or token[0] == "."):
            parts.append(" ")
            marks.append(0)
            size += 1
        start, end = match.span()
        inside = match.lastgroup == "word" or before.isalpha()  # "non-toxic", "Covid-19": half of it says another thing
        if not (inside and _HYPHEN.search(text, max(0, start - 2), start)):
            marks[size] |= _START
        line, offset = line + text.count("\n", offset, start), start
        starts.append(size)
        lines.append(line)
        parts.append(token)
        size += len(token)
        marks.extend(bytes(len(token)))
        if not (match.lastgroup == "word" and text[end : end + 1] == "-" and text[end + 1 : end + 2].isalnum()):
            marks[size] |= _END
        before = token[-1]
        words += token[-1].isalnum()
    return _Plain("".join(parts), bytes(marks), words, starts, lines)


def place_text(document: Document, place: Place) -> Iterator[str]:
    """Give the text of a place in each form in which it is shown; nothing where there is no such place."""
    if place.part:
        _, document, rest = locate(document, place.part)
        if rest:
            return
    document = only_part(document)
    if isinstance(document, TextDocument):
        if place.unit != "line" or not 1 <= place.first <= document.line_count:
            return
        yield _stretch(document.lines(place.first, min(place.last, document.line_count)), place)
        return
    if isinstance(document, PdfDocument):
        if place.unit != "page" or not 1 <= place.first <= len(document.pages):
            return
        yield _stretch("\n".join(document.pages[place.first - 1 : place.last]), place)
        return
    if (
        isinstance(document, PartsDocument)
        or place.unit not in ("row", "cell")
        or not 1 <= place.first <= document.last_row
    ):
        return
    yield from table_forms(document, place)
    yield table_view(document, replace(place, last=min(place.last, document.last_row)), sys.maxsize).text
    yield from _cells_apart(document, place)


def _stretch(text: str, place: Place) -> str:
    """Return the characters that a place names, of the text of its line or page."""
    return text[place.first_char - 1 : place.last_char] if place.first_char else text


def _cells_apart(table: TableDocument, place: Place) -> Iterator[str]:
    """Give rows or cells with something between cells that is no comma ("126,336" may be one cell or two)."""
    rows = range(place.first, min(place.last, table.last_row) + 1)
    first, last = (place.first_column, place.last_column) if place.unit == "cell" else (1, table.width)
    columns = range(first, min(last, table.width) + 1)
    cells = {row: [table.cell(row, column) for column in columns] for row in rows if columns}
    names = [column_name(column) for column in columns]
    yield "\n".join(" | ".join(cell) for cell in cells.values())
    yield "\n".join(" | ".join([str(row), *cell]) for row, cell in cells.items())
    labels = ([f"{name}{row} {cell}" for name, cell in zip(names, cell, strict=True)] for row, cell in cells.items())
    yield "\n".join("; ".join(record) for record in labels)


def verify_quote(path: Path, place: str, quote: str, limits: ReadLimits = LIMITS) -> bool:
    """Return True if a quote stands at a place of a file, as a person would compare (`alike`). Blocks.

    Raises:
        FileInputError: if the file cannot be read.
    """
    return quote_stands(read_document_sync(path, limits), place, quote)


def quote_stands(document: Document, place: str, quote: str) -> bool:
    """Return whether a quote stands at a place of a document; see `verify_quote`."""
    names, part, inside = locate(document, place)
    if names and not inside:  # a part without a place in it: "slide 3"
        return any(alike(quote, text) for _, leaf in leaves(part) for text in _whole(leaf))
    inner = parse_place(inside)
    if inner is None:
        return False
    return any(alike(quote, text) for text in place_text(part, inner)) or _some_cells(part, inner, quote)


def _some_cells(document: Document, place: Place, quote: str) -> bool:
    """Return True if a quote is some of the cells of a row, whole and in order, with or without column names."""
    if place.part:
        _, document, _ = locate(document, place.part)
    table = only_part(document)
    if not isinstance(table, TableDocument) or place.unit != "row" or not 1 <= place.first <= table.last_row:
        return False
    # A comma before a digit may belong to a number.
    for between in (r"[|;\t\n]|…|\.{3,}|,", r"[|;\t\n]|…|\.{3,}|,(?!\d)"):
        pieces = [text for part in re.split(between, quote) if (text := _plain(part).text)]
        rows = range(place.first, min(place.last, table.last_row) + 1)
        if len(pieces) > 1 and any(_in_row(pieces, table, row) for row in rows):
            return True
    return False


def _in_row(pieces: list[str], table: TableDocument, row: int) -> bool:
    cells = [(f"{column_name(at)}{row}", table.name(at), cell) for at, cell in enumerate(table.record(row), 1)]
    cell_forms = (
        (cell, f"{name}: {cell}", f"{at} {cell}", f"{at} {name}: {cell}") for at, name, cell in cells if cell.strip()
    )
    left = ({_plain(form).text for form in forms} for forms in cell_forms)  # taken by one piece after the other
    return all(any(piece in forms for forms in left) for piece in pieces)


_COUNTED_BY: dict[str, type[Leaf]] = {"line": TextDocument, "page": PdfDocument, "row": TableDocument}


def place_of(document: Document, place: str, quote: str) -> str | None:
    """Return the place where a quote stands, None where it stands nowhere that could be meant.

    That is the given place; else the only one within a line or two (a page) of it where a quote of some words stands;
    for a place that is missing ("") the only one in the document.
    """
    if quote_stands(document, place, quote):
        return place
    names, part, inside = locate(document, place)
    if not inside and _plain(quote).words >= FEW_WORDS and _is_in_notes(document, quote):
        return place
    prefix = "!".join(names)
    if inside:
        inner = parse_place(inside)
        if inner is not None and inner.unit == "line" and isinstance(only_part(part), TableDocument):
            return place_of(document, joined(prefix, str(replace(inner, unit="row"))), quote)  # read as a text
        if inner is None or inner.part or _plain(quote).words < FEW_WORDS:
            return None
        part = only_part(part)
        if not isinstance(part, _COUNTED_BY.get(inner.unit, ())):
            return None
        near = 1 if inner.unit == "page" else NEAR
        places = [*islice(_places(part, quote, inner.first - near, inner.last + near), 2)]
    else:
        every = ((path, leaf) for path, leaf in leaves(part, tables=False) if _size(leaf) <= MOST_SEARCHED)
        places = [*islice((joined(path, place) for path, leaf in every for place in _places(leaf, quote)), 2)]
    return joined(prefix, places[0]) if len(places) == 1 else None


def _is_in_notes(document: Document, quote: str) -> bool:
    """Return True if the words are what a reading tells of a file besides its text: a hidden sheet, a left out part."""
    return any(alike(quote, note) for doc in [document, *(leaf for _, leaf in leaves(document))] for note in doc.notes)


def _places(document: Document, quote: str, first: int = 1, last: int = sys.maxsize) -> Iterator[str]:
    """Give the places of a quote among these lines, pages or rows."""
    first = max(1, first)
    if isinstance(document, TextDocument):
        last = min(document.line_count, last)
        for start, end in lines_of(quote, document.lines(first, last)) if first <= last else ():
            yield str(Place("line", first + start - 1, first + end - 1))
    elif isinstance(document, PdfDocument):
        for number, page in enumerate(document.pages[first - 1 : last], first):
            if alike(quote, page):
                yield str(Place("page", number, number))
    elif isinstance(document, TableDocument):
        for number in range(first, min(document.last_row, last) + 1):
            place = Place("row", number, number)
            if any(alike(quote, text) for text in place_text(document, place)):
                yield str(place)


def _size(document: Leaf) -> int:
    if isinstance(document, TextDocument):
        return len(document.text)
    if isinstance(document, PdfDocument):
        return sum(map(len, document.pages))
    return 20 * len(document.rows) * document.width


def _whole(document: Leaf) -> Iterator[str]:
    if isinstance(document, TextDocument):
        yield document.text
    elif isinstance(document, PdfDocument):
        yield "\n".join(document.pages)
    else:
        yield from place_text(document, Place("row", 1, document.last_row))
