"""The record of an evolution: what may change, what it learns from, what decides, within which limits.

It lies in the workspace as `evolutions/NAME/evolution.json`, with `rounds.jsonl` beside it: what came of each round.
The evidence itself is elsewhere, once: runs are in the log, versions in the histories of their components, training and
validation are evaluations (`agentorchestra eval report NAME-1-gate`).
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, JsonValue, ValidationError

from agentorchestra.core.errors import EvolutionError
from agentorchestra.evaluation.questions import EvalQuestion, QuestionSet, load_set
from agentorchestra.evolution.gate import GateDecision, GateTerms

FOLDER = "evolutions"
RECORD = "evolution.json"
ROUNDS = "rounds.jsonl"

Promote = Literal["gate", "auto", "ask"]


class QuestionSource(BaseModel, frozen=True, extra="forbid"):
    """Questions of a set.

    Attributes:
        set, data: as for an evaluation (`load_set`).
        version: of the set when the evolution was begun.
        ids: those that are asked.
    """

    set: str
    data: str = ""
    version: str
    ids: tuple[str, ...]

    def load(self) -> QuestionSet:
        """Return the set; raise EvolutionError if its data are not those that the evolution was begun with."""
        questions = load_set(self.set, Path(self.data) if self.data else None)
        if questions.version != self.version:
            raise EvolutionError(
                f"the evolution was begun with the version {self.version[:12]} of the set {self.set}, and the data are "
                f"{questions.version[:12]} now; bring the former data back, or begin another evolution"
            )
        return questions


class Evolution(BaseModel, frozen=True, extra="forbid"):
    format: Literal[1] = 1  # of the file; 1 is the first
    name: str  # of the evolution in its workspace
    subjects: tuple[str, ...]  # components whose variables may change: `prompt:react`, `tool:price_of`
    variables: tuple[str, ...] = ()  # those that may change, as `prompt:react/template`; all of the subjects if empty
    optimiser: str = "textgrad"  # who proposes: `textgrad`, `reflection`, `gepa`
    # `training`, `validation`: the questions; none is in both
    training: QuestionSource
    validation: QuestionSource
    batch: int = Field(default=8, ge=1)  # questions of a round's training
    rounds: int = Field(default=3, ge=1)  # proposals at most
    repeats: int = Field(default=1, ge=1)  # how often each version answers each question of the validation
    # `gate` asks the validation questions and decides; `auto` takes a candidate that does better on its training
    # questions (000, sec. 3.4); `ask` leaves what passes to a person
    promote: Promote = "gate"
    terms: GateTerms = GateTerms()  # of the gate
    # the share of live runs that a promoted version gets at first; 1 for all of them
    canary: float = Field(default=1.0, gt=0, le=1)
    # `system`, `model`, `settings`, `environments`: of the runs, see `evaluation.plan.Arm`
    system: str | None = None
    model: str | None = None
    settings: dict[str, JsonValue] = {}
    environments: tuple[str, ...] = ()
    optimiser_model: str | None = None  # who proposes; the runs' model by default
    # `question_usd`, `budget_usd`: what one run and what all of them together may cost
    question_usd: float | None = Field(default=None, gt=0)
    budget_usd: float | None = Field(default=None, gt=0)
    seed: int = 0  # of batches and runs

    def draw(self, number: int) -> tuple[str, ...]:
        """Return the training questions of a round: each one is asked once before any is asked again."""
        chance = random.Random(self.seed)
        deck: list[str] = []
        while len(deck) < number * self.batch:
            cards = [*self.training.ids]
            chance.shuffle(cards)
            deck += cards
        hand = deck[(number - 1) * self.batch : number * self.batch]
        return tuple(dict.fromkeys(hand))


class EvolutionRound(BaseModel, frozen=True):
    number: int  # from 1
    # `promoted`, `canary` (it has a share of the live runs), `rejected`, `undecided`, `waiting` (for a person),
    # `refused` (by a check, before anything was spent on it), `no better` (on its training questions), `no change`
    # (nothing was proposed), `learnt` (every training question was right)
    ended: str
    why: str = ""  # a sentence
    versions: dict[str, str] = {}  # of the candidate, by component
    reasons: dict[str, str] = {}  # why the optimiser changed what it changed, by variable
    run: str = ""  # the optimiser's run, "" where there was none
    # `before`, `after`: the mean score on the training questions
    before: float | None = None
    after: float | None = None
    decision: GateDecision | None = None  # of the gate
    usd: float | None = 0.0  # what the round cost, None where a price is unknown


def new_evolution(
    name: str,  # of letters, digits, `-`, `_` and `.`
    *,
    training: tuple[str, str, QuestionSet],  # the name of a set, its data, and the set
    # the same; None holds a share of the training set apart, drawn by the seed
    validation: tuple[str, str, QuestionSet] | None = None,
    held_apart: float = 0.6,  # that share
    **fields: Any,  # the further fields of `Evolution`
) -> Evolution:
    """Return the record of an evolution; EvolutionError for misfits, too few questions, or some in both sets."""
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise EvolutionError(f"the name {name!r} is not made of letters, digits, -, _ and .; choose another one")
    source, data, questions = training
    every = [question.id for question in questions.questions]
    learn = QuestionSource(set=source, data=data, version=questions.version, ids=tuple(every))
    if validation is None:
        if not 0 < held_apart < 1:
            raise EvolutionError(f"a share of {held_apart:g} cannot be held apart; give one between 0 and 1")
        apart = round(len(every) * held_apart)
        if not 1 <= apart < len(every):
            raise EvolutionError(
                f"{len(every)} questions cannot be parted into training and validation; give more, or --validate-data"
            )
        test_ids = {*random.Random(fields.get("seed", 0)).sample(every, apart)}
        check = learn.model_copy(update={"ids": tuple(x for x in every if x in test_ids)})
        learn = learn.model_copy(update={"ids": tuple(x for x in every if x not in test_ids)})
        parts = [[questions.by_id[question_id] for question_id in part.ids] for part in (learn, check)]
        _check_apart(*parts, by_id=False)
    else:
        _check_apart(questions.questions, validation[2].questions, by_id=source == validation[0])
        check = QuestionSource(
            set=validation[0],
            data=validation[1],
            version=validation[2].version,
            ids=tuple(question.id for question in validation[2].questions),
        )
    try:
        evolution = Evolution(name=name, training=learn, validation=check, **fields)
    except ValidationError as exc:
        first = exc.errors()[0]
        raise EvolutionError(f"{'.'.join(map(str, first['loc']))} is {first['input']!r}: {first['msg']}") from None
    if evolution.budget_usd is not None and evolution.question_usd is None:
        raise EvolutionError("a budget over all runs needs a limit for each run; give --question-usd")
    return evolution.model_copy(update={"terms": evolution.terms.model_copy(update={"candidates": evolution.rounds})})


def _check_apart(training: Sequence[EvalQuestion], validation: Sequence[EvalQuestion], *, by_id: bool) -> None:
    """Refuse a question that is in both sets, by its id where they are of one set, and by its words."""
    seen: Mapping[str, str] = {" ".join(question.task.casefold().split()): question.id for question in training}
    ids = {question.id for question in training}
    for question in validation:
        again = seen.get(" ".join(question.task.casefold().split()))
        if again is None and by_id and question.id in ids:
            again = question.id
        if again is not None:
            raise EvolutionError(
                f"the validation question {question.id!r} is the training question {again!r} too; what was learnt from "
                "a question cannot be judged by it, so take it out of one of them"
            )


def keep(workspace: Path, evolution: Evolution) -> Evolution:
    """Write the record of an evolution, or return the one there is; EvolutionError if that is of another one."""
    path = workspace / FOLDER / evolution.name / RECORD
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text(evolution.model_dump_json(indent=1) + "\n", encoding="utf-8")
        new.replace(path)
        return evolution
    before = read(workspace, evolution.name)
    content, former = evolution.model_dump(exclude={"budget_usd"}), before.model_dump(exclude={"budget_usd"})
    if other := [field for field in content if content[field] != former[field]]:
        raise EvolutionError(
            f"the evolution {evolution.name} was begun with other {', '.join(other)}; choose another --name, or give "
            "what it was begun with to go on"
        )
    return before.model_copy(update={"budget_usd": evolution.budget_usd})


def read(workspace: Path, name: str) -> Evolution:
    """Return the record of an evolution; raise EvolutionError if there is none of this name, or it cannot be read."""
    path = workspace / FOLDER / name / RECORD
    try:
        return Evolution.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError:
        names = ", ".join(evolutions(workspace)) or "none"
        raise EvolutionError(f"there is no evolution {name!r} in {workspace}; there are: {names}") from None
    except ValidationError as exc:
        raise EvolutionError(
            f"{path} cannot be read: {exc.errors()[0]['msg']}; use the version of this package that wrote it"
        ) from None


def evolutions(workspace: Path) -> list[str]:
    return sorted(path.parent.name for path in (workspace / FOLDER).glob(f"*/{RECORD}"))


def rounds(workspace: Path, name: str) -> list[EvolutionRound]:
    path = workspace / FOLDER / name / ROUNDS
    if not path.is_file():
        return []
    return [EvolutionRound.model_validate_json(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def add_round(workspace: Path, name: str, record: EvolutionRound) -> None:
    records = [entry for entry in rounds(workspace, name) if entry.number != record.number]
    path = workspace / FOLDER / name / ROUNDS
    new = path.with_suffix(".new")
    new.write_text("".join(entry.model_dump_json() + "\n" for entry in [*records, record]), encoding="utf-8")
    new.replace(path)
