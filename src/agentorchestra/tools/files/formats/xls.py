"""Workbooks of Excel that are no XML, those of until 2003 (.xls) and binary ones (.xlsb): values and merged cells."""

from __future__ import annotations

import io
from typing import Any

from .base import PartList, ReadJob, Refused, clean, need, refusing
from .workbook import CellTraits, Sheet, cell_text, workbook

XLS = "application/vnd.ms-excel"
_LACKS = "only values and merged cells are told, errors (#N/A) as empty cells; save it as .xlsx to have all of it"


def convert_values(job: ReadJob, data: bytes, media_type: str) -> dict[str, Any]:
    """Return the sheets, with formulas as the values saved with them."""
    calamine = need("python_calamine")
    parts = PartList(media_type)
    if job.check:
        return parts.document()
    try:
        with refusing("office"), calamine.load_workbook(io.BytesIO(data)) as book:
            for about in book.sheets_metadata:
                sheet = Sheet(job, CellTraits(lambda style: ("", "", "")))
                _read(book.get_sheet_by_name(about.name), sheet)
                hidden = about.visible != calamine.SheetVisibleEnum.Visible
                sheet.add_to(parts, clean(about.name), media_type, hidden=hidden)
    except Refused as error:
        needs_password = error.code == "office" and error.detail.startswith("PasswordError")
        raise Refused("encrypted_office" if needs_password else error.code, error.detail) from None
    return workbook(parts, _LACKS)


def _read(sheet: Any, table: Sheet) -> None:
    first = sheet.start[1] + 1 if sheet.start else 1
    for number, row in enumerate(sheet.iter_rows(), 1):
        texts = ((column, cell_text(value)) for column, value in enumerate(row, first))
        cells = [{"column": at, "value": text, "text": text, "style_id": 0} for at, text in texts if text]
        if not table.row(number, cells):
            break
    spans = (
        (top + 1, left + 1, bottom + 1, right + 1) for (top, left), (bottom, right) in sheet.merged_cell_ranges or ()
    )
    table.traits.other("merged", "", spans)
