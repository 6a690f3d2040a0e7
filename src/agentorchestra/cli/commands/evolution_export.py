"""`agentorchestra evolve export`: training data from recorded runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentorchestra.cli.driver import async_command
from agentorchestra.cli.options import COUNT, WORDS, FilePath, json_option, label_option, option, workspace_option
from agentorchestra.cli.output import emit_either, plural, say
from agentorchestra.cli.workspaces import find_run, opening
from agentorchestra.core.spec import RunStatus
from agentorchestra.runtime.direct_calls import SYSTEM as CALLS

if TYPE_CHECKING:
    from agentorchestra.workspace import Workspace

_STATUSES = [status.value for status in RunStatus]


@async_command("export", short_help="Write training data from recorded runs, and the command that trains on it.")
@click.argument("target", metavar="DIR", type=FilePath())
@click.argument("names", metavar="[RUN]...", nargs=-1, type=WORDS)
@option("--evaluation", metavar="NAME", help="The runs of this evaluation, with their scores.")
@option("--system", metavar="NAME", help="Only runs of this system.")
@label_option("key=value", "Only runs with this label; may be repeated.")
@click.option("--pairs", is_flag=True, help="Preference pairs from runs and their forks, in place of trajectories.")
@option(
    "--agents", type=click.Choice(["main", "all"]), default="main", help="The main agent of each run, or every agent."
)
@click.option(
    "--status",
    "statuses",
    type=click.Choice(_STATUSES),
    multiple=True,
    help="Only runs that ended so; may be repeated.  [default: completed]",
)
@click.option("--min-score", type=click.FloatRange(0, 1), metavar="X", help="Only runs with at least this score.")
@click.option("--max-usd", type=click.FloatRange(0), metavar="X", help="Only runs that cost at most so much.")
@option(
    "--form",
    "wire",
    type=click.Choice(["openai", "hermes"]),
    default="openai",
    help="Calls as tool_calls with a column of tools, or as <tool_call> in the text.",
)
@option(
    "--per",
    type=click.Choice(["branch", "step"]),
    default="branch",
    help="A record for each agent's whole work, or for each of its decisions.",
)
@option("--window", type=COUNT, metavar="N", help="Tokens of a record, estimated.  [default: 16384]")
@option(
    "--long",
    type=click.Choice(["sliding", "cut"]),
    default="sliding",
    help="Work that is longer: several records of whole steps, or the first one alone.",
)
@click.option("--files/--no-files", default=True, help="Whether the contents of files stand in it.  [default: they do]")
@option("--model", metavar="M", default="Qwen/Qwen3-8B", help="To be trained.")
@json_option("one object with the file, its records and the command that trains")
@workspace_option
async def export(
    target: Path,
    names: tuple[str, ...],
    evaluation: str | None,
    system: str | None,
    labels: tuple[tuple[str, str], ...],
    pairs: bool,
    statuses: tuple[str, ...],
    window: int | None,
    model: str,
    as_json: bool,
    folder: Path,
    **fields: Any,
) -> int:
    """Write what agents were shown and did into DIR/train.jsonl, as TRL takes it, and print the command that trains.

    Without RUN and --evaluation: all runs of the workspace. Values of secrets in the environment stand in no record;
    what tasks, files and pages say does. DIR/sources.jsonl says from which run each line comes.
    """
    from agentorchestra.evaluation.plan import JUDGES, read
    from agentorchestra.evaluation.scores import kept_scores
    from agentorchestra.evolution.trajectories import TRAIN, WINDOW, Choice, command, preferences, trajectories, write

    scores = {row.run_id: row.score for row in kept_scores(folder, read(folder, evaluation))} if evaluation else {}
    room = window or WINDOW
    selection = Choice(statuses=tuple(map(RunStatus, statuses or ("completed",))), window=room, **fields)
    async with opening(folder, app=False) as workspace:
        runs = [(await find_run(workspace, name)).id for name in names] or await _runs(workspace, scores)
        ids = []
        for run in await workspace.runs.list():
            has = run.manifest.labels
            fits = system in (None, run.manifest.system) and {*labels} <= {*has.items()}
            if run.id in runs and fits and run.manifest.system != CALLS and JUDGES not in has:
                ids.append(run.id)
        data = await (preferences if pairs else trajectories)(workspace, ids[::-1], selection, scores)
    write(data, target)
    for reason, count in data.left_out.most_common():
        say(f"left out: {count}: {reason}")
    say(f"{plural(len(data.records), 'record')} of {plural(len(ids), 'run')} in {target / TRAIN}")
    train = command(data, target, model=model, window=room)
    about = {"path": str(target / TRAIN), "records": len(data.records), "runs": len(ids), "command": train}
    emit_either(as_json, about, train)
    return 0


async def _runs(workspace: Workspace[Any], scores: dict[str, float | None]) -> list[str]:
    """Return the runs of an evaluation, by their scores and with their forks; of the workspace where there are none."""
    every = await workspace.runs.list()
    return [run.id for run in every if not scores or run.id in scores or run.parent_run in scores]
