"""`agentorchestra debate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import click

from agentorchestra.cli.delivery import Out, hand_over, out_options
from agentorchestra.cli.driver import async_command
from agentorchestra.cli.options import (
    COUNT,
    WORDS,
    budget_options,
    file_option,
    json_option,
    mcp_option,
    model_option,
    option,
    preset_option,
    role_option,
    workspace_option,
)
from agentorchestra.cli.output import print_result
from agentorchestra.cli.start import check_roles, drive_new
from agentorchestra.cli.workspaces import opened
from agentorchestra.core.budget import Budget
from agentorchestra.core.spec import RunSpec


@async_command(
    epilog="""\b
Examples:
  agentorchestra debate "Is the stock of AAPL a good investment?" \\
      --expert finance_expert --expert mathematics_expert
  agentorchestra debate "Should the town buy the mill?" --rounds 3 \\
      --expert "Treasurer: looks after the town's money" \\
      --expert "Miller: has run a mill for thirty years"
  agentorchestra debate "Which offer is better?" -f a.pdf -f b.pdf --json

\b
Exit codes: as for `agentorchestra run`.""",
)
@click.argument("topic", metavar="TOPIC", type=WORDS)
@option(
    "--expert",
    "-e",
    "experts",
    multiple=True,
    metavar="NAME",
    help="An agent of the workspace, or 'NAME: description' for an expert made for this debate; at least two, or none: "
    "then those that fit the topic are invited.",
)
@option(
    "--rounds",
    metavar="N",
    type=COUNT,
    help="Rounds of arguments and rebuttals after the opening statements, at most.  [default: from the settings]",
)
@file_option
@model_option
@role_option("debate for the manager, expert for the packaged experts")
@budget_options
@click.option(
    "--on-ask",
    type=click.Choice(["wait", "deny"]),
    help="A question nobody can answer now: the debate waits (exit code 3), or the answer is no.  "
    "[default: from the settings]",
)
@out_options
@json_option("one object with the result")
@preset_option
@mcp_option
@workspace_option
async def debate(
    topic: str,
    experts: tuple[str, ...],
    rounds: int | None,
    files: tuple[Path, ...],
    model: str | None,
    roles: tuple[tuple[str, str], ...],
    budget_usd: float | None,
    timeout_s: float | None,
    on_ask: Literal["wait", "deny"] | None,
    out: Out,
    as_json: bool,
    folder: Path,
) -> int:
    """Let experts debate TOPIC: opening statements, then rounds in which they answer each other, then a conclusion that
    names agreements and disagreements.

    Each argument is written to stderr when it comes, under a mark such as [A1], the conclusion to stdout. A debate is a
    run like any other: `agentorchestra show`, `resume` and `replay` work on it.
    """
    out.check()
    options: dict[str, Any] = {"experts": [*experts], **({"rounds": rounds} if rounds is not None else {})}

    async with opened(folder) as workspace:
        check_roles(workspace, roles)
        spec = RunSpec(
            task=topic,
            system="debate",
            files=files,
            model=model,
            roles=dict(roles),
            budget=Budget(cost_usd=budget_usd, active_s=timeout_s),
            on_ask=on_ask,
            options=options,
        )
        result = await drive_new(
            workspace,
            await workspace.create(spec, begins=True),
            folder=folder,
            as_json=as_json,
            asks=(on_ask or workspace.settings.on_ask) != "deny",
            budget_usd=budget_usd,
            talk=True,
        )
        handed = await hand_over(workspace, result, out, folder)
    result = handed.result
    if result.report and not as_json:
        result = result.model_copy(update={"answer_text": ""})  # the report begins with it
    return print_result(result, folder, as_json=as_json, handed=handed)
