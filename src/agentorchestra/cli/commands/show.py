"""`agentorchestra show`: the tree of agents and effects of a run, from its log."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import click

from agentorchestra.cli.driver import async_command
from agentorchestra.cli.options import FilePath, json_option, option, run_argument, workspace_option
from agentorchestra.cli.output import (
    UnwritableError,
    account_lines,
    clean,
    command,
    emit,
    emit_either,
    emit_json,
    next_lines,
    one_line,
    plural,
    readable_answer,
    spending,
    summary_line,
)
from agentorchestra.cli.view.account import Work
from agentorchestra.cli.view.model import RunView
from agentorchestra.cli.view.sequence import sequence_lines
from agentorchestra.cli.view.tree import tree_lines
from agentorchestra.cli.workspaces import is_abandoned, opened_run
from agentorchestra.core.errors import UsageError
from agentorchestra.core.protocols import RunRecord
from agentorchestra.core.settings import NO_PRESET
from agentorchestra.core.spec import FINAL, RunResult, RunSpec, RunStatus, exit_code, first_names
from agentorchestra.log.comparison import changed_in
from agentorchestra.log.conversation import Conversation, conversation
from agentorchestra.log.patterns import patterns

UNSAFE = "unsafe-local"
UNDER_WAY = (RunStatus.CREATED, RunStatus.RUNNING)
HERE = Path("-")
"""`--html -`: standard output."""

_WIDTH = 120
"""Columns of the sequence of messages where no terminal says how many it has."""

_BY_RUN = "."
"""`--html` without a file: in the current folder, under the run's name."""


@async_command(
    epilog="""\b
Examples:
  agentorchestra show last
  agentorchestra show last --effects
  agentorchestra show run_01K9 --html report.html
  agentorchestra show run_01K9 --json
  agentorchestra show run_01K9 --patterns --model openai:gpt-5

\b
Exit codes: 0; 1 if the log cannot be read, or the page cannot be written;
2 if there is no such run. With --model those of `agentorchestra run`."""
)
@run_argument
@click.option(
    "--html",
    "page",
    metavar="[FILE]",
    is_flag=False,
    flag_value=_BY_RUN,
    type=FilePath(),
    help="Write one self-contained HTML file with everything in it; - is stdout.  [default: RUN.html]",
)
@click.option("--effects", is_flag=True, help="Show every effect with its key, status, tokens, cost and time.")
@click.option(
    "--patterns",
    "as_patterns",
    is_flag=True,
    help="Show instead how agents that wrote to each other worked together, with the messages that show it.",
)
@option("--model", metavar="M", help="With --patterns: the model that looks for edge cases too, in a run of its own.")
@json_option("one object with the run, its result and its events; with --patterns what was found")
@workspace_option
async def show(
    run: str, page: Path | None, effects: bool, as_patterns: bool, model: str | None, as_json: bool, folder: Path
) -> int:
    """Show what RUN was asked, what each agent did, what came out with its sources, what it cost, and what to do next.

    An open question stands there with the commands that settle it. With --effects every effect is listed below the one
    that it was performed in; one that was started and has no end yet is "started", an "interrupted" one is done again
    by a resume.
    What agents wrote to each other is drawn as a sequence; the HTML page and --json have each message whole.
    The HTML page has the requests, arguments and results too; it runs no script and loads nothing.
    """
    forms = {"--html": page is not None, "--effects": effects, "--patterns": as_patterns, "--json": as_json}
    formats = [name for name, is_wanted in forms.items() if is_wanted and (name != "--json" or not as_patterns)]
    if len(formats) > 1:
        raise click.UsageError(f"{formats[0]} and {formats[1]} exclude each other; give one of them")
    if as_patterns:
        return await _patterns(run, model, folder, as_json=as_json)
    if model is not None:
        raise click.UsageError("--model is for --patterns; give both, or leave it out")

    async with opened_run(folder, run) as (workspace, record):
        events = await workspace.log.events(record.id)
        result = await workspace.runs.result(record.id)
        dead = await is_abandoned(workspace, record)
        images: dict[str, str] = {}
        if page is not None:
            from agentorchestra.cli.view.html import pictures

            images = await pictures(result.files, workspace.store.get_blob)
    view, talk = RunView.of(events), conversation(events)
    questions = () if record.status in FINAL else view.questions
    if as_json:
        about = {"run": record, "abandoned": dead, "result": result, "questions": questions}
        emit_json({**about, "folder": result.folder, "conversation": talk, "events": events})
        return 0
    if page is not None:
        from agentorchestra.cli.view.html import render

        _write_page(page, render(view, record, result, is_dead=dead, talk=talk, pictures=images), record)
        return 0
    tail = [f"folder: {result.folder}"] if result.folder else []
    tail += _tail(view, result, summary_line(result) if effects else f"paid: {spending(result)}")
    body = ["done:", *(f"  {line}" for line in Work(view, result.answer_text, talk).lines())]
    body = tree_lines(view) if effects else body
    end = _next(record, result, folder, dead=dead, effects=effects)
    emit(clean("\n".join([*_head(record, view, dead=dead), "", *body, "", *_messages(talk), *tail, *end])))
    return 0


async def _patterns(run: str, model: str | None, folder: Path, *, as_json: bool) -> int:
    """Print the patterns of a run's society, and with a model the edge cases that it finds."""
    from agentorchestra.agents.society.reader import NAME, TASK, edge_cases, options_for
    from agentorchestra.cli.start import drive_new
    from agentorchestra.cli.view.patterns import UNREAD_HINT, case_lines, pattern_lines

    result = None
    async with opened_run(folder, run, app=model is not None) as (workspace, record):
        talk = conversation(await workspace.log.events(record.id))
        if talk is None:
            raise UsageError(
                f"the agents of run {record.id} ({record.manifest.system}) do not write to each other, so there are no "
                "patterns; choose a run of coral, or of a society of your own"
            )
        if model is not None:
            task = TASK.format(run=record.id)
            spec = RunSpec(task=task, system=NAME, model=model, options=options_for(talk))
            result = await drive_new(workspace, spec, folder=folder, as_json=as_json, asks=False)
    findings = patterns(talk)
    cases, reason = None, UNREAD_HINT
    if result is not None and result.status is RunStatus.COMPLETED:
        cases = edge_cases(result.output_value)
    elif result is not None:
        reason = f"not found out: {result.report or result.error or result.status.value}"
    lines = [f"edge cases {reason}"] if cases is None else case_lines(talk, cases)
    missing = reason if cases is None else None
    about = {"run": record.id, "patterns": findings, "edge_cases": cases, "edge_cases_missing": missing}
    emit_either(as_json, about, [*pattern_lines(talk, findings), "", *lines])
    return 0 if result is None else exit_code(result.status)


def _next(record: RunRecord, result: RunResult, folder: Path, *, dead: bool, effects: bool) -> list[str]:
    lines = ["", *next_lines(result, folder)] if record.status not in UNDER_WAY else [""]
    if dead:
        lines.append(f"to go on: {command('resume', record.id, folder)}")
    elif record.status in UNDER_WAY:
        lines.append(f"to watch it: {command('tail', record.id, folder)}")
    if result.files:
        lines.append(f"to have its files: {command('files', record.id, folder)} --save DIR")
    if result.diff:
        lines.append(f"to apply its changes: {command('apply', record.id, folder)}")
    return lines if effects else [*lines, f"to see every effect: {command('show', record.id, folder)} --effects"]


def _messages(talk: Conversation | None) -> list[str]:
    """Return what agents wrote to each other, drawn as wide as the terminal."""
    if talk is None:
        return []
    width = shutil.get_terminal_size((_WIDTH, 0)).columns
    lines = sequence_lines(talk, width, sys.stdout.encoding or "ascii")
    return ["messages:", *(lines if talk.exchanges else ["(none yet)"]), ""]


def _write_page(page: Path, text: str, record: RunRecord) -> None:
    if page == HERE:
        emit(text)
        return
    try:
        target = page / f"{record.id}.html" if page.is_dir() else page
        # A page holds all that the run read: a new file is for its owner alone.
        with open(target, "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(text)
    except OSError as exc:
        raise UnwritableError(f"{page} cannot be written: {exc.strerror}; name another file with --html FILE") from None
    emit(str(target))


def _head(record: RunRecord, view: RunView, *, dead: bool) -> list[str]:
    manifest = record.manifest
    status = record.status.value + (" (the process that drove it is gone)" if dead else "")
    lines = [
        f"{record.id}  {status}  {record.created.astimezone():%Y-%m-%d %H:%M:%S}",
        f"task: {one_line(manifest.task, 500)}",
        f"system: {manifest.system}   model: {manifest.model}   steps at most: {manifest.max_steps}",
    ]
    if manifest.preset != NO_PRESET:
        lines.append(f"preset: {manifest.preset}")
    roles = ", ".join(f"{name}={role.model}" for name, role in manifest.roles.items() if role.model)
    if roles:
        lines.append(f"roles: {roles}")
    if manifest.session:
        before = f"; the turn before: {manifest.previous}" if manifest.previous else ""
        lines.append(f"session: {manifest.session} ({plural(len(manifest.earlier), 'earlier task')}{before})")
    if manifest.sandbox == UNSAFE:
        lines.append("sandbox: none (--unsafe-local): programs that models wrote could do what you may")
    if manifest.files:
        lines.append("files: " + first_names(f"{file.name} ({plural(file.size, 'byte')})" for file in manifest.files))
    if manifest.left_out:
        lines.append(manifest.left_out)
    limits = view.budget.model_dump(exclude_none=True)
    if limits:
        lines.append("budget: " + ", ".join(f"{name} {value:g}" for name, value in limits.items()))
    if manifest.labels:
        lines.append("labels: " + ", ".join(f"{name}={value}" for name, value in manifest.labels.items()))
    if manifest.components:
        versions = ", ".join(f"{key}@{version}" for key, version in manifest.components.items())
        lines.append(f"components: {versions}")
    if record.parent_run:
        changed = changed_in(manifest)
        lines.append(f"forked from {record.parent_run} at event {record.fork_seq} (changed: {changed})")
    if record.imported:
        lines.append(f"imported {record.imported.astimezone():%Y-%m-%d %H:%M:%S} from elsewhere")
    return lines


def _tail(view: RunView, result: RunResult, cost: str) -> list[str]:
    lines = [f"{note.level}: {one_line(note.text, 500)}" for note in view.notes if note.text != result.error]
    lines += [""] if lines else []
    answer = readable_answer(result)
    lines += [f"answer: {answer}", ""] if answer else []
    names = first_names(f"{one_line(file.name)} ({plural(file.size, 'byte')})" for file in result.files)
    lines += [f"made: {names}", ""] if result.files else []
    return [*lines, *account_lines(result, answer), cost]
