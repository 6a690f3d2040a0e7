"""Documents that files are read as: lines of text, cells of tables, pages of PDFs, and parts that are documents."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from agentorchestra.tools.files.places import column_name, pages_named


@dataclass(frozen=True)
class TextDocument:
    """Text, addressed by line. Line ends are read as a bare newline whatever they were."""

    text: str
    media_type: str = "text/plain"
    notes: tuple[str, ...] = ()  # what was left out
    kind: Literal["text"] = "text"
    # Its encoding and line ends, "" where they are as usual; None for text converted from another format.
    form: str | None = None
    tables: tuple[TableDocument, ...] = ()  # those that stand in the text, once more with addresses

    @property
    def parts(self) -> tuple[DocumentPart, ...]:
        """The tables as parts: `table 1`."""
        return tuple(DocumentPart(f"table {number}", table) for number, table in enumerate(self.tables, 1))

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        starts.extend(match.end() for match in re.finditer("\n", self.text))
        if len(starts) > 1 and starts[-1] == len(self.text):
            starts.pop()  # the newline that ends the last line does not begin another
        return starts

    @property
    def line_count(self) -> int:
        """Lines, the last one counted with or without its newline."""
        return len(self._starts)

    def line_of(self, offset: int) -> int:
        """Return the number of the line that holds the character at `offset`."""
        return bisect_right(self._starts, offset)

    def lines(self, first: int, last: int) -> str:
        """Return the text of the lines first to last, without the final newline."""
        start, end = self.span(first, last)
        return self.text[start:end]

    def span(self, first: int, last: int) -> tuple[int, int]:
        """Return the offsets of the lines first to last, without the final newline."""
        start = self._starts[first - 1]
        end = self._starts[last] - 1 if last < len(self._starts) else len(self.text)
        if last == len(self._starts) and self.text.endswith("\n") and end > start:
            end -= 1
        return start, end


Area = tuple[int, int, int, int]  # first row, first column, last row, last column


@dataclass(frozen=True)
class Trait:
    """A property of some cells of a workbook besides their values."""

    kind: str  # as formats/workbook.py lists them
    value: str  # a colour as RRGGBB, a format's code, a formula as it stands in the first cell, a comment; else ""
    areas: tuple[Area, ...]  # where, in order


@dataclass(frozen=True)
class TableDocument:
    """A table, addressed by row and cell (row 1 is the first record of the file)."""

    header: tuple[str, ...]  # the columns' names; letters where the file names none
    rows: tuple[tuple[str, ...], ...]  # the records below the header
    first_row: int  # the row number of `rows[0]`: 2 below a header, else 1
    delimiter: str = ","
    media_type: str = "text/csv"
    notes: tuple[str, ...] = ()  # what was left out
    kind: Literal["table"] = "table"
    traits: tuple[Trait, ...] = ()  # fills, comments and the like, of workbooks
    form: str = ""  # the encoding of its file, "" for UTF-8 and for tables of other formats

    @property
    def last_row(self) -> int:
        return self.first_row + len(self.rows) - 1

    @property
    def width(self) -> int:
        """Columns of the widest record."""
        return max([len(self.header), *(len(row) for row in self.rows)])

    def record(self, row: int) -> tuple[str, ...]:
        """Return the cells of a row; the header's for row 1 of a table with a header."""
        return self.header if row < self.first_row else self.rows[row - self.first_row]

    def cell(self, row: int, column: int) -> str:
        """Return a cell's value, "" where the record is shorter."""
        record = self.record(row)
        return record[column - 1] if column <= len(record) else ""

    def name(self, column: int) -> str:
        title = self.header[column - 1].strip() if column <= len(self.header) else ""
        return title or column_name(column)


@dataclass(frozen=True)
class PdfDocument:
    """The text of a PDF's pages, and its tables once more as tables."""

    pages: tuple[str, ...]
    media_type: str = "application/pdf"
    tables: tuple[tuple[int, TableDocument], ...] = ()  # the tables with the page each stands on, in order
    notes: tuple[str, ...] = ()  # what was left out
    pictured: tuple[int, ...] = ()  # pages without text, or with a scanner's line only: they can be looked at
    kind: Literal["pdf"] = "pdf"

    @cached_property
    def parts(self) -> tuple[DocumentPart, ...]:
        """The tables as parts: `p. 3 table 1`."""
        parts = []
        counts: dict[int, int] = {}
        for page, table in self.tables:
            counts[page] = counts.get(page, 0) + 1
            parts.append(DocumentPart(f"p. {page} table {counts[page]}", table))
        return tuple(parts)


@dataclass(frozen=True)
class DocumentPart:
    name: str
    document: Document
    size: int | None = None  # bytes, of members and attachments


@dataclass(frozen=True)
class PartsDocument:
    """A document made of others: sheets, slides, cells of a notebook, chapters, attachments, members of an archive."""

    parts: tuple[DocumentPart, ...]
    media_type: str = "application/zip"
    notes: tuple[str, ...] = ()  # what was left out
    kind: Literal["parts"] = "parts"


Leaf = TextDocument | TableDocument | PdfDocument  # what holds content itself
Document = Leaf | PartsDocument

_MOST_NAMES = 12  # parts that are named in one line


def document_to_json(document: Document) -> dict[str, Any]:
    """Return a document as JSON values, for caches: any kind, with all of its parts."""
    data: dict[str, Any] = {"kind": document.kind, "media_type": document.media_type, "notes": list(document.notes)}
    if isinstance(document, TextDocument):
        extras = {"form": document.form, "tables": [document_to_json(table) for table in document.tables] or None}
        return data | {"text": document.text} | {name: value for name, value in extras.items() if value is not None}
    if isinstance(document, TableDocument):
        grid = {
            "header": list(document.header),
            "rows": [list(row) for row in document.rows],
            "first_row": document.first_row,
            "delimiter": document.delimiter,
        }
        traits = [[trait.kind, trait.value, [list(area) for area in trait.areas]] for trait in document.traits]
        return data | grid | ({"traits": traits} if traits else {}) | ({"form": document.form} if document.form else {})
    if isinstance(document, PdfDocument):
        tables = [[page, document_to_json(table)] for page, table in document.tables]
        return data | {"pages": list(document.pages), "tables": tables, "pictured": list(document.pictured)}
    parts = [
        {"name": part.name, "document": document_to_json(part.document), "size": part.size} for part in document.parts
    ]
    return data | {"parts": parts}


def document_from_json(data: dict[str, Any]) -> Document:
    """Do the inverse of `document_to_json`; also reads what the worker writes. ValueError for an unknown kind."""
    kind, notes = data["kind"], tuple(data.get("notes", ()))
    if kind == "text":
        text_tables = tuple(_table(table, ()) for table in data.get("tables", ()))
        return TextDocument(data["text"], data["media_type"], notes, form=data.get("form"), tables=text_tables)
    if kind == "table":
        return _table(data, notes)
    if kind == "pdf":
        tables = tuple((page, _table(table, ())) for page, table in data.get("tables", ()))
        media_type, pictures = data.get("media_type", "application/pdf"), tuple(data.get("pictured", ()))
        return PdfDocument(tuple(data["pages"]), media_type, tables, notes, pictures)
    if kind == "parts":
        rows = data["parts"]
        parts = (DocumentPart(row["name"], document_from_json(row["document"]), row.get("size")) for row in rows)
        return PartsDocument(tuple(parts), data["media_type"], notes)
    raise ValueError(f"no document is of kind {kind!r}; it was written by another version: read the file again")


def _table(data: dict[str, Any], notes: tuple[str, ...]) -> TableDocument:
    return TableDocument(
        tuple(data["header"]),
        tuple(tuple(row) for row in data["rows"]),
        data["first_row"],
        data.get("delimiter", ","),
        data["media_type"],
        notes,
        traits=tuple(
            Trait(kind, value, tuple((top, left, bottom, right) for top, left, bottom, right in areas))
            for kind, value, areas in data.get("traits", ())
        ),
        form=data.get("form", ""),
    )


def is_media(media_type: str) -> bool:
    """Return True for pictures, recordings and videos."""
    return media_type.startswith(("image/", "audio/", "video/"))


def parts_of(document: Document) -> tuple[DocumentPart, ...]:
    """Return the named parts: of a PDF or a text its tables, of tables none."""
    return () if isinstance(document, TableDocument) else document.parts


def leaves(document: Document, prefix: str = "", *, tables: bool = True) -> Iterator[tuple[str, Leaf]]:
    """Give what holds content, in order, with its part (`inner.zip!x.xml`); `tables` also those of texts and PDFs."""
    if not isinstance(document, PartsDocument):
        yield prefix, document
    for part in parts_of(document) if tables or isinstance(document, PartsDocument) else ():
        yield from leaves(part.document, joined(prefix, part.name), tables=tables)


def pictures_of(document: Document, first: int = 1, last: int | None = None) -> str:
    """Return the places of PDF pages that can only be looked at, of one PDF those from first to last."""
    places = []
    for path, leaf in leaves(document):
        pictures = leaf.pictured if isinstance(leaf, PdfDocument) else ()
        pages = [page for page in pictures if first <= page <= (last or page)]
        places += [joined(path, pages_named(pages))] if pages else []
    more = f" and {len(places) - _MOST_NAMES} more" if len(places) > _MOST_NAMES else ""
    return ", ".join(places[:_MOST_NAMES]) + more


def only_part(document: Document) -> Document:
    """Return the part of a document that has just one, for places that do not name it."""
    while isinstance(document, PartsDocument) and len(document.parts) == 1:
        document = document.parts[0].document
    return document


def joined(prefix: str, name: str) -> str:
    """Return a place inside a part."""
    return f"{prefix}!{name}" if prefix else name


def locate(document: Document, text: str) -> tuple[tuple[str, ...], Document, str]:
    """Walk a place (`inner.zip!Sales!B7`) down the parts it names; return their names, the last one, and the rest."""
    path: tuple[str, ...] = ()
    rest = text.strip()
    while rest:
        match = _part_named(document, rest)
        if match is None:
            break
        part, rest = match
        path, document = (*path, part.name), part.document
    return path, document, rest


def _part_named(document: Document, text: str) -> tuple[DocumentPart, str] | None:
    """Return the part a place begins with, and the rest; names may hold a `!` themselves, so the longest name wins."""
    for same in (str, str.casefold):
        fits = []
        for part in parts_of(document):
            for name in (part.name, f"'{part.name}'"):  # as spreadsheets write names with spaces
                if same(text) == same(name) or same(text).startswith(same(name) + "!"):
                    fits.append((part, text[len(name) + 1 :].strip()))
        if fits:
            return max(fits, key=lambda fit: len(fit[0].name))
    return None
