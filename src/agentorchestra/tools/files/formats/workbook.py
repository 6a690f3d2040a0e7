"""Sheets of every kind of workbook as tables whose cells have the addresses they have there."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from .base import Job, Parts, Refused, clean, one_line
from .text import has_header
from .traits import CellTraits

LAST_ROW, LAST_COLUMN = 1_048_576, 16_384


class Sheet:
    """One sheet as it is read, row by row, within the bounds of the job."""

    def __init__(self, job: Job, traits: CellTraits) -> None:
        self._job = job
        self.traits = traits
        self.records: list[list[str]] = []
        self.notes: list[str] = []

    def row(self, number: int, cells: Sequence[dict[str, Any]], *, hidden: bool = False) -> bool:
        """Take a row, after empty ones for those above it that are missing; False where no more may be read.

        A cell has `column` (from 1), `value` (None for none), `text` (of the value, or what stands for it), `style_id`,
        and `formula` where there is one.
        """
        while len(self.records) < number - 1:
            if not self._job.take_cells(1):
                return self._stop(self._all_cells)
            self.records.append([])
        if number % 1_000 == 0 and self._job.late():
            return self._stop("for lack of time")
        if hidden:
            self.traits.hidden_row(number)
        filled = self.traits.row(number, cells)
        record = [""] * max([filled, *(cell["column"] for cell in cells if cell["text"])])
        if not self._job.take_cells(len(record) + 1):
            return self._stop(self._all_cells)
        for cell in cells:
            if cell["text"]:
                record[cell["column"] - 1] = cell["text"]
            if cell.get("formula"):
                self.traits.formula(number, cell["column"], cell["formula"])
        self._job.spend_chars(sum(map(len, record)), f"row {number}")
        self.records.append(record)
        return True

    @property
    def _all_cells(self) -> str:
        return f"{self._job.numbers['cells']:,} cells in all"

    def _stop(self, why: str) -> bool:
        self.notes.append(f"only the rows up to {len(self.records)} were read, {why}")
        return False

    def add_to(self, parts: Parts, name: str, kind: str, *, hidden: bool) -> None:
        """Add the sheet as a table; of one that is empty a note."""
        records, traits = self.records, self.traits.listed()
        notes = [*self.notes, *self.traits.notes, *(["this sheet is hidden"] if hidden else [])]
        while records and not records[-1]:
            records.pop()
        if not records and not traits:
            parts.notes.append(f"sheet {one_line(name)} is empty" + "".join(f"; {note}" for note in notes))
            return
        # Cells with a fill only may follow the last one with a value.
        last = max((at for at, cell in enumerate(records[0], 1) if cell), default=0) if records else 0
        header = records[0] if records and has_header([records[0][:last]]) else []
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


def workbook(parts: Parts, note: str = "") -> dict[str, Any]:
    """Return the document of a workbook; Refused if no sheet has content."""
    if not len(parts):
        raise Refused("no_text", "this workbook has no sheet with content")
    parts.notes += [note] if note else []
    return parts.document()


def shown(value: Any) -> str:
    """Return a value as text: dates as ISO writes them, whole numbers without a point."""
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
