"""What scores say about a system, and about the difference between two.

Scores come by question: `{"q1": [1, 0, 1], "q2": [0, 0, 0]}` are two questions with three repeats each, every score
between 0 and 1. Repeats of one question resemble each other, so the question is the unit in every interval and test
(the clusters of Miller, arXiv:2411.00640). A question counts the same, however often it was repeated.

Importing this module needs no extra; its functions need scipy and statsmodels (the extra `eval`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist, fmean, variance
from typing import TypeAlias

from agentorchestra.core.errors import EvaluationError, MissingExtraError

Scores: TypeAlias = Mapping[str, Sequence[float]]  # the scores of each question, one for each repeat

LEVEL = 0.95
_FINEST = 10_000  # differences are added up exactly where they are multiples of 1/10,000, others are rounded to it
_BETS = tuple(sign * size for size in (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9) for sign in (1, -1))


@dataclass(frozen=True)
class Estimate:
    """A mean with the interval that holds the true one in `level` of all samples of questions."""

    # `value`, `low`, `high`: The mean and its interval, as a share (0 to 1) or a difference of shares (-1 to 1)
    value: float
    low: float
    high: float
    questions: int  # How many it was taken over: its denominator
    level: float = LEVEL  # Of the interval


@dataclass(frozen=True)
class ScoreDifference(Estimate):
    """How much better the first of two systems did than the second, on the same questions.

    Attributes:
        p: Of the exact two-sided test of no difference: the share of all ways to swap the systems' scores within
            questions that give a difference at least as large.
        better, worse: Questions on which the first system did better, and worse.
    """

    p: float = 1.0
    better: int = 0
    worse: int = 0


# --- one system ---------------------------------------------------------------------------------------


def mean(scores: Scores, *, level: float = LEVEL) -> Estimate:
    """Return the mean score with its interval, clustered by question.

    With one repeat of right or wrong the interval is Wilson's. Else it is Wilson's for as many independent answers as
    the spread between questions is worth (the effective sample size of Korn and Graubard 1998, with their correction
    for few clusters). It stays between 0 and 1, and has a width where all answers are right.

    Raises:
        EvaluationError: No question, one without scores, or a score outside 0 to 1.
    """
    return _share([fmean(repeats) for repeats in _check(scores).values()], level, sum(map(len, scores.values())))


def pass_at_k(scores: Scores, k: int, *, level: float = LEVEL) -> Estimate:
    """Return how many questions one of k tries gets right: the unbiased estimate of arXiv:2107.03374 (sec. 2.1).

    A score of 1 is right, every other is wrong.

    Raises:
        EvaluationError: As `mean`, or a question has fewer than k repeats.
    """
    shares = []
    for repeats in _check(scores, at_least=k).values():
        n, right = len(repeats), sum(score == 1 for score in repeats)
        shares.append(1 - math.comb(n - right, k) / math.comb(n, k))
    return _share(shares, level)


def majority(answers: Mapping[str, Sequence[tuple[str, bool]]], *, level: float = LEVEL) -> Estimate:
    """Return how many questions the most frequent of their answers gets right (maj@k of arXiv:2203.11171).

    Answers that tie share the win evenly.

    Args:
        answers: Of each question: the answers, in the form in which equal ones are equal, and whether each is right.
        level: Of the interval.

    Raises:
        EvaluationError: As `mean`.
    """
    _check({question: [float(good) for _, good in answer] for question, answer in answers.items()})
    shares = []
    for answer in answers.values():
        votes = Counter(answer)
        winners = [good for (_, good), number in votes.items() if number == max(votes.values())]
        shares.append(sum(winners) / len(winners))
    return _share(shares, level)


def need_statistics() -> None:
    """Raise MissingExtraError if the packages of the extra `eval` are not installed, on which intervals rest."""
    try:
        import scipy  # type: ignore[import-untyped]
        import statsmodels  # type: ignore[import-untyped]
    except ImportError as exc:
        raise MissingExtraError(
            f"intervals need the package {exc.name}; install it: pip install 'agentorchestra[eval]'"
        ) from None
    del scipy, statsmodels


def _share(shares: Sequence[float], level: float, answers: int = 0) -> Estimate:
    """Return the mean of the questions' shares with Wilson's interval for the `answers` that they are worth."""
    need_statistics()
    from scipy.stats import t  # type: ignore[import-untyped]
    from statsmodels.stats.proportion import proportion_confint  # type: ignore[import-untyped]

    n, value = len(shares), fmean(shares)
    worth = float(n)
    if n > 1 and not {0.0, 1.0}.issuperset(shares):
        spread = variance(shares) / n
        worth = value * (1 - value) / spread if spread else max(worth, answers)
        worth *= (NormalDist().inv_cdf((1 + level) / 2) / float(t.ppf((1 + level) / 2, n - 1))) ** 2
    low, high = proportion_confint(value * worth, worth, alpha=1 - level, method="wilson")
    return Estimate(value, max(0.0, float(low)), min(1.0, float(high)), n, level)


# --- two systems on the same questions ------------------------------------------------------------------


def difference(first: Scores, second: Scores, *, level: float = LEVEL) -> ScoreDifference:
    """Return how much better the first system did, with interval and exact test, over the questions both answered.

    The interval is that of Agresti and Min (2005, `two more pairs`), for repeats with pairs as small as one repeat
    is. The test swaps the two systems' scores of a question; with one repeat of right or wrong it is McNemar's exact
    test. Differences are rounded to 1/10,000 where no coarser fractions hold them.

    Raises:
        EvaluationError: As `mean`, or the systems have no question in common.
    """
    pairs = question_gains(first, second)
    repeats = min(len(score) for scores in (first, second) for question, score in scores.items() if question in pairs)
    gains = list(pairs.values())
    low, high = _interval(gains, repeats, level)
    return ScoreDifference(
        value=fmean(gains),
        low=low,
        high=high,
        questions=len(gains),
        level=level,
        p=_p_value(gains),
        better=sum(gain > 0 for gain in gains),
        worse=sum(gain < 0 for gain in gains),
    )


def question_gains(first: Scores, second: Scores) -> dict[str, float]:
    """Return by how much the first system's mean is above the second's, for each question that both answered.

    Raises:
        EvaluationError: As `mean`, or the systems have no question in common.
    """
    base, other = _check(first), _check(second)
    pairs = {name: fmean(repeats) - fmean(other[name]) for name, repeats in base.items() if name in other}
    if not pairs:
        raise EvaluationError("The two results have no question in common: compare results of the same benchmark.")
    return pairs


def _interval(pairs: Sequence[float], repeats: int, level: float) -> tuple[float, float]:
    """Return the interval of the mean of pairs, to which two pairs are added that speak for no difference."""
    need_statistics()
    from scipy.stats import t

    n = len(pairs) + 2
    middle = math.fsum(pairs) / n
    # Half a pair for either system and one for neither: without them, equal scores would leave no doubt at all.
    squares = math.fsum(pair * pair for pair in pairs) + 1 / repeats
    error = math.sqrt(max(squares / n - middle * middle, 0.0) / n)
    reach = float(t.ppf((1 + level) / 2, n - 1)) * error
    return max(-1.0, middle - reach), min(1.0, middle + reach)


def _p_value(pairs: Sequence[float]) -> float:
    """Return the share of all 2^n ways to turn pairs round that give a sum at least as far from 0."""
    import numpy as np

    parts = [Fraction(abs(pair)).limit_denominator(_FINEST) for pair in pairs if pair]
    whole = min(math.lcm(*(part.denominator for part in parts)), _FINEST)
    integers = [round(pair * whole) for pair in pairs if pair]
    total = abs(sum(integers))
    # Of all ways to turn the pairs so far, the share with each sum, from -reach to reach.
    shares, reach = np.ones(1), 0
    for size in map(abs, integers):
        more = np.zeros(2 * (reach + size) + 1)
        more[: shares.size] += shares / 2
        more[2 * size :] += shares / 2
        shares, reach = more, reach + size
    return min(1.0, float(shares[np.abs(np.arange(-reach, reach + 1)) >= total].sum()))


def sequential(pairs: Iterable[float]) -> list[float]:
    """Return the p-value after each pair, valid whenever one looks: stop as soon as one is at most 1 - level.

    It is a bet against "no difference" that never loses more than its stake: the mean wealth of several constant
    bets on either side (Waudby-Smith and Ramdas 2024, sec. 4; the bound is Ville's). Under no difference one of the
    values is ever at most alpha in at most alpha of all cases, however long one goes on.

    Args:
        pairs: Differences between -1 and 1, in the order of the questions; see `question_gains`.

    Raises:
        EvaluationError: A difference is outside -1 to 1.
    """
    wealth = [0.0] * len(_BETS)
    best, values = 1.0, []
    for pair in pairs:
        if not -1 <= pair <= 1:
            raise EvaluationError(f"The difference {pair} is outside -1 to 1: give differences of scores from 0 to 1.")
        wealth = [have + math.log1p(bet * pair) for have, bet in zip(wealth, _BETS, strict=True)]
        most = max(wealth)
        mean_wealth = most + math.log(fmean(math.exp(amount - most) for amount in wealth))
        best = min(best, math.exp(-max(mean_wealth, 0.0)))
        values.append(best)
    return values


# --- how many questions ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spread:
    """How far two systems' scores on one question lie apart, beyond their mean difference."""

    questions: float  # The variance of the true difference from question to question (omega squared in Miller, sec. 5)
    repeats: float  # The variance of one repeat's difference about its question's true one (both systems together)

    def of(self, repeats: int) -> float:
        """Return the variance of a question's difference with this number of repeats of either system."""
        return self.questions + self.repeats / repeats


def spread_of(first: Scores, second: Scores) -> Spread:
    """Return the spread that a pilot of two systems shows.

    A pilot of one repeat does not show what more repeats would even out: all of it counts as the questions'. Where
    the systems hardly differed, a difference on one question in ten is taken: a small pilot says little of that.

    Raises:
        EvaluationError: As `question_gains`.
    """
    pairs = question_gains(first, second)
    gains = list(pairs.values())
    total = max(variance(gains) if len(gains) > 1 else 0.0, 0.1)
    tries = [scores for question in pairs for scores in (first[question], second[question])]
    if any(len(scores) < 2 for scores in tries):
        return Spread(questions=total, repeats=0.0)
    within = 2 * fmean(variance(scores) for scores in tries)
    noise = 2 * fmean(variance(scores) / len(scores) for scores in tries)
    return Spread(questions=max(total - noise, 0.0), repeats=within)


def independent_spread(first: float, second: float) -> Spread:
    """Return the spread of two systems with these accuracies that err on questions independently of each other.

    It is what to plan with before any pilot: systems that err on the same questions need fewer.
    """
    return Spread(questions=first * (1 - first) + second * (1 - second), repeats=0.0)


def sample_size(
    gain: float, spread: Spread, *, repeats: int = 1, power: float = 0.8, level: float = LEVEL, exact: bool = True
) -> int:
    """Return how many questions find a difference with this power.

    The formula is Connor's (1987) for pairs, with the variance of Miller (arXiv:2411.00640, sec. 5) for repeats.

    Args:
        gain: The difference to find, as a share: 0.05 is five points.
        spread: Of the differences; see `spread_of`, `independent_spread`.
        repeats: How often each system answers a question.
        power: How often a difference of this size shall be found.
        level: 1 - level is how often one may be found where there is none.
        exact: Whether the exact test decides: it needs some questions more (a pair counts as a whole), the formula
            without them is for tests that approximate.

    Raises:
        EvaluationError: A gain of 0 or outside -1 to 1, fewer than 1 repeat, or a power outside 0 to 1.
    """
    _check_plan(gain, repeats, power)
    between, size = spread.of(repeats), abs(gain)
    quantile = NormalDist().inv_cdf
    reach = quantile((1 + level) / 2) * math.sqrt(between + gain * gain) + quantile(power) * math.sqrt(between)
    count = (reach / size) ** 2
    return math.ceil(count + (1 / (size * repeats) if exact else 0))


def power_of(questions: int, gain: float, spread: Spread, *, repeats: int = 1, level: float = LEVEL) -> float:
    """Return how often this many questions find a difference of this size by the exact test; see `sample_size`.

    Raises:
        EvaluationError: As `sample_size`.
    """
    _check_plan(gain, repeats, 0.5)
    between, normal = spread.of(repeats), NormalDist()
    useful = max(questions - 1 / (abs(gain) * repeats), 0.0)
    reach = abs(gain) * math.sqrt(useful) - normal.inv_cdf((1 + level) / 2) * math.sqrt(between + gain * gain)
    return normal.cdf(reach / math.sqrt(between)) if between else float(reach > 0)


def _check_plan(gain: float, repeats: int, power: float) -> None:
    """Refuse what no plan can be made of."""
    if not 0 < abs(gain) <= 1:
        raise EvaluationError(f"A difference of {gain} cannot be planned for: give one between 0 and 1, as 0.05.")
    if repeats < 1:
        raise EvaluationError(f"{repeats} repeats are none: a question is answered once or more often.")
    if not 0 < power < 1:
        raise EvaluationError(f"The power {power} is outside 0 to 1: 0.8 finds the difference in four of five samples.")


def _check(scores: Scores, *, at_least: int = 1) -> Scores:
    """Return scores that all questions have, between 0 and 1."""
    if at_least < 1:
        raise EvaluationError(f"k is {at_least}: give the number of tries, 1 or more.")
    if not scores:
        raise EvaluationError("There is no question with a score: score the results first.")
    for question, score in scores.items():
        if len(score) < at_least:
            raise EvaluationError(f"Question {question!r} has {len(score)} repeats, {at_least} are needed: repeat it.")
        for number in score:
            if not 0 <= number <= 1:
                raise EvaluationError(f"Question {question!r} has the score {number}: scores lie between 0 and 1.")
    return scores
