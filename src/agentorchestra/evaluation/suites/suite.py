"""A suite: a published table as an evaluation, its rows as arms made of settings. One file for each paper."""

from __future__ import annotations

import tomllib
from importlib.resources import files

from pydantic import BaseModel, Field

from agentorchestra.core.errors import EvaluationError
from agentorchestra.evaluation.plan import Arm
from agentorchestra.evaluation.published.tables import PAPERS, PaperTable, published


class SuiteArm(Arm, frozen=True, extra="forbid"):
    """An arm, and the published rows that stand beside it: one for each model that the paper tried."""

    rows: tuple[str, ...]

    @property
    def arm(self) -> Arm:
        return Arm(**self.model_dump(exclude={"rows"}))


class OmittedRows(BaseModel, frozen=True, extra="forbid"):
    """Published rows that cannot be run here, with the reason."""

    rows: tuple[str, ...]
    why: str


class Suite(BaseModel, frozen=True, extra="forbid"):
    """A published table as an evaluation."""

    name: str  # such as `004-table7`
    # `paper`, `table`: where its cells are, see `published`
    paper: str
    table: str
    set: str  # of the questions asked here
    about: str  # what is compared, and in what this differs from the paper
    # published columns by what is beside them: `all` questions, a group, `pass@K`, `cost` (dollars for an answer),
    # `gain` (points over the first arm), `reuse` (of generated tools, by later questions), `agents>N` (solved after
    # more than N agents were asked)
    columns: dict[str, str]
    # `repeats`, `ask_again`: as in the paper
    repeats: int = Field(default=1, ge=1)
    ask_again: int = Field(default=0, ge=0)
    tips: int = Field(default=0, ge=0)  # questions that give tips, see `EvalPlan`; 0 where no arm takes them
    # `arms`, `left_out`: its rows
    arms: tuple[SuiteArm, ...]
    left_out: tuple[OmittedRows, ...] = ()

    @property
    def cells(self) -> PaperTable:
        return published(self.paper).tables[self.table]

    @property
    def source(self) -> str:
        return f"{published(self.paper).title}, {self.cells.place}"

    def rows(self, arm: str) -> tuple[str, ...]:
        return next((suite_arm.rows for suite_arm in self.arms if suite_arm.name == arm), ())


def suites() -> dict[str, Suite]:
    by_name: dict[str, Suite] = {}
    for paper in PAPERS:
        data = tomllib.loads(files(__package__).joinpath(f"{paper}.toml").read_text(encoding="utf-8"))
        by_name |= {entry["name"]: Suite(paper=paper, **entry) for entry in data["suite"]}
    return by_name


def suite(name: str) -> Suite:
    """Return a suite; raise EvaluationError if there is none of this name."""
    every = suites()
    if name not in every:
        raise EvaluationError(f"there is no suite {name!r}; the suites: {', '.join(every)}")
    return every[name]
