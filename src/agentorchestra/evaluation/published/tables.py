"""The tables of the papers whose systems are here, and their arithmetic: which cells can be, which sums follow."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from agentorchestra.core.errors import EvaluationError

PAPERS = ("agentorchestra_tea", "agentorchestra", "aorchestra", "coral", "oagents")  # names of the papers' files
_ROUNDING = 0.0101
"""How far a published number may be from what follows, in its last digits: some are rounded up, or cut off."""


@dataclass(frozen=True)
class Table:
    number: str  # of the table in its paper
    about: str  # what it shows
    columns: tuple[str, ...]  # their names; `average` is over others
    rows: Mapping[str, tuple[float | None, ...]]  # by name, one number for each column; None where the paper has none
    set: str = ""  # the name of the set of questions, "" where columns are of several
    # questions behind each column, 0 where it is none or unknown; empty where nothing is known
    sizes: tuple[int, ...] = ()
    sizes_from: str = ""  # how the sizes are known where the benchmark does not say it
    whole: float = 100  # what all right is: 100 for percent, 1 for shares
    average: str = ""  # how `average` comes about: `weighted` by sizes, the `mean` of columns, "" where there is none
    averaged: tuple[str, ...] = ()  # the columns it is over, empty for all others

    @property
    def place(self) -> str:
        """Return where it stands in its paper: "table 4", "figure 3", "app. C.1"."""
        return f"table {self.number}" if self.number[0].isdigit() else self.number

    def cell(self, row: str, column: str) -> float:
        """Return a cell; EvaluationError for one that is not there."""
        if row not in self.rows or column not in self.columns:
            raise EvaluationError(
                f"{self.place} has no cell {row!r}, {column!r}; rows: {', '.join(self.rows)}; columns: "
                f"{', '.join(self.columns)}"
            )
        found = self.rows[row][self.columns.index(column)]
        if found is None:
            raise EvaluationError(f"the paper leaves the cell {row!r}, {column!r} of {self.place} empty")
        return found

    def problems(self) -> Iterator[str]:
        """Give a sentence for each cell that no number of questions gives, and each average that does not follow."""
        sizes = dict(zip(self.columns, self.sizes, strict=False))
        for name, row in self.rows.items():
            cells = {column: cell for column, cell in zip(self.columns, row, strict=True) if cell is not None}
            for column, cell in cells.items():
                size = 0 if self.average and column == "average" else sizes.get(column, 0)
                if size and not self._is_count(cell, size):
                    other = f"; it is {self._count(cell, size - 1)} of {size - 1}" * self._is_count(cell, size - 1)
                    yield f"{self.place}, {name}, {column}: {cell:g} is of no number of {size}{other}"
            if follow := self._follow(cells, sizes):
                said = " or ".join(dict.fromkeys(f"{one:.{2 if self.whole == 100 else 4}f}" for one in follow))
                yield f"{self.place}, {name}, average: {cells['average']:g} is stated, {said} follows"

    @property
    def _rounding(self) -> float:
        return _ROUNDING * self.whole / 100

    def _count(self, cell: float, size: int) -> int:
        return round(cell / self.whole * size)

    def _is_count(self, cell: float, size: int) -> bool:
        return abs(self._count(cell, size) / size * self.whole - cell) <= self._rounding

    def _follow(self, cells: Mapping[str, float], sizes: Mapping[str, int]) -> list[float]:
        """Return what a row's average would have to be; nothing where it is that, or nobody can say."""
        parts = [one for one in self.averaged or self.columns if one != "average" and one in cells]
        if not self.average or "average" not in cells or not parts:
            return []
        if self.average == "mean":
            follow = [math.fsum(cells[one] for one in parts) / len(parts)]
        else:  # of the cells as they stand, or of the whole questions that are nearest to them
            size = sum(sizes[one] for one in parts)
            follow = [
                sum(self._count(cells[one], sizes[one]) for one in parts) / size * self.whole,
                math.fsum(cells[one] * sizes[one] for one in parts) / size,
            ]
        return [] if any(abs(one - cells["average"]) <= self._rounding for one in follow) else follow


@dataclass(frozen=True)
class Paper:
    """What a paper published."""

    title: str  # with its number at arXiv
    tables: Mapping[str, Table]  # by their numbers
    # a sentence for everything in them, and in what the text says of them, that does not follow
    problems: tuple[str, ...]


def published(name: str) -> Paper:
    """Return what a paper published.

    Args:
        name: one of `PAPERS`.

    Raises:
        EvaluationError: an unknown name.
    """
    if name not in PAPERS:
        raise EvaluationError(f"nothing is stored of a paper {name!r}; the papers: {', '.join(PAPERS)}")
    data = tomllib.loads(files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))
    tables = {one["number"]: _table(one) for one in data["table"]}
    problems = [problem for table in tables.values() for problem in table.problems()]
    problems += [problem for claim in data.get("claim", ()) if (problem := _claimed(claim, tables))]
    problems += [problem for rise in data.get("rise", ()) for problem in _risen(rise, tables)]
    return Paper(data["paper"], tables, tuple(problems))


def _table(written: dict[str, Any]) -> Table:
    rows = {
        name: tuple(None if math.isnan(cell) else float(cell) for cell in row) for name, row in written["rows"].items()
    }
    lists: dict[str, Any] = {one: tuple(written[one]) for one in ("columns", "sizes", "averaged") if one in written}
    return Table(**(written | lists | {"rows": rows}))


def _claimed(claim: Mapping[str, Any], tables: Mapping[str, Table]) -> str:
    """Return a sentence if the text states a difference that its table does not give, else ""."""
    of, over = (tables[number].cell(row, column) for number, row, column in (claim["of"], claim["over"]))
    table = tables[claim["of"][0]]
    relative = claim.get("relative", False)
    follows = (of / over - 1) * 100 if relative else of - over
    if abs(follows - claim["stated"]) <= _ROUNDING * (1 if relative else table.whole / 100):
        return ""
    note = f"; {claim['note']}" if "note" in claim else ""
    return f"{claim['where']}: {claim['stated']:g} is stated, {table.place} gives {follows:.2f}{note}"


def _risen(rise: Mapping[str, Any], tables: Mapping[str, Table]) -> Iterator[str]:
    """Give a sentence for each column in which a row is not above the other, though the text says so."""
    for number, better, worse in rise["of"]:
        table = tables[number]
        for column in table.columns:
            of, over = table.cell(better, column), table.cell(worse, column)
            if of <= over:
                yield f"{rise['where']}: {table.place}, {column} has {of:g} for {better}, {over:g} for {worse}"
