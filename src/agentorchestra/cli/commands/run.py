from __future__ import annotations

import os
import shlex
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from agentorchestra.cli.delivery import Out, out_options
from agentorchestra.cli.driver import run_async
from agentorchestra.cli.options import (
    STDIN,
    WORDS,
    FilePath,
    GivenPath,
    NamedVersion,
    is_piped,
    json_option,
    material_on_stdin,
    on_ask_option,
    option,
    reject_repeats,
    task_in,
    unsafe_option,
    workspace_options,
)
from agentorchestra.cli.output import clean, emit_either, say
from agentorchestra.cli.project import ApplyOptions, finish, landing_options
from agentorchestra.cli.start import check_roles, drive_new, spec_of, spec_options
from agentorchestra.cli.workspaces import find_run, opening
from agentorchestra.core.errors import SessionError, UnknownRunError
from agentorchestra.core.names import did_you_mean
from agentorchestra.core.settings import PartSettings

if TYPE_CHECKING:
    from agentorchestra.agents.parts.foresight import Foresight
    from agentorchestra.workspace import Workspace


@click.command(
    epilog="""\b
Examples:
  agentorchestra run "What is the notice period?" --file contract.pdf
  agentorchestra run "Compare the two offers" -f a.pdf -f b.xlsx \\
      --model openai:gpt-5 --budget-usd 0.5
  agentorchestra run "Who approved the tunnel?" --file minutes/
  agentorchestra run "How many rows have no date?" --file data.csv --json
  agentorchestra run "Draw the sales by month" -f sales.csv --out charts
  agentorchestra run - --model openai:gpt-5 < task.txt
  agentorchestra run "Which issues are open?" --mcp mcp.json
  agentorchestra run "Fix the failing test" --in . --apply
  agentorchestra run --task-folder tasks/fix-build --model openai:gpt-5
  agentorchestra run --continue "And in the second one?"
  agentorchestra run "Which offer is cheaper?" -f a.pdf --session offers
  agentorchestra run --continue offers "And with the discount?" -f b.pdf

\b
Exit codes: 0 completed, 1 failed or task not solved, 2 wrong usage, 3 any other end (partial,
blocked, waiting, paused, out of budget or time), 130 cancelled."""
)
@click.argument("words", metavar="[SESSION] [TASK]", type=WORDS, nargs=-1)
@spec_options
@click.option("--task-file", metavar="F", type=FilePath(), help="A file with the task, instead of TASK; - is stdin.")
@click.option(
    "--task-folder",
    metavar="DIR",
    type=FilePath(),
    help="A task in Terminal-Bench's format instead of TASK: the run works in its machine, then its tests are run.",
)
@click.option(
    "--in",
    "project",
    metavar="DIR",
    type=GivenPath(),
    help="Work on a copy of the folder DIR; at the end the diff is shown, and applied if you say so.",
)
@landing_options
@click.option(
    "--continue",
    "goes_on",
    is_flag=True,
    help="Go on from the newest run, or from that of SESSION, which may also be a run: with its conversation, files, "
    "folder and variables.",
)
@option(
    "--memory",
    metavar="NAME",
    help="What the top agent remembers: within the session none, window, summary, insights; within the workspace "
    "workflow; or one of your own.  [default: from the settings]",
)
@click.option(
    "--action",
    type=click.Choice(["tools", "code"]),
    help="Agents call tools, or write a program in each step, in which their tools are functions.  "
    "[default: from the settings]",
)
@on_ask_option("run")
@click.option(
    "--on-uncertain",
    type=click.Choice(["report", "ask", "retry"]),
    help="What may have happened before a crash is told to the agent, asked, or done again.  "
    "[default: from the settings]",
)
@out_options
@unsafe_option
@click.option("--quiet", "-q", is_flag=True, help="Print the answer alone, and errors: no progress, cost, sources.")
@json_option("one object with the result")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Only say how many requests test-time scaling (settings, [parts]) comes to; nothing is asked or spent.",
)
@click.option(
    "--component",
    "components",
    multiple=True,
    metavar="KIND:NAME@VERSION",
    type=NamedVersion(),
    callback=reject_repeats,
    help="A version that this run uses in place of what the name means, such as a candidate; may be repeated.",
)
@click.option(
    "--refine",
    type=click.Choice(["textgrad", "reflect"]),
    help="Criticise the answer and write it anew: by textual gradients, or by self-reflection.  "
    "[default: from the settings]",
)
@click.option(
    "--rounds",
    metavar="N",
    type=click.IntRange(1, 10),
    help="With --refine: rounds at most; it ends where the critique finds nothing.  [default: 3]",
)
@workspace_options
def run(
    words: tuple[str, ...],
    files: tuple[Path, ...],
    task_file: Path | None,
    task_folder: Path | None,
    project: Path | None,
    landing: ApplyOptions,
    session: str | None,
    goes_on: bool,
    out: Out,
    unsafe_local: bool,
    quiet: bool,
    as_json: bool,
    dry_run: bool,
    refine: Literal["textgrad", "reflect"] | None,
    rounds: int | None,
    folder: Path,
    **fields: Any,
) -> int:
    """Run TASK and print the answer. SESSION goes with --continue alone.

    What is piped or redirected to stdin is a file of the task, stdin.txt; without TASK, or with a TASK of -, it is the
    task itself.

    The answer alone is written to stdout; progress, sources and cost to stderr. Files that the run made, and what it
    changed in its folder, are copied to agentorchestra-out/RUN or --out. Everything is recorded in the workspace: a
    run that stops for any reason goes on with `agentorchestra resume`. At a terminal, questions are asked in place;
    otherwise the run waits (exit code 3) until `agentorchestra answer`, `approve` or `deny`. Ctrl-C cancels the run.
    """

    task, session = _task_and_session(words, session, goes_on=goes_on)
    if goes_on and task_folder is not None:
        raise click.UsageError("--continue and --task-folder exclude each other: a task's machine is always a new one")
    ways = {"TASK": task, "--task-file": task_file, "--task-folder": task_folder}
    if len(origins := [name for name, value in ways.items() if value is not None]) > 1:
        raise click.UsageError(f"{' and '.join(origins)} are given: leave one of them away")
    if task_folder is not None and project is not None:
        raise click.UsageError("--task-folder and --in exclude each other; give one of them")
    source = STDIN if task == "-" or (not origins and is_piped()) else task_file
    if source is not None:
        task = task_in(source)
    if not origins and not task:
        raise click.UsageError("Missing argument 'TASK' (or --task-file, --task-folder)")
    material = STDIN in files or (source != STDIN and task_folder is None and is_piped())
    if material and source == STDIN:
        raise click.UsageError("stdin is the task and cannot be a file too; give the task as TASK or with --task-file")

    async def work() -> int:
        out.check()
        await landing.check(project)
        async with opening(folder, unsafe_local=unsafe_local, task_folder=task_folder) as workspace:
            check_roles(workspace, fields["roles"])
            if (own := workspace.task) is not None:
                fields["timeout_s"] = fields["timeout_s"] or own.agent_s
                fields["environments"] = fields["environments"] or ("terminal", "files")
            spec = spec_of(
                own.instruction if own is not None else task or "",
                files=(*(file for file in files if file != STDIN), *given_files),
                session=await session_to_go_on(workspace, session) if goes_on else session,
                project=project,
                parts=PartSettings(refine=refine, rounds=rounds) if refine or rounds else None,
                **fields,
            )
            from agentorchestra.evolution.canary import check_canaries

            if dry_run:
                foreseen = await workspace.runs.foresee(spec)
                emit_either(as_json, foreseen, _forecast(foreseen))
                return 0
            for note in own.notes if own is not None and not (as_json or quiet) else ():
                say(clean(note))
            for line in await check_canaries(workspace):
                say(clean(line))
            result = await drive_new(workspace, spec, folder=folder, as_json=as_json or quiet)
            return await finish(workspace, result, landing, folder, out, as_json=as_json, quiet=quiet)

    with material_on_stdin() if material else nullcontext(()) as given_files:
        return run_async(work())


def _task_and_session(words: tuple[str, ...], session: str | None, *, goes_on: bool) -> tuple[str | None, str | None]:
    """Return TASK and the session that is named; of two words the first is SESSION."""
    if len(words) < 2:
        return (words[0] if words else None), session
    if all(os.path.lexists(word) for word in words[1:]):
        files = [part for word in words[1:] for part in ("--file", word)]
        raise click.UsageError(f"a file goes with --file; type: agentorchestra run {shlex.join([words[0], *files])}")
    if not goes_on or len(words) > 2:
        raise click.UsageError(
            f"TASK is {len(words)} arguments; put the whole of it into quotation marks: {shlex.quote(' '.join(words))} "
            "(SESSION goes with --continue alone)"
        )
    if session is not None:
        raise click.UsageError(f"two sessions: {words[0]!r} and --session {session!r}; leave one of them out")
    return words[1], words[0]


async def session_to_go_on(workspace: Workspace[Any], name: str | None) -> str:
    """Return the session, or the run, that `--continue` goes on from.

    Raises:
        SessionError: there is none.
    """
    from agentorchestra.workspace.sessions import conversations

    if name is None:
        if talks := await conversations(workspace.store):
            return talks[0][-1].id
        raise SessionError('there is no run yet to go on from; start one with `agentorchestra run "..."`')
    if not await workspace.session(name).turns():
        try:
            return (await find_run(workspace, name)).id
        except UnknownRunError:
            names = {run.manifest.session for run in await workspace.runs.list() if run.manifest.session}
            guess = did_you_mean(name, names, "`agentorchestra runs` lists them, --session NAME begins one")
            raise SessionError(f"there is no session and no run {name!r} to go on from; {guess}") from None
    return name


def _forecast(foresight: Foresight) -> str:
    runs = f"{foresight.runs} whole runs, of which the best is kept" if foresight.runs > 1 else "1 run"
    limits = foresight.budget.model_dump(exclude_none=True)
    bounds = ", ".join(f"{name} {value:g}" for name, value in limits.items()) or "none"
    return (
        f"{runs} of at most {foresight.steps} steps\n"
        f"requests per step: {foresight.multiple} (a plain run: 1): {foresight.decisions_per_step} decisions, "
        f"{foresight.choices_per_step} to choose\n"
        f"at most: {foresight.requests_at_most} requests, {foresight.decisions_at_most} of them decisions\n"
        f"limits of the budget: {bounds}\n"
        "what a plan, a memory, better queries, sub-agents and summaries ask comes besides; nothing was asked"
    )
