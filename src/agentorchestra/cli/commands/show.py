"""`agentorchestra show`: the tree of agents and effects of a run, from its log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from agentorchestra.cli.driving import Stop, run_async
from agentorchestra.cli.options import json_option, run_argument, workspace_option
from agentorchestra.cli.output import (
    clean,
    command,
    dollars,
    emit,
    emit_json,
    one_line,
    plural,
    print_questions,
    say,
    summary_line,
)
from agentorchestra.cli.progress import describe
from agentorchestra.cli.workspaces import abandoned, opened_run
from agentorchestra.core.budget import Usage
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.events import Event
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.protocols import RunRecord
from agentorchestra.core.spec import RunResult, RunStatus
from agentorchestra.runtime.ledger import Ledger, Record, parent_key, within
from agentorchestra.runtime.run import current_budget, open_questions


@click.command(
    short_help="Show what a run did, step by step.",
    epilog="""\b
Examples:
  agentorchestra show last
  agentorchestra show run_01K9 --json

\b
Exit codes: 0; 1 if the log cannot be read; 2 if there is no such run.""",
)
@run_argument
@json_option("one object with the run, its result and its events")
@workspace_option
def show(run: str, as_json: bool, folder: Path) -> int:
    """Show the tree of agents and effects of RUN: keys, status, tokens and cost, then open questions and the answer.

    An effect that was started and has no end yet is "started"; "interrupted" ones are done again by a resume.
    """

    async def work(stop: Stop) -> int:
        async with opened_run(folder, run) as (workspace, record):
            events = await workspace.events(record.id)
            result = await workspace.result(record.id)
            gone = await abandoned(workspace, record)
        ledger = Ledger.of(events)
        if as_json:
            emit_json(
                {
                    "run": record.model_dump(mode="json"),
                    "abandoned": gone,
                    "result": result.model_dump(mode="json"),
                    "events": [event.model_dump(mode="json") for event in events],
                }
            )
            return 0
        emit(clean("\n".join([*_head(record, events, gone=gone), "", *tree(ledger), "", *_tail(result)])))
        questions = open_questions(ledger)
        if questions and record.status not in (RunStatus.COMPLETED, RunStatus.PARTIAL, RunStatus.BLOCKED):
            print_questions(questions, record.id, folder)
        elif result.error:
            say(f"{record.status.value}: {one_line(result.error, 2000)}")
        if gone:
            say(f"to go on: {command('resume', record.id, folder)}")
        return 0

    return run_async(work)


def _head(record: RunRecord, events: list[Event], *, gone: bool) -> list[str]:
    manifest = record.manifest
    status = record.status.value + (" (the process that drove it is gone)" if gone else "")
    lines = [
        f"{record.id}  {status}  {record.created.astimezone():%Y-%m-%d %H:%M:%S}",
        f"task: {one_line(manifest.task, 500)}",
        f"system: {manifest.system}   model: {manifest.model}   steps at most: {manifest.max_steps}",
    ]
    if manifest.files:
        lines.append("files: " + ", ".join(f"{one.name} ({plural(one.size, 'byte')})" for one in manifest.files))
    limits = current_budget(manifest, events).model_dump(exclude_none=True)
    if limits:
        lines.append("budget: " + ", ".join(f"{name} {value:g}" for name, value in limits.items()))
    if manifest.labels:
        lines.append("labels: " + ", ".join(f"{name}={value}" for name, value in manifest.labels.items()))
    if record.parent_run:
        lines.append(f"forked from {record.parent_run} at event {record.fork_seq}")
    return lines


def _tail(result: RunResult) -> list[str]:
    lines = [f"answer: {result.answer}", ""] if result.answer else []
    return [*lines, summary_line(result)]


def tree(ledger: Ledger) -> list[str]:
    """The effects of a run as indented lines, in the order of their keys."""
    return list(_below(ledger, "/", 0)) or ["(nothing recorded yet)"]


def _below(ledger: Ledger, branch: str, depth: int) -> Iterator[str]:
    indent = "  " * depth
    numbers = {key.n for key in ledger.records if key.branch == branch}
    # Rival candidates have a number of their own and no effect with that key.
    rivals: dict[int, set[str]] = {}
    for key in ledger.records:
        if within(key.branch, branch) and key.branch != branch:
            owner, top = _step_down(key.branch, branch)
            rivals.setdefault(owner.n, set()).add(top)
    for n in sorted(numbers | set(rivals)):
        key = EffectKey(branch, n)
        record = ledger.records.get(key)
        if record is None:
            yield f"{indent}{key}  candidates"
        else:
            yield f"{indent}{key}  {_line(ledger, key, record)}"
        for inner in sorted(rivals.get(n, ())):
            if record is None:
                yield f"{indent}  {inner}"
            yield from _below(ledger, inner, depth + (1 if record is not None else 2))


def _step_down(branch: str, above: str) -> tuple[EffectKey, str]:
    """The child branch of `above` that leads to `branch`, and the key that owns it."""
    while True:
        owner = parent_key(branch)
        assert owner is not None
        if owner.branch == above:
            return owner, branch
        branch = owner.branch


def _line(ledger: Ledger, key: EffectKey, record: Record) -> str:
    parts = [describe(record.effect), _status(ledger, key, record)]
    usage = Usage()
    for other, one in ledger.spent:
        if other == key or within(other.branch, key.path):
            usage = usage + one
    if usage != Usage():
        parts += [plural(usage.tokens, "token"), dollars(usage.cost_usd)]
    if record.attempt > 1:
        parts.append(f"attempt {record.attempt}")
    error = record.outcome.error if record.outcome is not None else None
    if error:
        parts.append(one_line(error, 200))
    return "  ".join(parts)


def _status(ledger: Ledger, key: EffectKey, record: Record) -> str:
    if record.outcome is not None:
        return record.outcome.status
    if record.kind is EffectKind.ASK_HUMAN:
        return "answered" if str(key) in ledger.answers else "open"
    return "interrupted" if record.interrupted else "started"
