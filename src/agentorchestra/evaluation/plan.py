"""The record of an evaluation: which questions, asked of which systems, how often, within which limits.

It lies in the workspace as `evaluations/NAME/plan.json`. What came of it is in the log: each run has the labels of
`EvalPlan.labels`, and its manifest the versions of prompts and tools.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, JsonValue, ValidationError, model_validator

from agentorchestra.core.errors import EvaluationError
from agentorchestra.core.ids import sha256_json
from agentorchestra.core.settings import Settings
from agentorchestra.evaluation.benchmarks.pages import without_answer_pages
from agentorchestra.evaluation.questions import EvalQuestion, QuestionSet, load_set

FOLDER = "evaluations"
PLAN = "plan.json"
JUDGES = "judges"  # the label of a judge's runs: the evaluation
ISOLATION: dict[str, JsonValue] = {"memory": "none", "parts.tips": False, "generator.keep": "run"}
"""Settings under which a question learns nothing from another one; no arm can set them otherwise."""
SAME_WEB: dict[str, JsonValue] = {"search.cache_s": 31_536_000, "web.cache_s": 31_536_000, "web.cache_mib": 4096}
"""Settings under which what one run was given by a search engine or a site is given to all later ones, for a year."""
REUSE: dict[str, JsonValue] = {**ISOLATION, "generator.keep": "workspace"}
"""The same where tools that were generated stay for the questions that come after (000, sec. 5.2)."""


class Arm(BaseModel, frozen=True, extra="forbid"):
    """A way to answer the questions, compared with the others of its evaluation."""

    name: str  # in tables and labels
    # `system`, `model`, `preset`: as for `run`; None for what the settings say
    system: str | None = None
    model: str | None = None
    preset: str | None = None
    roles: dict[str, str] = {}  # models by role, as for `run`
    # packaged environments that its top agent works in; of a question with a machine `terminal` and `files`, where none
    # is named
    environments: tuple[str, ...] = ()
    settings: dict[str, JsonValue] = {}  # other settings, by dotted name: `{"parts.plan": "none"}`
    components: dict[str, str] = {}  # versions that its runs use, see `RunSpec`
    reuse: bool = False  # whether generated tools stay for the questions that come after
    tips: bool = False  # whether it is shown what the questions of `EvalPlan.tips` taught (004, sec. 3.2.1)

    @property
    def kept_apart(self) -> dict[str, JsonValue]:
        """The settings under which its questions learn no more from each other than they are meant to."""
        return (REUSE if self.reuse else ISOLATION) | {"parts.tips": self.tips}

    def merge(self, settings: Settings) -> Settings:
        """Return settings with those of the arm over them, its questions kept apart and answer pages closed.

        Pages that publish answers of benchmarks are denied besides (`ANSWER_PAGES`).

        Raises:
            EvaluationError: a setting that there is not, that does not fit, or that would carry over what was learnt.
        """
        values = settings.model_dump(exclude_unset=True)
        values.setdefault("team", {}).setdefault("shorten", True)  # questions ask for a bare answer
        for name, value in {**self.settings, **self.kept_apart}.items():
            if name in ISOLATION and self.settings.get(name, value) != value:
                raise EvaluationError(
                    f"the arm {self.name} sets {name} = {json.dumps(self.settings[name])}, and the evaluation says "
                    f"what one question may learn from another; leave it out, it is {json.dumps(value)} here"
                )
            place: Any = values
            *tables, last = name.split(".")
            for table in tables:
                place = place.setdefault(table, {})
                if not isinstance(place, dict):
                    raise EvaluationError(f"the arm {self.name} sets {name}, and {table} holds no further settings")
            place[last] = value
        learning = [name for name, agent in values.get("agents", {}).items() if agent.get("memory") == "workflow"]
        if learning:
            raise EvaluationError(
                f"agents.{learning[0]}.memory is 'workflow', which serves the whole workspace, and one question must "
                "not learn from another; choose another memory for it"
            )
        try:
            return without_answer_pages(Settings(**values))
        except ValidationError as exc:
            first = exc.errors()[0]
            raise EvaluationError(
                f"the arm {self.name}: {'.'.join(map(str, first['loc']))} = {first['input']!r} does not fit: "
                f"{first['msg']}; docs/settings.md lists the settings"
            ) from None


class EvalPlan(BaseModel, frozen=True, extra="forbid"):
    """An evaluation."""

    format: Literal[1] = 1  # of the file; 1 is the first
    name: str  # of the evaluation in its workspace
    # `set`, `data`: of the questions, see `load_set`; data is "" for the set's own place
    set: str
    data: str = ""
    choices_seed: int | None = None  # of the order of choices, None for the set's own
    version: str  # of the set when the evaluation was begun
    ids: tuple[str, ...]  # the questions, in the order in which they are asked
    # `sample`, `seed`: how they were chosen; sample is None for the whole set
    sample: int | None = None
    seed: int = 0
    arms: tuple[Arm, ...]  # what is compared
    repeats: int = Field(default=1, ge=1)  # how often each arm is asked each question
    ask_again: int = Field(default=0, ge=0)  # how often at most a question is asked again that got no answer
    # what all runs together may cost, the judge's among them; None for no limit
    budget_usd: float | None = Field(default=None, gt=0)
    # `question_usd`, `question_s`: what one run may cost, and the seconds it may work
    question_usd: float | None = Field(default=None, gt=0)
    question_s: float | None = Field(default=None, gt=0)
    judge: str = ""  # the model of scorers that ask one, "" for none
    suite: str = ""  # the published table that this is (`suites`), "" for none
    # questions of the set that are not among `ids`. They are asked first, of the first arm with tips, and what it
    # learns from them is shown to the arms with tips; they are not scored.
    tips: tuple[str, ...] = ()
    # `created`, `distribution`: when, and with which version of this package
    created: str = ""
    distribution: str = ""

    @property
    def reuse(self) -> bool:
        """Whether generated tools stay for the questions that come after: these are asked one after another."""
        return any(arm.reuse for arm in self.arms)

    @model_validator(mode="after")
    def _check_tips(self) -> EvalPlan:
        common = [tip for tip in self.tips if tip in self.ids]
        if common:
            raise ValueError(f"the question {common[0]!r} gives tips and is asked; a split of its own gives tips")
        return self

    @property
    def teacher(self) -> Arm | None:
        """The arm whose memory of the questions of `tips` the tips are, None where there are none."""
        return next((arm for arm in self.arms if arm.tips), None) if self.tips else None

    def labels(self, question: str, arm: str, repeat: int, attempt: int) -> dict[str, str]:
        numbers = {"repeat": str(repeat), "attempt": str(attempt)}
        return {"evaluation": self.name, "question": question, "arm": arm} | numbers

    def arm(self, name: str) -> Arm:
        """Return an arm by its name; raise EvaluationError if there is none."""
        for arm in self.arms:
            if arm.name == name:
                return arm
        raise EvaluationError(f"there is no arm {name!r}; the arms: {', '.join(arm.name for arm in self.arms)}")

    def load(self) -> QuestionSet:
        """Return the set of the questions; EvaluationError if its data are gone, or other ones than at first."""
        questions = load_set(self.set, Path(self.data) if self.data else None, self.choices_seed)
        if questions.version != self.version:
            raise EvaluationError(
                f"the evaluation {self.name} was begun with the version {self.version[:12]} of the set {self.set}, and "
                f"the data are {questions.version[:12]} now; bring the former data back, or begin another evaluation"
            )
        return questions


def make_plan(
    questions: QuestionSet,  # the set
    arms: Sequence[Arm],  # at least one, each name once
    *,
    # `source`, `data`: what the set was loaded by (`load_set`); its own name by default
    source: str = "",
    data: str = "",
    name: str = "",  # of the evaluation
    sample: int | None = None,  # how many questions, spread over the groups; None for all
    seed: int = 0,  # of the sample and of the runs
    # how many other questions, spread over the groups, are asked first for tips: of arms that set `parts.tips`
    tips: int = 0,
    **limits: Any,  # the further fields of `EvalPlan`
) -> EvalPlan:
    """Return a plan; without a name it gets one of its content, so the same command finds the same evaluation.

    Raises:
        EvaluationError: no arm, a name twice or of other characters, a judge that is missing, a limit below one block,
            no question that can be asked, reuse with several arms or repeats, tips that no arm takes or that leave no
            question.
    """
    names = [arm.name for arm in arms]
    if not arms or len({*names}) < len(names):
        raise EvaluationError(f"the arms are named {', '.join(names) or 'nothing'}; give each one its own name")
    apart = draw(questions.questions, tips, seed) if tips else []
    rest = [question for question in questions.questions if question.id not in apart]
    if not rest:
        raise EvaluationError(f"all {tips} questions would give tips, and none be asked; give a smaller --tips")
    ids = [question.id for question in rest] if sample is None else draw(rest, sample, seed)
    if tips:
        arms = [arm.model_copy(update={"tips": arm.settings.get("parts.tips") is True}) for arm in arms]
        if not any(arm.tips for arm in arms):
            raise EvaluationError(f"{tips} questions give tips, and no arm takes them; set parts.tips=true in an arm")
    fields = {
        "set": source or questions.name,
        "data": data,
        "ids": tuple(ids),
        "tips": tuple(apart),
        "sample": sample,
        "seed": seed,
        "arms": tuple(arms),
        **limits,
    }
    try:
        plan = EvalPlan(name="", version=questions.version, **fields)
    except ValidationError as exc:
        first = exc.errors()[0]
        raise EvaluationError(f"{first['loc'][0]} is {first['input']!r}: {first['msg']}") from None
    content = plan.model_dump(mode="json", exclude={"name", "version", "suite", "created", "distribution"})
    for record in (content, *content["arms"]):  # as before there were such fields: the same command finds its plan
        for field in ("reuse", "tips"):
            if not record.get(field, True):
                del record[field]
    plan = plan.model_copy(update={"name": name or f"{plan.set}-{sha256_json(content)[:8]}"})
    for label in [plan.name, *names]:
        if not re.fullmatch(r"\w[\w.-]*", label):
            raise EvaluationError(f"the name {label!r} is not made of letters, digits, -, _ and .; choose another one")
    if plan.reuse and (len(arms) > 1 or plan.repeats > 1):
        raise EvaluationError(
            f"{plan.name} measures reuse with {len(arms)} arms and {plan.repeats} repeats, and tools that one of them "
            "made would serve the others; give each arm an evaluation in a workspace of its own, without repeats"
        )
    if all(question_id in questions.faults for question_id in ids):
        raise EvaluationError(
            f"none of the {len(ids)} chosen questions of {plan.set} can be asked; the first: {questions.faults[ids[0]]}"
        )
    if not plan.judge:
        for question_id in ids:
            if questions.scorer_of(questions.by_id[question_id]).needs_judge:
                raise EvaluationError(f"the question {question_id!r} is scored by a judge; name its model with --judge")
    block = run_usd(plan) * len(arms) * plan.repeats
    if plan.budget_usd is not None and block > plan.budget_usd:
        raise EvaluationError(
            f"the budget of {plan.budget_usd:g} US dollars does not hold one question: its runs may cost up to "
            f"{block:g}; raise --budget-usd, or lower --question-usd"
        )
    return plan


def run_usd(plan: EvalPlan) -> float:
    """Return what an answer may cost, asked again too, 0 without a budget; EvaluationError without a run's limit."""
    if plan.budget_usd is None:
        return 0.0
    if plan.question_usd is None:
        raise EvaluationError("a budget over all questions needs a limit for each run; give --question-usd")
    return plan.question_usd * (1 + plan.ask_again)


def draw(questions: Iterable[EvalQuestion], count: int, seed: int) -> list[str]:
    """Return the ids of a sample that is spread over the groups as the questions are, in the order of the set.

    Each group gives its share, rounded so that the sum is right (largest remainders).

    Raises:
        EvaluationError: more than there are, or none.
    """
    every = list(questions)
    if not 1 <= count <= len(every):
        raise EvaluationError(f"a sample of {count} cannot be drawn from {len(every)} questions")
    groups: dict[str, list[str]] = {}
    for question in every:
        groups.setdefault(question.group, []).append(question.id)
    shares = {name: count * len(ids) / len(every) for name, ids in groups.items()}
    sizes = {name: int(share) for name, share in shares.items()}
    for name in sorted(groups, key=lambda group: (sizes[group] - shares[group], group))[: count - sum(sizes.values())]:
        sizes[name] += 1
    chance = random.Random(seed)
    sample = {question_id for name in sorted(groups) for question_id in chance.sample(groups[name], sizes[name])}
    return [question.id for question in every if question.id in sample]


def folder_of(workspace: Path, name: str) -> Path:
    return workspace / FOLDER / name


def keep(workspace: Path, plan: EvalPlan) -> EvalPlan:
    """Write the record of an evaluation that begins; of one that goes on return the record there is.

    Raises:
        EvaluationError: under its name another evaluation was begun, or with other data.
    """
    if not (folder_of(workspace, plan.name) / PLAN).exists():
        write(workspace, plan.name, PLAN, plan.model_dump_json(indent=1) + "\n")
        return plan
    before = read(workspace, plan.name)
    if before.version != plan.version:
        raise EvaluationError(
            f"the evaluation {plan.name} was begun with the version {before.version[:12]} of the set {plan.set}, and "
            f"the data are {plan.version[:12]} now; bring the former data back, or choose another --name"
        )
    content, former = (_content(record) for record in (plan, before))
    other = [name for name in content if content[name] != former[name]]
    if other:
        raise EvaluationError(
            f"the evaluation {plan.name} was begun with other {', '.join(other)}; go on with `agentorchestra eval "
            f"resume {plan.name}`, or choose another --name"
        )
    return before


def amend(workspace: Path, name: str, budget_usd: float) -> EvalPlan:
    """Give an evaluation another budget; EvaluationError for an unknown one, or without limits for its runs."""
    plan = read(workspace, name).model_copy(update={"budget_usd": budget_usd})
    run_usd(plan)
    write(workspace, name, PLAN, plan.model_dump_json(indent=1) + "\n")
    return plan


def given_data(workspace: Path, name: str, data: Path) -> EvalPlan:
    """Say where the data of an evaluation's set are here; EvaluationError for an unknown one, or other data."""
    plan = read(workspace, name).model_copy(update={"data": str(data.absolute())})
    plan.load()
    write(workspace, name, PLAN, plan.model_dump_json(indent=1) + "\n")
    return plan


def write(workspace: Path, name: str, file: str, text: str) -> None:
    """Write a file of an evaluation's record, whole or not at all."""
    path = folder_of(workspace, name) / file
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def _content(plan: EvalPlan) -> Mapping[str, Any]:
    return plan.model_dump(mode="json", exclude={"created", "distribution"})


def read(workspace: Path, name: str) -> EvalPlan:
    """Return the record of an evaluation; raise EvaluationError if there is none of this name, or it cannot be read."""
    path = folder_of(workspace, name) / PLAN
    try:
        return EvalPlan.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError:
        names = ", ".join(evaluations(workspace)) or "none"
        raise EvaluationError(f"there is no evaluation {name!r} in {workspace}; there are: {names}") from None
    except ValidationError as exc:
        raise EvaluationError(
            f"{path} cannot be read: {exc.errors()[0]['msg']}; use the version of this package that wrote it"
        ) from None


def evaluations(workspace: Path) -> list[str]:
    return sorted(path.parent.name for path in (workspace / FOLDER).glob(f"*/{PLAN}"))
