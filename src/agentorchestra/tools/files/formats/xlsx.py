"""Workbooks of Excel (.xlsx): every sheet as a table, and what its cells have besides values."""

from __future__ import annotations

import colorsys
import io
import re
from collections.abc import Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any

from .base import PartList, ReadJob, clean, need, refusing
from .sniff import XLSX
from .workbook import LAST_COLUMN, LAST_ROW, CellTraits, Sheet, cell_text, workbook

_YES = ("1", "true")
_HEX = re.compile(r"[0-9A-Fa-f]{6,8}")


def convert_xlsx(job: ReadJob, data: bytes) -> dict[str, Any]:
    """Return the sheets; a formula as the value saved with it, as itself where none was saved."""
    openpyxl = need("openpyxl")
    _trust_no_dimensions()
    parts = PartList(XLSX)
    with refusing("office"):
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        look = cache(_Styles(book).of)
        for sheet in book.worksheets:
            table = Sheet(job, CellTraits(look))
            _read(sheet, table)
            _comments(job, book, sheet, table.traits)
            _text_boxes(job, book, sheet, table.traits)
            table.add_to(parts, clean(str(sheet.title)), XLSX, hidden=sheet.sheet_state != "visible")
    return workbook(parts)


def _trust_no_dimensions() -> None:
    """Keep openpyxl from parsing a sheet for its size, which can take a minute: nobody needs it. No setting does so."""
    sheet = need("openpyxl.worksheet._read_only").ReadOnlyWorksheet
    if hasattr(sheet, "_get_size"):
        sheet._get_size = lambda self: None


def _read(sheet: Any, table: Sheet) -> None:
    bare_formulas = astray = 0
    complete = True
    with sheet._get_source() as source:
        parser = _parser(sheet, source)
        for number, cells in parser.parse():
            size = parser.row_dimensions.pop(str(number), {})
            if len(table.records) >= number:
                astray += 1
                continue
            cells = [cell for cell in cells if 1 <= cell["column"] <= LAST_COLUMN]
            for cell in cells:
                cell["text"] = cell_text(cell["value"])
                if cell["value"] is None and cell.get("formula"):
                    cell["text"] = cell.pop("formula")
                    bare_formulas += 1
            complete = table.row(number, cells, hidden=size.get("hidden") in _YES)
            if not complete:
                break
        _areas(parser, table.traits)
    if not complete:
        table.notes.append("merged cells and colours by rule are not told: the file lists them behind its rows")
    if astray:
        table.notes.append(f"{astray} row(s) that the file holds twice, or behind later ones, were left out")
    if bare_formulas:
        table.notes.append(f"{bare_formulas} formula(s) without a saved value are given as formulas")


def _parser(sheet: Any, source: Any) -> Any:
    """Return openpyxl's parser of a sheet, which also gives the formula of each cell that has one."""
    reader = need("openpyxl.worksheet._reader")
    book = sheet.parent
    parser = reader.WorkSheetParser(
        source,
        sheet._shared_strings,
        data_only=True,
        epoch=book.epoch,
        date_formats=book._date_formats,
        timedelta_formats=book._timedelta_formats,
    )
    values = parser.parse_cell

    def parse_cell(element: Any) -> dict[str, Any]:
        cell: dict[str, Any] = values(element)
        if element.find(reader.FORMULA_TAG) is not None:
            cell["formula"] = _formula(parser.parse_formula(element))
        return cell

    parser.parse_cell = parse_cell
    return parser


def _formula(formula: Any) -> str:
    """Return a formula as a cell shows it; that of an array stands in its first cell."""
    text = formula if isinstance(formula, str) else str(getattr(formula, "text", None) or "")
    text = text if text.startswith("=") else f"={text}"
    return clean(text) if text != "=" else ""


def _areas(parser: Any, traits: CellTraits) -> None:
    """Take what a sheet says of whole columns and, behind its rows, of areas."""
    columns = [dimension for dimension in parser.column_dimensions.values() if dimension.get("hidden") in _YES]
    spans = ((1, int(column["min"]), LAST_ROW, min(int(column["max"]), LAST_COLUMN)) for column in columns)
    traits.other("hidden columns", "", spans)
    merges = parser.merged_cells.mergeCell if parser.merged_cells is not None else ()
    traits.other("merged", "", (_area(area) for area in merges))
    ranges = [part for rule in parser.formatting for part in rule.cells.ranges]
    traits.other("coloured by rule", "", (_area(area) for area in ranges))


def _area(span: Any) -> tuple[int, int, int, int]:
    return span.min_row, span.min_col, span.max_row, span.max_col


def _relations(book: Any, sheet: Any, kind: str) -> Iterator[Any]:
    """Give the XML of the parts of a kind that belong to a sheet."""
    relations = need("openpyxl.packaging.relationship")
    path = relations.get_rels_path(sheet._worksheet_path)
    if path in book._archive.namelist():
        for relation in relations.get_dependents(book._archive, path).find(kind):
            yield need("openpyxl.xml.functions").fromstring(book._archive.read(relation.target))


def _text_boxes(job: ReadJob, book: Any, sheet: Any, traits: CellTraits) -> None:
    """Take the words of shapes, with the cell at their upper left corner."""
    for root in _relations(book, sheet, f"{need('openpyxl.xml.constants').REL_NS}/drawing"):
        for anchor in root:
            lines = ["".join(run.text or "" for run in line.iter("{*}t")) for line in anchor.iter("{*}p")]
            row, column = (int(anchor.findtext(f"{{*}}from/{{*}}{name}", "0")) + 1 for name in ("row", "col"))
            if text := clean("\n".join(lines)).strip():
                traits.other("text box", text, [(row, column, row, column)])
                job.spend("chars", len(text), "a text box")


def _comments(job: ReadJob, book: Any, sheet: Any, traits: CellTraits) -> None:
    """Take the comments of a sheet, which stand in a part of their own."""
    comments = need("openpyxl.comments.comment_sheet")
    for root in _relations(book, sheet, need("openpyxl.xml.constants").COMMENTS_NS):
        for address, comment in comments.CommentSheet.from_tree(root).comments:
            row, column = need("openpyxl.utils.cell").coordinate_to_tuple(address)
            text = clean(str(comment.text or "")).strip()
            if not traits.comment(row, column, text):
                return
            job.spend("chars", len(text), f"the comment on {address}")


class _Styles:
    """The looks of the styles of a workbook, by their numbers."""

    def __init__(self, book: Any) -> None:
        self._book = book
        self._cell = need("openpyxl.cell.read_only").ReadOnlyCell
        self._sheet = SimpleNamespace(parent=book)  # all that a cell asks of its sheet
        self._theme = _theme(book.loaded_theme)
        self._usual = "000000"
        for font in book._fonts[:1]:
            self._usual = self._font(font) or self._usual

    def of(self, number: int) -> tuple[str, str, str]:
        """Return fill, font colour and number format of a style, each "" where it is the usual one."""
        try:
            cell = self._cell(self._sheet, 1, 1, None, style_id=number)
            fill, font, number_format = self._fill(cell.fill), self._font(cell.font), str(cell.number_format)
        except (IndexError, KeyError, AttributeError):  # a style that the file does not have
            return "", "", ""
        return fill, font, "" if number_format in ("General", "@", "") else number_format

    def _fill(self, fill: Any) -> str:
        kind = getattr(fill, "fill_type", None)
        if kind is None:
            return ""
        if kind == "solid":
            return self._colour(fill.fgColor)
        if hasattr(fill, "stop"):
            return "gradient " + "-".join(filter(None, (self._colour(stop.color) for stop in fill.stop)))
        colours = [self._colour(fill.fgColor) or "000000", self._colour(fill.bgColor) or "FFFFFF"]
        return f"{kind} {colours[0]} on {colours[1]}"

    def _font(self, font: Any) -> str:
        colour = self._colour(getattr(font, "color", None)) or "000000"
        return "" if colour == self._usual else colour

    def _colour(self, colour: Any) -> str:
        """Return it as RRGGBB; "" for the system's own."""
        kind = getattr(colour, "type", None)
        value: Any = ""
        if kind == "rgb":
            value = colour.rgb
        elif kind == "indexed" and 0 <= colour.indexed < len(self._book._colors):
            value = self._book._colors[colour.indexed]
        elif kind == "theme" and 0 <= colour.theme < len(self._theme):
            value = self._theme[colour.theme]
        if not isinstance(value, str) or not _HEX.fullmatch(value):
            return ""
        return _tint(value[-6:].upper(), float(colour.tint or 0.0))


def _theme(xml: bytes | None) -> list[str]:
    """Return the colours of a theme in the order in which cells number them."""
    if not xml:
        return []
    root = need("openpyxl.xml.functions").fromstring(xml)
    scheme = next((node for node in root.iter() if node.tag.endswith("}clrScheme")), None)
    colours = []
    for entry in scheme if scheme is not None else ():
        colour = next(iter(entry), None)
        colours.append((colour.get("lastClr") or colour.get("val") or "") if colour is not None else "")
    if len(colours) >= 4:  # cells count light before dark
        colours[:4] = [colours[1], colours[0], colours[3], colours[2]]
    return colours


def _tint(colour: str, tint: float) -> str:
    if not tint:
        return colour
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4))
    hue, light, full = colorsys.rgb_to_hls(red, green, blue)
    light = light * (1 + tint) if tint < 0 else light * (1 - tint) + tint
    shades = colorsys.hls_to_rgb(hue, min(1.0, max(0.0, light)), full)
    return "".join(f"{round(shade * 255):02X}" for shade in shades)
