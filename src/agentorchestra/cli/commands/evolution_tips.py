"""`agentorchestra evolve tips`: what recorded runs teach, as insights of the memory."""

from __future__ import annotations

from pathlib import Path

import click

from agentorchestra.cli.driver import async_command
from agentorchestra.cli.options import POSITIVE, WORDS, json_option, model_option, workspace_option
from agentorchestra.cli.output import clean, emit, emit_json, say
from agentorchestra.cli.workspaces import find_run, opened
from agentorchestra.core.budget import Budget
from agentorchestra.core.errors import EvolutionError


@async_command("tips", short_help="Distil tips and solutions from recorded runs.")
@click.argument("names", metavar="[RUN]...", nargs=-1, type=WORDS)
@click.option("--evaluation", metavar="NAME", type=WORDS, help="The runs of this evaluation, with their scores.")
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
    scores = {one.run_id: one.score for one in kept_scores(folder, read(folder, evaluation))} if evaluation else {}
    async with opened(folder) as workspace:
        runs = [(await find_run(workspace, one)).id for one in names] or [one for one in scores if one]
        found = await distil(workspace, runs, scores, model=model, budget=Budget(cost_usd=budget_usd))
    if as_json:
        emit_json([one.model_dump(mode="json") for one in found])
        return 0
    for one in found:
        emit(clean(f"{one.ref}  {one.kind}  {one.text}  [{', '.join(one.evidence)}]"))
    if not found:
        say("the runs taught nothing that is not known")
    return 0
