"""GPQA-Diamond (arXiv:2311.12022): 198 questions of three sciences with four choices each."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

from agentorchestra.evaluation.answers import RuleScorer
from agentorchestra.evaluation.benchmarks.data import Download, need, question_set, rows
from agentorchestra.evaluation.questions import EvalQuestion, QuestionSet

SEED = 42
"""Of the order of the choices, unless `--choices-seed` says another: the data have the right one first.

The same for every system, and for every sample."""
_COLUMNS = (
    *("Record ID", "Question", "Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3"),
    *("High-level domain", "Subdomain"),
)
_LETTERS = "ABCD"


def load_diamond(data: Path | None, seed: int = SEED) -> QuestionSet:
    """Load GPQA-Diamond.

    Args:
        data: a copy of gpqa_diamond.csv, None for the one that OpenAI offers.
        seed: of the order of the choices.

    The metadata of a question have the seed, and the order: which of the data's choices stands at A, B, C and D, where
    0 is the right one.
    """
    module = "inspect_evals.gpqa.gpqa"
    place = Download(module, ("GPQA_DIAMOND_DATASET", "GPQA_DIAMOND_CACHE"))
    table = rows(data or place.fetch(), _COLUMNS, name="gpqa-diamond")
    to_sample = need(module).record_to_sample
    form = need("inspect_ai.solver").MultipleChoiceTemplate.SINGLE_ANSWER_COT.value

    def mapping(record: dict[str, Any]) -> EvalQuestion:
        sample = to_sample(record)
        order = random.Random(f"{seed} {sample.id}").sample(range(len(_LETTERS)), len(_LETTERS))
        choices = "\n".join(f"{letter}) {sample.choices[at]}" for letter, at in zip(_LETTERS, order, strict=True))
        return EvalQuestion(
            id=str(sample.id),
            task=form.format(letters=",".join(_LETTERS), question=sample.input, choices=choices),
            truth=_LETTERS[order.index(0)],
            group=sample.metadata["high_level_domain"],
            metadata={"seed": seed, "order": [*order], "subdomain": sample.metadata["subdomain"]},
        )

    return question_set("gpqa-diamond", "gpqa", table, mapping)


def letter(answer: str) -> str:
    """Return the letter that an answer names, "" for none.

    It is that of the last `ANSWER: X`, as the question asks for it, else that with which the answer begins: `B`, `(B)`,
    `B) 3 eV`, `**B**`. Letters anywhere else are words.
    """
    if letters := re.findall(r"(?i:answer)\s*:(?:\\[a-z]+\{|[\s*($])*([A-D])\b", answer):
        return str(letters[-1])
    begins = re.match(r"[\s*(]*([A-D])(?=[).:*]|\s*$)", answer)
    return begins[1] if begins else ""


GPQA = RuleScorer(lambda answer, truth: letter(answer) == truth[0], "the letter")
