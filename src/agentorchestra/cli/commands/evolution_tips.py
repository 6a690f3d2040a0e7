"""`agentorchestra evolve tips` and `judge`: what recorded runs teach, as insights that have to prove themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from agentorchestra.cli.driver import async_command
from agentorchestra.cli.options import (
    COUNT,
    POSITIVE,
    WORDS,
    FilePath,
    json_option,
    model_option,
    option,
    workspace_option,
)
from agentorchestra.cli.output import emit_either, say
from agentorchestra.cli.workspaces import find_run, opening, workspace_of_arm
from agentorchestra.core.budget import Budget
from agentorchestra.core.errors import EvolutionError
from agentorchestra.workspace import DEFAULT_COST_USD, load_settings


@async_command("tips", short_help="Distil tips and solutions from recorded runs.")
@click.argument("names", metavar="[RUN]...", nargs=-1, type=WORDS)
@option("--evaluation", metavar="NAME", help="The runs of this evaluation, with their scores.")
@model_option
@click.option("--budget-usd", metavar="X", type=POSITIVE, help="What it may cost, in US dollars.")
@json_option("a list of objects")
@workspace_option
async def tips(
    names: tuple[str, ...],
    evaluation: str | None,
    model: str | None,
    budget_usd: float | None,
    as_json: bool,
    folder: Path,
) -> int:
    """Have a model read at most 20 runs, failures and successes, and write down what later tasks can use.

    Each tip is an insight of the workspace, with the places in the log that it rests on: `memories entries` lists
    them, agents with --memory workflow or the part `tips` are told those that fit. True answers of questions are not
    read.
    """
    from agentorchestra.evaluation.plan import read
    from agentorchestra.evaluation.scores import kept_scores
    from agentorchestra.evolution.tips import distil

    if bool(names) == bool(evaluation):
        raise EvolutionError("say what is to be read: RUN ..., or --evaluation NAME")
    scores = {row.run_id: row.score for row in kept_scores(folder, read(folder, evaluation))} if evaluation else {}
    async with opening(folder) as workspace:
        runs = [(await find_run(workspace, name)).id for name in names] or [key for key in scores if key]
        entries = await distil(workspace, runs, scores, model=model, budget=Budget(cost_usd=budget_usd))
    lines = [f"{entry.ref}  {entry.kind}  {entry.text}  [{', '.join(entry.evidence)}]" for entry in entries]
    emit_either(as_json, entries, lines)
    if not entries and not as_json:
        say("the runs taught nothing that is not known")
    return 0


@async_command("judge", short_help="Try a tip on questions, with it and without it.")
@click.argument("ref", metavar="TIP", type=WORDS)
@click.argument("questions", metavar="SET", type=WORDS)
@click.option("--data", metavar="PATH", type=FilePath(), help="The file or folder with the set's data.")
@option("--sample", type=COUNT, metavar="N", help="So many questions, of all groups.")
@option("--repeats", type=COUNT, default=1, metavar="N", help="How often each is asked.")
@option(
    "--worth",
    type=click.FloatRange(0, 1),
    default=0.0,
    metavar="G",
    help="A gain, as a share; a tip of which even that is not to be expected is retired.",
)
@option("--system", metavar="NAME", help="That answers.  [default: that of the settings]")
@model_option
@click.option("--budget-usd", metavar="X", type=POSITIVE, help="What all runs together may cost.")
@click.option("--question-usd", metavar="X", type=POSITIVE, help="What one run may cost.")
@option("--seed", type=int, default=0, metavar="S", help="Of the sample and the runs.")
@option("--at-once", type=COUNT, default=4, metavar="N", help="Runs at the same time.")
@json_option("one object with the verdict and the gain")
@workspace_option
async def judge(
    ref: str,
    questions: str,
    data: Path | None,
    worth: float,
    system: str | None,
    model: str | None,
    at_once: int,
    as_json: bool,
    folder: Path,
    **limits: Any,
) -> int:
    """Ask questions of SET with TIP (RUN:ENTRY) and without it, and keep it, retire it, or say that it is undecided.

    It is an evaluation of two arms: `eval report` shows the evidence. A retired tip is told no more and not distilled
    again. The tip must not have been learnt from one of the questions. What stops in the middle goes on with the same
    command.
    """
    from agentorchestra.evaluation.plan import Arm
    from agentorchestra.evaluation.questions import load_set
    from agentorchestra.evolution.tips import validate

    if limits["budget_usd"] is not None and limits["question_usd"] is None:
        limits["question_usd"] = load_settings(folder).budget.cost_usd or DEFAULT_COST_USD

    judgement = await validate(
        folder,
        ref,
        load_set(questions, data),
        arm=Arm(name="arm", system=system, model=model),
        source=questions,
        data="" if data is None else str(data.absolute()),
        worth=worth,
        workspaces=workspace_of_arm,
        at_once=at_once,
        **limits,
    )
    about = {"tip": ref, "verdict": judgement.verdict, "why": judgement.reason, "gain": judgement.gain.value}
    emit_either(as_json, about, judgement.reason)
    return 0
