"""The tables of the papers whose systems are here, as they were published."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from math import isnan
from typing import Any

from agentorchestra.core.errors import EvaluationError

PAPERS = ("agentorchestra_tea", "agentorchestra", "aorchestra", "coral", "oagents")  # names of the papers' files


@dataclass(frozen=True)
class PaperTable:
    number: str  # of the table in its paper
    about: str  # what it shows
    columns: tuple[str, ...]  # their names
    rows: Mapping[str, tuple[float | None, ...]]  # by name, one number for each column; None where the paper has none
    set: str = ""  # the name of the set of questions, "" where columns are of several
    whole: float = 100  # what all right is: 100 for percent, 1 for shares

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
        value = self.rows[row][self.columns.index(column)]
        if value is None:
            raise EvaluationError(f"the paper leaves the cell {row!r}, {column!r} of {self.place} empty")
        return value


@dataclass(frozen=True)
class Paper:
    title: str  # with its number at arXiv
    tables: Mapping[str, PaperTable]  # by their numbers


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
    return Paper(data["paper"], {table["number"]: _table(table) for table in data["table"]})


def _table(entry: dict[str, Any]) -> PaperTable:
    rows = {name: tuple(None if isnan(cell) else float(cell) for cell in row) for name, row in entry["rows"].items()}
    return PaperTable(**(entry | {"columns": tuple(entry["columns"]), "rows": rows}))
