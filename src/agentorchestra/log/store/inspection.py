"""Find damage in a log: events that are missing, changed or unreadable, blobs that are not what their hash says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, func, or_, select

from agentorchestra.core.errors import StoreError
from agentorchestra.log.store import rows
from agentorchestra.log.store.schema import blobs, events, runs

_MOST = 5  # runs and places that a finding names; more are counted


@dataclass
class Inspection:
    """What was looked at, and what is damaged, a sentence each."""

    runs: int = 0
    events: int = 0
    blobs: int = 0
    unchecked: int = 0  # events without a checksum, which an earlier version wrote
    damage: list[str] = field(default_factory=list)


def inspect(
    connection: Connection, quick_check: list[str], read_event: Callable[[Any], Any], read_blob: Callable[[str], bytes]
) -> Inspection:
    """Return what is found, one event and one blob in memory at a time."""
    inspection = Inspection(damage=[f"the database's own check says: {line}" for line in quick_check])
    for run, next_seq in connection.execute(select(runs.c.id, runs.c.next_seq).order_by(runs.c.id)).all():
        inspection.runs += 1
        expected, bad = 1, []
        for row in connection.execute(select(*events.c).where(events.c.run == run).order_by(events.c.seq)):
            bad += [f"{seq} is missing" for seq in range(expected, min(row.seq, expected + _MOST))]
            expected = row.seq + 1
            inspection.events += 1
            try:
                read_event(row)
            except (StoreError, ValueError) as exc:
                bad.append(f"{row.seq} cannot be read ({exc})")
            else:
                if rows.was_changed(row):
                    bad.append(f"{row.seq} was changed after it was recorded")
            inspection.unchecked += row.checksum is None
        if expected != next_seq:
            bad.append(f"{expected} to {next_seq - 1} are missing")
        if bad:
            more = f", and {len(bad) - _MOST} more" if len(bad) > _MOST else ""
            whole = int(bad[0].split()[0]) - 1
            readable = f"events 1 to {whole} can be read" if whole else "nothing before it"
            inspection.damage.append(f"run {run}: event {'; event '.join(bad[:_MOST])}{more}; {readable}")
    for (sha256,) in connection.execute(select(blobs.c.sha256).order_by(blobs.c.sha256)).all():
        inspection.blobs += 1
        try:
            read_blob(sha256)
        except StoreError as exc:
            inspection.damage.append(f"{exc}; named by {_named_by(connection, sha256)}")
    return inspection


def _named_by(connection: Connection, sha256: str) -> str:
    """Return the runs that name a blob in their events or their manifest, or in what they share with others."""
    inside = select(blobs.c.sha256, blobs.c.data).where(blobs.c.media_type == rows.BODY_MEDIA_TYPE, blobs.c.data != b"")
    names = [sha256, *(name for name, data in connection.execute(inside) if sha256.encode() in data)]
    holds = or_(*(func.replace(events.c.body, name, "") != events.c.body for name in names))
    manifests = or_(*(func.replace(runs.c.manifest, name, "") != runs.c.manifest for name in names))
    ids = {run for (run,) in connection.execute(select(events.c.run).where(holds).distinct())}
    ids |= {run for (run,) in connection.execute(select(runs.c.id).where(manifests))}
    text = ", ".join(sorted(ids)[:_MOST])
    more = f" and {len(ids) - _MOST} more" if len(ids) > _MOST else ""
    return f"{text}{more}" if ids else "no run"
