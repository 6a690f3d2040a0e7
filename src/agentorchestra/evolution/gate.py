"""The gate: a candidate takes the place of the current version only on evidence that it is better.

Both answer the same questions, which no optimiser has seen, equally often. The gate asks three things: is the candidate
better than chance explains (the exact paired test of the evaluation room), is the gain as large as was wanted, and
does the candidate cost no more than was allowed. Several candidates of one evolution share the level, since each look
at the same questions is another chance to be lucky.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, Field

from agentorchestra.core.errors import EvolutionError
from agentorchestra.evaluation.statistics import (
    Scores,
    Spread,
    difference,
    power_of,
    sample_size,
    sequential,
    spread_of,
)

Verdict = Literal["promote", "reject", "undecided"]


class GateTerms(BaseModel, frozen=True, extra="forbid"):
    """The terms on which a gate lets a candidate through.

    Attributes:
        level: how often at most one is let through that is not better, over all candidates of an evolution together.
        candidates: how many share the level.
        gain: the least mean gain that is worth a new version, as a share: 0.02 is two points.
        cost_ratio: what the candidate may cost at most, as a multiple of what the current version costs; None for no
            limit.
    """

    level: float = Field(default=0.05, gt=0, lt=0.5)
    candidates: int = Field(default=1, ge=1)
    gain: float = Field(default=0.0, ge=0, lt=1)
    cost_ratio: float | None = Field(default=1.5, gt=0)

    @property
    def share(self) -> float:
        """The level of one candidate."""
        return self.level / self.candidates


class GateDecision(BaseModel, frozen=True):
    """A gate's decision with the evidence in numbers."""

    verdict: Verdict  # `undecided` leaves the candidate beside the line: the questions were too few to tell
    why: str  # a sentence
    # `gain`, `low`, `high`: the mean paired difference with its interval, as shares
    gain: float
    low: float
    high: float
    p: float  # how often chance alone gives such a gain (one-sided)
    questions: int  # answered by both
    cost_ratio: float | None = None  # candidate to current; None where neither price nor tokens are known


def decide(
    current: Scores, candidate: Scores, terms: GateTerms, *, costs: tuple[float, float] | None = None
) -> GateDecision:
    """Return what the scores of both versions on the same questions come to.

    Args:
        current, candidate: scores by question, one for each repeat.
        costs: of an answer by the current version and by the candidate, in dollars or tokens.

    Raises:
        EvolutionError: the two answered no question in common.
    """
    if not {*current} & {*candidate}:
        raise EvolutionError(
            "the current version and the candidate answered no question in common, so nothing can be decided; "
            "look at the runs of the validation"
        )
    gain = difference(candidate, current, level=1 - 2 * terms.share)
    p = gain.p / 2 if gain.value > 0 else 1 - gain.p / 2
    ratio = costs[1] / costs[0] if costs is not None and costs[0] > 0 else None
    test = (
        f"{100 * gain.value:+.1f} points [{100 * gain.low:+.1f}, {100 * gain.high:+.1f}] over "
        f"{gain.questions} questions, p = {p:.3f}"
    )
    verdict: Verdict
    if ratio is not None and terms.cost_ratio is not None and ratio > terms.cost_ratio:
        verdict, reason = "reject", f"it costs {ratio:.2f} times as much, and {terms.cost_ratio:g} is the limit; {test}"
    elif gain.value <= 0 or gain.high < terms.gain:
        verdict, reason = "reject", f"it is not better: {test}"
    elif p <= terms.share and gain.value >= terms.gain:
        verdict, reason = "promote", f"it is better: {test}"
    else:
        verdict = "undecided"
        reason = f"chance may explain the gain: {test}; {question_count(current, candidate, gain.value, terms)}"
    return GateDecision(
        verdict=verdict,
        why=reason,
        gain=gain.value,
        low=gain.low,
        high=gain.high,
        p=p,
        questions=gain.questions,
        cost_ratio=ratio,
    )


def question_count(current: Scores, candidate: Scores, gain: float, terms: GateTerms) -> str:
    """Return how many questions would find a gain of this size, as words."""
    repeats = min(len(marks) for marks in (*current.values(), *candidate.values()))
    count = sample_size(gain, spread_of(candidate, current), repeats=repeats, level=1 - 2 * terms.share)
    return f"about {count} questions would find a gain of this size in 4 of 5 validations"


def power(questions: int, gain: float, spread: Spread, terms: GateTerms, *, repeats: int = 1) -> float:
    """Return how often the gate lets a candidate through that is better by `gain`; see `statistics.power_of`."""
    return power_of(questions, gain, spread, repeats=repeats, level=1 - 2 * terms.share)


def stopped_live(current: Sequence[float], candidate: Sequence[float], *, level: float = 0.05) -> int | None:
    """Return after how many pairs of live runs the candidate is known to be worse, None where it is not.

    The outcomes of both are paired in the order in which they came. One may look after each of them: a candidate that
    is not worse is stopped in at most `level` of all cases, however long it is watched (`statistics.sequential`).
    """
    pairs = [score - other for score, other in zip(candidate, current, strict=False)]
    for number, p in enumerate(sequential(pairs), start=1):
        if p <= level and sum(pairs[:number]) < 0:
            return number
    return None
