"""Documents to passages: pieces of about a sentence, each with the place where it stands.

A text passage is a verbatim slice of its file, line breaks and indentation included; a PDF passage a verbatim slice of
its page's text. A table's passage is a row written out as `A7 country: Kenya; B7 year: 1952`, each value verbatim
behind its cell's address and column name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from agentorchestra.tools.files.documents import Document, PdfDocument, TableDocument, TextDocument, joined, leaves
from agentorchestra.tools.files.places import Place
from agentorchestra.tools.files.tables import row_text
from agentorchestra.tools.files.views import LINE_CHARS

# Characters after which a passage is cut even inside a sentence (huge lines, text without full stops)
MAX_PASSAGE = 1_200


@dataclass(frozen=True)
class TextPassage:
    place: str  # where it stands
    text: str  # what is shown, quoted and checked
    heading: str = ""  # the heading above it, searched along with it but not part of it


_ABBREVIATION_WORDS = """
mr mrs ms dr prof st sr jr no nos vs etc inc ltd co corp fig figs eq eqs sec secs ch vol vols pp p cf ca approx e.g i.e
al resp ed eds dept est min max gen col sgt capt rev hon op
nr bzw z.b d.h u.a usw ggf vgl abs art bd hrsg evtl inkl zzgl str tel
"""
_ABBREVIATIONS = frozenset(_ABBREVIATION_WORDS.split())
_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mär|mai|okt|dez|juni|juli"  # German dates: 3. Mai 1990
_END = re.compile(r"[.!?…。！？]+[\"'”’»)\]]*(?=\s)")
_SPACE = re.compile(r"\s+")
_LAST_WORD = re.compile(r"([\w.]+)$")
_ORDINAL = re.compile(rf"\s+(?:{_MONTHS})", re.IGNORECASE)
_ITEM = re.compile(r"[ \t]*(?:[-*+•‣◦▪–]\s+\S|\(?\d{1,3}(?:\.\d{1,3})*[.)]\s+\S|\(?[a-z][.)]\s+\S|\|)")
_HEADING = re.compile(r"[ \t]{0,3}#{1,6}\s+\S")
_NUMBERED_HEADING = re.compile(r"[ \t]*(?:(?:\d{1,2}|[A-Z])\.)?\d{1,2}\.?(?:\d{1,2}\.?)*\s+[A-Z§]\S*")
_RULE = re.compile(r"[ \t]*(?:[-=_*~]{3,}|\|?[\s:|-]{3,})[ \t]*$")
_LABEL = re.compile(r"[ \t]*[\w][\w .()/%°'’-]{0,50}:\s+\S")
# A sentence that begins like this speaks of the one before it and is useless without it.
_DEPENDENT = re.compile(
    r"\s*(?:It|Its|They|Their|He|His|She|Her|This|That|These|Those|Such|Here|Er|Sie|Es|Ihr|Ihre|Sein|Seine|Dies|Diese"
    r"|Dieser|Dieses)\b"
)


def _line_spans(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield start, end
        start = end + 1


def _blocks(text: str) -> Iterator[tuple[int, int, bool]]:
    """Give spans of paragraphs, list items, labelled lines and headings (the third says: a heading)."""
    start = end = -1
    apart = False  # the block is one of several that stand below each other without blank lines
    for line_start, line_end in _line_spans(text):
        line = text[line_start : min(line_end, line_start + 200)]
        if not line.strip() or _RULE.match(line):
            # An underline makes the single line above it a heading.
            is_heading = line.strip()[:3] in ("===", "---") and start >= 0 and text.find("\n", start, end) < 0
            if start >= 0:
                yield start, end, is_heading
            start = -1
            continue
        if _HEADING.match(line):
            if start >= 0:
                yield start, end, False
            start = -1
            yield line_start, line_end, True
            continue
        is_label = _LABEL.match(line) is not None
        is_item = _ITEM.match(line) is not None
        if start >= 0 and (is_item or (is_label and apart)):
            yield start, end, False
            start = -1
        if start < 0:
            start, apart = line_start, is_label or is_item
        end = line_end
    if start >= 0:
        yield start, end, False


def _is_boundary(text: str, match: re.Match[str], start: int) -> bool:
    if text[match.start()] != ".":
        return True
    word = _LAST_WORD.search(text, max(start, match.start() - 30), match.start())
    if word is None:
        return True
    last = word[1].lower()
    if last in _ABBREVIATIONS or (len(last) == 1 and last.isalpha()):
        return False
    first = match.start() - start <= 12 and text[start : match.start()].strip(" \t(") == word[1]
    if first and len(last) <= 5 and not last.isalpha():
        return False  # the number of a list item or a section
    if last.isdigit() and len(last) <= 2 and _ORDINAL.match(text, match.end()):
        return False
    following = _SPACE.match(text, match.end())
    after = text[following.end() : following.end() + 1] if following else ""
    return not after.islower()


def sentence_spans(text: str, start: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
    """Give spans of sentences inside one block of text, white space at the ends left out."""
    end = len(text) if end is None else end
    begin = start
    for match in _END.finditer(text, start, end):
        if _is_boundary(text, match, begin):
            yield from _trim(text, begin, match.end())
            begin = match.end()
    yield from _trim(text, begin, end)


def _trim(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    while end - start > MAX_PASSAGE:
        cut = text.rfind(" ", start + MAX_PASSAGE // 2, start + MAX_PASSAGE)
        cut = cut if cut > 0 else start + MAX_PASSAGE
        yield start, cut
        start = cut + 1 if text[cut : cut + 1] == " " else cut
    if end > start:
        yield start, end


def _text_spans(text: str) -> Iterator[tuple[int, int, str]]:
    """Give spans of passages with the heading above each."""
    heading = ""
    for start, end, is_heading in _blocks(text):
        line = text[start:end] if end - start <= 120 else ""
        if is_heading or (
            line and "\n" not in line and _NUMBERED_HEADING.match(line) and line.rstrip()[-1:] not in ".;:,"
        ):
            heading = line.strip().strip("#").strip()
        open_span: tuple[int, int] | None = None
        for span in sentence_spans(text, start, end):
            joins = (
                open_span is not None and span[1] - open_span[0] <= MAX_PASSAGE // 2 and _DEPENDENT.match(text, span[0])
            )
            if open_span is not None and not joins:
                yield (*open_span, heading)
            open_span = (open_span[0], span[1]) if open_span is not None and joins else span
        if open_span is not None:
            yield (*open_span, heading)


def passages(document: Document) -> Iterator[TextPassage]:
    """Give the passages of a document, in order; those of its parts with the part in their place and their heading."""
    for path, leaf in leaves(document):
        for passage in _passages(leaf):
            if path:
                passage = TextPassage(joined(path, passage.place), passage.text, f"{path} {passage.heading}".strip())
            yield passage


def _passages(document: Document) -> Iterator[TextPassage]:
    if isinstance(document, TextDocument):
        for start, end, heading in _text_spans(document.text):
            yield TextPassage(str(_lines(document, start, end)), document.text[start:end], heading)
    elif isinstance(document, PdfDocument):
        for number, page in enumerate(document.pages, 1):
            for start, end, heading in _text_spans(page):
                yield TextPassage(str(Place("page", number, number)), page[start:end], heading)
    elif isinstance(document, TableDocument):
        for row in range(1, document.last_row + 1):
            if text := row_text(document, row):
                yield TextPassage(str(Place("row", row, row)), text)


def _lines(document: TextDocument, start: int, end: int) -> Place:
    """Return where characters of a text stand: lines, or a stretch of a line that is too long to be cited whole."""
    first, last = document.line_of(start), document.line_of(end - 1)
    if first == last:
        begin, stop = document.span(first, first)
        if stop - begin > LINE_CHARS:
            return Place("line", first, first, first_char=start - begin + 1, last_char=end - begin)
    return Place("line", first, last)
