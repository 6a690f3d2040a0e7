"""Intervals, tests and plans: against published examples, by brute force, and over simulated suites."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
from statistics import fmean

import pytest

from agentorchestra.core.errors import EvaluationError
from agentorchestra.evaluation.statistics import (
    Scores,
    Spread,
    difference,
    independent_spread,
    majority,
    mean,
    pass_at_k,
    power_of,
    question_gains,
    sample_size,
    sequential,
    spread_of,
)


def single(right: int, questions: int) -> dict[str, list[float]]:
    """Scores of one repeat."""
    return {str(one): [float(one < right)] for one in range(questions)}


@pytest.mark.parametrize(
    ("right", "questions", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilsons_interval_as_newcombe_prints_it(right: int, questions: int, low: float, high: float) -> None:
    """Newcombe 1998, table I, method 3."""
    found = mean(single(right, questions))
    assert [found.low, found.high] == pytest.approx([low, high], abs=5e-5)
    assert found.questions == questions


def test_repeats_of_one_question_are_no_further_questions() -> None:
    """Ten repeats that always agree say no more than one."""
    once = single(12, 20)
    often = {question: each * 10 for question, each in once.items()}
    assert mean(often) == mean(once)
    mixed = {question: [1.0, 0.0] * 5 for question in once}
    assert mean(mixed).high - mean(mixed).low < mean(once).high - mean(once).low


def test_pass_at_k_counts_all_ways_to_take_k() -> None:
    """Against every choice of k, one by one."""
    each = [1.0, 0.0, 0.0, 1.0, 0.0]
    for k in (1, 2, 3, 4, 5):
        ways = [max(one) for one in itertools.combinations(each, k)]
        assert pass_at_k({"a": each}, k).value == pytest.approx(fmean(ways))
    assert pass_at_k({"a": [0.5, 0.5]}, 1).value == 0


def test_the_most_frequent_answer_wins_and_ties_are_shared() -> None:
    four = [("4", True), ("5", False), ("4", True)]
    tied = [("4", True), ("5", False), ("4", True), ("5", False)]
    assert majority({"q": four, "r": tied}).value == pytest.approx(0.75)
    assert majority({"q": [("5", False), ("4", True), ("5", False)]}).value == 0


def table(both: int, first: int, second: int, none: int) -> tuple[Scores, Scores]:
    """Two systems with so many questions that both, one or none got right."""
    rows = [(1, 1)] * both + [(1, 0)] * first + [(0, 1)] * second + [(0, 0)] * none
    names = [str(one) for one in range(len(rows))]
    return (
        {name: [float(row[0])] for name, row in zip(names, rows, strict=True)},
        {name: [float(row[1])] for name, row in zip(names, rows, strict=True)},
    )


def test_mcnemars_exact_test_of_two_media() -> None:
    """Armitage and Berry 1994, p. 127: 12 against 2 of 50, two-sided p = 0.0129."""
    found = difference(*table(20, 12, 2, 16))
    assert found.p == pytest.approx(0.0129, abs=5e-5)
    assert [found.value, found.better, found.worse, found.questions] == pytest.approx([0.2, 12, 2, 50])
    assert 0 < found.low < 0.2 < found.high


def test_agresti_and_mins_interval() -> None:
    """Counts 794, 150, 86, 570 (Agresti 2002, table 10.1): 0.04 with a Wald interval of (0.021, 0.059)."""
    found = difference(*table(794, 150, 86, 570))
    assert [found.low, found.high] == pytest.approx([0.021, 0.059], abs=1e-3)
    assert found.p == pytest.approx(3.7e-5, rel=0.1)


def test_the_exact_test_with_repeats_counts_every_way_to_swap() -> None:
    """Against all 2^n ways, one by one."""
    chance = random.Random(7)
    first, second = ({str(q): [float(chance.random() < p) for _ in range(3)] for q in range(9)} for p in (0.8, 0.4))
    pairs = [round(one * 3) for one in question_gains(first, second).values()]
    ways = [
        abs(sum(sign * one for sign, one in zip(signs, pairs, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(pairs))
    ]
    assert difference(first, second).p == pytest.approx(fmean(one >= abs(sum(pairs)) for one in ways))


def test_scores_that_are_no_simple_fractions_are_rounded() -> None:
    """Judges give any number."""
    chance = random.Random(3)
    first, second = ({str(q): [chance.random() ** power] for q in range(40)} for power in (1, 4))
    assert 0 < difference(first, second).p < 0.05
    assert difference(first, second) == difference(first, second)


def test_equal_systems_leave_a_doubt() -> None:
    """No difference on 30 questions is no proof that there is none."""
    found = difference(single(15, 30), single(15, 30))
    assert (found.value, found.p) == (0, 1)
    assert found.low < 0 < found.high


def test_only_questions_that_both_answered_count() -> None:
    """The denominator says how many."""
    first, second = {"a": [1.0], "b": [0.0]}, {"b": [1.0], "c": [1.0]}
    assert difference(first, second).questions == 1
    with pytest.raises(EvaluationError, match="no question in common"):
        difference({"a": [1.0]}, {"b": [1.0]})


def test_connors_sample_size() -> None:
    """Connor 1987: 0.45 against 0.05 discordant, power 0.8: 23 pairs without the exact test's."""
    spread = Spread(questions=0.5 - 0.4**2, repeats=0.0)
    assert sample_size(0.4, spread, exact=False) == 23
    assert sample_size(0.4, spread) == 25
    assert power_of(25, 0.4, spread) == pytest.approx(0.8, abs=0.03)


def test_repeats_even_out_what_is_theirs() -> None:
    """Four repeats need fewer questions, unless questions differ and repeats do not."""
    assert sample_size(0.1, Spread(0.05, 0.4), repeats=4) < sample_size(0.1, Spread(0.05, 0.4)) / 2
    assert independent_spread(0.5, 0.6).of(4) == pytest.approx(0.49)


def test_a_pilot_tells_questions_from_repeats() -> None:
    """Repeats that differ from each other are seen as such, one repeat cannot tell."""
    repeated = spread_of({str(q): [1.0, 0.0] for q in range(20)}, {str(q): [0.0, 1.0] for q in range(20)})
    assert [repeated.questions, repeated.repeats] == pytest.approx([0.0, 1.0])
    once = spread_of(single(5, 20), single(15, 20))
    assert once.repeats == 0 and once.questions > 0.1


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: mean({}), "no question with a score"),
        (lambda: mean({"a": []}), "'a' has 0 repeats, 1 are needed"),
        (lambda: mean({"a": [2.0]}), "'a' has the score 2.0"),
        (lambda: mean({"a": [float("nan")]}), "'a' has the score nan"),
        (lambda: pass_at_k({"a": [1.0]}, 2), "'a' has 1 repeats, 2 are needed"),
        (lambda: pass_at_k({"a": [1.0]}, 0), "k is 0"),
        (lambda: sequential([1.5]), "difference 1.5"),
        (lambda: sample_size(0.0, Spread(0.1, 0.1)), "difference of 0.0 cannot"),
        (lambda: sample_size(0.1, Spread(0.1, 0.1), repeats=0), "0 repeats"),
        (lambda: sample_size(0.1, Spread(0.1, 0.1), power=1), "power 1 is outside"),
    ],
)
def test_what_cannot_be_counted_is_refused(call: object, says: str) -> None:
    """With the value and what to do."""
    assert callable(call)
    with pytest.raises(EvaluationError, match=says):
        call()


def test_importing_it_needs_no_extra() -> None:
    """Nothing heavy is imported before it is used."""
    heavy = "sorted({'scipy', 'statsmodels', 'numpy', 'pandas', 'inspect_ai'} & set(sys.modules))"
    code = f"import sys, agentorchestra.evaluation.statistics; print({heavy})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- over simulated suites ------------------------------------------------------------------------------


def drawn(chance: random.Random, questions: int, repeats: int, base: float, gain: float) -> tuple[Scores, Scores]:
    """Two systems on questions of differing difficulty, the first better by `gain` on average."""
    first: dict[str, list[float]] = {}
    second: dict[str, list[float]] = {}
    for one in range(questions):
        hard = chance.betavariate(base, 1 - base)
        easier = hard + (1 - hard) * gain / (1 - base)
        first[str(one)] = [float(chance.random() < easier) for _ in range(repeats)]
        second[str(one)] = [float(chance.random() < hard) for _ in range(repeats)]
    return first, second


def planned(chance: random.Random, repeats: int, base: float, gain: float) -> Spread:
    """The spread of such suites, from one large pilot."""
    return spread_of(*drawn(chance, 4_000, max(repeats, 2), base, gain))


def simulated(suites: int) -> None:
    """A planted difference is found as often as planned, one that is not there hardly ever, intervals hold."""
    chance = random.Random(11)
    base, gain, repeats = 0.5, 0.15, 2
    spread = planned(chance, repeats, base, gain)
    questions = sample_size(gain, spread, repeats=repeats)
    named = power_of(questions, gain, spread, repeats=repeats)
    found = covered = held = false = stopped = 0
    for _ in range(suites):
        first, second = drawn(chance, questions, repeats, base, gain)
        seen, alone = difference(first, second), mean(second)
        found += seen.p <= 0.05
        covered += seen.low <= gain <= seen.high
        held += alone.low <= base <= alone.high
        same = drawn(chance, questions, repeats, base, 0)
        false += difference(*same).p <= 0.05
        stopped += sequential(question_gains(*same).values())[-1] <= 0.05
    error = 2.6 * (0.05 * 0.95 / suites) ** 0.5  # of a share of 0.95, in 99 of 100 simulations
    assert found / suites >= named - 0.03 - (0 if suites >= 2_000 else 0.05)
    assert abs(covered / suites - 0.95) <= error + 0.01
    assert abs(held / suites - 0.95) <= error + 0.01
    assert false / suites <= 0.06
    assert stopped / suites <= 0.06


@pytest.mark.long
def test_over_200_simulated_suites() -> None:
    """See `simulated`."""
    simulated(200)


@pytest.mark.long
def test_over_2000_simulated_suites() -> None:
    """See `simulated`."""
    simulated(2_000)
