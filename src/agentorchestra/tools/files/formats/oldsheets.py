"""Workbooks as Excel wrote them until 2003 (.xls): the same tables as those of .xlsx, but for their formulas."""

from __future__ import annotations

import io
from typing import Any

from .base import Job, Parts, Refused, clean, need, one_line
from .sheets import LAST_ROW, add_sheet, all_cells, shown
from .traits import MOST_COMMENTS, Collected

XLS = "application/vnd.ms-excel"

_EMPTY, _TEXT, _NUMBER, _DATE, _BOOLEAN, _ERROR, _BLANK = range(7)


def convert_xls(job: Job, data: bytes) -> dict[str, Any]:
    """The sheets, with formulas as the values saved with them."""
    xlrd = need("xlrd")
    parts = Parts(XLS)
    if job.check:
        return parts.document()
    try:
        with xlrd.open_workbook(
            file_contents=data, formatting_info=True, ragged_rows=True, on_demand=True, logfile=io.StringIO()
        ) as book:
            for number in range(book.nsheets):
                sheet = book.sheet_by_index(number)
                traits = Collected(sheet, _Styles(book))
                records, notes = _sheet(job, book, sheet, traits)
                found = traits.listed()
                notes += [*traits.notes, *(["this sheet is hidden"] if sheet.visibility else [])]
                add_sheet(parts, clean(sheet.name), records, found, notes, XLS)
                book.unload_sheet(number)
    except (Refused, MemoryError, RecursionError):
        raise
    except Exception as error:  # whatever the library says of broken input
        said = one_line(str(error))
        raise Refused(
            "encrypted_office" if "encrypted" in said else "office", f"{type(error).__name__}: {said}"
        ) from None
    if not len(parts):
        raise Refused("no_text", "this workbook has no sheet with content")
    parts.notes.append("formulas of .xls files are not told, only their values; save it as .xlsx to have them")
    return parts.document()


class _Styles:
    """What the formats of cells look like, by their numbers."""

    def __init__(self, book: Any) -> None:
        self._book = book
        self._usual = self._colour(book.font_list[0].colour_index) or "000000"
        self._known: dict[int, tuple[str, str, str]] = {}

    def of(self, _: Any, number: int) -> tuple[str, str, str]:
        """Fill, font colour and number format, each "" where it is the usual one."""
        if number not in self._known:
            look = self._book.xf_list[number]
            fill = look.background
            font = self._colour(self._book.font_list[look.font_index].colour_index) or "000000"
            code = str(self._book.format_map[look.format_key].format_str)
            self._known[number] = (
                self._colour(fill.pattern_colour_index) if fill.fill_pattern else "",
                "" if font == self._usual else font,
                "" if code.lower() in ("general", "@", "") else code,
            )
        return self._known[number]

    def _colour(self, number: int) -> str:
        return "".join(f"{one:02X}" for one in self._book.colour_map.get(number) or ())


def _sheet(job: Job, book: Any, sheet: Any, traits: Collected) -> tuple[list[list[str]], list[str]]:
    """The records of a sheet and what was left out; what its cells have besides values goes to `traits`."""
    records: list[list[str]] = []
    notes: list[str] = []
    for number in range(1, sheet.nrows + 1):
        info = sheet.rowinfo_map.get(number - 1)
        if info is not None and info.hidden:
            traits.hidden_row(number)
        values = [(cell, _value(book, cell)) for cell in sheet.row(number - 1)]
        filled = traits.row(
            number,
            [
                {"column": column, "value": value or None, "style_id": cell.xf_index}
                for column, (cell, value) in enumerate(values, 1)
                if cell.ctype != _EMPTY
            ],
        )
        width = max([filled, *(column for column, (_, value) in enumerate(values, 1) if value)])
        record = [value for _, value in values][:width]
        left = "" if job.take_cells(width + 1) else all_cells(job)
        left = left or ("for lack of time" if number % 1_000 == 0 and job.late() else "")
        if left:
            notes.append(f"only the rows up to {len(records)} were read, {left}")
            break
        job.spend_chars(sum(map(len, record)), f"row {number}")
        records.append(record)
    _whole(sheet, traits)
    return records, notes


def _value(book: Any, cell: Any) -> str:
    xlrd = need("xlrd")
    if cell.ctype in (_EMPTY, _BLANK):
        return ""
    if cell.ctype == _ERROR:
        return str(xlrd.error_text_from_code.get(cell.value, "#ERROR!"))
    if cell.ctype == _DATE:
        try:
            return shown(xlrd.xldate.xldate_as_datetime(cell.value, book.datemode))
        except (ValueError, OverflowError):  # a number that is no date, with the format of one
            return shown(cell.value)
    return shown(bool(cell.value) if cell.ctype == _BOOLEAN else cell.value)


def _whole(sheet: Any, traits: Collected) -> None:
    hidden = sorted(column + 1 for column, info in sheet.colinfo_map.items() if info.hidden and column < 256)
    traits.other("hidden columns", "", ((1, column, LAST_ROW, column) for column in hidden))
    spans = ((top + 1, left + 1, bottom, right) for top, bottom, left, right in sheet.merged_cells)
    traits.other("merged", "", spans)
    for taken, ((row, column), comment) in enumerate(sorted(sheet.cell_note_map.items())):
        if taken == MOST_COMMENTS:
            traits.notes.append(f"only the first {MOST_COMMENTS:,} comments are told")
            break
        traits.other("comment", clean(str(comment.text)).strip(), [(row + 1, column + 1, row + 1, column + 1)])
