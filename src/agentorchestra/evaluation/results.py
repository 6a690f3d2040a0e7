"""What the scores of an evaluation come to: tables by arm, by group, by question, and two arms side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from statistics import fmean, quantiles, stdev
from typing import Any

from agentorchestra.core.errors import EvaluationError
from agentorchestra.evaluation.answers import plain
from agentorchestra.evaluation.plan import SAME_WEB, EvalPlan, run_usd
from agentorchestra.evaluation.scores import Score, judged_usd, total
from agentorchestra.evaluation.statistics import (
    Estimate,
    ScoreDifference,
    difference,
    independent_spread,
    majority,
    mean,
    need_statistics,
    pass_at_k,
    power_of,
    question_gains,
    sample_size,
    sequential,
    spread_of,
)
from agentorchestra.evaluation.suites.suite import suite
from agentorchestra.workspace import Workspace

OUTCOMES = ("right", "partly", "wrong", "unanswered", "error", "out of limits", "left out", "undecided", "not run")
VALID = OUTCOMES[:6]  # outcomes that are in the denominator; what got no answer counts as 0

COSTS = "Cost, tokens, time, steps"
QUESTIONS = "Questions"
PARTINGS = "Where runs first differ"
ATTEMPTS = "Agents asked for a solved question"
_LAST = 5

STOPS_AT = 0.05  # the p-value of the sequential test at which one may stop


@dataclass(frozen=True)
class Table:
    """A table of a report; the first column names the row."""

    title: str  # above it
    head: tuple[str, ...]  # of the columns
    rows: tuple[tuple[str, ...], ...]  # as text, each as long as the head
    note: str = ""  # a sentence or several under it


@dataclass(frozen=True)
class CostPoint:
    """An arm in the plot of cost and accuracy; or a published row, whose paper gives no interval."""

    name: str
    usd: float
    share: float
    accuracy: Estimate | None = None


def outcome(score: Score) -> str:
    """Return which of `OUTCOMES` a score is."""
    if score.status == "ok":
        return "right" if score.score == 1 else "partly"
    if score.status == "missing" and score.score is None:
        return "left out"  # there is nothing to ask, or nothing to compare with
    if score.status == "missing":
        limits = ("timed_out", "budget_exhausted")
        return (
            "error" if score.run_status == "failed" else "out of limits" if score.run_status in limits else "unanswered"
        )
    return {"wrong": "wrong", "judge_failed": "undecided", "not_run": "not run"}[score.status]


def values(scores: Iterable[Score], arm: str) -> dict[str, list[float]]:
    """Return the scores of an arm by question, for the functions of `statistics`: all that `VALID` holds."""
    by_question: dict[str, list[float]] = {}
    for mark in scores:
        if mark.arm == arm and mark.score is not None and outcome(mark) in VALID:
            by_question.setdefault(mark.question, []).append(mark.score)
    return by_question


def tables(plan: EvalPlan, scores: Sequence[Score], judge_usd: float | None = 0.0) -> list[Table]:
    """Return all tables of a report.

    Args:
        scores: all of it.
        judge_usd: what the judge cost.

    Raises:
        EvaluationError: nothing was answered yet.
    """
    need_statistics()
    if not any(outcome(mark) in VALID for mark in scores):
        reason = next((mark.why for mark in scores if mark.why), "not asked")
        raise EvaluationError(
            f"no answer of {plan.name} has a score ({reason}); `agentorchestra eval resume {plan.name}` goes on, `eval "
            f"export {plan.name}` writes the answers there are"
        )
    report = [_accuracy(plan, scores)]
    if plan.suite:
        report.append(_beside(plan, scores))
    report += [_outcomes(plan, scores), _costs(plan, scores, judge_usd)]
    if any(mark.delegations for mark in scores):
        report.append(_attempts(plan, scores))
    if plan.repeats > 1:
        report.append(_repeats(plan, scores))
    if plan.reuse:
        report.append(_reuse(plan, scores))
    if len(plan.arms) > 1:
        report.append(_pairs(plan, scores))
    return [*report, _questions(plan, scores), _settings(plan)]


async def report_tables(workspace: Workspace[Any], plan: EvalPlan, scores: Sequence[Score]) -> list[Table]:
    """Return all tables of a report, with what only the logs of the runs say.

    Args:
        workspace: open; it has the runs.
        plan, scores: as for `tables`.

    Raises:
        EvaluationError: nothing was answered yet.
    """
    report = tables(plan, scores, await judged_usd(workspace, plan))
    if pairs := settings_of_one_system(plan):
        place = next(number for number, table in enumerate(report) if table.title == QUESTIONS)
        report.insert(place, await _first_differences(workspace, plan, scores, pairs))
    return report


def settings_of_one_system(plan: EvalPlan) -> list[tuple[str, str]]:
    """Return pairs of arms that are one system and model with other settings: the first such arm and each other."""
    first: dict[tuple[str | None, str | None], str] = {}
    pairs = [(first.setdefault((arm.system, arm.model), arm.name), arm.name) for arm in plan.arms]
    return [(base, other) for base, other in pairs if base != other]


async def first_differences(
    workspace: Workspace[Any], scores: Sequence[Score], first: str, second: str
) -> dict[tuple[str, int], str]:
    """Return where the runs of two arms first differ, "" for equal ones, by question and repeat; where both ran."""
    runs = {(mark.question, mark.repeat): mark.run_id for mark in scores if mark.arm == second and mark.run_id}
    differences = {}
    for mark in scores:
        place = (mark.question, mark.repeat)
        if mark.arm == first and mark.run_id and place in runs:
            parting = (await workspace.log.compare(mark.run_id, runs[place])).difference
            differences[place] = f"{parting.key}: {parting.what}" if parting else ""
    return differences


async def _first_differences(
    workspace: Workspace[Any], plan: EvalPlan, scores: Sequence[Score], pairs: Sequence[tuple[str, str]]
) -> Table:
    columns = [await first_differences(workspace, scores, *pair) for pair in pairs]
    rows = []
    for question in plan.ids:
        places = [(question, repeat) for repeat in range(plan.repeats)]
        cells = ["; ".join(column.get(place, "-") or "equal" for place in places) for column in columns]
        rows.append((question, *cells))
    note = (
        "Settings of one system: the first effect of the two runs that is not the same, by its place in the tree of "
        "agents; one for each repeat."
    )
    return Table(PARTINGS, ("id", *(f"{base} and {other}" for base, other in pairs)), tuple(rows), note)


def points(plan: EvalPlan, scores: Sequence[Score]) -> list[CostPoint]:
    """Return each arm's dollars for a question and accuracy, where both are known."""
    dots = []
    for arm in plan.arms:
        grades, usd = values(scores, arm.name), total(mark.cost_usd for mark in scores if mark.arm == arm.name)
        if grades and usd is not None:
            accuracy = mean(grades)
            dots.append(CostPoint(arm.name, usd / sum(map(len, grades.values())), accuracy.value, accuracy))
    return dots


def published_points(plan: EvalPlan) -> list[CostPoint]:
    """Return the rows of the published table that a plan is of, where it has dollars and accuracy (002, fig. 4)."""
    paper = suite(plan.suite) if plan.suite else None
    if paper is None or not {"all", "cost"} <= {*paper.columns}:
        return []
    cells, dots = paper.cells, []
    for name, row in cells.rows.items():
        by_column = dict(zip(cells.columns, row, strict=True))
        right, cost = by_column[paper.columns["all"]], by_column[paper.columns["cost"]]
        if right is not None and cost is not None:
            dots.append(CostPoint(name, cost, right / cells.whole))
    return dots


def tokens(plan: EvalPlan, scores: Sequence[Score]) -> dict[str, list[int]]:
    """Return the tokens of each arm's answers, growing, repeats included; arms without any are left out."""
    runs = [mark for mark in scores if mark.run_id]
    counts = {arm.name: sorted(run.tokens for run in runs if run.arm == arm.name) for arm in plan.arms}
    return {name: numbers for name, numbers in counts.items() if numbers}


def frontier(dots: Sequence[CostPoint]) -> set[str]:
    """Return the arms that no other one beats in accuracy without costing more (002, sec. 4.3)."""
    return {
        dot.name
        for dot in dots
        if not any(
            other.usd <= dot.usd and other.share >= dot.share and (other.usd, other.share) != (dot.usd, dot.share)
            for other in dots
        )
    }


def comparison(scores: Sequence[Score], first: str, second: str) -> tuple[ScoreDifference, list[tuple[Score, Score]]]:
    """Return how much better the first arm did, and where they differ; EvaluationError if no question is common."""
    need_statistics()
    gain = difference(values(scores, first), values(scores, second))
    by_place = {(mark.question, mark.repeat): mark for mark in scores if mark.arm == second}
    pairs = [(mark, by_place[mark.question, mark.repeat]) for mark in scores if mark.arm == first]
    return gain, [pair for pair in pairs if outcome(pair[0]) != outcome(pair[1])]


def stop_after(plan: EvalPlan, scores: Sequence[Score], first: str, second: str) -> int | None:
    """Return the first block after which the sequential test tells two arms apart, None where it does not.

    One may look after each block, and claims a difference that is not there in at most 5 of 100 evaluations, however
    long they go on (`statistics.sequential`). Blocks are in the order of the plan, and count from 1; one that an arm
    has no score for is passed over.

    Raises:
        EvaluationError: the arms answered no question in common.
    """
    pairs = question_gains(values(scores, first), values(scores, second))
    blocks = [number for number, question in enumerate(plan.ids, start=1) if question in pairs]
    p_values = zip(blocks, sequential(pairs[plan.ids[number - 1]] for number in blocks), strict=True)
    return next((number for number, p in p_values if p <= STOPS_AT), None)


# --- before the rest is spent ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Forecast:
    pilot: int  # questions asked
    questions: int  # of the whole
    # `usd`, `low`, `high`: the dollars of the whole and the interval that holds them in 95 of 100 evaluations; None
    # where a price is unknown. What the limits of the runs allow at most is `most_usd`, None without a budget.
    usd: float | None
    low: float | None
    high: float | None
    most_usd: float | None
    seconds: float  # runs one after the other


def forecast(plan: EvalPlan, scores: Sequence[Score]) -> Forecast:
    """Return the whole cost by the pilot's mean, with its prediction interval; EvaluationError below two questions."""
    need_statistics()
    from scipy.stats import t  # type: ignore[import-untyped]

    blocks: dict[str, list[Score]] = {}
    for mark in scores:
        if mark.run_id:
            blocks.setdefault(mark.question, []).append(mark)
    n, rest = len(blocks), len(plan.ids) - len(blocks)
    if n < 2:
        raise EvaluationError(f"a forecast needs a pilot of at least 2 questions, and {n} were asked; give --pilot 2")
    most = run_usd(plan) * len(plan.arms) * plan.repeats * len(plan.ids) if plan.budget_usd is not None else None
    seconds = fmean(sum(mark.duration_s for mark in block) for block in blocks.values()) * len(plan.ids)
    costs = [total(mark.cost_usd for mark in block) for block in blocks.values()]
    prices = [cost for cost in costs if cost is not None]
    if len(prices) < n:
        return Forecast(n, len(plan.ids), None, None, None, most, seconds)
    pilot_usd, middle = sum(prices), fmean(prices)
    reach = float(t.ppf(0.975, n - 1)) * stdev(prices) * sqrt(rest + rest * rest / n)
    whole = pilot_usd + middle * rest
    return Forecast(n, len(plan.ids), whole, max(pilot_usd, whole - reach), whole + reach, most, seconds)


def power_lines(plan: EvalPlan, scores: Sequence[Score], gain: float) -> list[str]:
    """Return sentences on what the number of questions can show.

    Args:
        gain: the difference of accuracy that is to be found, as a share.
    """
    grades = [values(scores, arm.name) for arm in plan.arms]
    if len(grades) > 1 and {*grades[0]} & {*grades[1]}:
        spread, basis = spread_of(grades[0], grades[1]), f"{plan.arms[0].name} and {plan.arms[1].name} in the pilot"
    else:
        share = mean(grades[0]).value if grades[0] else 0.5
        spread, basis = independent_spread(share, min(1.0, share + gain)), "two systems that err independently"
    power = power_of(len(plan.ids), gain, spread, repeats=plan.repeats)
    size = sample_size(gain, spread, repeats=plan.repeats)
    return [
        f"a difference of {100 * gain:g} points is found with {len(plan.ids)} questions in {100 * power:.0f} of 100 "
        f"evaluations, by the spread of {basis}",
        f"80 of 100 need {size} questions",
    ]


# --- tables ---------------------------------------------------------------------------------------------


def share(estimate: Estimate) -> str:
    """Return a share with its interval and denominator, in percent."""
    return f"{100 * estimate.value:.1f} [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}] of {estimate.questions}"


def by_points(gain: ScoreDifference) -> str:
    """Return a difference with its interval, in points."""
    return f"{100 * gain.value:+.1f} [{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]"


def usd(cost: float | None) -> str:
    return "unknown" if cost is None else f"${cost:.4f}" if cost < 1 else f"${cost:,.2f}"


def _accuracy(plan: EvalPlan, scores: Sequence[Score]) -> Table:
    groups = sorted({mark.group for mark in scores if mark.group})
    rows = []
    for arm in plan.arms:
        cells = []
        for group in ("", *groups):
            grades = values([mark for mark in scores if group in ("", mark.group)], arm.name)
            cells.append(share(mean(grades)) if grades else "-")
        rows.append((arm.name, *cells))
    note = (
        "Percent, with the 95% interval (clustered by question) and the number of questions. What was not answered, "
        "ended in an error or ran out of its limits counts as 0; what was undecided or not run is not counted."
    )
    if out := sorted({mark.question for mark in scores if outcome(mark) == "left out"}):
        note += f" Left out, as they cannot be asked or have no public answer: {', '.join(out)}."
    return Table("Accuracy", ("arm", "all", *groups), tuple(rows), note)


def _beside(plan: EvalPlan, scores: Sequence[Score]) -> Table:
    paper = suite(plan.suite)
    table, rows = paper.cells, []
    for arm in plan.arms:
        rows.append((arm.name, "here", *(_own_cell(plan, scores, arm.name, column) for column in paper.columns)))
        for name in paper.rows(arm.name):
            cells = dict(zip(table.columns, table.rows[name], strict=True))
            numbers = [cells[column] for column in paper.columns.values()]
            percent = 100 / table.whole  # shares as percent, as ours are
            rows.append((arm.name, name, *("-" if cell is None else f"{cell * percent:.4g}" for cell in numbers)))
    note = f"{paper.source}: {table.about}. {paper.about}" + "".join(
        f" Not here: {', '.join(omission.rows)}: {omission.why}." for omission in paper.left_out
    )
    return Table("Beside the paper", ("arm", "row", *paper.columns), tuple(rows), note)


def _own_cell(plan: EvalPlan, scores: Sequence[Score], arm: str, column: str) -> str:
    """Return what stands beside a published column, see `Suite.columns`."""
    whole_set = column in ("all", "cost", "gain", "reuse") or column.startswith(("pass@", "agents>"))
    own = [mark for mark in scores if mark.arm == arm and (whole_set or mark.group == column)]
    grades = values(own, arm)
    if not grades:
        return "-"
    if column == "cost":
        cost = total(mark.cost_usd for mark in own if mark.run_id)
        return usd(None if cost is None else cost / sum(bool(mark.run_id) for mark in own))
    if column == "reuse":
        tools, again = generated_tools(own, arm)
        return f"{100 * len(again) / len(tools):.1f} of {len(tools)} tools" if tools else "-"
    if column == "gain":
        first = values(scores, plan.arms[0].name)
        return "-" if arm == plan.arms[0].name or not {*grades} & {*first} else by_points(difference(grades, first))
    if column.startswith("agents>"):
        low = int(column.removeprefix("agents>"))
        later = [mark.model_copy(update={"score": float(mark.score == 1 and mark.delegations > low)}) for mark in own]
        return share(mean(values(later, arm)))
    if column.startswith("pass@"):
        k = int(column.removeprefix("pass@"))
        whole = {name: tries for name, tries in grades.items() if len(tries) >= k}
        return share(pass_at_k(whole, k)) if whole else "-"
    return share(mean(grades))


def _outcomes(plan: EvalPlan, scores: Sequence[Score]) -> Table:
    counts = {arm.name: Counter(outcome(mark) for mark in scores if mark.arm == arm.name) for arm in plan.arms}
    rows = tuple(
        (name, *(str(count[kind]) for kind in OUTCOMES), str(sum(count[kind] for kind in VALID)), str(count.total()))
        for name, count in counts.items()
    )
    return Table("What came of it", ("arm", *OUTCOMES, "counted", "all"), rows, "Numbers of answers, repeats included.")


def _costs(plan: EvalPlan, scores: Sequence[Score], judge_usd: float | None) -> Table:
    rows = []
    for arm in plan.arms:
        runs = [mark for mark in scores if mark.arm == arm.name and mark.run_id]
        if not runs:
            rows.append((arm.name, *["-"] * 8))
            continue
        cost, right = total(run.cost_usd for run in runs), sum(run.score or 0 for run in runs)
        rows.append(
            (
                arm.name,
                usd(cost),
                usd(None if cost is None else cost / len(runs)),
                "-" if not right else usd(None if cost is None else cost / right),
                *(f"{number:,.0f}" for number in _spread([run.tokens for run in runs])),
                " / ".join(f"{number:,.1f}" for number in _spread([run.duration_s for run in runs])),
                " / ".join(f"{number:,.0f}" for number in _spread([run.steps for run in runs])),
            )
        )
    head = ("arm", "cost", "per answer", "per right one", "tokens, median", "9 in 10 below", "most", "seconds", "steps")
    note = "Seconds and steps: median / 9 in 10 below / most. Cost has what may have been paid without an answer."
    if plan.judge:
        note += f" The judge {plan.judge} cost {usd(judge_usd)} besides."
    for arm in plan.arms:
        by_model: dict[str, list[float | None]] = {}
        for mark in scores:
            for model, cost in mark.usd_by_model.items() if mark.arm == arm.name else ():
                by_model.setdefault(model, []).append(cost)
        if len(by_model) > 1:
            listing = ", ".join(f"{model} {usd(total(costs))}" for model, costs in by_model.items())
            note += f" {arm.name} by model: {listing}."
    return Table(COSTS, head, tuple(rows), note)


def _spread(numbers: Sequence[float]) -> tuple[float, float, float]:
    """Return median, ninth decile and greatest."""
    if len(numbers) == 1:
        return numbers[0], numbers[0], numbers[0]
    tenths = quantiles(numbers, n=10, method="inclusive")
    return tenths[4], tenths[8], max(numbers)


def solved_after(scores: Iterable[Score], arm: str) -> Counter[int]:
    """Return how many right answers of an arm came after how many agents that its top agent asked."""
    return Counter(mark.delegations for mark in scores if mark.arm == arm and mark.score == 1)


def _attempts(plan: EvalPlan, scores: Sequence[Score]) -> Table:
    """Return the attempts per solved question (002, app. C.1)."""
    rows = []
    for arm in plan.arms:
        counts = solved_after(scores, arm.name)
        cells = [*(counts[n] for n in range(_LAST + 1)), sum(count for n, count in counts.items() if n > _LAST)]
        middle, _, most = _spread([*counts.elements()]) if counts else (0, 0, 0)
        rows.append((arm.name, str(counts.total()), *map(str, cells), f"{middle:g}", f"{most:g}"))
    head = ("arm", "solved", *map(str, range(_LAST + 1)), f"more than {_LAST}", "median", "most")
    note = "Right answers by how many agents the top agent asked for them, one that it asked twice counted twice."
    return Table(ATTEMPTS, head, tuple(rows), note)


def generated_tools(scores: Sequence[Score], arm: str) -> tuple[set[str], set[str]]:
    """Return the tools that the questions of an arm made, and those of them that a later question called."""
    own = [mark for mark in scores if mark.arm == arm]
    tools = {name for mark in own for name in mark.made}
    return tools, tools & {name for mark in own for name in mark.reused}


def _reuse(plan: EvalPlan, scores: Sequence[Score]) -> Table:
    """Return how many generated tools were of use to later questions (000, sec. 5.2)."""
    rows = []
    for arm in plan.arms:
        own = [mark for mark in scores if mark.arm == arm.name]
        tools, used = generated_tools(scores, arm.name)
        rate = f"{100 * len(used) / len(tools):.1f}" if tools else "-"
        cells = (len(tools), len(used), rate, sum(bool(run.reused) for run in own), sum(bool(run.found) for run in own))
        rows.append((arm.name, *map(str, cells)))
    head = ("arm", "tools made", "reused", "percent", "questions that reused", "found by the generator")
    note = (
        "A tool is reused if a later question called it. The questions were asked one after another, in the order in "
        "which they stand below; what one of them made, the later ones had. Found: the generator found a tool that "
        "fits in place of making one."
    )
    return Table("Reuse", head, tuple(rows), note)


def _repeats(plan: EvalPlan, scores: Sequence[Score]) -> Table:
    head = ("arm", *(f"pass@{k}" for k in range(1, plan.repeats + 1)), f"maj@{plan.repeats}")
    rows = []
    for arm in plan.arms:
        grades = values(scores, arm.name)
        whole = {question: repeats for question, repeats in grades.items() if len(repeats) == plan.repeats}
        if not whole:
            rows.append((arm.name, *["-"] * (plan.repeats + 1)))
            continue
        votes: dict[str, list[tuple[str, bool]]] = {question: [] for question in whole}
        for mark in scores:
            if mark.arm == arm.name and mark.question in whole:
                votes[mark.question].append((plain(mark.answer), mark.score == 1))
        tries = [pass_at_k(whole, k) for k in range(1, plan.repeats + 1)]
        rows.append((arm.name, *map(share, [*tries, majority(votes)])))
    note = "pass: one of k tries is right. maj: the most frequent answer is. Over questions with all their repeats."
    return Table("Repeats", head, tuple(rows), note)


def _pairs(plan: EvalPlan, scores: Sequence[Score]) -> Table:
    rows = []
    for first, second in combinations([arm.name for arm in plan.arms], 2):
        grades, other = values(scores, first), values(scores, second)
        if not {*grades} & {*other}:
            continue
        gain = difference(grades, other)
        counts = (str(number) for number in (gain.better, gain.worse, gain.questions))
        stop = stop_after(plan, scores, first, second)
        may_stop = "no" if stop is None else f"after block {stop}"
        rows.append((f"{first} - {second}", by_points(gain), *counts, f"{gain.p:.3f}", may_stop))
    head = ("arms", "difference", "better on", "worse on", "of", "p", "one may stop")
    note = (
        "Points with the 95% interval, over questions that both were asked; p of the exact test for pairs. A block is "
        "a question with all its arms and repeats, in the order of the ids. One may stop after the block at which the "
        "sequential test reaches p = 0.05, and may look after each block; the exact test holds for all questions only."
    )
    if len(rows) > 1:
        note += " It is not corrected for the number of pairs."
    return Table("Differences", head, tuple(rows), note)


def _questions(plan: EvalPlan, scores: Sequence[Score]) -> Table:
    rows = []
    for question in plan.ids:
        own = [mark for mark in scores if mark.question == question]
        cells = []
        for arm in plan.arms:
            marks = [mark for mark in own if mark.arm == arm.name]
            answers = [(outcome(mark), _short(mark.answer or mark.why), mark.run_id) for mark in marks]
            cells.append("; ".join(f"{kind}: {words}" + (f" ({run})" if run else "") for kind, words, run in answers))
        rows.append((question, own[0].group if own else "", *cells))
    return Table(QUESTIONS, ("id", "group", *(arm.name for arm in plan.arms)), tuple(rows), "With the run of each.")


def _short(text: str, most: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 3] + "..."


def _web(plan: EvalPlan) -> str:
    """Say whether all arms are given the pages and results that one was given."""
    if all(SAME_WEB.items() <= arm.settings.items() for arm in plan.arms):
        return "the same for all arms: what one was given is given to the others"
    return "as the settings of each arm say (web.cache_s, search.cache_s)"


def _settings(plan: EvalPlan) -> Table:
    again = f"up to {plan.ask_again} times, where there was no answer" if plan.ask_again else "no question"
    limits = plan.model_dump(include={"budget_usd", "question_usd", "question_s"}, exclude_none=True)
    selection = "all" if plan.sample is None else f"{plan.sample} drawn with seed {plan.seed}, spread over the groups"
    apart = ", ".join(f"{name} = {value}" for name, value in plan.arms[0].kept_apart.items())
    rows = [
        ("evaluation", f"{plan.name}, begun {plan.created}" if plan.created else plan.name),
        *([("suite", plan.suite)] if plan.suite else []),
        ("set", f"{plan.set}, version {plan.version}"),
        ("questions", f"{len(plan.ids)} ({selection}): {', '.join(plan.ids)}"),
        *([("tips from", f"{len(plan.tips)} other questions: {', '.join(plan.tips)}")] if plan.tips else []),
        *((f"arm {arm.name}", arm.model_dump_json(exclude={"name"}, exclude_defaults=True)) for arm in plan.arms),
        ("repeats", str(plan.repeats)),
        ("asked again", again),
        ("limits", ", ".join(f"{name} {limit:g}" for name, limit in limits.items()) or "as the settings"),
        ("kept apart", f"no session; {apart}"),
        ("kept from", "pages with answers of benchmarks (`evaluation.benchmarks.pages`)"),
        ("pages and searches", _web(plan)),
        *([("judge", plan.judge)] if plan.judge else []),
        ("package", plan.distribution),
    ]
    note = "Prompts, tools and their versions stand in the manifest of each run: `agentorchestra show RUN --json`."
    return Table("Settings", ("what", "value"), tuple(rows), note)
