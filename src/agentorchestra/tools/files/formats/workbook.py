"""Sheets of every kind of workbook as tables whose cells have the addresses they have there, and other properties.

Those are colours, formats, formulas, comments, what is merged or hidden: cells are collected while rows are read, as
areas. A column of a thousand green cells is one area.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from .base import PartList, ReadJob, Refused, clean, need, one_line, table_document
from .text import has_header

LAST_ROW, LAST_COLUMN = 1_048_576, 16_384
MOST_CELLS = 100_000  # cells of a sheet whose fills are told; as many for font colours, and for number formats
MOST_FORMULAS = 20_000
MOST_COMMENTS = 2_000
MOST_AREAS = 5_000  # of what is merged, hidden, or coloured by rules
_USUAL = ("", "", "")  # the look of a cell that has none of its own
# In the order in which they are told
_KINDS = (
    *("fill", "font colour", "merged", "hidden rows", "hidden columns", "coloured by rule", "number format"),
    *("comment", "text box", "formula"),
)


class Areas:
    """Cells that come row by row, as rectangles."""

    def __init__(self) -> None:
        self._done: list[list[int]] = []
        self._open: dict[tuple[int, int], list[int]] = {}

    def add(self, row: int, first: int, last: int) -> None:
        """Take the columns first to last of a row; rows come in order."""
        above = self._open.get((first, last))
        if above is not None and above[2] == row - 1:
            above[2] = row
            return
        self._open[first, last] = area = [row, first, row, last]
        self._done.append(area)

    def to_json(self) -> list[list[int]]:
        return sorted(self._done)


class CellTraits:
    """The traits of one sheet, while its rows are read; `look` gives fill, font colour and number format of a style."""

    def __init__(self, look: Callable[[Any], tuple[str, str, str]]) -> None:
        self._look = look
        self._areas: dict[tuple[str, str], Areas] = {}
        self._counts = {"fill": 0, "font colour": 0, "number format": 0}
        self._full: dict[str, int] = {}
        self._formulas: list[tuple[int, int, str]] = []
        self._more_formulas = False
        self._comments = 0
        self._others: list[tuple[str, str, list[list[int]]]] = []
        self.notes: list[str] = []

    def row(self, number: int, cells: Sequence[dict[str, Any]]) -> int:
        """Take a row; return the last of its columns with a fill, 0 for none."""
        styles = [(cell, look) for cell in cells if (look := self._look(cell["style_id"])) != _USUAL]
        width = 0
        if not styles:
            return width
        for at, kind in enumerate(self._counts):
            seen = [
                (cell["column"], look[at])
                for cell, look in styles
                if look[at] and (look[at] != "FFFFFF" if kind == "fill" else cell["value"] is not None)
            ]
            if seen and self._takes(kind, number, len(seen)):
                width = seen[-1][0] if kind == "fill" else width
                for first, last, value in _runs(seen):
                    self._areas.setdefault((kind, value), Areas()).add(number, first, last)
        return width

    def _takes(self, kind: str, row: int, count: int) -> bool:
        if kind in self._full or self._counts[kind] + count > MOST_CELLS:
            self._full.setdefault(kind, row)
            return False
        self._counts[kind] += count
        return True

    def formula(self, row: int, column: int, text: str) -> None:
        if len(self._formulas) < MOST_FORMULAS:
            self._formulas.append((row, column, text))
        else:
            self._more_formulas = True

    def hidden_row(self, number: int) -> None:
        self._areas.setdefault(("hidden rows", ""), Areas()).add(number, 1, LAST_COLUMN)

    def comment(self, row: int, column: int, text: str) -> bool:
        """Take a comment; False where there were enough."""
        self._comments += 1
        if self._comments <= MOST_COMMENTS:
            self.other("comment", text, [(row, column, row, column)])
        elif self._comments == MOST_COMMENTS + 1:
            self.notes.append(f"only the first {MOST_COMMENTS:,} comments are told")
        return self._comments <= MOST_COMMENTS

    def other(self, kind: str, value: str, areas: Iterable[Sequence[int]]) -> None:
        spans = [list(area) for area in areas if area[0] <= LAST_ROW and area[1] <= LAST_COLUMN]
        if len(spans) > MOST_AREAS:
            self.notes.append(f"of {len(spans):,} areas that are {kind}, the first {MOST_AREAS:,} are told")
        if spans:
            self._others.append((kind, value, sorted(spans[:MOST_AREAS])))

    def to_json(self) -> list[list[Any]]:
        """Return all of them as JSON has them; what was left out is in `notes`."""
        for kind, row in self._full.items():
            note = f"the {kind}s are told of the first {self._counts[kind]:,} cells that have one, up to row {row - 1}"
            self.notes.append(note)
        if self._more_formulas:
            last = self._formulas[-1][0]
            self.notes.append(f"the formulas are told of the first {MOST_FORMULAS:,} cells with one, up to row {last}")
        traits = [[kind, value, areas.to_json()] for (kind, value), areas in self._areas.items()]
        traits += [[*other] for other in self._others]
        traits += [["formula", text, [area]] for text, area in filled_down(self._formulas)]
        return sorted(traits, key=lambda trait: (_KINDS.index(trait[0]), trait[2][0]))


def _runs(cells: Sequence[tuple[int, str]]) -> Iterator[tuple[int, int, str]]:
    for (value, _), run in groupby(enumerate(cells), lambda pair: (pair[1][1], pair[1][0] - pair[0])):
        columns = [column for _, (column, _) in run]
        yield columns[0], columns[-1], value


def filled_down(formulas: Iterable[tuple[int, int, str]]) -> Iterator[tuple[str, list[int]]]:
    """Give formulas with their areas: one for those that were filled down from the first cell."""
    formula = need("openpyxl.formula.translate")
    open_: tuple[str, list[int], Any] | None = None
    for row, column, text in sorted(formulas, key=lambda cell: (cell[1], cell[0])):
        if open_ is not None:
            first, area, translator = open_
            if area[1] == column and area[2] == row - 1 and _translation(translator, row, column) == text:
                area[2] = row
                continue
            yield first, area
        try:
            translator = formula.Translator(text, origin=_address(row, column))
        except Exception:  # what the library cannot take apart stands alone
            translator = None
        open_ = text, [row, column, row, column], translator
    if open_ is not None:
        yield open_[0], open_[1]


def _translation(translator: Any, row: int, column: int) -> str | None:
    try:
        return str(translator.translate_formula(_address(row, column))) if translator is not None else None
    except Exception:  # a formula that cannot stand there
        return None


def _address(row: int, column: int) -> str:
    return f"{need('openpyxl.utils').get_column_letter(column)}{row}"


class Sheet:
    """One sheet as it is read, row by row, within the bounds of the job."""

    def __init__(self, job: ReadJob, traits: CellTraits) -> None:
        self._job = job
        self.traits = traits
        self.records: list[list[str]] = []
        self.notes: list[str] = []

    def row(self, number: int, cells: Sequence[dict[str, Any]], *, hidden: bool = False) -> bool:
        """Take a row (a cell: `column`, `value`, `text`, `style_id`, maybe `formula`); False where it is enough."""
        while len(self.records) < number - 1:
            if not self._job.take_cells(1):
                return self._stop(self._all_cells)
            self.records.append([])
        if number % 1_000 == 0 and self._job.late():
            return self._stop("for lack of time")
        if hidden:
            self.traits.hidden_row(number)
        width = self.traits.row(number, cells)
        columns = (cell["column"] for cell in cells if cell["text"] or cell["value"] is not None)
        record = [""] * max([width, *columns])
        if not self._job.take_cells(len(record) + 1):
            return self._stop(self._all_cells)
        for cell in cells:
            if cell["text"]:
                record[cell["column"] - 1] = cell["text"]
            if cell.get("formula"):
                self.traits.formula(number, cell["column"], cell["formula"])
        self._job.spend("chars", sum(map(len, record)), f"row {number}")
        self.records.append(record)
        return True

    @property
    def _all_cells(self) -> str:
        return f"{self._job.numbers['cells']:,} cells in all"

    def _stop(self, reason: str) -> bool:
        self.notes.append(f"only the rows up to {len(self.records)} were read, {reason}")
        return False

    def add_to(self, parts: PartList, name: str, kind: str, *, hidden: bool) -> None:
        """Add the sheet as a table; of one that is empty a note."""
        records, traits = self.records, self.traits.to_json()
        notes = [*self.notes, *self.traits.notes, *(["this sheet is hidden"] if hidden else [])]
        while records and not records[-1]:
            records.pop()
        if not records and not traits:
            parts.notes.append(f"sheet {one_line(name)} is empty" + "".join(f"; {note}" for note in notes))
            return
        # Cells with a fill only may follow the last one with a value.
        last = max((at for at, cell in enumerate(records[0], 1) if cell), default=0) if records else 0
        header = records[0] if records and has_header([records[0][:last]]) else []
        table = table_document(kind, header, records[1:] if header else records or [[]])
        label = parts.add(name, table | {"traits": traits, "notes": notes})
        parts.notes.extend(f"{label}: {note}" for note in notes)


def workbook(parts: PartList, note: str = "") -> dict[str, Any]:
    """Return the document of a workbook; Refused if no sheet has content."""
    if not len(parts):
        raise Refused("no_text", "this workbook has no sheet with content")
    parts.notes += [note] if note else []
    return parts.document()


def cell_text(value: Any) -> str:
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
