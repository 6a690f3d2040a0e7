from __future__ import annotations

import re
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from agentorchestra.cli.driver import async_command
from agentorchestra.cli.options import ParamType, json_option, option, workspace_option
from agentorchestra.cli.output import emit_either, plural
from agentorchestra.cli.workspaces import exists, opening
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.retention import END_STATUSES, GRACE_S, Collected, Retention
from agentorchestra.log.store.rows import PENDING

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_LONGEST_S = 36_500 * 86_400
CHOICES = sorted(status.value for status in RunStatus if status not in PENDING)


class Age(ParamType):
    """A length of time: `30d`, `12h`, `90m`."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)([smhdw])", str(value).strip())
        seconds = float(match[1]) * _UNITS[match[2]] if match else -1.0
        if not 0 <= seconds <= _LONGEST_S:
            self.fail(f"{value!r} is no length of time; write it as 30d, 12h or 90m", param, ctx)
        return timedelta(seconds=seconds)


@async_command(
    epilog="""\b
Examples:
  agentorchestra gc --dry-run
  agentorchestra gc --older-than 30d
  agentorchestra gc --keep 100 --status completed
  agentorchestra gc --session offers --grace 0s

\b
Exit codes: 0, also if there is nothing to delete; 1 if the workspace cannot be read."""
)
@click.option("--older-than", metavar="T", type=Age(), help="Delete runs whose last event is older, e.g. 30d or 12h.")
@option("--session", metavar="S", help="Erase this session: all its turns, of any age and end.")
@click.option("--keep", metavar="N", type=click.IntRange(min=0), help="Delete all runs but the newest N.")
@click.option(
    "--status",
    "statuses",
    metavar="S",
    multiple=True,
    type=click.Choice(CHOICES),
    help=f"Only runs that stand so; may be given again.  [default: {', '.join(sorted(END_STATUSES))}]",
)
@option(
    "--grace",
    metavar="T",
    type=Age(),
    default=f"{GRACE_S / 86_400:g}d",
    help="Blobs, files, folders and images that are younger, or were used since, stay.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@json_option("one object")
@workspace_option
async def gc(
    older_than: timedelta | None,
    session: str | None,
    keep: int | None,
    statuses: tuple[str, ...],
    grace: timedelta,
    dry_run: bool,
    as_json: bool,
    folder: Path,
) -> int:
    """Delete runs by age and number, their folders, and files, blobs and unpacked images that no run has any more.

    Without --older-than, --keep and --session no run is deleted; with the first two, a run goes if both say so. A run
    that is driven, waits or is paused stays, and so does one that a run which stays was forked from.
    """
    retention = Retention(older_than, keep, frozenset(map(RunStatus, statuses)) or END_STATUSES)

    if session is not None and (older_than is not None or keep is not None or statuses):
        raise click.UsageError("--session erases a session whole: leave --older-than, --keep and --status out")
    done = Collected(dry_run=dry_run)
    if exists(folder):
        async with opening(folder, app=False) as workspace:
            if session is not None:
                done = await workspace.session(session).erase(grace_s=grace.total_seconds(), dry_run=dry_run)
            else:
                done = await workspace.log.gc(retention, grace_s=grace.total_seconds(), dry_run=dry_run)
    emit_either(as_json, asdict(done), _summary(done))
    return 0


def _summary(done: Collected) -> str:
    verb = "would delete" if done.dry_run else "deleted"
    counts = [
        plural(len(done.runs), "run"),
        plural(done.folders, "folder"),
        *([plural(done.images, "image")] if done.images else []),
        plural(done.files, "file"),
        plural(done.blobs, "blob"),
    ]
    size = f"{done.bytes / 1e6:.1f} MB" if done.bytes >= 100_000 else f"{done.bytes} bytes"
    lines = [f"{verb} {', '.join(counts[:-1])} and {counts[-1]} ({size})"]
    lines += [f"  {run}" for run in done.runs]
    if done.kept:
        lines.append(f"kept, because they are needed: {', '.join(done.kept)}")
    return "\n".join(lines)
