from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from agentorchestra.cli.driver import async_command
from agentorchestra.cli.options import WORDS, json_option, workspace_option
from agentorchestra.cli.output import bill, emit_either, number, one_line, plural
from agentorchestra.cli.workspaces import find_run, opened_run
from agentorchestra.log.comparison import Comparison, Side


@async_command(
    epilog="""\b
Examples:
  agentorchestra compare run_01K9 last
  agentorchestra compare run_01K9 run_01KA --json

\b
Exit codes: 0 the runs are equal effect by effect, 1 they differ, 2 wrong usage."""
)
@click.argument("first", metavar="RUN", type=WORDS)
@click.argument("second", metavar="RUN", type=WORDS)
@json_option("one object")
@workspace_option
async def compare(first: str, second: str, as_json: bool, folder: Path) -> int:
    """Show the first effect in which two runs differ, as asked or as answered, and how each goes on from there.

    Effects are matched by key, so it does not matter which of two agents at work at the same time wrote first.
    """
    async with opened_run(folder, first) as (workspace, record):
        result = await workspace.log.compare(record.id, (await find_run(workspace, second)).id)
    emit_either(as_json, result, _lines(result))
    return 0 if result.difference is None else 1


def _lines(result: Comparison) -> Iterator[str]:
    if result.relation:
        yield result.relation
    if result.difference is None:
        yield f"equal: {plural(result.common, 'effect')} of {result.first.run_id} and {result.second.run_id}"
        return
    yield f"{plural(result.common, 'effect')} alike, then at {result.difference.key}: {result.difference.what}"
    yield from (f"    {line}" for line in result.difference.lines)
    for side in (result.first, result.second):
        yield ""
        yield from _side(side)


def _side(side: Side) -> Iterator[str]:
    yield (
        f"{side.run_id}  {side.status.value}  {side.system}, {side.model}; "
        f"{plural(side.usage.requests, 'request')}, {number(side.usage.tokens)} tokens, {bill(side.usage)}"
    )
    for step in side.continuation:
        request = f"({one_line(step.asked, 60)})" if step.asked else ""
        yield f"  {step.key}  {step.what}{request}  {step.status}: {one_line(step.result, 100)}"
    if side.answer:
        yield f"  answer: {one_line(side.answer, 300)}"
