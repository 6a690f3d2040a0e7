"""Places inside files: `line 12`, `lines 12-14`, `p. 3`, `pp. 3-4`, `B7`, `B2:D9`, `row 7`, `rows 7-9`.

Inside a part the part's name comes first: `Sales!B7`, `slide 3!line 2`, `inner.zip!data/x.xml!line 3`. A stretch of one
line or page that is too long to be shown whole is `line 1, characters 5000-9000`.

Lines, pages, rows and characters count from 1. A line ends at LF, CRLF or CR and nowhere else. A table's first record
is row 1, whether it holds the column names or not, as in a spreadsheet; a record whose quoted cell spans lines is still
one row.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Unit = Literal["line", "page", "row", "cell"]

_SPAN = re.compile(
    r"^\s*(?P<unit>lines?|l\.|ll\.|pages?|pp?\.?|rows?)\s*(?P<first>\d{1,9})(?:\s*(?:-|–|to|\.\.)\s*(?P<last>\d{1,9}))?"
    r"(?:\s*,?\s*(?:characters?|chars?)\s*(?P<begin>\d{1,9})(?:\s*(?:-|–|to|\.\.)\s*(?P<end>\d{1,9}))?)?\s*$",
    re.IGNORECASE,
)
_CELLS = re.compile(r"^\s*([A-Za-z]{1,3})(\d{1,9})(?:\s*[:-]\s*([A-Za-z]{1,3})(\d{1,9}))?\s*$")


@dataclass(frozen=True)
class Place:
    """A span inside a file, ends included; columns and characters count from 1, 0 where there are none."""

    unit: Unit  # what `first` and `last` count
    first: int
    last: int
    first_column: int = 0
    last_column: int = 0
    part: str = ""  # the path of the part it lies in, or ""
    first_char: int = 0
    last_char: int = 0

    def __str__(self) -> str:
        return f"{self.part}!{self._span}" if self.part else self._span

    @property
    def _span(self) -> str:
        if self.unit == "cell":
            start = f"{column_name(self.first_column)}{self.first}"
            end = f"{column_name(self.last_column)}{self.last}"
            return start if start == end else f"{start}:{end}"
        singular, plural = {"line": ("line", "lines"), "page": ("p.", "pp."), "row": ("row", "rows")}[self.unit]
        span = f"{singular} {self.first}" if self.first == self.last else f"{plural} {self.first}-{self.last}"
        return f"{span}, characters {self.first_char}-{self.last_char}" if self.first_char else span


def parse_place(text: str) -> Place | None:
    """Return the place a text names, None when it names none."""
    part, mark, inside = text.rpartition("!")
    if mark:
        place = parse_place(inside)
        return replace(place, part=part.strip()) if place is not None and part.strip() else None
    if match := _SPAN.match(text):
        letter = match["unit"][0].lower()
        unit: Unit = "line" if letter == "l" else "page" if letter == "p" else "row"
        first = int(match["first"])
        last = int(match["last"] or first)
        if match["begin"] is None:
            return Place(unit, min(first, last), max(first, last))
        begin, end = int(match["begin"]), int(match["end"] or match["begin"])
        if unit == "row" or first != last or not begin:
            return None
        return Place(unit, first, last, first_char=min(begin, end), last_char=max(begin, end))
    if match := _CELLS.match(text):
        column, row = column_number(match[1]), int(match[2])
        end_column = column_number(match[3]) if match[3] else column
        end_row = int(match[4]) if match[4] else row
        return Place("cell", min(row, end_row), max(row, end_row), min(column, end_column), max(column, end_column))
    whole, comma, inner = text.rpartition(",")  # "rows 1-25, row 21": what was shown, and where in it
    return parse_place(inner) if comma and parse_place(whole) is not None else None


def pages_named(numbers: Sequence[int]) -> str:
    """Return pages in order as one writes them: `p. 3`, `pp. 1-4, 7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    spans = ", ".join("-".join(map(str, run)) for run in runs)
    return f"p. {spans}" if len(numbers) == 1 else f"pp. {spans}"


def column_name(number: int) -> str:
    """Return the letters of a column: 1 is A, 26 is Z, 27 is AA."""
    name = ""
    while number > 0:
        number, rest = divmod(number - 1, 26)
        name = chr(ord("A") + rest) + name
    return name


def column_number(name: str) -> int:
    number = 0
    for letter in name.upper():
        number = number * 26 + ord(letter) - ord("A") + 1
    return number
