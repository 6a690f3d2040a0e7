from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from agentorchestra.cli.delivery import Out, hand_over, out_options
from agentorchestra.cli.driver import async_command
from agentorchestra.cli.options import (
    COUNT,
    WORDS,
    budget_options,
    file_option,
    json_option,
    model_option,
    on_ask_option,
    option,
    role_option,
    workspace_options,
)
from agentorchestra.cli.output import print_result
from agentorchestra.cli.start import check_roles, drive_new, spec_of
from agentorchestra.cli.workspaces import opening


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
Exit codes: as for `agentorchestra run`."""
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
@on_ask_option("debate")
@out_options
@json_option("one object with the result")
@workspace_options
async def debate(
    topic: str,
    experts: tuple[str, ...],
    rounds: int | None,
    roles: tuple[tuple[str, str], ...],
    out: Out,
    as_json: bool,
    folder: Path,
    **fields: Any,
) -> int:
    """Let experts debate TOPIC: opening statements, then rounds in which they answer each other, then a conclusion that
    names agreements and disagreements.

    Each argument is written to stderr when it comes, under a mark such as [A1], the conclusion to stdout. A debate is a
    run like any other: `agentorchestra show`, `resume` and `replay` work on it.
    """
    out.check()
    options: dict[str, Any] = {"experts": [*experts], **({"rounds": rounds} if rounds is not None else {})}

    async with opening(folder) as workspace:
        check_roles(workspace, roles)
        spec = spec_of(topic, system="debate", roles=roles, options=options, **fields)
        result = await drive_new(workspace, spec, folder=folder, as_json=as_json, talk=True)
        delivery = await hand_over(workspace, result, out, folder)
    result = delivery.result
    if result.report and not as_json:
        result = result.model_copy(update={"answer_text": ""})  # the report begins with it
    return print_result(result, folder, as_json=as_json, delivery=delivery)
