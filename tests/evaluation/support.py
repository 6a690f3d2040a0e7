"""Sets of questions that tests make, models that are functions of the prompt, and evaluations of both."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from examples.tasks.catalog import make

from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.settings import ModelProfile, Price, Settings
from agentorchestra.evaluation.plan import Arm, Plan, keep, planned
from agentorchestra.evaluation.questions import Answer, EvalQuestion, Judge, Scored, load_set
from agentorchestra.evaluation.runner import Ending, Progress, Runner
from agentorchestra.evaluation.scores import Score, score
from agentorchestra.testing import ScriptedModel
from agentorchestra.workspace import Workspace

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
        self.progress: list[Progress] = []

    def plan(self, *arms: Arm, set_: str = "local", **fields: Any) -> Plan:
        made = planned(load_set(set_, self.data), arms, source=set_, data=str(self.data), name="trial", **fields)
        return keep(self.folder, made)

    def workspace(self, folder: Path, arm: Arm | None = None) -> Workspace[Any]:
        settings = Settings(system="direct", model=next(iter(self.models)))
        return Workspace(
            folder,
            settings=settings if arm is None else arm.settled(settings),
            systems=self.systems,
            models={name: self._scripted(name) for name in self.models},
        )

    def _scripted(self, name: str) -> ScriptedModel:
        def reply(request: ModelRequest) -> Any:
            self.requests.append((name, request.messages[-1].text))
            return self.models[name](request)

        price = self.price or Price(input=0, output=0)
        return ScriptedModel(reply, name=name, profile=ModelProfile(model=name, price=price))

    async def run(self, plan: Plan, *, at_once: int = 4, again: bool = False) -> Ending:
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

    async def score(self, plan: Plan) -> list[Score]:
        async with self.workspace(self.folder) as workspace:
            return await score(workspace, plan, plan.load(), workspaces=self.workspace)


class Asks:
    """A scorer that asks the judge, and takes `yes` and `no` for an answer."""

    judged = True

    async def score(self, question: EvalQuestion, answer: Answer, judge: Judge | None) -> Scored:
        assert judge is not None
        said = await judge(f"Question: {question.task} True answer: {question.truth} Answer: {answer.text}")
        if said not in ("yes", "no"):
            return Scored(None, "judge_failed", f"the judge said {said!r}")
        return Scored.of(said == "yes")


ASKS = Asks()
