"""Questions with true answers: the sets there are, what scores an answer, and sets of the user's own (`local`).

A set's true answers and notes never go into a run: a run gets `task` and `files` of a question and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Literal, Protocol, TypeAlias

from pydantic import BaseModel, JsonValue

from agentorchestra.core.errors import EvaluationError
from agentorchestra.core.ids import sha256_json

Truth: TypeAlias = str | tuple[str, ...]  # a true answer; of a list its entries

ScoreStatus = Literal["ok", "wrong", "missing", "judge_failed", "not_run"]
"""`ok`: right, wholly or in part. `missing`: no answer was given, or (without a score) there is nothing to ask or to
compare with. `judge_failed`: nobody could say."""


@dataclass(frozen=True)
class TaskMachine:
    """The machine of the environment `terminal` that a question is worked on."""

    folder: Path  # the task as a folder of Harbor's format, with its tests (docs/terminal.md, "Tasks in folders")
    image: str = ""  # the image below, "" for this machine's programs
    # a file in the run's folder to which the tests write what was changed; a harness elsewhere then decides. "" where
    # the tests decide.
    patch: str = ""


@dataclass(frozen=True)
class EvalQuestion:
    id: str  # unique in its set
    task: str  # the text as the agent sees it, with the form that the answer is to have
    truth: Truth | None = None  # the true answer; None where it is not public
    files: tuple[Path, ...] = ()  # that are given with the task
    group: str = ""  # what results are also given by, such as a level; "" for none
    scorer: str = ""  # of this question, "" for that of the set
    # what else the set says of it, for scorers and reports
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    # where it is worked on, with the tests that score it; None for a question that is answered in words
    machine: TaskMachine | None = None
    fault: str = ""  # a sentence on why it cannot be asked, "" where it can; see `QuestionSet.faults`


@dataclass(frozen=True)
class QuestionSet:
    """A set of questions.

    Attributes:
        name: `local`, `gaia`, ...; with the split where there are several, such as `gaia-validation`.
        questions: at least one. Of those that have one id the first keeps it; the others are `ID~2`, ..., and faults.
        scorer: the name of what scores an answer, see `SCORERS`.

    Raises:
        EvaluationError: no question.
    """

    name: str
    questions: tuple[EvalQuestion, ...]
    scorer: str

    def __post_init__(self) -> None:
        if not self.questions:
            raise EvaluationError(f"the set {self.name} holds no question; look whether its data are complete")
        object.__setattr__(self, "questions", tuple(_told_apart(self.questions)))

    @cached_property
    def faults(self) -> dict[str, str]:
        """Return why questions cannot be asked, by id: they are reported as `missing`, and the others are asked."""
        faults = {question.id: question.fault or _fault(question) for question in self.questions}
        return {name: fault for name, fault in faults.items() if fault}

    @cached_property
    def version(self) -> str:
        """Return the SHA-256 of everything that questions hold, the bytes of their files and folders included.

        Images are not in it, nor is why a question cannot be asked.
        """
        return sha256_json(
            [
                self.name,
                self.scorer,
                *(
                    [
                        question.id,
                        question.task,
                        list(question.truth) if isinstance(question.truth, tuple) else question.truth,
                        [[file.name, _digest(file)] for file in question.files],
                        question.group,
                        question.scorer,
                        dict(question.metadata),
                        *([_below(question.machine.folder)] if question.machine else []),
                    ]
                    for question in self.questions
                ),
            ]
        )

    @cached_property
    def by_id(self) -> dict[str, EvalQuestion]:
        return {question.id: question for question in self.questions}

    def scorer_of(self, question: EvalQuestion) -> Scorer:
        """Return what scores the answers to a question; raise EvaluationError if there is none of its name."""
        return find_scorer(question.scorer or self.scorer)


@dataclass(frozen=True)
class EvalAnswer:
    text: str  # the final answer, "" where there is none
    # of the run's files, for scorers that look at what was made; None where the run left none
    folder: Path | None = None
    check: MachineCheck | None = None  # of a question with a machine, what its tests found there


class MachineCheck(BaseModel, frozen=True):
    """What was found on the machine that a run left: it is looked at once, since tests change it."""

    run: str  # its id
    reward: float | None  # of the tests, 1 for a solved task; None where they have not decided (yet)
    why: str  # a sentence
    output: str = ""  # the end of what the tests printed
    patch: str = ""  # what was changed in the repository, of a set that asks for that


@dataclass(frozen=True)
class Scored:
    # 0 to 1; None, which is no score of 0, where nobody could say (`judge_failed`), or where there is nothing to ask or
    # to compare with (`missing`)
    score: float | None
    status: ScoreStatus  # see ScoreStatus
    why: str = ""  # a sentence

    @classmethod
    def of(cls, right: bool, why: str = "") -> Scored:
        return cls(1.0, "ok", why) if right else cls(0.0, "wrong", why)


class Judge(Protocol):
    """Asks the configured judge; its cost is counted with the evaluation.

    Raises EvaluationError where the model failed: the runner then records `judge_failed`.
    """

    async def __call__(self, prompt: str) -> str:
        """Return the judge's reply to a prompt."""


class Scorer(Protocol):
    """Scores answers.

    Attributes:
        needs_judge: whether it asks a judge: an evaluation without a judge's model is then refused before it begins.
    """

    @property
    def needs_judge(self) -> bool: ...

    async def score(self, question: EvalQuestion, answer: EvalAnswer, judge: Judge | None) -> Scored:
        """Return the score of an answer that is not empty."""


# --- what there is ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SetSource:
    """A set that can be loaded by its name.

    Attributes:
        load: `module:function`; takes the folder or file of `--data` (None for the set's own place) and returns a
            QuestionSet.
        about: a sentence: what it is, where its data come from, what access it needs.
        has_choices: whether it has choices in an order that is drawn: `load` then takes `seed` too.
    """

    load: str
    about: str
    has_choices: bool = False


_IMAGES = "needs bubblewrap, and an image of each task in `images/` of --data (docs/evaluation.md); free"
_ON_HUB = "on the hub, for those who accept its conditions (HF_TOKEN)"

SOURCES: dict[str, SetSource] = {
    "local": SetSource(
        "agentorchestra.evaluation.questions:load_local",
        "your own questions: --data with a .jsonl file, or a folder with questions.jsonl and its files",
    ),
    **{
        name: SetSource(f"agentorchestra.evaluation.benchmarks.{load}", about)
        for name, load, about in (
            ("gaia-validation", "gaia:load_validation", f"GAIA, 165 questions of three levels; {_ON_HUB}"),
            ("gaia-test", "gaia:load_test", f"GAIA, 301 questions whose answers only its leaderboard has; {_ON_HUB}"),
            ("gaia-media", "gaia:load_media", f"GAIA validation, the 27 with recording, picture or table; {_ON_HUB}"),
            ("simpleqa", "judged:load_simpleqa", "SimpleQA, 4,326 short questions about facts; a judge; free"),
            ("hle", "judged:load_hle", f"Humanity's Last Exam, 2,500 questions; a judge; {_ON_HUB}"),
            ("browsecomp", "judged:load_browsecomp", "BrowseComp, 1,266 questions for the web; a judge; free"),
            ("aime-2024", "aime:load_2024", "AIME 2024, 30 problems; free"),
            ("aime-2025", "aime:load_2025", "AIME 2025, 30 problems; free"),
            ("terminal-bench-2", "terminal_bench:load_tasks", f"Terminal-Bench 2, 89 tasks; {_IMAGES}"),
            ("swe-bench-verified", "swe_bench:load_verified", f"SWE-bench Verified, 500 tasks; {_IMAGES}"),
        )
    },
    "gpqa-diamond": SetSource(
        "agentorchestra.evaluation.benchmarks.gpqa:load_diamond",
        "GPQA-Diamond, 198 questions with four choices; free",
        has_choices=True,
    ),
}
"""The sets by name."""

SCORERS: dict[str, str] = {
    "exact": "agentorchestra.evaluation.answers:EXACT",
    "number": "agentorchestra.evaluation.answers:NUMBER",
    "list": "agentorchestra.evaluation.answers:LIST",
    "contains": "agentorchestra.evaluation.answers:CONTAINS",
    "gaia": "agentorchestra.evaluation.benchmarks.gaia:GAIA",
    "aime": "agentorchestra.evaluation.benchmarks.aime:AIME",
    "gpqa": "agentorchestra.evaluation.benchmarks.gpqa:GPQA",
    "simpleqa": "agentorchestra.evaluation.benchmarks.judged:SIMPLEQA",
    "hle": "agentorchestra.evaluation.benchmarks.judged:HLE",
    "browsecomp": "agentorchestra.evaluation.benchmarks.judged:BROWSECOMP",
    "tests": "agentorchestra.evaluation.benchmarks.terminal_bench:TESTS",
    "swe-bench": "agentorchestra.evaluation.benchmarks.swe_bench:HARNESS",
}
"""Scorers by name, as `module:name`; they are imported when they are needed."""


def load_set(name: str, data: Path | None = None, choices_seed: int | None = None) -> QuestionSet:
    """Load a set.

    Args:
        name: see `SOURCES`.
        data: the folder or file with its data, None for the set's own place.
        choices_seed: of the order of choices, for sets that shuffle them; None for the set's own.

    Raises:
        EvaluationError: an unknown name, data that are missing or not in the set's form, a seed for a set without
            choices.
    """
    if name not in SOURCES:
        raise EvaluationError(f"there is no set {name!r}; the sets: {', '.join(sorted(SOURCES))}")
    if choices_seed is not None and not SOURCES[name].has_choices:
        names = ", ".join(set_name for set_name, source in SOURCES.items() if source.has_choices)
        raise EvaluationError(
            f"the set {name} has no choices to shuffle; leave --choices-seed out, which is for {names}"
        )
    options = {} if choices_seed is None else {"seed": choices_seed}
    question_set: QuestionSet = resolve_name(SOURCES[name].load)(data, **options)
    for question in question_set.questions:
        question_set.scorer_of(question)
    return question_set


def find_scorer(name: str) -> Scorer:
    """Return a scorer; raise EvaluationError for an unknown name."""
    if name not in SCORERS:
        raise EvaluationError(f"there is no scorer {name!r}; the scorers: {', '.join(sorted(SCORERS))}")
    scorer: Scorer = resolve_name(SCORERS[name])
    return scorer


# --- the user's own -----------------------------------------------------------------------------------

QUESTIONS = "questions.jsonl"
_FIELDS = {"id", "question", "answer", "files", "level", "scorer", "notes"}


def load_local(data: Path | None) -> QuestionSet:
    """Load a set from lines of JSON.

    A line has `question` and `answer` (text, a number, or a list), and may have `id` (else the line's number), `files`
    (paths relative to the file), `level`, `scorer` (`exact` by default) and `notes`, which no run sees.

    Args:
        data: the file, or the folder in which it is `questions.jsonl`.

    Raises:
        EvaluationError: nothing is there, or a line does not fit.
    """
    if data is None:
        raise EvaluationError(f"the set local needs --data: a .jsonl file, or a folder with {QUESTIONS}")
    path = data / QUESTIONS if data.is_dir() else data
    questions = []
    for number, line in read_lines(path):
        place = f"{path}, line {number}"
        if unknown := sorted({*line} - _FIELDS):
            raise EvaluationError(f"{place}: unknown field {unknown[0]!r}; a line has {', '.join(sorted(_FIELDS))}")
        files = line.get("files", [])
        if not isinstance(line.get("question"), str) or "answer" not in line or not isinstance(files, list):
            raise EvaluationError(f"{place}: give `question` as text, `answer`, and `files` as a list of paths")
        questions.append(
            EvalQuestion(
                id=str(line.get("id", number)),
                task=line["question"],
                truth=_truth(line["answer"], place),
                files=tuple(_inside(path.parent, str(file), place) for file in files),
                group=str(line.get("level", "")),
                scorer=str(line.get("scorer", "")),
                metadata={"notes": line["notes"]} if "notes" in line else {},
            )
        )
    return QuestionSet("local", tuple(questions), "exact")


def read_lines(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """Return the objects of a file of JSON lines with their numbers, from 1; empty lines are left out.

    Raises:
        EvaluationError: the file cannot be read, or a line is no JSON object.
    """
    if not path.exists():
        raise EvaluationError(f"{path} is not there; name the file or folder with the data by --data")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise EvaluationError(f"{path} cannot be read as UTF-8 text: {exc}; name another one with --data") from None
    objects = []
    for number, line in enumerate(re.split(r"\r?\n", text), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as exc:
            raise EvaluationError(f"{path}, line {number} is no JSON: {exc}; write one object in each line") from None
        if not isinstance(value, dict):
            raise EvaluationError(f"{path}, line {number} is no JSON object; write one object in each line")
        objects.append((number, value))
    return objects


def _told_apart(questions: Iterable[EvalQuestion]) -> Iterator[EvalQuestion]:
    """Yield questions of which each has an id of its own."""
    seen: set[str] = set()
    for number, question in enumerate(questions, start=1):
        name, fault = question.id, question.fault
        if not name.strip():
            name = f"question {number}"
            fault = fault or f"{name} of the set has no id; give it one"
        if name in seen:
            fault = f"the id {name!r} stands in the set before; give each question its own id"
            name = next(new for n in count(2) if (new := f"{name}~{n}") not in seen)
        seen.add(name)
        yield replace(question, id=name, fault=fault)


def _fault(question: EvalQuestion) -> str:
    """Return why a question cannot be asked, "" where it can."""
    if not question.task.strip():
        return f"the question {question.id!r} has no text; write down what is asked, or leave it out"
    for file in question.files:
        if _digest(file) is None:
            return (
                f"the file {file} of the question {question.id!r} is not there, or cannot be read; put it beside the "
                "questions, or leave the question out"
            )
    return ""


def _digest(file: Path) -> str | None:
    """Return the SHA-256 of a file, None where it cannot be read."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return None


def _below(folder: Path) -> list[list[str | None]]:
    """Return the names and digests of all files below a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_symlink() or path.is_file())
    return [[file.relative_to(folder).as_posix(), _digest(file)] for file in files]


def _truth(value: Any, place: str) -> Truth:
    if isinstance(value, list | tuple):
        return tuple(map(_word, _words(value, place)))
    return _word(_words([value], place)[0])


def _words(values: Sequence[Any], place: str) -> Sequence[Any]:
    if not values or any(not isinstance(value, str | int | float) or not str(value).strip() for value in values):
        raise EvaluationError(f"{place}: the answer {list(values)!r} is not text, a number, or a list of them")
    return values


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _inside(folder: Path, name: str, place: str) -> Path:
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise EvaluationError(f"{place}: the file {name!r} lies outside {folder}; put it beside the questions")
    return path
