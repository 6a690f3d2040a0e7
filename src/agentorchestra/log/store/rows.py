"""An event as a row and back, and the errors all stores share."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from agentorchestra.core.clock import stamp_utc
from agentorchestra.core.errors import (
    DuplicateEventError,
    FencedError,
    LogChangedError,
    RequestKeyError,
    SessionBusyError,
    StoreError,
    UnknownRunError,
)
from agentorchestra.core.events import BODIES, EffectCompleted, EffectStarted, Event, NewEvent
from agentorchestra.core.frozen import construct
from agentorchestra.core.ids import compact_encoder
from agentorchestra.core.protocols import Owner, RunRecord
from agentorchestra.core.spec import RunManifest, RunStatus

INLINE_BYTES = 16 * 1024  # bodies and blobs over this size (of their UTF-8 JSON, or of the bytes) live in files by hash

BLOB_KEY = "$blob"  # the only key of a stored body whose JSON lies in a blob

BODY_MEDIA_TYPE = "application/json"


PENDING = frozenset({RunStatus.WAITING, RunStatus.PAUSED})  # runs that somebody comes back to: never deleted


class Row:
    """A new event, encoded when it was appended, so that later changes to its body do not reach the log."""

    __slots__ = ("body", "branch", "large", "n", "sha256", "tail")

    def __init__(self, event: NewEvent) -> None:
        self.branch = event.branch
        self.n = event.n
        ts = stamp(event.ts)
        self.tail = (event.attempt, event.type, event.v, ts, event.span, event.parent_span, event.actor)
        self.large: bytes | None = None  # the JSON of a body that goes into a blob; `to_blob` sets `body` then
        self.sha256 = ""
        text = body_json(event)
        # Text with lone surrogates (providers do send halves of a pair) has no UTF-8. Escaping it would turn two
        # adjacent halves into one character when read back, so such a body lies in a blob whatever its size.
        plain = text.isascii()
        if plain and len(text) <= INLINE_BYTES and BLOB_KEY not in event.body:
            self.body = text
            return
        data = text.encode("utf-8", "surrogatepass")
        if len(data) <= INLINE_BYTES and BLOB_KEY not in event.body and (plain or encodable(text)):
            self.body = text
        else:
            self.body = ""
            self.large = data

    def to_blob(self) -> bytes:
        """Put the reference to the blob in the body's place; return the blob's bytes."""
        assert self.large is not None
        self.sha256 = hashlib.sha256(self.large).hexdigest()
        self.body = f'{{"{BLOB_KEY}":"{self.sha256}"}}'
        return self.large

    def values(self, run: str, seq: int) -> tuple[Any, ...]:
        """Return the row in the order of `schema.events`' columns, without the checksum."""
        body = self.body or self.large  # a large one that was not put into a blob stands for itself
        return (run, seq, self.branch, seq if self.n is None else self.n, *self.tail, body)

    def checked_values(self, run: str, seq: int) -> tuple[Any, ...]:
        """Return the row in the order of `schema.events`' columns; a large body has been put into a blob."""
        values = self.values(run, seq)
        return (*values, checksum(values))

    def key(self, seq: int) -> tuple[str, int, int, str]:
        """Return what must be unique in a run: branch, n, attempt, type."""
        return (self.branch, seq if self.n is None else self.n, self.tail[0], self.tail[1])


def body_json(event: NewEvent) -> str:
    """Return the body as JSON; StoreError if it is none.

    NaN and infinities stand as Python writes them: a record is kept as it was.
    """
    if event.type in _WRITTEN_OUT:
        try:
            return to_json(event.body, inf_nan_mode="constants").decode()
        except PydanticSerializationError:
            pass  # halves of surrogate pairs
    try:
        return _AS_IT_IS(event.body)
    except (TypeError, ValueError, RecursionError) as exc:
        raise StoreError(f"the body of a {event.type!r} event at {event.branch!r} is not JSON: {exc}") from exc


_AS_IT_IS = compact_encoder()
_WRITTEN_OUT = frozenset({EffectStarted.type, EffectCompleted.type})
"""Types whose bodies the door makes of JSON: nothing else can be in them, and most of a log is these."""


def body_of(data: bytes) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(data.decode("utf-8", "surrogatepass"))
    return body


def encodable(text: str) -> bool:
    """Return True if the text has a UTF-8 form."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def stamp(ts: datetime) -> str:
    """Return a time as text of fixed width in UTC, which sorts as the times do; StoreError for a naive time."""
    if ts.tzinfo is not UTC:
        if ts.utcoffset() is None:
            raise StoreError(f"the time {ts} has no zone; events and manifests carry aware times in UTC")
        ts = ts.astimezone(UTC)
    return stamp_utc(ts)


def event_of(values: Sequence[Any], body: dict[str, Any]) -> Event:
    """Return the event of a row (in the order of `schema.events`' columns) with its resolved body.

    Not validated again: it was an event when it was written, and a load of a long run is many of them.
    """
    fields = dict(zip(_COLUMNS, values, strict=False))
    return construct(Event, {**fields, "ts": datetime.fromisoformat(fields["ts"]), "body": body})


_COLUMNS = ("run", "seq", "branch", "n", "attempt", "type", "v", "ts", "span", "parent_span", "actor")
BODY = len(_COLUMNS)
"""The place of the stored body in a row; the checksum of what stands before it and of the body itself is the next."""


def checksum(values: Sequence[Any]) -> int:
    """Return the checksum of a row, which may hold one already: 64 bits, which finds damage and edits, not forgery."""
    text = "\0".join(map(str, values[: BODY + 1]))
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), signed=True)


def was_changed(values: Sequence[Any]) -> bool:
    """Return True if a row is not the one that was appended; False for one of an earlier version, without checksum."""
    row_sum = values[BODY + 1]
    return row_sum is not None and row_sum != checksum(values)


def check(values: Sequence[Any], place: int | None = None) -> None:
    """Raise LogChangedError if a row is not the one that was appended, or not the one of this place in its log."""
    run, seq = values[0], place or values[1]
    state = "missing" if seq != values[1] else "not the one that was recorded" if was_changed(values) else ""
    if state:
        before = f"; to go on from before it: `agentorchestra fork {run} --at {seq - 1}`" if seq > 1 else ""
        raise LogChangedError(
            f"the log was changed: event {seq} of run {run} is {state}. "
            f"`agentorchestra doctor --deep` names all that is damaged; restore the log from a backup{before}"
        )


def encode_append(epoch: int | None, events: Sequence[NewEvent], status: RunStatus | None) -> tuple[Row, ...]:
    """Return the rows of an append.

    Raises:
        StoreError: if a body is not JSON, or another process (epoch None) tries what only the owner may.
    """
    if epoch is None:
        for event in events:
            cls = BODIES.get(event.type)
            if cls is None or not cls.external:
                raise StoreError(
                    f"an event of type {event.type!r} can be appended only by the process that drives the run; "
                    f"without an epoch: {', '.join(t for t, c in BODIES.items() if c.external)}"
                )
        if status is not None:
            raise StoreError(
                f"the status {status.value!r} can be set only by the process that drives the run; claim it first"
            )
    return tuple([Row(event) for event in events])


def encode_import(record: RunRecord, events: Sequence[Event]) -> tuple[Row, ...]:
    """Return the rows of a run made elsewhere; StoreError if the events are not its whole log in order."""
    for seq, event in enumerate(events, 1):
        if event.seq != seq or event.run != record.id:
            raise StoreError(
                f"run {record.id!r} cannot be imported: event {seq} is number {event.seq} of {event.run!r}; "
                "give its whole log in order"
            )
    if record.next_seq != len(events) + 1:
        raise StoreError(
            f"run {record.id!r} cannot be imported: it has {record.next_seq - 1} events, not {len(events)}"
        )
    return tuple(Row(event) for event in events)


def unknown_run(run: str) -> UnknownRunError:
    return UnknownRunError(f"no run {run!r} in this workspace; `agentorchestra runs` lists them")


def taken_key(key: str) -> RequestKeyError:
    return RequestKeyError(f"there is a run under the key {key!r} already; send a new request under a new key")


_UNDER_WAY = ("is under way", "wait for it (if its process is gone, `agentorchestra resume` goes on with it)")
_OPEN = {
    RunStatus.CREATED: _UNDER_WAY,
    RunStatus.RUNNING: _UNDER_WAY,
    RunStatus.WAITING: ("waits", "answer what it asks (`agentorchestra show` lists it) and resume it"),
    RunStatus.PAUSED: ("is paused", "go on with it with `agentorchestra resume`"),
}


def check_turn(manifest: RunManifest, last: tuple[str, RunStatus] | None) -> None:
    """Refuse a turn whose session has another last turn than the one it goes on from, or one that is not over."""
    if last is None:
        return
    check_over(manifest.session or "", *last)
    if last[0] != manifest.previous:
        raise SessionBusyError(
            f"another turn of the session {manifest.session!r} began at the same time: {last[0]}; see what it says, "
            "and send this one again"
        )


def check_over(session: str, run: str, status: RunStatus) -> None:
    """Raise SessionBusyError for the last turn of a session that is not over."""
    if status in _OPEN:
        state, advice = _OPEN[status]
        raise SessionBusyError(
            f"the turn {run} of the session {session!r} {state}, and the next one goes on from its end: {advice}, or "
            f"end it with `agentorchestra cancel {run}`, and send this one again then"
        )


def existing_run(run: str) -> StoreError:
    return StoreError(f"the workspace already holds a run {run!r}; a new run needs a new id")


def fence_error(run: str, epoch: int, now: int, owner: Owner | None) -> FencedError:
    driver = f"{owner} drives it" if owner is not None else "it was taken over"
    return FencedError(
        f"run {run!r} is no longer driven from here: {driver} under epoch {now}, this process had epoch {epoch}; "
        f"nothing more was recorded"
    )


def duplicate(run: str, key: tuple[str, int, int, str]) -> DuplicateEventError:
    branch, n, attempt, type_ = key
    return DuplicateEventError(
        f"run {run!r} already holds a {type_!r} event at {branch}#{n}, attempt {attempt}; a key is recorded once"
    )
