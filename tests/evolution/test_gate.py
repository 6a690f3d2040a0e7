"""The gate lets through what is better, and says what it would take to tell."""

from __future__ import annotations

import random

import pytest

from agentorchestra.core.errors import EvolutionError
from agentorchestra.evaluation.statistics import Scores, independent_spread
from agentorchestra.evolution.gate import GateTerms, decide, power, stopped_live


def answered(share: float, questions: int, seed: int) -> dict[str, list[float]]:
    """Return the scores of a version that answers this share of the questions right."""
    chance = random.Random(seed)
    return {f"q{number}": [float(chance.random() < share)] for number in range(questions)}


def right(count: int, questions: int) -> Scores:
    """Return the scores of a version that answers the first questions right."""
    return {f"q{number}": [float(number < count)] for number in range(questions)}


def test_a_clear_gain_is_promoted_and_a_clear_loss_rejected() -> None:
    better = decide(right(10, 40), right(30, 40), GateTerms())
    assert (better.verdict, better.gain, better.questions) == ("promote", 0.5, 40)
    assert better.low > 0
    assert better.p < 0.001
    worse = decide(right(30, 40), right(10, 40), GateTerms())
    assert worse.verdict == "reject"
    assert worse.p > 0.999
    assert "it is not better: -50.0 points" in worse.why


def test_too_few_questions_leave_it_undecided_and_say_how_many_would_do() -> None:
    found = decide(right(10, 20), right(13, 20), GateTerms())
    assert found.verdict == "undecided"
    assert "chance may explain the gain" in found.why
    assert "questions would find a gain of this size in 4 of 5 validations" in found.why


def test_candidates_of_one_evolution_share_the_level() -> None:
    # Seven of seven pairs for the candidate: chance alone gives that once in 128 cases.
    current, candidate = right(10, 30), right(17, 30)
    assert decide(current, candidate, GateTerms(level=0.05)).verdict == "promote"
    assert decide(current, candidate, GateTerms(level=0.05, candidates=10)).verdict == "undecided"


def test_a_gain_that_costs_too_much_is_rejected() -> None:
    terms = GateTerms(cost_ratio=1.5)
    found = decide(right(10, 40), right(30, 40), terms, costs=(0.10, 0.20))
    assert (found.verdict, found.cost_ratio) == ("reject", 2.0)
    assert found.why.startswith("it costs 2.00 times as much, and 1.5 is the limit")
    assert decide(right(10, 40), right(30, 40), terms, costs=(0.10, 0.12)).verdict == "promote"


def test_a_gain_below_the_least_that_counts_is_not_promoted() -> None:
    assert decide(right(10, 100), right(20, 100), GateTerms(gain=0.3)).verdict == "reject"
    assert decide(right(10, 100), right(20, 100), GateTerms(gain=0.12)).verdict == "undecided"


def test_versions_that_answered_nothing_in_common_are_refused() -> None:
    with pytest.raises(EvolutionError, match="answered no question in common"):
        decide({"q1": [1.0]}, {"q2": [1.0]}, GateTerms())


@pytest.mark.long
def test_the_gate_errs_as_seldom_and_finds_as_often_as_it_says() -> None:
    terms, cases, count = GateTerms(), 1000, 80
    spread = independent_spread(0.4, 0.6)
    promoted = {
        gain: sum(
            decide(answered(0.4, count, 2 * seed), answered(0.4 + gain, count, 2 * seed + 1), terms).verdict
            == "promote"
            for seed in range(cases)
        )
        / cases
        for gain in (0.2, 0.0, -0.2)
    }
    assert promoted[0.0] <= 0.05
    assert promoted[-0.2] <= 0.01
    assert promoted[0.2] >= power(count, 0.2, spread, terms) - 0.03


def test_a_version_that_fails_live_is_stopped_and_an_equal_one_hardly_ever() -> None:
    assert stopped_live([1.0] * 30, [0.0] * 30) is not None
    assert stopped_live([0.0] * 30, [1.0] * 30) is None
    chance = random.Random(5)
    stopped = sum(
        stopped_live(
            [float(chance.random() < 0.7) for _ in range(60)], [float(chance.random() < 0.7) for _ in range(60)]
        )
        is not None
        for _ in range(100)
    )
    assert stopped <= 5
