"""Workbooks: every sheet a table whose cells have the addresses they have there."""

from __future__ import annotations

import datetime
import io
import zipfile
from collections.abc import Iterator
from itertools import islice, repeat
from typing import Any

from .base import Job, Parts, Refused, clean, need, one_line
from .office import XLSX
from .text import has_header

_MOST_COLUMNS = 16_384


def convert_xlsx(job: Job, data: bytes) -> dict[str, Any]:
    """The sheets; a formula as the value saved with it, as itself where none was saved."""
    openpyxl = need("openpyxl")
    _trust_no_dimensions()
    parts = Parts(XLSX)
    try:
        values = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        formulas = openpyxl.load_workbook(io.BytesIO(data), read_only=True) if _has_formulas(data) else None
        for sheet in values.worksheets:
            name = clean(str(sheet.title))
            table, notes = _sheet(job, sheet, formulas[sheet.title] if formulas is not None else None)
            if table is None:
                parts.notes.append(f"sheet {one_line(name)} is empty")
                continue
            if sheet.sheet_state != "visible":
                notes.append("this sheet is hidden")
            taken = parts.add(name, table | {"notes": notes})
            parts.notes.extend(f"{taken}: {note}" for note in notes)
    except (Refused, MemoryError, RecursionError):
        raise
    except Exception as error:  # whatever the library says of broken input
        raise Refused("office", f"{type(error).__name__}: {one_line(str(error))}") from None
    if not len(parts):
        raise Refused("no_text", "this workbook has no sheet with content")
    return parts.document()


def _trust_no_dimensions() -> None:
    """Leave out what openpyxl does when it opens a sheet: looking for the sheet's size, which nobody here believes.

    Where a file does not say it, that means parsing the whole sheet (57 s for a million rows). There is no setting.
    """
    sheet = need("openpyxl.worksheet._read_only").ReadOnlyWorksheet
    if hasattr(sheet, "_get_size"):
        sheet._get_size = lambda self: None


def _has_formulas(data: bytes) -> bool:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        sheets = [name for name in archive.namelist() if name.startswith("xl/worksheets/") and name.endswith(".xml")]
        return any(b"<f>" in (xml := archive.read(name)) or b"<f " in xml for name in sheets)


def _sheet(job: Job, sheet: Any, formulas: Any) -> tuple[dict[str, Any] | None, list[str]]:
    notes: list[str] = []
    records: list[list[str]] = []
    unsaved = 0
    for row, written in zip(_rows(sheet), _rows(formulas) if formulas is not None else repeat(()), strict=False):
        record = []
        for value, formula in zip(row, written or repeat(None), strict=False):
            if value is None and isinstance(formula, str) and formula.startswith("="):
                record.append(clean(formula))
                unsaved += 1
            else:
                record.append(_shown(value))
        while record and not record[-1]:
            record.pop()
        if not job.take_cells(len(record) + 1):
            notes.append(f"only the rows up to {len(records)} were read, {job.numbers['cells']:,} cells in all")
            break
        if len(records) % 1_000 == 999 and job.late():
            notes.append(f"only the rows up to {len(records)} were read, for lack of time")
            break
        job.spend_chars(sum(map(len, record)), f"row {len(records) + 1}")
        records.append(record)
    while records and not records[-1]:
        records.pop()
    if not records:
        return None, notes
    if unsaved:
        notes.append(f"{unsaved} formula(s) without a saved value are given as formulas")
    header = records[0] if has_header(records) else []
    table = {
        "kind": "table",
        "media_type": XLSX,
        "header": header,
        "rows": records[1:] if header else records,
        "first_row": 2 if header else 1,
        "delimiter": ",",
    }
    return table, notes


def _rows(sheet: Any) -> Iterator[tuple[Any, ...]]:
    sheet.reset_dimensions()  # what the file says of its size may be wrong
    return (tuple(islice(row, _MOST_COLUMNS)) for row in sheet.iter_rows(values_only=True))


def _shown(value: Any) -> str:
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
