"""`agentorchestra run`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import click

from agentorchestra.cli.driving import Stop, drive, run_async
from agentorchestra.cli.options import (
    WORDS,
    FilePath,
    Pair,
    budget_options,
    json_option,
    mcp_option,
    unsafe_option,
    warn_unsafe,
    workspace_option,
)
from agentorchestra.cli.output import clean, made_files, plural, print_result, say
from agentorchestra.cli.workspaces import opened
from agentorchestra.core.budget import Budget
from agentorchestra.core.spec import RunManifest
from agentorchestra.workspace import DEFAULT_COST_USD, Workspace

ROLES = (
    "planner",
    "analyzer",
    "reporter",
    "formatter",
    "summariser",
    "judge",
    "worker",
    "browser",
    "agent",
    "vision",
    "hearing",
    "video",
)
"""What packaged agents and tools play; the user's own may name others."""


def _once_each(
    ctx: click.Context, param: click.Parameter, pairs: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, str], ...]:
    names = [name for name, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        what = (param.name or "").removesuffix("s")
        raise click.BadParameter(f"{twice[0]!r} is given more than once; a {what} has one value", ctx=ctx, param=param)
    return pairs


@click.command(
    short_help="Run a task and print the answer.",
    epilog="""\b
Examples:
  agentorchestra run "What is the notice period?" --file contract.pdf
  agentorchestra run "Compare the two offers" -f a.pdf -f b.xlsx \\
      --model openai:gpt-5 --budget-usd 0.5
  agentorchestra run "Who approved the tunnel?" --file minutes/
  agentorchestra run "How many rows have no date?" --file data.csv --json
  agentorchestra run "Which issues are open?" --mcp mcp.json
  agentorchestra run "And in the second one?" --session offers \\
      --role planner=openai:gpt-5 --role analyzer=openai:gpt-5-mini

\b
Exit codes: 0 completed, 1 failed, 2 wrong usage, 3 any other end (partial,
blocked, waiting, paused, out of budget or time), 130 cancelled.""",
)
@click.argument("task", metavar="TASK", type=WORDS)
@click.option(
    "--file",
    "-f",
    "files",
    multiple=True,
    metavar="F",
    type=FilePath(),
    help="A file, or a folder for the files below it; may be repeated.",
)
@click.option("--system", metavar="NAME", type=WORDS, help="How agents work on it.  [default: from the settings]")
@click.option(
    "--model",
    metavar="M",
    type=WORDS,
    help="A model of the settings, provider:model, or offline.  [default: from the settings]",
)
@click.option(
    "--role",
    "roles",
    multiple=True,
    metavar="ROLE=MODEL",
    type=Pair("role=model", empty=False),
    callback=_once_each,
    help=f"The model of one role ({', '.join(ROLES)}, or one of your own agents'); may be repeated.",
)
@click.option(
    "--session",
    metavar="S",
    type=WORDS,
    help="The session the task belongs to: the agent is told the session's earlier tasks and answers.",
)
@click.option(
    "--memory",
    metavar="NAME",
    type=WORDS,
    help="What the top agent remembers within the session: none, window, summary, insights, or one of your own.  "
    "[default: from the settings]",
)
@budget_options
@click.option(
    "--max-steps", metavar="N", type=click.IntRange(min=1), help="Decisions of the top agent; the last one must answer."
)
@click.option(
    "--action",
    type=click.Choice(["tools", "code"]),
    help="Agents call tools, or write a program in each step, in which their tools are functions.  "
    "[default: from the settings]",
)
@click.option(
    "--on-ask",
    type=click.Choice(["wait", "deny"]),
    help="A question nobody can answer now: the run waits (exit code 3), or the answer is no. "
    "At a terminal questions are asked, unless this is deny.  [default: from the settings]",
)
@click.option(
    "--on-uncertain",
    type=click.Choice(["report", "ask", "retry"]),
    help="What may have happened before a crash is told to the agent, asked, or done again.  "
    "[default: from the settings]",
)
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="NAME=VALUE",
    type=Pair("name=value"),
    callback=_once_each,
    help="For your own order.",
)
@unsafe_option
@json_option("one object with the result")
@click.option(
    "--environment",
    "environments",
    multiple=True,
    metavar="NAME",
    type=WORDS,
    help="An environment that the top agent works in, such as files, terminal, git or browser; may be repeated.",
)
@mcp_option
@workspace_option
def run(
    task: str,
    files: tuple[Path, ...],
    system: str | None,
    model: str | None,
    roles: tuple[tuple[str, str], ...],
    session: str | None,
    memory: str | None,
    budget_usd: float | None,
    timeout_s: float | None,
    max_steps: int | None,
    action: Literal["tools", "code"] | None,
    on_ask: Literal["wait", "deny"] | None,
    on_uncertain: Literal["report", "ask", "retry"] | None,
    labels: tuple[tuple[str, str], ...],
    unsafe_local: bool,
    as_json: bool,
    environments: tuple[str, ...],
    folder: Path,
) -> int:
    """Run TASK and print the answer with its sources.

    Progress is written to stderr, the answer to stdout. Everything is recorded in the workspace: a run that
    stops for any reason goes on with `agentorchestra resume`. At a terminal, questions are asked in place;
    otherwise the run waits (exit code 3) until `agentorchestra answer`, `approve` or `deny`. Ctrl-C cancels the run.
    """

    async def work(stop: Stop) -> int:
        if unsafe_local:
            warn_unsafe()
        async with opened(folder, unsafe_local=unsafe_local) as workspace:
            run_id = await workspace.create(
                task,
                files=files,
                system=system,
                model=model,
                budget=Budget(cost_usd=budget_usd, active_s=timeout_s),
                max_steps=max_steps,
                action=action,
                on_ask=on_ask,
                on_uncertain=on_uncertain,
                labels=dict(labels),
                session=session,
                roles=dict(roles),
                memory=memory,
                environments=environments,
            )
            (record,) = await workspace.runs(limit=1) or (None,)
            manifest = record.manifest if record is not None and record.id == run_id else None
            if not as_json:
                say(f"run {run_id}")
                _say_session(manifest)
                _say_folders(manifest)
            _warn_of_roles(roles, workspace)
            for note in workspace.notes:
                say(clean(f"warning: {note}"))
            if manifest is not None and budget_usd is None and workspace.settings.budget.cost_usd is None:
                _name_default_budget(manifest)
            asks = (on_ask or workspace.settings.on_ask) != "deny"
            result = await drive(workspace, run_id, stop, folder=folder, as_json=as_json, ask=asks)
            if not as_json and (made := made_files(workspace.run_folder(run_id))):
                say(f"{plural(len(made), 'file')} in {workspace.run_folder(run_id)}")
        return print_result(result, folder, as_json=as_json)

    return run_async(work)


def _say_session(manifest: RunManifest | None) -> None:
    if manifest is not None and manifest.session:
        say(f"session {manifest.session}: {plural(len(manifest.earlier), 'earlier task')}")


def _say_folders(manifest: RunManifest | None) -> None:
    """Of folders, how many files they gave and what was left out."""
    if manifest is not None and any("/" in one.name for one in manifest.files):
        say(f"files: {plural(len(manifest.files), 'file')}")
    if manifest is not None and manifest.left_out:
        say(manifest.left_out)


def _warn_of_roles(roles: tuple[tuple[str, str], ...], workspace: Workspace[Any]) -> None:
    """A tool may invoke agents of any role, so an unknown one is no error; it may be a slip."""
    known = {*ROLES, *workspace.settings.roles, *(agent.role for agent in workspace.agents.values())}
    for name, _ in roles:
        if name not in known:
            say(f"warning: no agent of this workspace plays the role {name!r}; the roles: {', '.join(sorted(known))}")


def _name_default_budget(manifest: RunManifest) -> None:
    if manifest.budget.cost_usd == DEFAULT_COST_USD:
        say(f"budget: {DEFAULT_COST_USD:g} US dollar by default for {manifest.model}; --budget-usd changes it")
