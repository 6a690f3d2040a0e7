"""AIME 2024 and 2025: thirty problems each, whose answers are whole numbers from 0 to 999.

Form and scorer are those of inspect-evals: the last number in the last line with words in it counts, boxed or not.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from agentorchestra.evaluation.benchmarks.data import Hub, need, question_set, rows
from agentorchestra.evaluation.questions import EvalAnswer, EvalQuestion, Judge, QuestionSet, Scored

_COMMON = "inspect_evals.utils.aime_common"


def load_2024(data: Path | None) -> QuestionSet:
    """Load AIME 2024; `data` is a file or folder with a copy, None for the hub."""
    place = Hub("Maxwell-Jia/AIME_2024", "8d88b2876a82a080e2f172cc9b25d0d9d2cb4792", ("*.parquet", "*.jsonl"))
    return _load("aime-2024", "inspect_evals.aime2024.aime2024", place, ("ID", "Problem", "Answer", "Solution"), data)


def load_2025(data: Path | None) -> QuestionSet:
    """Load AIME 2025; `data` is a file or folder with a copy, None for the hub."""
    place = Hub("math-ai/aime25", "563bb8404243c5f09de6ec262f2db674fe5bce9b", ("*.parquet", "*.jsonl"))
    return _load("aime-2025", "inspect_evals.aime2025.aime2025", place, ("id", "problem", "answer"), data)


def _load(name: str, module: str, place: Hub, columns: tuple[str, ...], data: Path | None) -> QuestionSet:
    table = rows(data or place.fetch(), columns, name=name)
    to_sample = need(module).record_to_sample
    form: str = need(_COMMON).USER_PROMPT_TEMPLATE

    def mapping(record: dict[str, Any]) -> EvalQuestion:
        sample = to_sample(record)
        if not sample.target.isdecimal():
            raise ValueError(f"the answer {sample.target!r} is no whole number")
        return EvalQuestion(str(sample.id), form.replace("{prompt}", sample.input), truth=sample.target)

    return question_set(name, "aime", table, mapping)


class Aime:
    """The scorer of inspect-evals, asked without a task of its."""

    needs_judge = False

    async def score(self, question: EvalQuestion, answer: EvalAnswer, judge: Judge | None) -> Scored:
        state = SimpleNamespace(output=SimpleNamespace(completion=answer.text))
        score = await need(_COMMON).aime_scorer()(state, need("inspect_ai.scorer").Target(question.truth))
        return Scored.of(score.value == "C", f"read as {score.answer!r}, the answer is {question.truth}")


AIME = Aime()
