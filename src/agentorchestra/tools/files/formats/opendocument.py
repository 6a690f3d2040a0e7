"""OpenDocument: workbooks (.ods) as tables, as those of .xlsx are read; texts and slides (.odt, .odp) as Markdown."""

from __future__ import annotations

import io
import re
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from .base import PartList, ReadJob, Refused, clean, need, refusing, text_document
from .blocks import Blocks
from .sniff import ODP, ODS, ODT
from .workbook import LAST_COLUMN, LAST_ROW, CellTraits, Sheet, cell_text, workbook

_CELL_REFERENCE = re.compile(r"\[\.?([^\]\[]*)\]")
_SHAPES = ("frame", "custom-shape", "rect", "g")  # what may hold text over the cells of a sheet
_HIDDEN = ("collapse", "filter")


def convert_open_document(job: ReadJob, data: bytes, media_type: str) -> dict[str, Any]:
    """Return a workbook or a text; the archive was looked through already."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = set(archive.namelist())
        if "META-INF/manifest.xml" in names and b"encryption-data" in archive.read("META-INF/manifest.xml"):
            raise Refused("encrypted_office")
        if job.check:
            return PartList(media_type).document()
        tree = need("defusedxml.ElementTree")
        with refusing("office"):
            root = tree.fromstring(archive.read("content.xml"))
            styles = tree.fromstring(archive.read("styles.xml")) if "styles.xml" in names else None
    body = next((node for node in root if _name(node) == "body"), None)
    content = next(iter(body), None) if body is not None else None
    if content is None:
        raise Refused("office", "it has no content")
    if media_type == ODT:
        return _text(job, content, styles)
    if media_type == ODP:
        return _slides(job, content)
    tables = (style for style in root.iter() if _name(style) == "style" and _attr(style, "family") == "table")
    hidden = {_attr(table, "name") for table in tables if any(_attr(inside, "display") == "false" for inside in table)}
    parts = PartList(ODS)
    for node in (node for node in content if _name(node) == "table"):
        sheet = Sheet(job, CellTraits(lambda number_format: ("", "", number_format)))
        _Rows(sheet).read(node)
        sheet.add_to(parts, clean(_attr(node, "name")), ODS, hidden=_attr(node, "style-name") in hidden)
    return workbook(parts, "programs read .ods with pandas.read_excel(path, engine='calamine')")


def _name(node: Any) -> str:
    """Return the name of an element without its name space; "" for a comment."""
    return str(node.tag).rpartition("}")[2] if isinstance(node.tag, str) else ""


def _attr(node: Any, name: str) -> str:
    """Return an attribute by its name without a name space, "" where it has none."""
    return next((value for key, value in node.items() if key.rpartition("}")[2] == name), "")


def _number(node: Any, name: str, most: int) -> int:
    """Return an attribute that counts: 1 at least."""
    text = _attr(node, name)
    return max(1, min(int(text), most)) if text.isdigit() else 1


class _Rows:
    """Reads a sheet row by row: repeated rows and cells are written once in the file."""

    def __init__(self, sheet: Sheet) -> None:
        self._found = sheet
        self._columns = 0
        self._areas = defaultdict[str, list[tuple[int, int, int, int]]](list)

    def read(self, sheet: Any) -> None:
        number = 1
        for node in _rows(sheet):
            if _name(node) == "table-column":
                self._column(node)
                continue
            count = _number(node, "number-rows-repeated", LAST_ROW + 1 - number)
            cells = list(self._cells(node))
            if _attr(node, "visibility") in _HIDDEN:
                self._areas["hidden rows"].append((number, 1, number + count - 1, LAST_COLUMN))
            if not all(self._row(at, cells) for at in range(number, number + count if cells else number)):
                break
            number += count
            if number > LAST_ROW:
                break
        for shapes in (child for child in sheet if _name(child) == "shapes"):
            self._text_boxes(shapes, 1, 1)
        for kind, areas in self._areas.items():
            self._found.traits.other(kind, "", areas)

    def _text_boxes(self, node: Any, row: int, column: int) -> None:
        for shape in (child for child in node if _name(child) in _SHAPES):
            if text := "\n".join(_blocks([shape])).strip():
                self._found.traits.other("text box", text, [(row, column, row, column)])

    def _column(self, node: Any) -> None:
        first = self._columns + 1
        self._columns += _number(node, "number-columns-repeated", LAST_COLUMN)
        if _attr(node, "visibility") in _HIDDEN:
            self._areas["hidden columns"].append((1, first, LAST_ROW, min(self._columns, LAST_COLUMN)))

    def _cells(self, row: Any) -> Iterator[dict[str, Any]]:
        """Give the cells of a row that have a value, a comment or a text box, as `Sheet` takes them."""
        column = 1
        for node in row:
            if _name(node) not in ("table-cell", "covered-table-cell") or column > LAST_COLUMN:
                continue
            count = _number(node, "number-columns-repeated", LAST_COLUMN + 1 - column)
            value, number_format = _value(node)
            comment = next((child for child in node if _name(child) == "annotation"), None)
            boxes = any(_name(child) in _SHAPES for child in node)
            for at in range(column, column + count if value or comment is not None or boxes else column):
                yield {
                    "column": at,
                    "value": value or None,
                    "text": value,
                    "style_id": number_format,
                    "formula": _formula(_attr(node, "formula")),
                    "boxes": node if boxes else (),
                    "comment": _paragraphs(comment) if comment is not None else "",
                    "rows": _number(node, "number-rows-spanned", 9_999),
                    "columns": _number(node, "number-columns-spanned", 9_999),
                }
            column += count

    def _row(self, number: int, cells: list[dict[str, Any]]) -> bool:
        if not self._found.row(number, cells):
            return False
        for cell in cells:
            column, rows, columns = cell["column"], cell["rows"], cell["columns"]
            if rows > 1 or columns > 1:
                self._areas["merged"].append((number, column, number + rows - 1, column + columns - 1))
            self._text_boxes(cell["boxes"], number, column)
            if cell["comment"]:
                self._found.traits.comment(number, column, cell["comment"])
        return True


def _rows(node: Any) -> Iterator[Any]:
    for child in node:
        if _name(child) in ("table-row", "table-column"):
            yield child
        elif _name(child).startswith(("table-row", "table-header", "table-column")):
            yield from _rows(child)


def _value(cell: Any) -> tuple[str, str]:
    """Return what a cell holds, and the kind of its number where that tells more."""
    kind = _attr(cell, "value-type")
    text = _paragraphs(cell) or clean(_attr(cell, "string-value"))
    if kind in ("float", "percentage", "currency"):
        try:
            value = cell_text(float(_attr(cell, "value")))
        except ValueError:
            return text, ""
        unit = f"currency {_attr(cell, 'currency')}".strip() if kind == "currency" else kind
        return value, "" if kind == "float" else unit
    if kind == "boolean":
        return _attr(cell, "boolean-value").upper(), ""
    if kind == "date":
        return _attr(cell, "date-value").replace("T", " ").removesuffix(" 00:00:00"), "date"
    return text, "time" if kind == "time" else ""


def _formula(text: str) -> str:
    """Return a formula as a person writes it: `of:=[.A1]*2` is `=A1*2`."""
    return clean(_CELL_REFERENCE.sub(lambda match: match[1].replace(":.", ":"), text.partition(":")[2] or text))


def _text(job: ReadJob, content: Any, styles: Any) -> dict[str, Any]:
    tables = _marked_tables(content, ODT)
    blocks = list(_blocks(content))
    has_changes = any(_name(node) == "tracked-changes" for node in content)
    note = "changes were tracked in this text: what was deleted is left out" if has_changes else ""
    margins = [node for node in (styles.iter() if styles is not None else ()) if _name(node) in ("header", "footer")]
    for node in margins:
        if text := " ".join(_paragraphs(node).split()):
            blocks.append(f"{_name(node).capitalize()}: {text}")
    if not any(block.strip() for block in blocks):
        raise Refused("no_text", "this document has no text")
    text, grids = tables.back("\n\n".join(block for block in blocks if block.strip()))
    return text_document(job, text + "\n", ODT, tables=grids, doubt=note)


def _slides(job: ReadJob, content: Any) -> dict[str, Any]:
    parts = PartList(ODP)
    tables = _marked_tables(content, ODP)
    for number, page in enumerate((node for node in content if _name(node) == "page"), 1):
        text, grids = tables.back("\n\n".join(block for block in _blocks(page) if block.strip()))
        if text:
            parts.add(f"slide {number}", text_document(job, text + "\n", "text/markdown", tables=grids))
    if not len(parts):
        raise Refused("no_text", "this presentation has no text")
    return parts.document()


def _marked_tables(content: Any, media_type: str) -> Blocks:
    """Put a paragraph with its mark in the place of each table, and return the tables."""
    tables = Blocks("", media_type)
    for node in [element for element in content.iter() if _name(element) == "table"]:
        rows = [
            [
                (words, _number(cell, "number-rows-spanned", 999), _number(cell, "number-columns-spanned", 999))
                for cell in row
                if _name(cell) == "table-cell"
                for words in [" ".join(" ".join(_blocks(cell)).split())] * _number(cell, "number-columns-repeated", 100)
            ]
            for row in _rows(node)
            if _name(row) == "table-row"
            for _ in range(_number(row, "number-rows-repeated", 100))
        ]
        node[:] = []
        node.tag, node.text = "p", tables.table(rows)
    return tables


def _blocks(node: Any) -> Iterator[str]:
    """Give the paragraphs, headings and lists of a part of a text."""
    for child in node:
        name = _name(child)
        if name == "h":
            yield f"{'#' * min(6, _number(child, 'outline-level', 6))} {' '.join(_inline(child).split())}"
        elif name == "p":
            yield _inline(child)
        elif name == "list":
            yield "\n".join(_items(child, ""))
        elif name not in ("tracked-changes", "sequence-decls", "forms", "variable-decls", "user-field-decls"):
            yield from _blocks(child)


def _items(node: Any, indent: str) -> Iterator[str]:
    for item in node:
        first = True
        for child in item:
            if _name(child) == "list":
                yield from _items(child, indent + "    ")
            else:
                for block in _blocks([child]):
                    yield f"{indent}{'- ' if first else '  '}{block}"
                    first = False


def _paragraphs(node: Any) -> str:
    """Return the text of the paragraphs in an element, a line each, without comments."""
    return clean("\n".join(_inline(child) for child in node if _name(child) in ("p", "h")))


_WRITERS: dict[str, Callable[[Any], str]] = {
    "s": lambda node: " " * _number(node, "c", 1_000),
    "tab": lambda node: "\t",
    "line-break": lambda node: "\n",
    "note": lambda node: f" [note: {' '.join(' '.join(_blocks(n for n in node if _name(n) == 'note-body')).split())}]",
    "annotation": lambda node: f" [comment: {' '.join(_paragraphs(node).split())}]",
    "frame": lambda node: " ".join(_blocks(node)),
    "tracked-changes": lambda node: "",
}


def _inline(node: Any) -> str:
    """Return the text of a paragraph as it is read: spaces as they are counted, notes and comments in brackets."""
    pieces = [node.text or ""]
    for child in node:
        name = _name(child)
        write = _WRITERS.get(name)
        pieces.append(write(child) if write is not None else _inline(child) if name else "")
        pieces.append(child.tail or "")
    return "".join(pieces)
