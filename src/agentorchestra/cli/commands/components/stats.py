from __future__ import annotations

from pathlib import Path

import click

from agentorchestra.cli.commands.components.shared import KINDS, servers
from agentorchestra.cli.driver import async_command
from agentorchestra.cli.options import json_option, workspace_option
from agentorchestra.cli.output import clean, emit, emit_json, one_line, plural, say
from agentorchestra.cli.workspaces import opening
from agentorchestra.tea.registry.usage import Use
from agentorchestra.tea.retrieval.finder import CALL_KINDS

COUNTABLE = tuple(CALL_KINDS.values())  # the kinds whose calls are in the log


@async_command(short_help="How often each was called, and reused.")
@click.option("--kind", type=click.Choice(COUNTABLE), help="Only this kind.  [default: all of these]")
@click.option("--all", "every", is_flag=True, help="Those that were never called, too.")
@click.option("--generated", is_flag=True, help="Only those that agents made; of these all.")
@json_option("a list of objects")
@workspace_option
async def stats(kind: str | None, every: bool, generated: bool, as_json: bool, folder: Path) -> int:
    """Print how often each component was called in the runs of this workspace, in how many of them, and with what
    success; of what an agent made, how many runs other than its own have used it.

    It is counted from the log: runs that were deleted do not count.
    """
    async with opening(folder) as workspace:
        managers = [server for name, server in servers(workspace, kind).items() if name in COUNTABLE]
        uses: list[Use] = [stat for server in managers for stat in await server.stats()]
    rows = [row for row in uses if (row.calls or every or generated) and (row.generated or not generated)]
    rows.sort(key=lambda row: (-row.calls, row.kind, row.name))
    if as_json:
        emit_json([row.model_dump(mode="json") for row in rows])
        return 0
    width = max((len(row.name) for row in rows), default=0)
    for row in rows:
        emit(clean(f"{row.kind:<11}  {one_line(row.name, 64):<{width}}  {_sentence(row)}"))
    tools = [use for use in uses if use.generated]
    if tools:
        count = sum(tool.reused > 0 for tool in tools)
        say(f"{plural(len(tools), 'generated tool')}, {count} of them reused in other runs")
    elif not rows:
        noun = KINDS[kind] if kind else "components"
        say(f"no calls of {noun} are in the log of this workspace")
    return 0


def _sentence(use: Use) -> str:
    failed = use.calls - use.succeeded
    parts = [plural(use.calls, "call"), *([f"{failed} failed"] if failed else []), f"in {plural(use.runs, 'run')}"]
    if use.generated:
        parts.append(f"generated, {f'reused in {use.reused}' if use.reused else 'not reused'}")
    return ", ".join(parts) if use.calls else f"never called{', generated' if use.generated else ''}"
