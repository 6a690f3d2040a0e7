"""Sets of questions that tests make, models that are functions of the prompt, and evaluations of both."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from examples.tasks.catalog import make
from examples.tasks.task import names

from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.settings import ModelProfile, Price, Settings
from agentorchestra.evaluation.plan import Arm, EvalPlan, keep, make_plan
from agentorchestra.evaluation.questions import EvalAnswer, EvalQuestion, Judge, Scored, load_set
from agentorchestra.evaluation.runner import Ending, EvaluationProgress, Runner
from agentorchestra.evaluation.scores import Score, score
from agentorchestra.testing import ScriptedModel
from agentorchestra.workspace import Workspace
from tests.evaluation.benchmark_data import table

Line = dict[str, Any]


def write_set(folder: Path, lines: Sequence[Line]) -> Path:
    """Write `questions.jsonl` into a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "questions.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")
    return folder


def over_files(folder: Path, count: int) -> Path:
    """Write a set over generated files with three levels: a total, a fact in a text, a value of two tables."""
    kinds = (("total", "number"), ("fact", "exact"), ("join", "exact"))
    lines = []
    for number in range(count):
        kind, scorer = kinds[number % 3]
        place = folder / f"files{number}"
        place.mkdir(parents=True)
        task = make(kind, f"evaluation {number}", place)
        (said,) = task.check("nothing", place)
        truth = re.findall(r"it should be (?:the one number )?(.*)", said)[0].strip("'").replace(",", "")
        names = [str(one.relative_to(folder)) for one in task.files]
        lines.append(
            {
                "id": f"{kind}{number}",
                "question": task.instruction,
                "answer": truth,
                "files": names,
                "level": str(number % 3 + 1),
                "scorer": scorer,
            }
        )
    return write_set(folder, lines)


TASKS = (
    (
        "In {name}, what is the total of the column amount for the rows whose town is {one}, in small or large "
        "letters? Answer with the number alone.",
        ".csv",
    ),
    (
        "According to {name}, who was the first keeper of the lighthouse of {one}? Answer with the full name alone.",
        ".txt",
    ),
    ("In {name}, which office does {one} work in today? Answer with the name of the office alone.", ".csv"),
)
"""Of GAIA's three levels; the file of each is written by `_total`, `_keeper` and `_office`."""


def gaia_over_files(folder: Path, count: int) -> None:
    """Write a set in GAIA's format over generated files, with three levels.

    Every fifth question is hard: the rows are written in two ways, the text has a rumour first, the row is outdated. By
    the rules of `tests/support/rules.py` these are answered, but wrongly.
    """
    place = folder / "2023" / "validation"
    place.mkdir(parents=True)
    records = []
    for number in range(count):
        level, hard = number % 3, number % 5 == 4
        chance = random.Random(f"gaia {number}")
        words = names(chance, 12)
        text, answer = (_total, _keeper, _office)[level](chance, words, hard=hard)
        asked, suffix = TASKS[level]
        name = f"q{number}{suffix}"
        (place / name).write_text(text, encoding="utf-8")
        records.append(
            {
                "task_id": f"q{number}",
                "Question": asked.format(name=name, one=words[0]),
                "Level": str(level + 1),
                "Final answer": answer,
                "file_name": name,
                "file_path": "",
                "Annotator Metadata": {"Steps": "1. Read."},
            }
        )
    table(place / "metadata.jsonl", records)


def _total(chance: random.Random, words: list[str], *, hard: bool) -> tuple[str, str]:
    rows = [(chance.choice(words[:4]), chance.randint(10, 990)) for _ in range(30)]
    rows += [(words[0], 5), (words[0].upper() if hard else words[0], 7)]
    total = sum(amount for town, amount in rows if town.lower() == words[0].lower())
    return "town,amount\n" + "".join(f"{town},{amount}\n" for town, amount in rows), str(total)


def _keeper(chance: random.Random, words: list[str], *, hard: bool) -> tuple[str, str]:
    one, right, other = words[0], f"{words[1]} {words[2]}", f"{words[3]} {words[4]}"
    sentences = [f"The first keeper of the lighthouse of {one} was {right}."]
    if hard:
        sentences = [
            f"Some say that the first keeper of the lighthouse of {one} was {other}.",
            f"That is a rumour, and it was {right}.",
        ]
    others = [f"The mayor of {each} built a mill and a forge." for each in words[5:]]
    return "\n\n".join([*others[:3], " ".join(sentences), *others[3:]]) + "\n", right


def _office(chance: random.Random, words: list[str], *, hard: bool) -> tuple[str, str]:
    rows = [(each, chance.choice(words[6:]), 2020) for each in words[1:6]]
    before = [(words[0], words[6], 1990)] if hard else []
    rows = [*rows[:2], *before, (words[0], words[7], 2021), *rows[2:]]
    return "person,office,since\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows), words[7]


def sums(folder: Path, count: int, *, levels: int = 3, seed: int = 1) -> Path:
    """Write a set of additions; what is added is drawn, the first number of question 3 is 3."""
    chance = random.Random(seed)
    lines = []
    for number in range(count):
        other = chance.randint(100, 999)
        lines.append(
            {
                "id": f"q{number}",
                "question": f"What is {number} + {other}?",
                "answer": number + other,
                "level": str(number % levels + 1),
                "scorer": "number",
            }
        )
    return write_set(folder, lines)


def asked(request: ModelRequest) -> tuple[int, int]:
    """The two numbers that a request asks to add."""
    (found,) = re.findall(r"What is (\d+) \+ (\d+)\?", request.messages[-1].text)
    return int(found[0]), int(found[1])


def adds(request: ModelRequest) -> str:
    """A model that can add."""
    return str(sum(asked(request)))


def adds_small(request: ModelRequest) -> str:
    """A model that cannot add to a number from 5 on."""
    first, other = asked(request)
    return str(first + other) if first < 5 else str(other)


class Trial:
    """An evaluation in a folder, with models that are given.

    Args:
        folder: an empty one, with the set in `data`.
        models: functions of the prompt by name; each request of them is noted in `requests`.
        systems: the user's.
        price: of every model.
    """

    def __init__(
        self,
        folder: Path,
        models: Mapping[str, Callable[[ModelRequest], Any]],
        *,
        systems: Mapping[str, Any] | None = None,
        price: Price | None = None,
    ) -> None:
        self.folder, self.models, self.systems = folder / "workspace", models, systems or {}
        self.data = folder / "data"
        self.price = price
        self.requests: list[tuple[str, str]] = []
        self.progress: list[EvaluationProgress] = []

    def plan(self, *arms: Arm, set_: str = "local", **fields: Any) -> EvalPlan:
        made = make_plan(load_set(set_, self.data), arms, source=set_, data=str(self.data), name="trial", **fields)
        return keep(self.folder, made)

    def workspace(self, folder: Path, arm: Arm | None = None) -> Workspace[Any]:
        settings = Settings(system="direct", model=next(iter(self.models)))
        return Workspace(
            folder,
            settings=settings if arm is None else arm.merge(settings),
            systems=self.systems,
            models={name: self._scripted(name) for name in self.models},
        )

    def _scripted(self, name: str) -> ScriptedModel:
        def reply(request: ModelRequest) -> Any:
            self.requests.append((name, request.messages[-1].text))
            return self.models[name](request)

        price = self.price or Price(input=0, output=0)
        return ScriptedModel(reply, name=name, profile=ModelProfile(model=name, price=price))

    async def run(self, plan: EvalPlan, *, at_once: int = 4, again: bool = False) -> Ending:
        runner = Runner(
            self.folder,
            plan,
            plan.load(),
            workspaces=self.workspace,
            at_once=at_once,
            progress=self.progress.append,
            again=again,
        )
        return await runner.run()

    async def score(self, plan: EvalPlan) -> list[Score]:
        async with self.workspace(self.folder) as workspace:
            return await score(workspace, plan, plan.load(), workspaces=self.workspace)


class Asks:
    """A scorer that asks the judge, and takes `yes` and `no` for an answer."""

    needs_judge = True

    async def score(self, question: EvalQuestion, answer: EvalAnswer, judge: Judge | None) -> Scored:
        assert judge is not None
        said = await judge(f"Question: {question.task} True answer: {question.truth} Answer: {answer.text}")
        if said not in ("yes", "no"):
            return Scored(None, "judge_failed", f"the judge said {said!r}")
        return Scored.of(said == "yes")


ASKS = Asks()
