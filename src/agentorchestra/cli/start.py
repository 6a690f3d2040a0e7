"""Driving a run that was just made, and what is said before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from agentorchestra.cli.driver import Stop, drive
from agentorchestra.cli.options import (
    COUNT,
    Pair,
    budget_options,
    file_option,
    model_option,
    once_each,
    option,
    role_option,
    together,
)
from agentorchestra.cli.output import clean, plural, say
from agentorchestra.core.budget import Budget
from agentorchestra.core.errors import UnknownRoleError
from agentorchestra.core.names import did_you_mean
from agentorchestra.core.spec import RunResult, RunSpec
from agentorchestra.workspace import DEFAULT_COST_USD, Workspace

ROLES = (
    "planner",
    "analyzer",
    "reporter",
    "formatter",
    "summariser",
    "judge",
    "verifier",
    "policy",
    "worker",
    "browser",
    "debate",
    "expert",
    "main",
    "child",
    "reviewer",
    "agent",
    "vision",
    "hearing",
    "video",
)
"""What packaged agents and tools play; the user's own may name others."""


def check_roles(workspace: Workspace[Any], roles: tuple[tuple[str, str], ...]) -> None:
    """Refuse a role that no agent plays with an UnknownRoleError. One that only tools give is named in the settings."""
    known = sorted({*ROLES, *workspace.settings.roles, *(agent.role for agent in workspace.agents.values())})
    for name, _ in roles:
        if name not in known:
            raise UnknownRoleError(
                f"no agent of this workspace plays the role {name!r}; "
                f"{did_you_mean(name, known, 'the roles: ' + ', '.join(known) + '.')} A role that only a tool of yours "
                f"gives to agents is named in the settings: [roles.{name}]"
            )


spec_options = together(
    file_option,
    option("--system", "-s", metavar="NAME", help="How agents work on it.  [default: from the settings]"),
    model_option,
    role_option(", ".join(ROLES)),
    option("--session", metavar="S", help="The session the task belongs to."),
    option(
        "--environment",
        "environments",
        multiple=True,
        metavar="NAME",
        help="An environment that the top agent works in; may be repeated.",
    ),
    option("--max-steps", metavar="N", type=COUNT, help="Decisions of the top agent."),
    budget_options,
    click.option(
        "--label",
        "labels",
        multiple=True,
        metavar="NAME=VALUE",
        type=Pair("name=value"),
        callback=once_each,
        help="For your own order.",
    ),
)
"""The options of commands that describe a run for others to drive; `described` reads them."""


def described(
    task: str,
    *,
    budget_usd: float | None,
    timeout_s: float | None,
    roles: tuple[tuple[str, str], ...],
    labels: tuple[tuple[str, str], ...],
    **fields: Any,
) -> RunSpec:
    """Return the run that `spec_options` describe."""
    budget = Budget(cost_usd=budget_usd, active_s=timeout_s)
    return RunSpec(task=task, budget=budget, roles=dict(roles), labels=dict(labels), **fields)


async def drive_new(
    workspace: Workspace[Any],
    run_id: str,
    *,
    folder: Path,
    as_json: bool,
    asks: bool,
    budget_usd: float | None,
    talk: bool = False,
) -> RunResult:
    """Say what the run is that was just made, then drive it; the budget is as it was given."""
    record = await workspace.store.get_run(run_id)
    assert record is not None
    manifest = record.manifest
    if not as_json:
        say(f"run {run_id}")
        if manifest.session:
            say(f"session {manifest.session}: {plural(len(manifest.earlier), 'earlier task')}")
        if any("/" in one.name for one in manifest.files):  # what the folders gave, and what was left out of them
            say(f"files: {plural(len(manifest.files), 'file')}")
        if manifest.left_out:
            say(manifest.left_out)
    for note in workspace.notes:
        say(clean(f"warning: {note}"))
    by_default = budget_usd is None and workspace.settings.budget.cost_usd is None
    if by_default and manifest.budget.cost_usd == DEFAULT_COST_USD:
        say(f"budget: {DEFAULT_COST_USD:g} US dollar by default for {manifest.model}; --budget-usd changes it")
    return await drive(workspace, run_id, Stop.of_command(), folder=folder, as_json=as_json, ask=asks, talk=talk)
