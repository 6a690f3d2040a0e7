"""Other workbooks of Excel: those of until 2003 (.xls), as .xlsx but for formulas; binary ones (.xlsb), values alone."""

from __future__ import annotations

import io
from functools import cache, partial
from typing import Any

from .base import Job, Parts, Refused, clean, need, refusing
from .sniff import XLSB
from .workbook import LAST_ROW, CellTraits, Sheet, shown, workbook

XLS = "application/vnd.ms-excel"

_EMPTY, _TEXT, _NUMBER, _DATE, _BOOLEAN, _ERROR, _BLANK = range(7)


def convert_xls(job: Job, data: bytes) -> dict[str, Any]:
    """Return the sheets, with formulas as the values saved with them."""
    xlrd = need("xlrd")
    parts = Parts(XLS)
    if job.check:
        return parts.document()
    options = {"formatting_info": True, "ragged_rows": True, "on_demand": True, "logfile": io.StringIO()}
    try:
        with refusing("office"), xlrd.open_workbook(file_contents=data, **options) as book:
            for number in range(book.nsheets):
                sheet = book.sheet_by_index(number)
                found = Sheet(job, CellTraits(cache(partial(_look, book))))
                _read(book, sheet, found)
                found.add_to(parts, clean(sheet.name), XLS, hidden=bool(sheet.visibility))
                book.unload_sheet(number)
    except Refused as error:
        encrypted = error.code == "office" and "encrypted" in error.detail
        raise Refused("encrypted_office" if encrypted else error.code, error.detail) from None
    return workbook(parts, "formulas of .xls files are not told, only their values; save it as .xlsx to have them")


def convert_xlsb(job: Job, data: bytes) -> dict[str, Any]:
    """Return the sheets, with formulas as the values saved with them."""
    calamine = need("python_calamine")
    parts = Parts(XLSB)
    with refusing("office"), calamine.load_workbook(io.BytesIO(data)) as book:
        for about in book.sheets_metadata:
            found = Sheet(job, CellTraits(lambda style: ("", "", "")))
            sheet = book.get_sheet_by_name(about.name)
            first = sheet.start[1] + 1 if sheet.start else 1
            for number, row in enumerate(sheet.iter_rows(), 1):
                texts = ((column, shown(value)) for column, value in enumerate(row, first))
                cells = [{"column": at, "value": text, "text": text, "style_id": 0} for at, text in texts if text]
                if not found.row(number, cells):
                    break
            hidden = about.visible != calamine.SheetVisibleEnum.Visible
            found.add_to(parts, clean(about.name), XLSB, hidden=hidden)
    return workbook(parts, "of .xlsb files the values are told, no colours, formulas, comments or merged cells")


def _look(book: Any, number: int) -> tuple[str, str, str]:
    """Return fill, font colour and number format of a format of cells, each "" where it is the usual one."""

    def colour(index: int) -> str:
        return "".join(f"{one:02X}" for one in book.colour_map.get(index) or ())

    look = book.xf_list[number]
    fill = colour(look.background.pattern_colour_index) if look.background.fill_pattern else ""
    usual, font = (colour(book.font_list[at].colour_index) or "000000" for at in (0, look.font_index))
    code = str(book.format_map[look.format_key].format_str)
    return fill, "" if font == usual else font, "" if code.lower() in ("general", "@", "") else code


def _read(book: Any, sheet: Any, found: Sheet) -> None:
    for number in range(1, sheet.nrows + 1):
        info = sheet.rowinfo_map.get(number - 1)
        values = [(cell, _value(book, cell)) for cell in sheet.row(number - 1)]
        cells = [
            {"column": column, "value": value or None, "text": value, "style_id": cell.xf_index}
            for column, (cell, value) in enumerate(values, 1)
            if cell.ctype != _EMPTY
        ]
        if not found.row(number, cells, hidden=info is not None and bool(info.hidden)):
            break
    hidden = sorted(column + 1 for column, info in sheet.colinfo_map.items() if info.hidden and column < 256)
    found.traits.other("hidden columns", "", ((1, column, LAST_ROW, column) for column in hidden))
    spans = ((top + 1, left + 1, bottom, right) for top, bottom, left, right in sheet.merged_cells)
    found.traits.other("merged", "", spans)
    for (row, column), comment in sorted(sheet.cell_note_map.items()):
        found.traits.comment(row + 1, column + 1, clean(str(comment.text)).strip())


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
