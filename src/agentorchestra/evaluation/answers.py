"""Scorers that compare an answer with the true one by a rule: exact, number, list, contains."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from agentorchestra.core.errors import EvaluationError
from agentorchestra.evaluation.questions import EvalAnswer, EvalQuestion, Judge, Scored

MATCHES = Callable[[str, tuple[str, ...]], bool]  # whether an answer says what the true answers say


@dataclass(frozen=True)
class RuleScorer:
    """A scorer that needs nobody to judge.

    Attributes:
        matches: takes the answer and the true answers.
        says: what an answer must be, for the sentence beside the score.
    """

    matches: MATCHES
    says: str
    needs_judge: bool = False

    async def score(self, question: EvalQuestion, answer: EvalAnswer, judge: Judge | None) -> Scored:
        if question.truth is None:
            raise EvaluationError(f"the question {question.id!r} has no public answer; export the answers instead")
        truth = (question.truth,) if isinstance(question.truth, str) else question.truth
        right = self.matches(answer.text, truth)
        return Scored.of(right, "" if right else f"{answer.text[:80]!r} is not {self.says} {', '.join(truth)!r}")


def plain(text: str) -> str:
    """Return a text in which case, white space, kinds of quotes and a stop at the end make no difference."""
    text = unicodedata.normalize("NFKC", text).translate(_QUOTES)
    return " ".join(text.split()).rstrip(".").strip().casefold()


_QUOTES = str.maketrans("‘’“”", "''\"\"")


def number(text: str) -> Decimal | None:
    """Return the number that a text is: a currency or % beside it, and commas between thousands, make no difference.

    None where the text is no number, or holds several.
    """
    bare = re.sub(r"^[$€£]\s*|\s*[$€£%]$", "", unicodedata.normalize("NFKC", text).strip().rstrip("."))
    if re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?", bare):
        bare = bare.replace(",", "")
    try:
        decimal = Decimal(bare)
    except InvalidOperation:
        return None
    return decimal if decimal.is_finite() else None


def same(answer: str, truth: str) -> bool:
    """Return whether two texts are equal as numbers, where the true one is a number, else as text."""
    right = number(truth)
    return plain(answer) == plain(truth) if right is None else number(answer) == right


def entries(text: str) -> list[str]:
    """Return the entries of a list that is written with commas or semicolons."""
    return [entry.strip() for entry in re.split(r"[;,]", text)]


def _is_list(answer: str, truth: tuple[str, ...]) -> bool:
    """Return whether the answer has the same entries in the same order."""
    expected = list(truth) if len(truth) > 1 else entries(truth[0])
    actual = entries(answer)
    return len(actual) == len(expected) and all(map(same, actual, expected))


def _contains(answer: str, truth: tuple[str, ...]) -> bool:
    """Return whether each true answer stands in the answer, in words of its own."""
    text = plain(answer)
    return all(re.search(rf"(?<!\w){re.escape(plain(key))}(?!\w)", text) for key in truth)


EXACT = RuleScorer(lambda answer, truth: any(plain(answer) == plain(key) for key in truth), "one of")
NUMBER = RuleScorer(
    lambda answer, truth: any(number(key) is not None and same(answer, key) for key in truth), "the number"
)
LIST = RuleScorer(_is_list, "the list")
CONTAINS = RuleScorer(_contains, "a text with")
