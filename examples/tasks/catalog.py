"""The tasks by their names."""

from __future__ import annotations

import random
from pathlib import Path

from . import calculation, code, files, site
from .task import Maker, Task

TASKS: dict[str, Maker] = {
    "total": files.total,
    "fact": files.fact,
    "join": files.join,
    "interest": calculation.interest,
    "digits": calculation.digits,
    "arrival": calculation.arrival,
    "linked": site.linked,
    "table": site.table,
    "compared": site.compared,
    "mend": code.mend,
    "fill_in": code.fill_in,
    "turn_round": code.turn_round,
}
"""Makers of tasks: three of each kind."""


def make(name: str, seed: int | str, folder: Path) -> Task:
    """Make a task: the same from the same seed.

    Args:
        name: of `TASKS`.
        seed: where its names, numbers and texts come from.
        folder: an empty one, for its files.
    """
    return TASKS[name](random.Random(f"{seed} {name}"), folder)
