"""Workbooks: every sheet a table whose cells have the addresses they have there."""

from __future__ import annotations

import datetime
import io
from typing import Any

from .base import Job, Parts, Refused, clean, need, one_line
from .office import XLSX
from .text import has_header
from .traits import MOST_COMMENTS, Collected, Styles

_MOST_COLUMNS = 16_384
LAST_ROW = 1_048_576
_YES = ("1", "true")


def convert_xlsx(job: Job, data: bytes) -> dict[str, Any]:
    """The sheets; a formula as the value saved with it, as itself where none was saved."""
    openpyxl = need("openpyxl")
    _trust_no_dimensions()
    parts = Parts(XLSX)
    try:
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        styles = Styles(book)
        for sheet in book.worksheets:
            traits = Collected(sheet, styles)
            records, notes = _sheet(job, sheet, traits)
            _comments(job, book, sheet, traits)
            found = traits.listed()
            notes += traits.notes
            if sheet.sheet_state != "visible":
                notes.append("this sheet is hidden")
            add_sheet(parts, clean(str(sheet.title)), records, found, notes)
    except (Refused, MemoryError, RecursionError):
        raise
    except Exception as error:  # whatever the library says of broken input
        raise Refused("office", f"{type(error).__name__}: {one_line(str(error))}") from None
    if not len(parts):
        raise Refused("no_text", "this workbook has no sheet with content")
    return parts.document()


def add_sheet(
    parts: Parts, name: str, records: list[list[str]], traits: list[list[Any]], notes: list[str], kind: str = XLSX
) -> None:
    """Add a sheet as a table; of one that is empty a note."""
    while records and not records[-1]:
        records.pop()
    if not records and not traits:
        parts.notes.append(f"sheet {one_line(name)} is empty" + "".join(f"; {note}" for note in notes))
        return
    header = records[0] if records and has_header([_filled(records[0])]) else []
    table = {
        "kind": "table",
        "media_type": kind,
        "header": header,
        "rows": records[1:] if header else records or [[]],
        "first_row": 2 if header else 1,
        "delimiter": ",",
        "traits": traits,
        "notes": notes,
    }
    taken = parts.add(name, table)
    parts.notes.extend(f"{taken}: {note}" for note in notes)


def _filled(record: list[str]) -> list[str]:
    """A record up to its last cell with a value: those with a fill only may follow."""
    last = max((at for at, cell in enumerate(record, 1) if cell), default=0)
    return record[:last]


def _trust_no_dimensions() -> None:
    """Leave out what openpyxl does when it opens a sheet: looking for the sheet's size, which nobody here believes.

    Where a file does not say it, that means parsing the whole sheet (57 s for a million rows). There is no setting.
    """
    sheet = need("openpyxl.worksheet._read_only").ReadOnlyWorksheet
    if hasattr(sheet, "_get_size"):
        sheet._get_size = lambda self: None


def _sheet(job: Job, sheet: Any, traits: Collected) -> tuple[list[list[str]], list[str]]:
    """The records of a sheet and what was left out; what its cells have besides values goes to `traits`."""
    notes: list[str] = []
    records: list[list[str]] = []
    unsaved = astray = 0
    with sheet._get_source() as source:
        parser = _parser(sheet, source)
        for number, cells in parser.parse():
            size = parser.row_dimensions.pop(str(number), {})
            if len(records) >= number:
                astray += 1
                continue
            if left := _reaches(job, records, number):
                break
            if size.get("hidden") in _YES:
                traits.hidden_row(number)
            cells = [cell for cell in cells if 1 <= cell["column"] <= _MOST_COLUMNS]
            filled = traits.row(number, cells)
            record = [""] * max([filled, *(cell["column"] for cell in cells if _holds(cell))])
            if not job.take_cells(len(record) + 1):
                left = all_cells(job)
                break
            for cell in cells:
                unsaved += _take(cell, record, number, traits)
            job.spend_chars(sum(map(len, record)), f"row {number}")
            records.append(record)
        else:
            left = ""
        _whole(parser, traits)
    if left:
        notes.append(f"only the rows up to {len(records)} were read, {left}")
        notes.append("merged cells and colours by rule are not told: the file lists them behind its rows")
    if astray:
        notes.append(f"{astray} row(s) that the file holds twice, or behind later ones, were left out")
    if unsaved:
        notes.append(f"{unsaved} formula(s) without a saved value are given as formulas")
    return records, notes


def all_cells(job: Job) -> str:
    """Why rows were left out: the bound of all cells is met."""
    return f"{job.numbers['cells']:,} cells in all"


def _reaches(job: Job, records: list[list[str]], number: int) -> str:
    """Make room for the rows that are missing before a row; why that is not possible, "" when it is."""
    while len(records) < number - 1:
        if not job.take_cells(1):
            return all_cells(job)
        records.append([])
    return "for lack of time" if number % 1_000 == 0 and job.late() else ""


def _parser(sheet: Any, source: Any) -> Any:
    """openpyxl's parser of a sheet, which also gives the formula of each cell that has one."""
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
        found: dict[str, Any] = values(element)
        if element.find(reader.FORMULA_TAG) is not None:
            found["formula"] = _formula(parser.parse_formula(element))
        return found

    parser.parse_cell = parse_cell
    return parser


def _formula(written: Any) -> str:
    """As a cell shows it; that of an array stands in its first cell."""
    text = written if isinstance(written, str) else str(getattr(written, "text", None) or "")
    text = text if text.startswith("=") else f"={text}"
    return clean(text) if text != "=" else ""


def _holds(cell: dict[str, Any]) -> bool:
    return cell["value"] is not None or bool(cell.get("formula"))


def _take(cell: dict[str, Any], record: list[str], row: int, traits: Collected) -> bool:
    """Put a cell into its record; whether a formula stands there, for want of a value."""
    if not _holds(cell):
        return False
    column, formula = cell["column"], cell.get("formula", "")
    if cell["value"] is None:
        record[column - 1] = formula
        return True
    record[column - 1] = shown(cell["value"])
    if formula:
        traits.formula(row, column, formula)
    return False


def _whole(parser: Any, traits: Collected) -> None:
    """What a sheet says of whole columns and, behind its rows, of areas."""
    columns = [one for one in parser.column_dimensions.values() if one.get("hidden") in _YES]
    spans = ((1, int(one["min"]), LAST_ROW, min(int(one["max"]), _MOST_COLUMNS)) for one in columns)
    traits.other("hidden columns", "", spans)
    merged = parser.merged_cells.mergeCell if parser.merged_cells is not None else ()
    traits.other("merged", "", (_area(one) for one in merged))
    ruled = [part for one in parser.formatting for part in one.cells.ranges]
    traits.other("coloured by rule", "", (_area(one) for one in ruled))


def _area(found: Any) -> tuple[int, int, int, int]:
    return found.min_row, found.min_col, found.max_row, found.max_col


def _comments(job: Job, book: Any, sheet: Any, traits: Collected) -> None:
    """The comments of a sheet, which stand in a part of their own."""
    relations = need("openpyxl.packaging.relationship")
    said = need("openpyxl.comments.comment_sheet")
    kind = need("openpyxl.xml.constants").COMMENTS_NS
    path = relations.get_rels_path(sheet._worksheet_path)
    if path not in book._archive.namelist():
        return
    taken = 0
    for relation in relations.get_dependents(book._archive, path).find(kind):
        root = need("openpyxl.xml.functions").fromstring(book._archive.read(relation.target))
        for address, comment in said.CommentSheet.from_tree(root).comments:
            taken += 1
            if taken > MOST_COMMENTS:
                traits.notes.append(f"only the first {MOST_COMMENTS:,} comments are told")
                return
            row, column = need("openpyxl.utils.cell").coordinate_to_tuple(address)
            text = clean(str(comment.text or "")).strip()
            job.spend_chars(len(text), f"the comment on {address}")
            traits.other("comment", text, [(row, column, row, column)])


def shown(value: Any) -> str:
    """A value as text: dates as ISO writes them, whole numbers without a point."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, datetime.datetime):
        midnight = not (value.hour or value.minute or value.second)
        return value.date().isoformat() if midnight else value.isoformat(sep=" ", timespec="seconds")
    return clean(str(value))
