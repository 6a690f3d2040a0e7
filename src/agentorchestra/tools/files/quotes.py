"""Quotes: do the words stand in a text, as a person would compare them?

A person reads past the marks of a format (Markdown, separators of cells, cell addresses, line numbers, hyphens at line
ends), past white space and past the kinds of dashes and quotation marks. Letters, digits, decimal points, signs and
operators are what a quote says: those are compared one by one, whole words and whole numbers only.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from agentorchestra.tools.files.documents import (
    Document,
    Leaf,
    PartsDocument,
    PdfDocument,
    TableDocument,
    TextDocument,
    leaves,
    locate,
    only_part,
)
from agentorchestra.tools.files.passages import row_text
from agentorchestra.tools.files.places import Place, column_name, parse_place
from agentorchestra.tools.files.readers import LIMITS, Limits, read_document_sync

FEW_WORDS = 3
"""Words that each piece of a quote with an ellipsis must have."""

GAP_CHARS = 600
"""Letters and digits that an ellipsis may stand for."""


# --- the comparison ---------------------------------------------------------------------------------------------------


def normalised(text: str) -> str:
    """Return the text with every run of white space as one space."""
    return " ".join(text.split())


def alike(quote: str, text: str) -> bool:
    """Return whether a quote stands in a text as a person would compare.

    Args:
        quote: the words; "..." or "…" in it may stand for words that are left out, no negation among them.
        text: where they are said to stand.
    """
    return any(_stands(one, other) for one, other in _readings(quote, text))


def _readings(quote: str, text: str) -> Iterator[tuple[str, str]]:
    """Both texts as they are, then without what our own views put before lines and cells.

    The quote loses line numbers and the addresses of cells only where the text has none to compare them with: else a
    false one would be read past.
    """
    yield quote, text
    bare = _bare(text)
    if bare != text:
        yield quote, bare
    elif _bare(quote) != quote and not _ADDRESS.search(text):
        yield _bare(quote), text
    if _LINK.search(text):  # the address of a link, too, may be what is quoted
        yield quote, _LINK.sub(r"\1 \2", text)


_LINK = re.compile(r"!?\[([^\[\]]*)\]\(\s*+([^()\s]*+)[^()]*+\)")
_NUMBERED = re.compile(r"^ *+(\d{1,9})\t", re.MULTILINE)
_LABEL = re.compile(r"(^|[;,|\t] ?)([A-Z]{1,3})(\d{1,7})(?:[ :=] *+)(?=\S)", re.MULTILINE)
_ADDRESS = re.compile(r"\b[A-Z]{1,3}\d{1,7}\b")


def _bare(text: str) -> str:
    """Without line numbers that follow each other, and without the addresses of cells of one row (`A7 x; B7 y`)."""
    numbers = [int(one) for one in _NUMBERED.findall(text)]
    follow = all(after == before + 1 for before, after in pairwise(numbers))
    if numbers and follow and len(numbers) >= text.strip("\n").count("\n"):
        text = _NUMBERED.sub("", text)
    labels = [match.group(2, 3) for match in _LABEL.finditer(text)]
    rows: dict[str, list[str]] = {}
    for column, row in labels:
        rows.setdefault(row, []).append(column)
    if labels and all(len({*columns}) > 1 for columns in rows.values()):
        text = _LABEL.sub(r"\1", text)
    return text


_ELLIPSIS = re.compile(r"[\[(] ?(?:…|\.{3,}) ?[\])]|…|\.{3,}")


def _stands(quote: str, text: str) -> bool:
    wanted = _plain(quote)
    if not wanted.text:  # marks alone: a rule, a bracket
        return bool(quote.strip()) and normalised(quote) in normalised(text)
    there = _plain(text)
    if any(True for _ in _found(wanted.text, there)):
        return True
    pieces = [one for one in _ELLIPSIS.split(quote) if _plain(one).text]
    if len(pieces) == 1:  # at an end it may also stand for the rest of a word
        return _cut_word(pieces[0], quote, there)
    return len(pieces) > 1 and all(_plain(one).words >= FEW_WORDS for one in pieces) and _in_order(pieces, there)


def _in_order(pieces: list[str], there: _Plain) -> bool:
    ends = [end for _, end in _found(_plain(pieces[0]).text, there)]
    for piece in pieces[1:]:
        found = [*_found(_plain(piece).text, there)]
        ends = [
            end
            for start, end in found
            if any(0 <= start - before <= GAP_CHARS and not _negates(there, before, start) for before in ends)
        ]
    return bool(ends)


def _negates(there: _Plain, start: int, end: int) -> bool:
    """Whether the words between two pieces turn round what they say."""
    cuts = [start, *(at for at in range(start + 1, end) if there.marks[at] & _START), end]
    words = {there.text[one:other].strip() for one, other in pairwise(cuts)}
    return any(word in _NEGATIONS or word.endswith("n't") for word in words)


_NEGATIONS = {
    *("not", "no", "never", "none", "nor", "neither", "nobody", "nothing", "nowhere", "without", "cannot", "hardly"),
    *("nicht", "nie", "niemals", "kein", "keine", "keinen", "keinem", "keiner", "keines", "nichts", "niemand", "ohne"),
    *("ne", "pas", "jamais", "aucun", "aucune", "sans", "nunca", "ninguno", "ninguna", "sin", "non", "senza", "niet"),
    *("weder", "geen", "nessun", "не", "нет", "никогда", "без", "不", "没", "無", "无", "未"),
}


def _cut_word(piece: str, quote: str, there: _Plain) -> bool:
    """Whether a quote that is cut inside its last word (`the harv…`) stands there up to the cut."""
    wanted = _plain(piece).text
    cut = quote.rstrip().endswith(("…", "...")) and wanted[-1].isalpha() and piece == piece.rstrip()
    return cut and any(True for _ in _found(wanted, there, ends=False))


class _Plain(NamedTuple):
    """A text as it is compared: words and numbers without anything between them.

    Attributes:
        text: their letters and digits; only between two digits there is a blank.
        marks: for each offset whether a quote may begin (_START) or end there (_END).
        words: how many there are.
    """

    text: str
    marks: bytes
    words: int


_START, _END = 1, 2


def _found(wanted: str, there: _Plain, *, ends: bool = True) -> Iterator[tuple[int, int]]:
    """Where these words begin and end, whole words only."""
    at = there.text.find(wanted)
    while at >= 0:
        end = at + len(wanted)
        if there.marks[at] & _START and (not ends or there.marks[end] & _END):
            yield at, end
        at = there.text.find(wanted, at + 1)


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
_ESCAPED = re.compile(r"\\([\\`*_{}\[\]()#+\-.!|>~])")
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
_HYPHENED = re.compile(r"[^\W_]-\Z")


@lru_cache(maxsize=16)
def _plain(text: str) -> _Plain:
    text = _FRACTION.sub(" ", _POWER.sub("^", text))
    text = unicodedata.normalize("NFKC", text.translate(_ALIKE)).translate(_ALIKE).casefold()
    text = _HEAD.sub("", _ESCAPED.sub(r"\1", _LINK.sub(r"\1", text)).replace("~~", ""))
    parts: list[str] = []
    marks = bytearray(1)
    size = words = 0
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
        if not (inside and _HYPHENED.search(text, max(0, start - 2), start)):
            marks[size] |= _START
        parts.append(token)
        size += len(token)
        marks.extend(bytes(len(token)))
        if not (match.lastgroup == "word" and text[end : end + 1] == "-" and text[end + 1 : end + 2].isalnum()):
            marks[size] |= _END
        before = token[-1]
        words += token[-1].isalnum()
    return _Plain("".join(parts), bytes(marks), words)


# --- places -----------------------------------------------------------------------------------------------------------


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
        yield document.lines(place.first, min(place.last, document.line_count))
        return
    if isinstance(document, PdfDocument):
        if place.unit != "page" or not 1 <= place.first <= len(document.pages):
            return
        yield "\n".join(document.pages[place.first - 1 : place.last])
        return
    if (
        isinstance(document, PartsDocument)
        or place.unit not in ("row", "cell")
        or not 1 <= place.first <= document.last_row
    ):
        return
    yield from _table_text(document, place)


def _table_text(table: TableDocument, place: Place) -> Iterator[str]:
    """Rows or cells: with their addresses and columns, as lines of the file, as CSV below the letters of columns."""
    rows = range(place.first, min(place.last, table.last_row) + 1)
    first, last = (place.first_column, place.last_column) if place.unit == "cell" else (1, table.width)
    columns = range(first, min(last, table.width) + 1)
    if not columns:
        return
    yield "\n".join(row_text(table, row, first, last) for row in rows)
    yield "\n".join(_CELL_ADDRESS.sub(r"\1", row_text(table, row, first, last)) for row in rows)
    cells = {row: [table.cell(row, column) for column in columns] for row in rows}
    names = [column_name(column) for column in columns]
    labelled = ([f"{name}{row} {cell}" for name, cell in zip(names, one, strict=True)] for row, one in cells.items())
    yield "\n".join("; ".join(one) for one in labelled)
    for between in (",", " | "):  # "126,336" may be one cell or two
        yield "\n".join(between.join(one) for one in cells.values())
        yield "\n".join(
            between.join(one) for one in (["row", *names], *([str(row), *one] for row, one in cells.items()))
        )


_CELL_ADDRESS = re.compile(r"(^|; )[A-Z]{1,3}\d+ ")


def verify_quote(path: Path, place: str, quote: str, limits: Limits = LIMITS) -> bool:
    """Return whether a quote stands at a place of a file, as a person would compare (`alike`).

    Blocks.

    Raises:
        FileInputError: if the file cannot be read.
    """
    return quote_stands(read_document_sync(path, limits), place, quote)


def quote_stands(document: Document, place: str, quote: str) -> bool:
    """Return whether a quote stands at a place of a document; see `verify_quote`."""
    names, part, inside = locate(document, place)
    if names and not inside:  # a part without a place in it: "slide 3"
        return any(alike(quote, text) for _, leaf in leaves(part) for text in _whole(leaf))
    where = parse_place(inside)
    return where is not None and any(alike(quote, text) for text in place_text(part, where))


def _whole(document: Leaf) -> Iterator[str]:
    if isinstance(document, TextDocument):
        yield document.text
    elif isinstance(document, PdfDocument):
        yield "\n".join(document.pages)
    else:
        yield from place_text(document, Place("row", 1, document.last_row))


__all__ = ["alike", "normalised", "place_text", "quote_stands", "verify_quote"]
