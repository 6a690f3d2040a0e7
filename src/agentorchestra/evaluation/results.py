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
from agentorchestra.evaluation.plan import SAME_WEB, Plan, run_usd
from agentorchestra.evaluation.scores import Score, judged_usd, total
from agentorchestra.evaluation.statistics import (
    Difference,
    Estimate,
    difference,
    independent_spread,
    majority,
    mean,
    need_statistics,
    paired,
    pass_at_k,
    power_of,
    sample_size,
    sequential,
    spread_of,
)
from agentorchestra.evaluation.suites.suite import suite
from agentorchestra.workspace import Workspace

OUTCOMES = ("right", "partly", "wrong", "unanswered", "error", "out of limits", "left out", "undecided", "not run")
COUNTED = OUTCOMES[:6]  # outcomes that are in the denominator; what got no answer counts as 0

SPENT = "Cost, tokens, time, steps"
QUESTIONS = "Questions"
PARTED = "Where runs first differ"
ATTEMPTS = "Agents asked for a solved question"
_FEW = 5

STOPS_AT = 0.05  # the p-value of the sequential test at which one may stop


@dataclass(frozen=True)
class Table:
    """A table of a report; the first column names the row."""

    title: str  # above it
    head: tuple[str, ...]  # of the columns
    rows: tuple[tuple[str, ...], ...]  # as text, each as long as the head
    note: str = ""  # a sentence or several under it


@dataclass(frozen=True)
class Point:
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
    """Return the scores of an arm by question, for the functions of `statistics`: all that `COUNTED` says."""
    found: dict[str, list[float]] = {}
    for one in scores:
        if one.arm == arm and one.score is not None and outcome(one) in COUNTED:
            found.setdefault(one.question, []).append(one.score)
    return found


def tables(plan: Plan, scores: Sequence[Score], judge_usd: float | None = 0.0) -> list[Table]:
    """Return all tables of a report.

    Args:
        scores: all of it.
        judge_usd: what the judge cost.

    Raises:
        EvaluationError: nothing was answered yet.
    """
    need_statistics()
    if not any(outcome(one) in COUNTED for one in scores):
        why = next((one.why for one in scores if one.why), "not asked")
        raise EvaluationError(
            f"no answer of {plan.name} has a score ({why}); `agentorchestra eval resume {plan.name}` goes on, `eval "
            f"export {plan.name}` writes the answers there are"
        )
    found = [_accuracy(plan, scores)]
    if plan.suite:
        found.append(_beside(plan, scores))
    found += [_outcomes(plan, scores), _spent(plan, scores, judge_usd)]
    if any(one.delegations for one in scores):
        found.append(_asked(plan, scores))
    if plan.repeats > 1:
        found.append(_repeats(plan, scores))
    if plan.reuse:
        found.append(_reuse(plan, scores))
    if len(plan.arms) > 1:
        found.append(_pairs(plan, scores))
    return [*found, _questions(plan, scores), _settings(plan)]


async def report_tables(workspace: Workspace[Any], plan: Plan, scores: Sequence[Score]) -> list[Table]:
    """Return all tables of a report, with what only the logs of the runs say.

    Args:
        workspace: open; it has the runs.
        plan, scores: as for `tables`.

    Raises:
        EvaluationError: nothing was answered yet.
    """
    found = tables(plan, scores, await judged_usd(workspace, plan))
    if pairs := settings_of_one_system(plan):
        place = next(number for number, one in enumerate(found) if one.title == QUESTIONS)
        found.insert(place, await _first_differences(workspace, plan, scores, pairs))
    return found


def settings_of_one_system(plan: Plan) -> list[tuple[str, str]]:
    """Return pairs of arms that are one system and model with other settings: the first such arm and each other."""
    first: dict[tuple[str | None, str | None], str] = {}
    pairs = [(first.setdefault((arm.system, arm.model), arm.name), arm.name) for arm in plan.arms]
    return [(one, other) for one, other in pairs if one != other]


async def first_differences(
    workspace: Workspace[Any], scores: Sequence[Score], first: str, second: str
) -> dict[tuple[str, int], str]:
    """Return where the runs of two arms first differ, "" for equal ones, by question and repeat; where both ran."""
    runs = {(one.question, one.repeat): one.run_id for one in scores if one.arm == second and one.run_id}
    found = {}
    for one in scores:
        place = (one.question, one.repeat)
        if one.arm == first and one.run_id and place in runs:
            parted = (await workspace.log.compare(one.run_id, runs[place])).difference
            found[place] = f"{parted.key}: {parted.what}" if parted else ""
    return found


async def _first_differences(
    workspace: Workspace[Any], plan: Plan, scores: Sequence[Score], pairs: Sequence[tuple[str, str]]
) -> Table:
    found = [await first_differences(workspace, scores, *pair) for pair in pairs]
    rows = []
    for each in plan.ids:
        cells = ["; ".join(one.get((each, repeat), "-") or "equal" for repeat in range(plan.repeats)) for one in found]
        rows.append((each, *cells))
    note = (
        "Settings of one system: the first effect of the two runs that is not the same, by its place in the tree of "
        "agents; one for each repeat."
    )
    return Table(PARTED, ("id", *(f"{one} and {other}" for one, other in pairs)), tuple(rows), note)


def points(plan: Plan, scores: Sequence[Score]) -> list[Point]:
    """Return each arm's dollars for a question and accuracy, where both are known."""
    found = []
    for arm in plan.arms:
        each, usd = values(scores, arm.name), total(one.cost_usd for one in scores if one.arm == arm.name)
        if each and usd is not None:
            accuracy = mean(each)
            found.append(Point(arm.name, usd / sum(map(len, each.values())), accuracy.value, accuracy))
    return found


def published_points(plan: Plan) -> list[Point]:
    """Return the rows of the published table that a plan is of, where it has dollars and accuracy (002, fig. 4)."""
    one = suite(plan.suite) if plan.suite else None
    if one is None or not {"all", "cost"} <= {*one.columns}:
        return []
    cells, found = one.cells, []
    for name, row in cells.rows.items():
        by_column = dict(zip(cells.columns, row, strict=True))
        right, cost = by_column[one.columns["all"]], by_column[one.columns["cost"]]
        if right is not None and cost is not None:
            found.append(Point(name, cost, right / cells.whole))
    return found


def tokens(plan: Plan, scores: Sequence[Score]) -> dict[str, list[int]]:
    """Return the tokens of each arm's answers, growing, repeats included; arms without any are left out."""
    found = {arm.name: sorted(one.tokens for one in scores if one.arm == arm.name and one.run_id) for arm in plan.arms}
    return {name: each for name, each in found.items() if each}


def frontier(found: Sequence[Point]) -> set[str]:
    """Return the arms that no other one beats in accuracy without costing more (002, sec. 4.3)."""
    return {
        one.name
        for one in found
        if not any(
            other.usd <= one.usd and other.share >= one.share and (other.usd, other.share) != (one.usd, one.share)
            for other in found
        )
    }


def compared(scores: Sequence[Score], first: str, second: str) -> tuple[Difference, list[tuple[Score, Score]]]:
    """Return how much better the first arm did, and where they differ; EvaluationError if no question is common."""
    need_statistics()
    gain = difference(values(scores, first), values(scores, second))
    by_place = {(one.question, one.repeat): one for one in scores if one.arm == second}
    both = [(one, by_place[one.question, one.repeat]) for one in scores if one.arm == first]
    return gain, [pair for pair in both if outcome(pair[0]) != outcome(pair[1])]


def stop_after(plan: Plan, scores: Sequence[Score], first: str, second: str) -> int | None:
    """Return the first block after which the sequential test tells two arms apart, None where it does not.

    One may look after each block, and claims a difference that is not there in at most 5 of 100 evaluations, however
    long they go on (`statistics.sequential`). Blocks are in the order of the plan, and count from 1; one that an arm
    has no score for is passed over.

    Raises:
        EvaluationError: the arms answered no question in common.
    """
    pairs = paired(values(scores, first), values(scores, second))
    blocks = [number for number, each in enumerate(plan.ids, start=1) if each in pairs]
    found = zip(blocks, sequential(pairs[plan.ids[number - 1]] for number in blocks), strict=True)
    return next((number for number, p in found if p <= STOPS_AT), None)


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


def forecast(plan: Plan, scores: Sequence[Score]) -> Forecast:
    """Return the whole cost by the pilot's mean, with its prediction interval; EvaluationError below two questions."""
    need_statistics()
    from scipy.stats import t  # type: ignore[import-untyped]

    asked: dict[str, list[Score]] = {}
    for one in scores:
        if one.run_id:
            asked.setdefault(one.question, []).append(one)
    n, rest = len(asked), len(plan.ids) - len(asked)
    if n < 2:
        raise EvaluationError(f"a forecast needs a pilot of at least 2 questions, and {n} were asked; give --pilot 2")
    most = run_usd(plan) * len(plan.arms) * plan.repeats * len(plan.ids) if plan.budget_usd is not None else None
    seconds = fmean(sum(one.duration_s for one in each) for each in asked.values()) * len(plan.ids)
    costs = [total(one.cost_usd for one in each) for each in asked.values()]
    known = [one for one in costs if one is not None]
    if len(known) < n:
        return Forecast(n, len(plan.ids), None, None, None, most, seconds)
    spent, middle = sum(known), fmean(known)
    reach = float(t.ppf(0.975, n - 1)) * stdev(known) * sqrt(rest + rest * rest / n)
    whole = spent + middle * rest
    return Forecast(n, len(plan.ids), whole, max(spent, whole - reach), whole + reach, most, seconds)


def power_lines(plan: Plan, scores: Sequence[Score], gain: float) -> list[str]:
    """Return sentences on what the number of questions can show.

    Args:
        gain: the difference of accuracy that is to be found, as a share.
    """
    each = [values(scores, arm.name) for arm in plan.arms]
    if len(each) > 1 and {*each[0]} & {*each[1]}:
        spread, how = spread_of(each[0], each[1]), f"{plan.arms[0].name} and {plan.arms[1].name} in the pilot"
    else:
        share = mean(each[0]).value if each[0] else 0.5
        spread, how = independent_spread(share, min(1.0, share + gain)), "two systems that err independently"
    power = power_of(len(plan.ids), gain, spread, repeats=plan.repeats)
    needed = sample_size(gain, spread, repeats=plan.repeats)
    return [
        f"a difference of {100 * gain:g} points is found with {len(plan.ids)} questions in {100 * power:.0f} of 100 "
        f"evaluations, by the spread of {how}",
        f"80 of 100 need {needed} questions",
    ]


# --- tables ---------------------------------------------------------------------------------------------


def share(one: Estimate) -> str:
    """Return a share with its interval and denominator, in percent."""
    return f"{100 * one.value:.1f} [{100 * one.low:.1f}, {100 * one.high:.1f}] of {one.questions}"


def by_points(gain: Difference) -> str:
    """Return a difference with its interval, in points."""
    return f"{100 * gain.value:+.1f} [{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]"


def usd(cost: float | None) -> str:
    return "unknown" if cost is None else f"${cost:.4f}" if cost < 1 else f"${cost:,.2f}"


def _accuracy(plan: Plan, scores: Sequence[Score]) -> Table:
    groups = sorted({one.group for one in scores if one.group})
    rows = []
    for arm in plan.arms:
        cells = []
        for group in ("", *groups):
            each = values([one for one in scores if group in ("", one.group)], arm.name)
            cells.append(share(mean(each)) if each else "-")
        rows.append((arm.name, *cells))
    note = (
        "Percent, with the 95% interval (clustered by question) and the number of questions. What was not answered, "
        "ended in an error or ran out of its limits counts as 0; what was undecided or not run is not counted."
    )
    if out := sorted({one.question for one in scores if outcome(one) == "left out"}):
        note += f" Left out, as they cannot be asked or have no public answer: {', '.join(out)}."
    return Table("Accuracy", ("arm", "all", *groups), tuple(rows), note)


def _beside(plan: Plan, scores: Sequence[Score]) -> Table:
    one = suite(plan.suite)
    published, rows = one.cells, []
    for arm in plan.arms:
        rows.append((arm.name, "here", *(_ours(plan, scores, arm.name, column) for column in one.columns)))
        for name in one.rows(arm.name):
            cells = dict(zip(published.columns, published.rows[name], strict=True))
            said = [cells[column] for column in one.columns.values()]
            percent = 100 / published.whole  # shares as percent, as ours are
            rows.append((arm.name, name, *("-" if cell is None else f"{cell * percent:.4g}" for cell in said)))
    note = f"{one.source}: {published.about}. {one.about}" + "".join(
        f" Not here: {', '.join(each.rows)}: {each.why}." for each in one.left_out
    )
    return Table("Beside the paper", ("arm", "row", *one.columns), tuple(rows), note)


def _ours(plan: Plan, scores: Sequence[Score], arm: str, column: str) -> str:
    """Return what stands beside a published column, see `Suite.columns`."""
    whole_set = column in ("all", "cost", "gain", "reuse") or column.startswith(("pass@", "agents>"))
    mine = [one for one in scores if one.arm == arm and (whole_set or one.group == column)]
    each = values(mine, arm)
    if not each:
        return "-"
    if column == "cost":
        cost = total(one.cost_usd for one in mine if one.run_id)
        return usd(None if cost is None else cost / sum(bool(one.run_id) for one in mine))
    if column == "reuse":
        made, again = reused(mine, arm)
        return f"{100 * len(again) / len(made):.1f} of {len(made)} tools" if made else "-"
    if column == "gain":
        first = values(scores, plan.arms[0].name)
        return "-" if arm == plan.arms[0].name or not {*each} & {*first} else by_points(difference(each, first))
    if column.startswith("agents>"):
        few = int(column.removeprefix("agents>"))
        later = [one.model_copy(update={"score": float(one.score == 1 and one.delegations > few)}) for one in mine]
        return share(mean(values(later, arm)))
    if column.startswith("pass@"):
        k = int(column.removeprefix("pass@"))
        whole = {name: found for name, found in each.items() if len(found) >= k}
        return share(pass_at_k(whole, k)) if whole else "-"
    return share(mean(each))


def _outcomes(plan: Plan, scores: Sequence[Score]) -> Table:
    counts = {arm.name: Counter(outcome(one) for one in scores if one.arm == arm.name) for arm in plan.arms}
    rows = tuple(
        (name, *(str(found[one]) for one in OUTCOMES), str(sum(found[one] for one in COUNTED)), str(found.total()))
        for name, found in counts.items()
    )
    return Table("What came of it", ("arm", *OUTCOMES, "counted", "all"), rows, "Numbers of answers, repeats included.")


def _spent(plan: Plan, scores: Sequence[Score], judge_usd: float | None) -> Table:
    rows = []
    for arm in plan.arms:
        ran = [one for one in scores if one.arm == arm.name and one.run_id]
        if not ran:
            rows.append((arm.name, *["-"] * 8))
            continue
        cost, right = total(one.cost_usd for one in ran), sum(one.score or 0 for one in ran)
        rows.append(
            (
                arm.name,
                usd(cost),
                usd(None if cost is None else cost / len(ran)),
                "-" if not right else usd(None if cost is None else cost / right),
                *(f"{one:,.0f}" for one in _spread([one.tokens for one in ran])),
                " / ".join(f"{one:,.1f}" for one in _spread([one.duration_s for one in ran])),
                " / ".join(f"{one:,.0f}" for one in _spread([one.steps for one in ran])),
            )
        )
    head = (
        *("arm", "cost", "per answer", "per right one"),
        *("tokens, median", "9 in 10 below", "most"),
        *("seconds", "steps"),
    )
    note = "Seconds and steps: median / 9 in 10 below / most. Cost has what may have been paid without an answer."
    if plan.judge:
        note += f" The judge {plan.judge} cost {usd(judge_usd)} besides."
    for arm in plan.arms:
        by_model: dict[str, list[float | None]] = {}
        for one in scores:
            for model, cost in one.usd_by_model.items() if one.arm == arm.name else ():
                by_model.setdefault(model, []).append(cost)
        if len(by_model) > 1:
            each = ", ".join(f"{model} {usd(total(costs))}" for model, costs in by_model.items())
            note += f" {arm.name} by model: {each}."
    return Table(SPENT, head, tuple(rows), note)


def _spread(found: Sequence[float]) -> tuple[float, float, float]:
    """Return median, ninth decile and greatest."""
    if len(found) == 1:
        return found[0], found[0], found[0]
    tenths = quantiles(found, n=10, method="inclusive")
    return tenths[4], tenths[8], max(found)


def solved_after(scores: Iterable[Score], arm: str) -> Counter[int]:
    """Return how many right answers of an arm came after how many agents that its top agent asked."""
    return Counter(one.delegations for one in scores if one.arm == arm and one.score == 1)


def _asked(plan: Plan, scores: Sequence[Score]) -> Table:
    """Return the attempts per solved question (002, app. C.1)."""
    rows = []
    for arm in plan.arms:
        found = solved_after(scores, arm.name)
        cells = [*(found[number] for number in range(_FEW + 1)), sum(n for one, n in found.items() if one > _FEW)]
        middle, _, most = _spread([*found.elements()]) if found else (0, 0, 0)
        rows.append((arm.name, str(found.total()), *map(str, cells), f"{middle:g}", f"{most:g}"))
    head = ("arm", "solved", *map(str, range(_FEW + 1)), f"more than {_FEW}", "median", "most")
    note = "Right answers by how many agents the top agent asked for them, one that it asked twice counted twice."
    return Table(ATTEMPTS, head, tuple(rows), note)


def reused(scores: Sequence[Score], arm: str) -> tuple[set[str], set[str]]:
    """Return the tools that the questions of an arm made, and those of them that a later question called."""
    mine = [one for one in scores if one.arm == arm]
    made = {name for one in mine for name in one.made}
    return made, made & {name for one in mine for name in one.reused}


def _reuse(plan: Plan, scores: Sequence[Score]) -> Table:
    """Return how many generated tools were of use to later questions (000, sec. 5.2)."""
    rows = []
    for arm in plan.arms:
        mine = [one for one in scores if one.arm == arm.name]
        made, again = reused(scores, arm.name)
        rate = f"{100 * len(again) / len(made):.1f}" if made else "-"
        counts = (
            len(made),
            len(again),
            rate,
            sum(bool(one.reused) for one in mine),
            sum(bool(one.found) for one in mine),
        )
        rows.append((arm.name, *map(str, counts)))
    head = ("arm", "tools made", "reused", "percent", "questions that reused", "found by the generator")
    note = (
        "A tool is reused if a later question called it. The questions were asked one after another, in the order in "
        "which they stand below; what one of them made, the later ones had. Found: the generator found a tool that "
        "fits in place of making one."
    )
    return Table("Reuse", head, tuple(rows), note)


def _repeats(plan: Plan, scores: Sequence[Score]) -> Table:
    head = ("arm", *(f"pass@{k}" for k in range(1, plan.repeats + 1)), f"maj@{plan.repeats}")
    rows = []
    for arm in plan.arms:
        each = values(scores, arm.name)
        whole = {one: found for one, found in each.items() if len(found) == plan.repeats}
        if not whole:
            rows.append((arm.name, *["-"] * (plan.repeats + 1)))
            continue
        votes: dict[str, list[tuple[str, bool]]] = {one: [] for one in whole}
        for one in scores:
            if one.arm == arm.name and one.question in whole:
                votes[one.question].append((plain(one.answer), one.score == 1))
        tries = [pass_at_k(whole, k) for k in range(1, plan.repeats + 1)]
        rows.append((arm.name, *map(share, [*tries, majority(votes)])))
    note = "pass: one of k tries is right. maj: the most frequent answer is. Over questions with all their repeats."
    return Table("Repeats", head, tuple(rows), note)


def _pairs(plan: Plan, scores: Sequence[Score]) -> Table:
    rows = []
    for first, second in combinations([arm.name for arm in plan.arms], 2):
        one, other = values(scores, first), values(scores, second)
        if not {*one} & {*other}:
            continue
        gain = difference(one, other)
        counts = (str(one) for one in (gain.better, gain.worse, gain.questions))
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


def _questions(plan: Plan, scores: Sequence[Score]) -> Table:
    rows = []
    for each in plan.ids:
        mine = [one for one in scores if one.question == each]
        cells = []
        for arm in plan.arms:
            said = [(outcome(one), _short(one.answer or one.why), one.run_id) for one in mine if one.arm == arm.name]
            cells.append("; ".join(f"{what}: {words}" + (f" ({run})" if run else "") for what, words, run in said))
        rows.append((each, mine[0].group if mine else "", *cells))
    return Table(QUESTIONS, ("id", "group", *(arm.name for arm in plan.arms)), tuple(rows), "With the run of each.")


def _short(text: str, most: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 3] + "..."


def _web(plan: Plan) -> str:
    """Say whether all arms are given the pages and results that one was given."""
    if all(SAME_WEB.items() <= arm.settings.items() for arm in plan.arms):
        return "the same for all arms: what one was given is given to the others"
    return "as the settings of each arm say (web.cache_s, search.cache_s)"


def _settings(plan: Plan) -> Table:
    again = f"up to {plan.ask_again} times, where there was no answer" if plan.ask_again else "no question"
    limits = plan.model_dump(include={"budget_usd", "question_usd", "question_s"}, exclude_none=True)
    chosen = "all" if plan.sample is None else f"{plan.sample} drawn with seed {plan.seed}, spread over the groups"
    rows = [
        ("evaluation", f"{plan.name}, begun {plan.created}" if plan.created else plan.name),
        *([("suite", plan.suite)] if plan.suite else []),
        ("set", f"{plan.set}, version {plan.version}"),
        ("questions", f"{len(plan.ids)} ({chosen}): {', '.join(plan.ids)}"),
        *([("tips from", f"{len(plan.tips)} other questions: {', '.join(plan.tips)}")] if plan.tips else []),
        *((f"arm {arm.name}", arm.model_dump_json(exclude={"name"}, exclude_defaults=True)) for arm in plan.arms),
        ("repeats", str(plan.repeats)),
        ("asked again", again),
        ("limits", ", ".join(f"{name} {one:g}" for name, one in limits.items()) or "as the settings"),
        ("kept apart", "no session; " + ", ".join(f"{name} = {one}" for name, one in plan.arms[0].kept_apart.items())),
        ("kept from", "pages with answers of benchmarks (`evaluation.benchmarks.pages`)"),
        ("pages and searches", _web(plan)),
        *([("judge", plan.judge)] if plan.judge else []),
        ("package", plan.distribution),
    ]
    note = "Prompts, tools and their versions stand in the manifest of each run: `agentorchestra show RUN --json`."
    return Table("Settings", ("what", "value"), tuple(rows), note)
