"""`agentorchestra resume`."""

from __future__ import annotations

from pathlib import Path

import click

from agentorchestra.cli.driving import Stop, drive, run_async
from agentorchestra.cli.options import (
    budget_options,
    json_option,
    pin_option,
    run_argument,
    unsafe_option,
    warn_unsafe,
    workspace_option,
)
from agentorchestra.cli.output import print_result
from agentorchestra.cli.workspaces import opened_run
from agentorchestra.core.budget import Budget


@click.command(
    short_help="Go on with a run that stopped before its end.",
    epilog="""\b
Examples:
  agentorchestra resume last
  agentorchestra resume run_01K9 --budget-usd 2
  agentorchestra resume last --timeout-s 600 --json
  agentorchestra resume last --pin

\b
Exit codes: as for `agentorchestra run`.""",
)
@run_argument
@budget_options
@pin_option
@unsafe_option
@json_option("one object with the result")
@workspace_option
def resume(
    run: str,
    budget_usd: float | None,
    timeout_s: float | None,
    pin: bool,
    unsafe_local: bool,
    as_json: bool,
    folder: Path,
) -> int:
    """Go on with RUN where it stopped: after Ctrl-C, a crash, a failure, or with a larger budget.

    What is recorded is not asked, paid or done again. Limits that are given replace those of the run and hold for
    all of it, what is already spent included. A run that has ended prints its result again.
    """

    async def work(stop: Stop) -> int:
        if unsafe_local:
            warn_unsafe()
        async with opened_run(folder, run, app=True, unsafe_local=unsafe_local) as (workspace, record):
            result = await drive(
                workspace,
                record.id,
                stop,
                folder=folder,
                as_json=as_json,
                ask=record.manifest.on_ask != "deny",
                budget=Budget(cost_usd=budget_usd, active_s=timeout_s),
                pin=pin,
            )
        return print_result(result, folder, as_json=as_json)

    return run_async(work)
