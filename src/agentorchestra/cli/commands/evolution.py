"""`agentorchestra evolve`: components improve from what runs show, and are promoted on evidence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentorchestra.cli.commands.evolution_export import export
from agentorchestra.cli.commands.evolution_frontier import frontier
from agentorchestra.cli.commands.evolution_tips import judge, tips
from agentorchestra.cli.driver import AsyncGroup
from agentorchestra.cli.options import COUNT, POSITIVE, WORDS, FilePath, json_option, option, together, workspace_option
from agentorchestra.cli.output import clean, dollars, emit, emit_either, plural, say
from agentorchestra.cli.workspaces import opening, workspace_of_arm
from agentorchestra.core.errors import EvolutionError
from agentorchestra.workspace import DEFAULT_COST_USD, load_settings

if TYPE_CHECKING:
    from agentorchestra.evolution.record import Evolution, EvolutionRound


@click.group(
    "evolve",
    cls=AsyncGroup,
    epilog="""\b
Examples:
  agentorchestra evolve run local --data questions.jsonl \\
      --on tool:price_of --optimiser reflection --name prices
  agentorchestra evolve status prices
  agentorchestra evolve history tool:price_of
  agentorchestra evolve diff tool:price_of@1.0.1
  agentorchestra evolve promote tool:price_of@1.0.1
  agentorchestra evolve rollback tool:price_of --reason "wrong for bulk"
  agentorchestra evolve frontier local --data questions.jsonl --name route
  agentorchestra evolve tips --evaluation first --model openai:gpt-5
  agentorchestra evolve export data --system aorchestra

\b
Exit codes: 0 all rounds were carried out, 2 wrong usage or no room in the
budget, 130 stopped.""",
)
def group() -> None:
    """Improve prompts, tools and other components from what their runs show.

    Training questions show what goes wrong, an optimiser proposes other texts, and a gate compares the candidate with
    the current version on questions held apart. What stops in the middle goes on with the same command.
    """


_SUBJECT = click.argument("subject", metavar="KIND:NAME", type=WORDS)
_VERSION = click.argument("subject", metavar="KIND:NAME@VERSION", type=WORDS)
_REASON = option("--reason", metavar="TEXT", default="", help="Why; it stands in the history.")


_run_options = together(
    click.argument("questions", metavar="SET", type=WORDS),
    click.option("--data", metavar="PATH", type=FilePath(), help="The file or folder with the set's data."),
    option("--on", "subjects", metavar="KIND:NAME", multiple=True, required=True, help="What may change."),
    option(
        "--variable",
        "variables",
        metavar="PLACE",
        multiple=True,
        help="Only this part of it, as prompt:react/template; may be repeated.",
    ),
    option(
        "--optimiser", type=click.Choice(["textgrad", "reflection", "gepa"]), default="textgrad", help="Who proposes."
    ),
    option("--name", metavar="NAME", required=True, help="Of the evolution."),
    option("--rounds", type=COUNT, default=3, metavar="N", help="Proposals at most."),
    option("--batch", type=COUNT, default=8, metavar="N", help="Questions of a round."),
    option("--validate-set", metavar="SET", help="Another set for the gate."),
    click.option("--validate-data", metavar="PATH", type=FilePath(), help="Its data."),
    option(
        "--held-apart",
        type=POSITIVE,
        default=0.6,
        metavar="SHARE",
        help="Of the questions, for the gate, where no other set is named.",
    ),
    option("--repeats", type=COUNT, default=1, metavar="N", help="Of the gate."),
    option(
        "--promote",
        type=click.Choice(["gate", "auto", "ask"]),
        default="gate",
        help="The gate decides; what does better on its training questions is taken (000, sec. 3.4); or a person "
        "decides about what passes the gate.",
    ),
    option("--level", type=POSITIVE, default=0.05, metavar="P", help="Of the gate."),
    option("--gain", type=float, default=0.0, metavar="G", help="The least that counts."),
    option("--cost-ratio", type=POSITIVE, default=1.5, metavar="X", help="The most it may cost."),
    option(
        "--canary",
        type=POSITIVE,
        default=1.0,
        metavar="SHARE",
        help="Of the live runs, for what is promoted; 1 for all of them.",
    ),
    option("--system", metavar="NAME", help="That answers.  [default: that of the settings]"),
    option("--model", metavar="M", help="That answers."),
    option("--optimiser-model", metavar="M", help="That proposes.  [default: the same]"),
    click.option("--budget-usd", type=POSITIVE, metavar="X", help="What everything together may cost."),
    click.option("--question-usd", type=POSITIVE, metavar="X", help="What one run may cost."),
    option("--seed", type=int, default=0, metavar="S", help="Of samples and runs."),
    option("--at-once", type=COUNT, default=4, metavar="N", help="Runs at the same time."),
)
"""Options that say what may change, from which questions, on which terms."""


@group.command(short_help="Carry out an evolution, or go on with it.")
@_run_options
@json_option("one object with the rounds")
@workspace_option
async def run(folder: Path, at_once: int, as_json: bool, **options: Any) -> int:
    """Ask questions of SET, propose, compare, promote; the same command again goes on where it stopped."""
    from agentorchestra.evaluation.statistics import independent_spread
    from agentorchestra.evolution.evolver import Evolver
    from agentorchestra.evolution.gate import power
    from agentorchestra.evolution.optimisers import optimiser
    from agentorchestra.evolution.record import keep

    evolution = keep(folder, _begin(folder, options))
    count = len(evolution.validation.ids)
    say(f"evolution {evolution.name}: {len(evolution.training.ids)} training questions, {count} held apart")
    if evolution.promote != "auto":
        for gain in (0.1, 0.2):
            share = power(count, gain, independent_spread(0.5, 0.5 + gain), evolution.terms, repeats=evolution.repeats)
            say(f"the gate lets a gain of {100 * gain:.0f} points through in {100 * share:.0f} of 100 cases")

    evolver = Evolver(
        folder, evolution, optimiser(evolution.optimiser), workspaces=workspace_of_arm, at_once=at_once, tell=say
    )
    done = await evolver.run()
    about = {"evolution": evolution.name, "rounds": [entry.model_dump(mode="json") for entry in done]}
    emit_either(as_json, about, "\n".join(map(_line, done)))
    return 0


def _begin(folder: Path, options: dict[str, Any]) -> Evolution:
    from agentorchestra.evaluation.questions import load_set
    from agentorchestra.evolution.gate import GateTerms
    from agentorchestra.evolution.record import new_evolution

    def questions(name: str, data: Path | None) -> tuple[str, str, Any]:
        return name, "" if data is None else str(data.absolute()), load_set(name, data)

    apart = options["validate_set"] or (options["questions"] if options["validate_data"] else None)
    question_usd = options["question_usd"]
    if options["budget_usd"] is not None and question_usd is None:
        question_usd = load_settings(folder).budget.cost_usd or DEFAULT_COST_USD
    fields = ("subjects", "variables", "optimiser", "rounds", "batch", "repeats", "promote", "canary", "system")
    return new_evolution(
        options["name"],
        training=questions(options["questions"], options["data"]),
        validation=questions(apart, options["validate_data"]) if apart else None,
        held_apart=options["held_apart"],
        terms=_terms(GateTerms, options),
        model=options["model"],
        seed=options["seed"],
        optimiser_model=options["optimiser_model"],
        budget_usd=options["budget_usd"],
        question_usd=question_usd,
        **{field: options[field] for field in fields},
    )


def _terms(make: Any, options: dict[str, Any]) -> Any:
    """Return the terms of the gate; EvolutionError for one that does not fit."""
    from pydantic import ValidationError

    try:
        return make(level=options["level"], gain=options["gain"], cost_ratio=options["cost_ratio"])
    except ValidationError as exc:
        first = exc.errors()[0]
        raise EvolutionError(f"the gate's {first['loc'][0]} is {first['input']!r}: {first['msg']}") from None


def _line(entry: EvolutionRound) -> str:
    versions = ", ".join(f"{name}@{version}" for name, version in entry.versions.items())
    return f"round {entry.number}  {entry.ended}  {versions or '-'}  {dollars(entry.usd)}  {entry.why}"


@group.command(short_help="Show how far evolutions and canaries are.")
@click.argument("name", metavar="[NAME]", type=WORDS, required=False)
@workspace_option
async def status(name: str | None, folder: Path) -> int:
    """List the evolutions and canaries of the workspace, or show the rounds of one: proposals and their ends.

    A canary that does worse than the current version is taken back, one that lasted is taken into use.
    """
    from agentorchestra.evolution.canary import canaries, check_canaries
    from agentorchestra.evolution.record import evolutions, read, rounds

    for evolution in evolutions(folder) if name is None else [name]:
        plan, done = read(folder, evolution), rounds(folder, evolution)
        how_far = f"{', '.join(plan.subjects)} by {plan.optimiser}, {len(done)} of {plural(plan.rounds, 'round')}"
        apart = f"training {len(plan.training.ids)}, held apart {len(plan.validation.ids)}"
        emit(clean(f"{evolution}: {how_far}; {apart}"))
        if name is None:
            continue
        for entry in done:
            emit(clean(_line(entry)))
            for place, reason in entry.reasons.items():
                emit(clean(f"    {place}: {reason}"))
        if len(done) < plan.rounds:
            say(f"the next is round {len(done) + 1}; the command that began it goes on")
    if name is not None:
        return 0
    async with opening(folder) as workspace:
        for line in await check_canaries(workspace):
            emit(clean(line))
        for canary in await canaries(workspace):
            share = f"canary {canary.subject}@{canary.shared.version}: {100 * canary.shared.share:g}% of the runs"
            emit(clean(f"{share}; {plural(len(canary.candidate), 'run')} with it, {len(canary.current)} without"))
    return 0


@group.command(short_help="Show the versions of a component: who, why, from which run, on which evidence.")
@_SUBJECT
@workspace_option
async def history(subject: str, folder: Path) -> int:
    """List every version of a component, oldest first; `*` marks what its name means now."""
    from agentorchestra.evolution.components import manager_of

    async with opening(folder) as workspace:
        manager, name = manager_of(workspace, subject)
        current = (await manager.info(name)).version
        for version in await manager.versions(name):
            mark = "*" if version.version == current else " "
            by = f" by {version.author}" if version.author else ""
            run = f", run {version.run}" if version.run else ""
            emit(clean(f"{mark} {version.version}  {version.state}  {version.created:%Y-%m-%d %H:%M}{by}{run}"))
            for text in (version.reason, version.why):
                if text:
                    emit(clean(f"      {text}"))
    return 0


@group.command(short_help="Show what a version changes against the current one.")
@_VERSION
@workspace_option
async def diff(subject: str, folder: Path) -> int:
    """Show what a candidate would change for callers, and in the text; with its reason and evidence."""

    async with opening(folder) as workspace:
        emit("\n".join(await _difference(workspace, *_split(subject))))
    return 0


async def _difference(workspace: Any, subject: str, version: str) -> list[str]:
    """Return the lines with the difference of a version from the current one, and the evidence there is."""
    from agentorchestra.evolution.components import manager_of
    from agentorchestra.evolution.record import evolutions, rounds

    manager, name = manager_of(workspace, subject)
    change = await manager.diff(name, (await manager.info(name)).version, version)
    lines = [f"{subject}: {change.before} -> {change.after} ({change.level}) {', '.join(change.changes)}"]
    if change.text:
        lines.append(change.text.rstrip("\n"))
    for evolution in evolutions(workspace.folder):
        for entry in rounds(workspace.folder, evolution):
            if entry.versions.get(subject) == version:
                lines.append(f"evolution {evolution}, round {entry.number}: {entry.ended}: {entry.why}")
    return [clean(line) for line in lines]


@group.command(short_help="Take a candidate into use.")
@_VERSION
@option(
    "--share",
    type=click.FloatRange(0, 1, min_open=True),
    default=1.0,
    metavar="SHARE",
    help="Of the live runs; below 1 it is a canary, which is taken back if it does worse.",
)
@_REASON
@json_option("one object with the component, its version and share")
@workspace_option
async def promote(subject: str, share: float, reason: str, as_json: bool, folder: Path) -> int:
    """Make a version what its name means, after its difference and the evidence were shown."""
    from agentorchestra.evolution.components import manager_of

    async with opening(folder) as workspace:
        component, version = _split(subject)
        lines = await _difference(workspace, component, version)
        manager, name = manager_of(workspace, component)
        if share < 1:
            await manager.share(name, version, share, reason=reason or "a canary by a person")
            lines.append(f"{version} of {component} is used by {100 * share:g}% of the runs from now on")
        else:
            await manager.activate(name, version, reason=reason or "promoted by a person")
            lines.append(f"{component} means {version} now")
    emit_either(as_json, {"component": component, "version": version, "share": share}, "\n".join(lines))
    return 0


@group.command(short_help="Say how good a live run was.")
@click.argument("run_id", metavar="RUN", type=WORDS)
@click.argument("score", metavar="SCORE", type=float)
@option("--note", metavar="TEXT", default="", help="Why.")
@json_option("one object with the run, its score and what became of canaries")
@workspace_option
async def rate(run_id: str, score: float, note: str, as_json: bool, folder: Path) -> int:
    """Say how good a run was, from 0 to 1: canaries are judged by it. Without it a run that completed counts as 1."""
    from agentorchestra.evolution.canary import check_canaries

    async with opening(folder) as workspace:
        await workspace.runs.rate(run_id, score, note=note, by="user")
        lines = await check_canaries(workspace)
    if lines or as_json:
        emit_either(as_json, {"run_id": run_id, "score": score, "canaries": lines}, "\n".join(lines))
    return 0


@group.command(short_help="Bring the former version back.")
@_SUBJECT
@option("--to", "version", metavar="VERSION", help="Which.  [default: that before the current one]")
@_REASON
@json_option("one object with the component and its version")
@workspace_option
async def rollback(subject: str, version: str | None, reason: str, as_json: bool, folder: Path) -> int:
    """Make an earlier version what its name means again; the current one is deprecated, and stays readable."""
    from agentorchestra.evolution.components import manager_of

    async with opening(folder) as workspace:
        manager, name = manager_of(workspace, subject)
        now = (await manager.info(name)).version
        by_version = {version.version: version for version in await manager.versions(name)}
        before = version or by_version[now].parent.rpartition("@")[2]
        if before not in by_version:
            raise EvolutionError(f"{subject}@{now} was made from no earlier version; name one with --to")
        await manager.restore(name, before, reason=reason or f"rolled back from {now}")
        await manager.deprecate(name, now, reason=reason or f"rolled back to {before}")
    emit_either(as_json, {"component": subject, "version": before}, f"{subject} means {before} again")
    return 0


group.add_command(frontier)
group.add_command(tips)
group.add_command(judge)
group.add_command(export)


def _split(subject: str) -> tuple[str, str]:
    """Return component and version of KIND:NAME@VERSION."""
    component, mark, version = subject.rpartition("@")
    if not mark:
        raise EvolutionError(f"{subject!r} names no version; write KIND:NAME@VERSION")
    return component, version
