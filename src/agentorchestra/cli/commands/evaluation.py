from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentorchestra.cli.driver import AsyncGroup
from agentorchestra.cli.options import COUNT, POSITIVE, WORDS, FilePath, json_option, option, together, workspace_option
from agentorchestra.cli.output import clean, dollars, emit, emit_either, emit_json, one_line, plural, say
from agentorchestra.cli.workspaces import opening, workspace_of_arm
from agentorchestra.core.errors import EvaluationError
from agentorchestra.workspace import DEFAULT_COST_USD, load_settings

if TYPE_CHECKING:
    from agentorchestra.evaluation.plan import Arm, EvalPlan
    from agentorchestra.evaluation.runner import Ending, EvaluationProgress

_MOST_FAULTS = 5  # questions that cannot be asked or scored; the report has all


@click.group(
    "eval",
    cls=AsyncGroup,
    epilog="""\b
Examples:
  agentorchestra eval list
  agentorchestra eval run local --data questions.jsonl --system react
  agentorchestra eval plan local --data questions.jsonl --pilot 5 \\
      --system react --system oagents --budget-usd 20 --name first
  agentorchestra eval suite list
  agentorchestra eval suite 004-table7 --model openai:gpt-4.1 --sample 20 \\
      --budget-usd 50
  agentorchestra eval resume first
  agentorchestra eval score first
  agentorchestra eval report first --html first.html

\b
Exit codes: 0 all was asked, 2 wrong usage, 3 something was left out, refused
or failed, 130 stopped.""",
)
def group() -> None:
    """Ask questions with true answers of several systems, and say what the scores are worth.

    Each (question, arm, repeat) is a run of the workspace. What stops in the middle goes on with `resume`: nothing is
    asked twice.
    """


name_argument = click.argument("name", metavar="NAME", type=WORDS)
at_once_option = option("--at-once", type=COUNT, default=4, metavar="N", help="Runs at the same time.")


_data_option = click.option("--data", metavar="PATH", type=FilePath(), help="The file or folder with the set's data.")


_limit_options = together(
    option("--sample", type=COUNT, metavar="N", help="So many questions, of all groups."),
    option("--seed", type=int, default=0, metavar="S", help="Of the sample and the runs."),
    click.option("--budget-usd", type=POSITIVE, metavar="X", help="What all runs and the judge together may cost."),
    click.option("--question-usd", type=POSITIVE, metavar="X", help="What one run may cost."),
    click.option("--question-s", type=POSITIVE, metavar="S", help="The seconds one run may be at work."),
    option("--judge", metavar="M", default="", help="The model of scorers that ask one."),
    option(
        "--tips",
        type=COUNT,
        metavar="K",
        help="Ask K other questions first, and show what they taught to arms with parts.tips=true.",
    ),
    click.option(
        "--same-web", is_flag=True, help="Give all arms the pages and results of searches that one was given."
    ),
    at_once_option,
)
"""Options that say how many questions are asked and what that may cost, for `run`, `plan` and `suite`."""


_set_options = together(
    click.argument("questions", metavar="SET", type=WORDS),
    _data_option,
    click.option(
        "--choices-seed", type=int, metavar="S", help="Of the order of choices, for gpqa-diamond.  [default: 42]"
    ),
    option("--name", metavar="NAME", default="", help="Of the evaluation.  [default: made up]"),
    option("--system", "systems", metavar="NAME", multiple=True, help="An arm; may be repeated."),
    option(
        "--arm",
        "arms",
        metavar="TEXT",
        multiple=True,
        help="An arm as 'NAME KEY=VALUE ...': system, model, preset, environments (a,b), roles.ROLE (its "
        "model), or a setting such as parts.plan; may be repeated.",
    ),
    option("--model", metavar="M", help="The model of arms that name none."),
    option("--preset", metavar="NAME", help="The preset of arms that name none."),
    option("--repeats", type=COUNT, default=1, metavar="N", help="How often each arm is asked each question."),
    option(
        "--ask-again",
        type=click.IntRange(min=0),
        default=0,
        metavar="N",
        help='How often to ask again where the answer is empty or "Unable to determine".',
    ),
    click.option("--reuse", is_flag=True, help="Ask one by one, and keep generated tools for later questions."),
    _limit_options,
)
"""Options that say what is asked of whom, for `run` and `plan`."""


@group.command("list", short_help="List the sets, and the evaluations of the workspace.")
@workspace_option
def list_sets(folder: Path) -> int:
    """List the sets of questions there are, and the evaluations of the workspace."""
    from agentorchestra.evaluation.plan import evaluations, read
    from agentorchestra.evaluation.questions import SOURCES

    for name, source in SOURCES.items():
        emit(f"{name}  {source.about}")
    for name in evaluations(folder):
        plan = read(folder, name)
        arms = ", ".join(arm.name for arm in plan.arms)
        emit(clean(f"evaluation {name}: {plural(len(plan.ids), 'question')} of {plan.set}; {arms}"))
    return 0


_json_option = json_option("one object with what was asked, refused, left out and missing")


@group.command(short_help="Ask the questions of a set.")
@_set_options
@_json_option
@workspace_option
async def run(at_once: int, as_json: bool, folder: Path, **options: Any) -> int:
    """Ask the questions of SET: each arm, each repeat. The same command again goes on where it stopped."""
    return await _drive(folder, _begin(folder, options, _arms(folder, options)), at_once, as_json=as_json)


@group.command("suite", short_help="Ask the questions behind a published table, of its rows.")
@click.argument("suite_name", metavar="NAME", type=WORDS)
@_data_option
@option("--name", metavar="NAME", default="", help="Of the evaluation.  [default: the suite's]")
@option("--model", metavar="M", help="The model of all arms.  [default: those of the settings]")
@_limit_options
@_json_option
@workspace_option
async def suite_command(suite_name: str, at_once: int, as_json: bool, folder: Path, **options: Any) -> int:
    """Ask the questions behind a published table; `list` for NAME names the suites.

    The arms and the repeats are those of the table. Rows that cannot be run here are named with the reason. `eval
    report` prints the published cells beside ours.
    """
    from agentorchestra.evaluation.suites.suite import suite, suites

    if suite_name == "list":
        summaries = {}
        for entry in suites().values():
            summaries[entry.name] = f"{entry.set}; {', '.join(arm.name for arm in entry.arms)}. {entry.about}"
        emit_either(as_json, summaries, "\n".join(map("  ".join, summaries.items())))
        return 0
    benchmark = suite(suite_name)
    say(f"{benchmark.source}: {benchmark.cells.about}")
    for omission in benchmark.left_out:
        say(f"not here: {', '.join(omission.rows)}: {omission.why}")
    options |= {"questions": benchmark.set, "preset": None, "choices_seed": None}
    options |= {"repeats": benchmark.repeats, "ask_again": benchmark.ask_again}
    options["name"], options["tips"] = options["name"] or benchmark.name, options["tips"] or benchmark.tips
    plan = _begin(folder, options, [row.arm for row in benchmark.arms], suite=benchmark.name)
    return await _drive(folder, plan, at_once, as_json=as_json)


@group.command("plan", short_help="Ask a few questions, and say what the whole will cost and can show.")
@_set_options
@option("--pilot", type=click.IntRange(min=2), default=5, metavar="K", help="Questions asked.")
@option("--difference", type=POSITIVE, default=0.1, metavar="D", help="Of accuracy, to be found.")
@json_option("one object with the cost of the whole")
@workspace_option
async def plan_command(at_once: int, as_json: bool, folder: Path, pilot: int, difference: float, **options: Any) -> int:
    """Begin an evaluation with a pilot; nothing else is asked until `eval resume`.

    The pilot is a sample of the questions, with --reuse the first ones; it counts, and is not asked again. What the
    whole will cost is printed with the interval that holds it in 95 of 100 evaluations.
    """
    from agentorchestra.evaluation.plan import draw

    plan = _begin(folder, options, _arms(folder, options))
    questions = plan.load()
    sample = plan.model_copy(update={"ids": tuple(key for key in plan.ids if key not in questions.faults)})
    count = min(pilot, len(sample.ids))
    # Where later questions reuse what earlier ones made, the first ones come first.
    ids = sample.ids[:count] if plan.reuse else draw([questions.by_id[key] for key in sample.ids], count, plan.seed)

    from agentorchestra.evaluation.results import forecast, power_lines
    from agentorchestra.evaluation.scores import score

    code = await _drive(folder, plan, at_once, ids=ids)
    async with opening(folder) as workspace:
        scores = await score(workspace, plan, questions)
    estimate = forecast(sample, scores)
    whole = "unknown, as a price is" if estimate.usd is None else dollars(estimate.usd)
    between = f" (between {dollars(estimate.low)} and {dollars(estimate.high)})" if estimate.usd is not None else ""
    lines = [f"cost of all {plural(estimate.questions, 'question')}, after {estimate.pilot}: {whole}{between}"]
    if estimate.most_usd is not None:
        most = dollars(estimate.most_usd)
        lines.append(f"the runs' limits allow at most {most}; the budget is {dollars(plan.budget_usd)}")
    pace = f"about {_time(estimate.seconds / at_once)} with {at_once}"
    lines.append(f"time: {_time(estimate.seconds)} one after the other, {pace}")
    lines += power_lines(sample, scores, difference)
    emit_either(as_json, {"evaluation": plan.name, **asdict(estimate)}, "\n".join(lines))
    say(f"go on with: agentorchestra eval resume {plan.name}")
    return code


@group.command(short_help="Go on with an evaluation.")
@name_argument
@click.option("--failed", is_flag=True, help="Try runs again that ended with an error.")
@click.option("--budget-usd", type=POSITIVE, metavar="X", help="Another limit for all runs together, from here on.")
@at_once_option
@_json_option
@workspace_option
async def resume(name: str, failed: bool, budget_usd: float | None, at_once: int, as_json: bool, folder: Path) -> int:
    """Ask what was not answered yet. The data must be those that the evaluation was begun with."""
    from agentorchestra.evaluation.plan import amend, read

    plan = read(folder, name) if budget_usd is None else amend(folder, name, budget_usd)
    return await _drive(folder, plan, at_once, again=failed, as_json=as_json)


@group.command("score", short_help="Score the answers; it can be done again at any time.")
@name_argument
@click.option("--data", metavar="PATH", type=FilePath(), help="Where the set's data are here, from now on.")
@click.option(
    "--budget-usd", type=POSITIVE, metavar="X", help="Another limit for all runs and the judge together, from here on."
)
@option(
    "--verdicts",
    "reports",
    metavar="ARM=FILE",
    multiple=True,
    help="The report of SWE-bench's harness on the changes of an arm; may be repeated.",
)
@at_once_option
@json_option("one object with how many answers have which status")
@workspace_option
async def score_command(
    name: str,
    data: Path | None,
    budget_usd: float | None,
    reports: Sequence[str],
    at_once: int,
    as_json: bool,
    folder: Path,
) -> int:
    """Score the answers there are. A judge is asked once for each of them; the tests of a task run once.

    --data is for an evaluation that was imported, or whose data were moved: they must be those it was begun with.
    """
    from agentorchestra.evaluation.plan import amend, given_data, read
    from agentorchestra.evaluation.scores import score, take_verdicts

    plan = read(folder, name)
    if data is not None:
        plan = given_data(folder, name, data)
    if budget_usd is not None:
        plan = amend(folder, name, budget_usd)

    questions = plan.load()
    async with opening(folder) as workspace:
        for option in reports:
            arm, _, file = option.partition("=")
            say(f"{arm}: {plural(await take_verdicts(workspace, plan, arm, Path(file)), 'verdict')}")
        scores = await score(workspace, plan, questions, at_once=at_once)
    counts: dict[str, int] = {}
    for result in scores:
        counts[result.status] = counts.get(result.status, 0) + 1
    text = ", ".join(f"{number} {status}" for status, number in counts.items())
    emit_either(as_json, {"evaluation": name, "answers": counts}, text)
    gaps = {result.why: result for result in scores if result.score is None and result.status != "not_run"}
    for result in [*gaps.values()][:_MOST_FAULTS]:
        say(clean(f"{result.status}: {result.question} {result.arm}: {result.why}"))
    return 0


@group.command(short_help="Print the results: accuracy with intervals, cost, each question.")
@name_argument
@click.option("--html", "page", metavar="FILE", type=FilePath(), help="Write one HTML file, with a plot, instead.")
@click.option("--latex", metavar="FILE", type=FilePath(), help="Write the tables but that of the questions as LaTeX.")
@workspace_option
async def report(name: str, page: Path | None, latex: Path | None, folder: Path) -> int:
    """Print the results as Markdown. Needs scores: `agentorchestra eval score NAME`."""
    from agentorchestra.evaluation import report as writing
    from agentorchestra.evaluation.plan import read
    from agentorchestra.evaluation.results import PARTINGS, QUESTIONS, report_tables
    from agentorchestra.evaluation.scores import kept_scores

    plan = read(folder, name)
    scores = kept_scores(folder, plan)

    async with opening(folder, app=False) as workspace:
        tables = await report_tables(workspace, plan, scores)
    if page is not None:
        page.write_text(writing.html(plan, tables, writing.figures(plan, scores)), encoding="utf-8")
    if latex is not None:
        short = [table for table in tables if table.title not in (QUESTIONS, PARTINGS, "Settings")]
        latex.write_text("\n".join(map(writing.latex, short)), encoding="utf-8")
    if page is None and latex is None:
        emit(clean(writing.markdown(plan, tables)).rstrip("\n"))
    return 0


@group.command(short_help="Show two arms question by question, and where their runs first differ.")
@name_argument
@click.argument("first", metavar="ARM", type=WORDS)
@click.argument("second", metavar="ARM", type=WORDS)
@workspace_option
async def compare(name: str, first: str, second: str, folder: Path) -> int:
    """Show the difference of two arms with its interval, and each question on which they differ.

    Of two settings of one system, where the runs of the other questions first differ is shown too.
    """
    from agentorchestra.evaluation.plan import read
    from agentorchestra.evaluation.results import by_points, comparison, first_differences, outcome, stop_after
    from agentorchestra.evaluation.scores import kept_scores

    plan = read(folder, name)
    arms = [plan.arm(label) for label in (first, second)]
    one_system = len({(arm.system, arm.model) for arm in arms}) == 1
    scores = kept_scores(folder, plan)
    gain, pairs = comparison(scores, first, second)
    stop = stop_after(plan, scores, first, second)

    emit(f"{first} - {second}: {by_points(gain)} points over {plural(gain.questions, 'question')}, p = {gain.p:.3f}")
    emit(f"better on {gain.better}, worse on {gain.worse}")
    emit(
        f"one may stop after block {stop} of {len(plan.ids)}, by the sequential test"
        if stop
        else f"one may not stop yet, by the sequential test over {plural(len(plan.ids), 'block')}"
    )
    async with opening(folder, app=False) as workspace:
        of = scores if one_system else [side for pair in pairs for side in pair]
        differences = await first_differences(workspace, of, first, second)
        for result, other in pairs:
            emit(clean(f"\n{result.question}, repeat {result.repeat + 1}"))
            for side in (result, other):
                emit(f"  {side.arm}: {outcome(side)}: {one_line(side.answer or side.why)}  {side.run_id}")
            place = differences.get((result.question, result.repeat))
            if place is not None:
                emit(clean(f"  first differ at {place}" if place else "  the runs are equal"))
        keys = {(result.question, result.repeat) for result, _ in pairs}
        for question, repeat in [key for key in differences if key not in keys]:
            place = differences[question, repeat]
            detail = f"first differ at {place}" if place else "the runs are equal"
            emit(clean(f"\n{question}, repeat {repeat + 1}: the same came of it; {detail}"))
    return 0


@group.command(short_help="Write all attempts, GAIA's submission, a log of Inspect, or a bundle.")
@name_argument
@option(
    "--as",
    "form",
    type=click.Choice(["attempts", "gaia", "swe-bench"]),
    default="attempts",
    help="All runs, or one arm's answers as GAIA's leaderboard or SWE-bench's harness takes them.",
)
@option("--arm", metavar="ARM", help="Whose answers.  [default: the only arm]")
@click.option("--out", metavar="FILE", type=FilePath(), help="Where to.  [default: stdout]")
@click.option(
    "--inspect", metavar="FILE.eval", type=FilePath(), help="Write a log of Inspect instead, with the true answers."
)
@click.option(
    "--bundle", metavar="FILE", type=FilePath(), help="Write one file with all runs instead, for `eval import`."
)
@workspace_option
async def export(
    name: str, form: str, arm: str | None, out: Path | None, inspect: Path | None, bundle: Path | None, folder: Path
) -> int:
    """Write lines of JSON: every run with its result and score, or the answers of one arm for others to score.

    With --as swe-bench the command is printed with which the harness scores them. The log of Inspect, for `inspect
    view`, holds the true answers and every agent's requests and calls. The bundle holds the plan, the runs with
    settings, versions and prompts, the scores and the report, without the data of the set; it is not written if the
    value of a known secret would be in it.
    """
    from agentorchestra.evaluation.checks import kept_checks
    from agentorchestra.evaluation.export import attempt_lines, gaia_lines, swe_bench_lines
    from agentorchestra.evaluation.plan import read
    from agentorchestra.evaluation.scores import attempts, has_scores, kept_scores

    plan = read(folder, name)
    if (inspect or bundle) and (form != "attempts" or arm or out or (inspect and bundle)):
        raise EvaluationError("--inspect and --bundle each write a file of their own; give one of them alone")
    if inspect is not None:
        return await _inspect_log(folder, plan, inspect)
    if bundle is not None:
        return await _bundle(folder, plan, bundle)
    if form != "attempts" and arm is None and len(plan.arms) > 1:
        raise EvaluationError(f"{name} has {len(plan.arms)} arms; say whose answers with --arm")
    arm_name = arm or plan.arms[0].name

    async with opening(folder, app=False) as workspace:
        results = await attempts(workspace, plan)
    scores = kept_scores(folder, plan) if has_scores(folder, plan) else []
    if form == "gaia":
        lines = gaia_lines(plan, results, arm_name)
    elif form == "swe-bench":
        lines = swe_bench_lines(plan, results, kept_checks(folder, plan), arm_name)
    else:
        lines = attempt_lines(results, scores)
    text = "".join(f"{line}\n" for line in lines)
    if out is None:
        emit(text.rstrip("\n"))
    else:
        out.write_text(text, encoding="utf-8")
    if form == "swe-bench":
        from agentorchestra.evaluation.benchmarks.swe_bench import command

        say(f"next, where a Docker engine is: {command(out or Path('predictions.jsonl'), name)}")
        say(f"then: agentorchestra eval score {name} --verdicts {arm_name}={name}-{arm_name}.{name}.json")
    return 0


async def _inspect_log(folder: Path, plan: EvalPlan, path: Path) -> int:
    from agentorchestra.evaluation.benchmarks.data import need
    from agentorchestra.evaluation.scores import kept_scores

    need("inspect_ai.log")
    from agentorchestra.evaluation.inspect_log import checked_path, inspect_log, write_log

    checked_path(path)
    scores = kept_scores(folder, plan)

    async with opening(folder, app=False) as workspace:
        log = await inspect_log(workspace, plan, plan.load(), scores)
    await asyncio.to_thread(write_log, log, path)  # Inspect has a loop of its own
    emit(str(path))
    say("it holds the true answers: keep it from the agents that are asked, and from where crawlers find it")
    return 0


async def _bundle(folder: Path, plan: EvalPlan, path: Path) -> int:
    from agentorchestra.evaluation.bundle import write_bundle

    async with opening(folder, app=False) as workspace:
        runs = await write_bundle(workspace, plan, path)
    emit(str(path))
    say(f"{plan.name}: {plural(runs, 'run')}")
    return 0


@group.command("import", short_help="Take an evaluation of a bundle into the workspace.")
@click.argument("file", metavar="FILE", type=FilePath())
@click.option("--data", metavar="PATH", type=FilePath(), help="Where the set's data are here, to score again.")
@json_option("one object with the evaluation and its runs")
@workspace_option
async def import_(file: Path, data: Path | None, as_json: bool, folder: Path) -> int:
    """Take the evaluation that `eval export --bundle` wrote into this workspace, with its runs.

    Then `eval report` and `eval compare` work as they did there; `eval score` needs the data of the set. The same
    command again adds nothing, but --data.
    """
    from agentorchestra.evaluation.bundle import read_bundle

    async with opening(folder, app=False) as workspace:
        plan, runs = await read_bundle(workspace, file, data)
    emit_either(as_json, {"evaluation": plan.name, "runs": runs}, f"evaluation {plan.name}: {plural(runs, 'run')}")
    say(f"next: agentorchestra eval report {plan.name}")
    return 0


def _begin(folder: Path, options: dict[str, Any], arms: Sequence[Arm], suite: str = "") -> EvalPlan:
    from agentorchestra.evaluation.plan import SAME_WEB, keep, make_plan
    from agentorchestra.evaluation.questions import load_set

    data: Path | None = options["data"]
    settings = load_settings(folder)
    common = {"model": options["model"], "preset": options["preset"]}
    arms = [arm.model_copy(update={k: v for k, v in common.items() if getattr(arm, k) is None}) for arm in arms]
    if options["same_web"]:
        arms = [arm.model_copy(update={"settings": {**SAME_WEB, **arm.settings}}) for arm in arms]
    if options.get("reuse"):
        arms = [arm.model_copy(update={"reuse": True}) for arm in arms]
    question_usd = options["question_usd"]
    if options["budget_usd"] is not None and question_usd is None:
        question_usd = settings.budget.cost_usd or DEFAULT_COST_USD
    plan = make_plan(
        load_set(options["questions"], data, options["choices_seed"]),
        arms,
        source=options["questions"],
        data="" if data is None else str(data.absolute()),
        choices_seed=options["choices_seed"],
        question_usd=question_usd,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        distribution=metadata.version("agentorchestra"),
        **{key: options[key] for key in ("name", "sample", "seed", "repeats", "ask_again", "budget_usd", "question_s")},
        judge=options["judge"],
        tips=options["tips"] or 0,
        suite=suite,
    )
    return keep(folder, plan)


def _arms(folder: Path, options: dict[str, Any]) -> list[Arm]:
    """Return the arms that the options say; without one the system of the settings."""
    texts = [*(f"{name} system={name}" for name in options["systems"]), *options["arms"]]
    if not texts:
        system = load_settings(folder).system
        texts = [f"{system} system={system}"]
    return [_arm(text) for text in texts]


def _arm(text: str) -> Arm:
    from agentorchestra.evaluation.plan import Arm

    try:
        name, *pairs = shlex.split(text)
    except ValueError:
        raise EvaluationError(f"the arm {text!r} is not of the form 'NAME KEY=VALUE ...'") from None
    fields: dict[str, Any] = {"name": name}
    settings: dict[str, Any] = {}
    roles: dict[str, str] = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not sign or not key:
            raise EvaluationError(f"{pair!r} of the arm {name} is not of the form KEY=VALUE")
        if key in ("system", "model", "preset"):
            fields[key] = value
        elif key == "environments":
            fields[key] = tuple(value.split(","))
        elif key.startswith("roles.") and key.count(".") == 1:
            roles[key.removeprefix("roles.")] = value
        else:
            try:
                settings[key] = json.loads(value)
            except ValueError:
                settings[key] = value
    return Arm(**fields, roles=roles, settings=settings)


async def _drive(
    folder: Path,
    plan: EvalPlan,
    at_once: int,
    *,
    ids: Sequence[str] | None = None,
    again: bool = False,
    as_json: bool = False,
) -> int:
    from agentorchestra.evaluation.runner import Runner

    failed = 0

    def tell(state: EvaluationProgress) -> None:
        nonlocal failed
        failed = state.failed
        say(clean(_line(state)))

    say(f"evaluation {plan.name}: {plural(len(plan.ids), 'question')}, {plural(len(plan.arms), 'arm')}")
    if plan.tips:
        say(clean(f"tips from {plural(len(plan.tips), 'other question')}: {', '.join(plan.tips)}"))
    questions = plan.load()
    missing = {key: reason for key, reason in questions.faults.items() if key in plan.ids}
    for key in [*missing][:_MOST_FAULTS]:
        say(clean(f"missing: {key}: {missing[key]}"))
    if missing:
        say(f"{plural(len(missing), 'question')} of {len(plan.ids)} cannot be asked; the report names them")
    runner = Runner(folder, plan, questions, workspaces=workspace_of_arm, at_once=at_once, progress=tell, again=again)
    ending = await runner.run(ids)
    for line in _left(plan, ending):
        say(clean(line))
    if as_json:
        refusals = {f"{question} {arm}": reason for (question, arm), reason in ending.refusals.items()}
        extras = {"left_out": [*ending.left_out], "missing": dict(ending.missing), "refused": refusals}
        emit_json({"evaluation": plan.name, "asked": ending.runs, "failed": failed, **extras})
    if ids is None:
        say(f"next: agentorchestra eval score {plan.name}; agentorchestra eval report {plan.name}")
    return 3 if ending.left_out or ending.refusals or ending.missing or failed else 0


def _line(state: EvaluationProgress) -> str:
    money = dollars(state.spent_usd) + (f", {dollars(state.left_usd)} left" if state.left_usd is not None else "")
    left = "" if state.left_s is None else f", about {_time(state.left_s)} to go"
    return f"{state.done}/{state.total}  {state.last}  ({money}{left})"


def _time(seconds: float) -> str:
    if seconds < 6000:
        return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _left(plan: EvalPlan, ending: Ending) -> list[str]:
    lines = [f"refused: {question} {arm}: {reason}" for (question, arm), reason in ending.refusals.items()]
    if ending.left_out:
        lines.append(
            f"not asked: {plural(len(ending.left_out), 'question')}, as the budget of {dollars(plan.budget_usd)} "
            f"has no room for another one; `agentorchestra eval resume {plan.name} --budget-usd X` goes on"
        )
    return lines
