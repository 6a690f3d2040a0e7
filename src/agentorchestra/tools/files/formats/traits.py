"""Properties of the cells of a workbook besides values: colours, formats, formulas, comments, what is merged or hidden.

Cells are collected while rows are read, as areas: a column of a thousand green cells is one area.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from .base import need

MOST_CELLS = 100_000  # cells of a sheet whose fills are told; as many for font colours, and for number formats
MOST_FORMULAS = 20_000
MOST_COMMENTS = 2_000
MOST_AREAS = 5_000  # of what is merged, hidden, or coloured by rules
_USUAL = ("", "", "")  # the look of a cell that has none of its own

_LAST_ROW, _LAST_COLUMN = 1_048_576, 16_384
# In the order in which they are told
_KINDS = (
    *("fill", "font colour", "merged", "hidden rows", "hidden columns", "coloured by rule", "number format"),
    *("comment", "formula"),
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

    def listed(self) -> list[list[int]]:
        """Return the rectangles, in order."""
        return sorted(self._done)


class CellTraits:
    """The traits of one sheet, while its rows are read.

    `look` gives the fill, font colour and number format of a style, each "" where it is the usual one.
    """

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
        filled = 0
        if not styles:
            return filled
        for at, kind in enumerate(self._counts):
            seen = [
                (cell["column"], look[at])
                for cell, look in styles
                if look[at] and (kind == "fill" or cell["value"] is not None)
            ]
            if seen and self._takes(kind, number, len(seen)):
                filled = seen[-1][0] if kind == "fill" else filled
                for first, last, value in _runs(seen):
                    self._areas.setdefault((kind, value), Areas()).add(number, first, last)
        return filled

    def _takes(self, kind: str, row: int, count: int) -> bool:
        if kind in self._full or self._counts[kind] + count > MOST_CELLS:
            self._full.setdefault(kind, row)
            return False
        self._counts[kind] += count
        return True

    def formula(self, row: int, column: int, text: str) -> None:
        """Take a formula."""
        if len(self._formulas) < MOST_FORMULAS:
            self._formulas.append((row, column, text))
        else:
            self._more_formulas = True

    def hidden_row(self, number: int) -> None:
        """Take a hidden row."""
        self._areas.setdefault(("hidden rows", ""), Areas()).add(number, 1, _LAST_COLUMN)

    def comment(self, row: int, column: int, text: str) -> bool:
        """Take a comment; False where there were enough."""
        self._comments += 1
        if self._comments <= MOST_COMMENTS:
            self.other("comment", text, [(row, column, row, column)])
        elif self._comments == MOST_COMMENTS + 1:
            self.notes.append(f"only the first {MOST_COMMENTS:,} comments are told")
        return self._comments <= MOST_COMMENTS

    def other(self, kind: str, value: str, areas: Iterable[Sequence[int]]) -> None:
        """Take what is said of whole areas."""
        found = [list(area) for area in areas if area[0] <= _LAST_ROW and area[1] <= _LAST_COLUMN]
        if len(found) > MOST_AREAS:
            self.notes.append(f"of {len(found):,} areas that are {kind}, the first {MOST_AREAS:,} are told")
        if found:
            self._others.append((kind, value, sorted(found[:MOST_AREAS])))

    def listed(self) -> list[list[Any]]:
        """Return all of them as JSON has them; what was left out is in `notes`."""
        for kind, row in self._full.items():
            said = f"the {kind}s are told of the first {self._counts[kind]:,} cells that have one, up to row {row - 1}"
            self.notes.append(said)
        if self._more_formulas:
            last = self._formulas[-1][0]
            self.notes.append(f"the formulas are told of the first {MOST_FORMULAS:,} cells with one, up to row {last}")
        found = [[kind, value, areas.listed()] for (kind, value), areas in self._areas.items()]
        found += [[*one] for one in self._others]
        found += [["formula", text, [area]] for text, area in filled_down(self._formulas)]
        return sorted(found, key=lambda one: (_KINDS.index(one[0]), one[2][0]))


def _runs(cells: Sequence[tuple[int, str]]) -> Iterator[tuple[int, int, str]]:
    """Give neighbours of a row with the same value."""
    for (value, _), run in groupby(enumerate(cells), lambda one: (one[1][1], one[1][0] - one[0])):
        columns = [column for _, (column, _) in run]
        yield columns[0], columns[-1], value


def filled_down(formulas: Iterable[tuple[int, int, str]]) -> Iterator[tuple[str, list[int]]]:
    """Give formulas with their areas: one for those that were filled down from the first cell."""
    formula = need("openpyxl.formula.translate")
    open_: tuple[str, list[int], Any] | None = None
    for row, column, text in sorted(formulas, key=lambda one: (one[1], one[0])):
        if open_ is not None:
            first, area, translator = open_
            if area[1] == column and area[2] == row - 1 and _moved(translator, row, column) == text:
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


def _moved(translator: Any, row: int, column: int) -> str | None:
    try:
        return str(translator.translate_formula(_address(row, column))) if translator is not None else None
    except Exception:  # a formula that cannot stand there
        return None


def _address(row: int, column: int) -> str:
    return f"{need('openpyxl.utils').get_column_letter(column)}{row}"
