from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from agentorchestra.cli.driver import async_command, drive
from agentorchestra.cli.options import (
    Pair,
    budget_options,
    json_option,
    mcp_option,
    option,
    run_argument,
    unsafe_option,
    workspace_option,
)
from agentorchestra.cli.output import command, emit_json, print_result, say
from agentorchestra.cli.workspaces import opened_run, verdict_on
from agentorchestra.core.budget import Budget
from agentorchestra.core.errors import ForkError

_CHANGES = ("prompt:NAME=FILE", "outcome:KEY=JSON", "role:NAME=MODEL", "component:KIND:NAME=VERSION")


@async_command(
    epilog="""\b
Examples:
  agentorchestra fork last --at 40
  agentorchestra fork last --at "/1.react#5" --model openai:gpt-5
  agentorchestra fork run_01K9 --at 40 --set prompt:react=my-react.md
  agentorchestra fork run_01K9 --at 40 --set component:tool:price_of=1.0.1
  agentorchestra fork last --at "/1.react#4" --set 'outcome:/1.react#4="42"'

\b
Exit codes: as for `agentorchestra run`."""
)
@run_argument
@option(
    "--at",
    metavar="EVENT",
    required=True,
    help='The last event both runs have: its number, the key of an effect (its outcome), or "end". '
    "`agentorchestra show RUN --effects` lists the keys, `--json` the numbers.",
)
@option("--model", "-m", metavar="NAME", help="Another model, for every role not named with --set.")
@click.option(
    "--set",
    "changes",
    metavar="WHAT=VALUE",
    multiple=True,
    type=Pair("what=value"),
    help=f"What differs from there on: {', '.join(_CHANGES)}.",
)
@budget_options
@click.option("--label", "labels", multiple=True, metavar="NAME=VALUE", type=Pair("name=value"), help="For your order.")
@click.option("--no-resume", is_flag=True, help="Only make the fork; `agentorchestra resume` drives it later.")
@unsafe_option
@json_option("one object with the result")
@mcp_option
@workspace_option
async def fork(
    run: str,
    at: str,
    model: str | None,
    changes: tuple[tuple[str, str], ...],
    budget_usd: float | None,
    timeout_s: float | None,
    labels: tuple[tuple[str, str], ...],
    no_resume: bool,
    unsafe_local: bool,
    as_json: bool,
    folder: Path,
) -> int:
    """Make a new run with the log of RUN up to EVENT, and drive it on from there.

    What was recorded up to the event is neither asked nor paid again; from there on everything is live, with what
    was changed. RUN itself stays as it is. `agentorchestra compare RUN FORK` shows where they part.
    """
    overrides = _changes(changes)

    async with opened_run(folder, run, app=True, unsafe_local=unsafe_local, machine=True) as (workspace, record):
        new = await workspace.fork(
            record.id,
            at=None if at.strip() == "end" else at,
            model=model,
            budget=Budget(cost_usd=budget_usd, active_s=timeout_s),
            labels=dict(labels),
            prompts=overrides["prompts"],
            outcomes=overrides["outcomes"],
            roles=overrides["roles"],
            components=overrides["components"],
        )
        if no_resume:
            if as_json:
                emit_json({"run_id": new, "parent_run": record.id})
            else:
                say(f"run {new}, forked from {record.id}; to drive it: {command('resume', new, folder)}")
            return 0
        if not as_json:
            say(f"run {new}, forked from {record.id}")
        asks = record.manifest.on_ask != "deny"
        result = await drive(workspace, new, folder=folder, as_json=as_json, ask=asks)
        verdict = await verdict_on(workspace, result)
    return print_result(result, folder, as_json=as_json, verdict=verdict)


def _changes(pairs: tuple[tuple[str, str], ...]) -> dict[str, dict[str, Any]]:
    """Return the arguments of `Workspace.fork`; raise ForkError for what cannot be changed."""
    changes: dict[str, dict[str, Any]] = {"prompts": {}, "outcomes": {}, "roles": {}, "components": {}}
    for key, value in pairs:
        kind, _, name = key.partition(":")
        place = changes.get(f"{kind}s")
        if place is None or not name:
            raise ForkError(f"--set {key}=... cannot be changed in a fork; what can: {', '.join(_CHANGES)}")
        if name in place:
            raise ForkError(f"--set {key} is given twice; give it once")
        place[name] = _outcome(name, value) if kind == "outcome" else value
    return changes


def _outcome(key: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as exc:
        raise ForkError(
            f"the outcome for {key} is not JSON ({exc}); a text needs quotes: outcome:KEY='\"...\"'"
        ) from None
