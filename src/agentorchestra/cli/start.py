"""Driving a run that was just made, and what is said before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentorchestra.cli.driver import drive
from agentorchestra.cli.options import (
    COUNT,
    budget_options,
    environment_option,
    file_option,
    label_option,
    model_option,
    option,
    role_option,
    together,
)
from agentorchestra.cli.output import clean, plural, say
from agentorchestra.cli.project import ON_A_COPY
from agentorchestra.core.budget import Budget
from agentorchestra.core.errors import UnknownRoleError
from agentorchestra.core.names import did_you_mean
from agentorchestra.core.spec import RunResult, RunSpec
from agentorchestra.workspace import DEFAULT_COST_USD, Workspace

ROLES = (
    "planner, analyzer, reporter, formatter, summariser, judge, verifier, policy, worker, browser, debate, "
    "expert, main, child, reviewer, agent, vision, hearing, video"
)
"""What packaged agents and tools play; the user's own may name others."""


def check_roles(workspace: Workspace[Any], roles: tuple[tuple[str, str], ...]) -> None:
    """Refuse a role that no agent plays with an UnknownRoleError. One that only tools give is named in the settings."""
    own = {*workspace.settings.roles, *(agent.role for agent in workspace.catalog.agents.values())}
    names = sorted({*ROLES.split(", ")} | own)
    for name, _ in roles:
        if name not in names:
            raise UnknownRoleError(
                f"no agent of this workspace plays the role {name!r}; "
                f"{did_you_mean(name, names, 'the roles: ' + ', '.join(names) + '.')} A role that only a tool of yours "
                f"gives to agents is named in the settings: [roles.{name}]"
            )


spec_options = together(
    file_option,
    option(
        "--system",
        "-s",
        metavar="NAME",
        help="How agents work on it: a system, or a program or society of yours.  [default: from the settings]",
    ),
    model_option,
    role_option(ROLES),
    option(
        "--session",
        metavar="S",
        help="The session whose next turn this is; a new one where there is none of this name.",
    ),
    environment_option,
    option("--max-steps", metavar="N", type=COUNT, help="Decisions of the top agent; the last one must answer."),
    budget_options,
    label_option("name=value", "For your own order."),
)
"""The options of commands that describe a run for others to drive; `described` reads them."""


def spec_of(task: str, *, budget_usd: float | None, timeout_s: float | None, **fields: Any) -> RunSpec:
    """Return the run that options describe, `spec_options` or some of them; pairs become dictionaries."""
    pairs: dict[str, Any] = {name: dict(fields.pop(name, ())) for name in ("roles", "labels", "components")}
    return RunSpec(task=task, budget=Budget(cost_usd=budget_usd, active_s=timeout_s), **pairs, **fields)


async def drive_new(
    workspace: Workspace[Any], spec: RunSpec, *, folder: Path, as_json: bool, asks: bool = True, talk: bool = False
) -> RunResult:
    """Make a run, say what it is, then drive it; it asks at the terminal if `asks` and its `on_ask` allow it."""
    run_id = await workspace.create(spec, begins=True)
    record = await workspace.store.get_run(run_id)
    assert record is not None
    manifest = record.manifest
    if not as_json:
        say(f"run {run_id}")
        if manifest.session:
            say(f"session {manifest.session}: {plural(len(manifest.earlier), 'earlier task')}")
        if any("/" in file.name for file in manifest.files):  # what the folders gave, and what was left out of them
            say(f"files: {plural(len(manifest.files), 'file')}")
        if manifest.left_out:
            say(manifest.left_out)
        if manifest.project is not None:
            say(ON_A_COPY.format(manifest.project.path))
    for note in workspace.components.notes:
        say(clean(f"warning: {note}"))
    by_default = (spec.budget is None or spec.budget.cost_usd is None) and workspace.settings.budget.cost_usd is None
    if by_default and manifest.budget.cost_usd == DEFAULT_COST_USD:
        say(f"budget: {DEFAULT_COST_USD:g} US dollar by default for {manifest.model}; --budget-usd changes it")
    asks = asks and (spec.on_ask or workspace.settings.on_ask) != "deny"
    return await drive(workspace, run_id, folder=folder, as_json=as_json, ask=asks, talk=talk)
