"""`agentorchestra evolve frontier`: an orchestrator's prompt, learnt by accuracy and cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from agentorchestra.cli.driver import async_command
from agentorchestra.cli.options import COUNT, POSITIVE, WORDS, FilePath, json_option, option, workspace_option
from agentorchestra.cli.output import emit_either, say
from agentorchestra.cli.workspaces import workspace_of_arm
from agentorchestra.workspace import DEFAULT_COST_USD, load_settings


@async_command("frontier", short_help="Learn an orchestrator's prompt by accuracy and cost.")
@click.argument("questions", metavar="SET", type=WORDS)
@click.option("--data", metavar="PATH", type=FilePath(), help="The file or folder with the set's data.")
@option("--name", metavar="NAME", required=True, help="Of what is learnt.")
@option("--on", "subject", metavar="prompt:NAME", default="prompt:aorchestra", help="The prompt.")
@option(
    "--variable",
    "variables",
    metavar="PLACE",
    multiple=True,
    help="Only this part of it, as prompt:aorchestra/routing_rules; may be repeated.",
)
@option(
    "--optimiser",
    type=click.Choice(["textgrad", "reflection", "gepa"]),
    default="reflection",
    help="Who proposes edits.",
)
@option("--rounds", type=COUNT, default=5, metavar="N", help="Edits at most.")
@option("--trajectories", type=COUNT, default=6, metavar="N", help="Questions that every prompt is tried on.")
@option("--repeats", type=COUNT, default=1, metavar="N", help="How often each is asked.")
@option("--system", metavar="NAME", default="aorchestra", help="That answers.")
@option("--model", metavar="M", help="That answers.")
@option("--optimiser-model", metavar="M", help="That proposes.  [default: the same]")
@click.option("--budget-usd", type=POSITIVE, metavar="X", help="What everything together may cost.")
@click.option("--question-usd", type=POSITIVE, metavar="X", help="What one run may cost.")
@option("--seed", type=int, default=0, metavar="S", help="Of the questions and runs.")
@option("--at-once", type=COUNT, default=4, metavar="N", help="Runs at the same time.")
@click.option("--html", "target", metavar="FILE", type=FilePath(), help="Write the table and a plot as one HTML file.")
@json_option("one object with the table and the best version")
@workspace_option
async def frontier(
    questions: str, data: Path | None, target: Path | None, at_once: int, as_json: bool, folder: Path, **options: Any
) -> int:
    """Try a prompt on questions of SET, have an optimiser edit it by what that scored and cost, try the edit.

    Each round begins with the prompt that answers best; of equals it is the cheaper one. What is learnt is a candidate
    version: `evolve diff` shows it, `evolve promote` takes it into use. What stops in the middle goes on with the same
    command.
    """
    from agentorchestra.evaluation.questions import load_set
    from agentorchestra.evolution.frontier import Frontier, best, learning, page, table, thrifty

    if options["budget_usd"] is not None and options["question_usd"] is None:
        options["question_usd"] = load_settings(folder).budget.cost_usd or DEFAULT_COST_USD
    place = "" if data is None else str(data.absolute())
    plan = learning(options.pop("name"), load_set(questions, data), data=place, **options)
    optimiser = thrifty(plan.optimiser, folder, plan)
    await Frontier(folder, plan, optimiser, workspaces=workspace_of_arm, at_once=at_once, tell=say).run()
    grid = table(folder, plan)
    version = best(folder, plan).version
    about = {"subject": plan.subject, "version": version, "head": [*grid.head], "rows": [[*row] for row in grid.rows]}
    emit_either(as_json, about, "\n".join("  ".join(row) for row in (grid.head, *grid.rows)))
    say(grid.note)
    say(f"best: {plan.subject}@{version}")
    if target is not None:
        target.write_text(page(folder, plan), encoding="utf-8")
    return 0
