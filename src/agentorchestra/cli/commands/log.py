"""`agentorchestra log`: the queries of the paper's tracer, by session, task, record and index (000, app. C.1.1)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from agentorchestra.cli.driver import async_command
from agentorchestra.cli.options import COUNT, ParamType, option, workspace_option
from agentorchestra.cli.output import CONTROL, emit, emit_bytes, emit_json, one_line, say
from agentorchestra.cli.workspaces import exists, find_run, opening
from agentorchestra.core.events import BODIES, Event
from agentorchestra.core.query import LogQuery

_TOGETHER = 200
_AGO = re.compile(r"(\d{1,6})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_RANGE = re.compile(r"(\d{1,15})|(\d{0,15})\.\.(\d{0,15})")


class IndexRange(ParamType):
    """A place in a log, or a range of places."""

    name = "index"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """First and last, None where it is open."""
        match = _RANGE.fullmatch(str(value).strip())
        if match is None or match.group() == "..":
            self.fail(f"{value!r} is no index; write 12, 10..20, 10.. or ..20", param, ctx)
        single, first, last = match.groups()
        low, high = (single, single) if single else (first, last)
        return (int(low) if low else None, int(high) if high else None)


class Since(ParamType):
    """A time, or how long ago."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the time, in UTC."""
        if isinstance(value, datetime):
            return value
        text = str(value).strip()
        ago = _AGO.fullmatch(text)
        try:
            if ago is not None:
                return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
            return datetime.fromisoformat(text).astimezone(UTC)  # without a zone: of this machine
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is no time; write 2h, 3d, 2026-11-05 or 2026-11-05T12:30", param, ctx)


@async_command(
    epilog="""\b
Examples:
  agentorchestra log --run last --index 10..20
  agentorchestra log --session offers --type completed --since 2h
  agentorchestra log --task "notice period" --record /1.agentorchestra
  agentorchestra log --run last --jsonl > events.jsonl

\b
Exit codes: 0, also if nothing fits; 1 if the log cannot be read; 2 wrong usage."""
)
@option("--run", "names", metavar="RUN", multiple=True, help="Only of this run; may be repeated.")
@option("--session", metavar="S", help="Only of runs of this session.")
@option("--task", metavar="TEXT", help="Only of runs with this text in their task.")
@option(
    "--record", metavar="KEY", help="Only of this effect (/1.react#3), or of this branch and those below it (/1.react)."
)
@click.option("--index", metavar="N|A..B", type=IndexRange(), help="Only these places in the log of a run.")
@click.option("--type", "types", metavar="TYPE", multiple=True, help="Only of this type; may be repeated.")
@option("--actor", metavar="NAME", help="Only what this agent or process wrote.")
@click.option("--since", metavar="TIME", type=Since(), help="Only from here on: 2h, 3d, 2026-11-05T12:30.")
@option("--limit", metavar="N", type=COUNT, help="Only the last ones, so many.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects on stdout, and nothing else there.")
@click.option("--jsonl", "as_lines", is_flag=True, help="Print an object a line: whole logs can be imported again.")
@workspace_option
async def log(
    names: tuple[str, ...],
    task: str | None,
    record: str | None,
    index: tuple[int | None, int | None] | None,
    types: tuple[str, ...],
    limit: int | None,
    as_json: bool,
    as_lines: bool,
    folder: Path,
    **fields: Any,
) -> int:
    """Print events, the oldest run's first: run, index, time, type, record, actor, and what it says in a line.

    A task is a run, a record an effect with its key. What is given together must all hold. --jsonl checks that the
    events are those that were recorded, and stops before the first ones that were changed.
    """
    if as_json and as_lines:
        raise click.UsageError("--json and --jsonl exclude each other; give one of them")
    unknown = [kind for kind in types if kind not in BODIES]
    if unknown:
        raise click.UsageError(f"there are no events of the type {unknown[0]!r}; the types: {', '.join(BODIES)}")
    if record is not None and not record.startswith("/"):
        raise click.UsageError(f"--record is {record!r}; keys and branches begin with /, e.g. /1.react#3 or /1.react")
    first, last = index or (None, None)
    base = LogQuery(record=record, first=first, last=last, types=types, **fields)

    count = 0
    waiting: list[Event] = []
    if exists(folder):
        async with opening(folder, app=False) as workspace:
            runs = tuple([(await find_run(workspace, name)).id for name in names])
            query = base.model_copy(update={"runs": runs}) if names else base
            async for event in workspace.log.select(query, task=task, limit=limit, verify=as_lines):
                count += 1
                waiting.append(event)
                if len(waiting) >= _TOGETHER and not as_json:
                    if not _print(waiting, lines=as_lines):
                        return 0
                    waiting = []
    if as_json:
        emit_json(waiting)
    elif waiting:
        _print(waiting, lines=as_lines)
    if not count and not as_json:
        say(f"no events in {folder} fit")
    return 0


def _print(events: list[Event], *, lines: bool) -> bool:
    if lines:
        from agentorchestra.log.bundle.lines import to_line

        text = b"".join(to_line(event) for event in events).decode("utf-8", "surrogatepass")
        # The same values: nothing in them may steer a terminal.
        printable = CONTROL.sub(lambda match: f"\\u{ord(match.group()):04x}", text)
        return emit_bytes(printable.encode("utf-8", "surrogatepass"))
    return emit("\n".join(_line(event) for event in events))


def _line(event: Event) -> str:
    time = event.ts.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    record = f"{event.branch}#{event.n}" if event.branch else "-"
    head = f"{event.run}  {event.seq:>5}  {time}  {event.type:<16}  {record}  {event.actor or '-'}"
    return one_line(f"{head}  {_says(event)}", 240)


def _says(event: Event) -> str:
    body = event.body
    effect = body.get("effect")
    text = f"{effect.get('kind')} {effect.get('component')} " if isinstance(effect, dict) else ""
    outcome = body.get("outcome")
    if isinstance(outcome, dict):
        text += f"{outcome.get('status', 'ok')} {outcome.get('error') or outcome.get('value') or ''}"
    for name in ("message", "text", "answer", "error", "reason", "status"):
        if not text and body.get(name):
            text = str(body[name])
    if not text and isinstance(body.get("manifest"), dict):
        text = str(body["manifest"].get("task", ""))
    return text
