"""The checks of a log before it is taken in, and files of events. Blocks; executes nothing."""

from __future__ import annotations

import os
import stat
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import IO

from agentorchestra.core.budget import Budget
from agentorchestra.core.effects import Effect, EffectKind, Outcome
from agentorchestra.core.errors import AgentOrchestraError, BundleError
from agentorchestra.core.events import Event
from agentorchestra.core.ids import canonical_json
from agentorchestra.core.messages import ModelResponse
from agentorchestra.core.protocols import RunRecord
from agentorchestra.core.spec import FINAL, AgentResult, RunManifest, RunStatus
from agentorchestra.log.bundle import format as form
from agentorchestra.log.bundle.lines import TAIL, first_problem, from_line
from agentorchestra.log.ledger import Ledger, status_of

_MISFITS = (AgentOrchestraError, LookupError, TypeError, ValueError, AttributeError, RecursionError, AssertionError)
"""Errors from reading a log with parts of the wrong shape (pydantic's are ValueErrors)."""


@dataclass
class Log:
    """A whole log, checked."""

    record: RunRecord
    events: list[Event]
    epoch: int  # the last one it was driven under


def checked_log(
    events: list[Event], run: str, *, place: str, status: RunStatus | None = None, manifest: RunManifest | None = None
) -> Log:
    """Return a log that a store takes and a replay can read; BundleError, beginning with `place`, for any other.

    `status` and `manifest` are what is said of the run beside the log, None for nothing.
    """
    keys: set[tuple[str, int, int, str]] = set()
    for seq, event in enumerate(events, 1):
        if event.run != run:
            raise BundleError(f"{place}: event {seq} is of the run {event.run[:60]!r}, not {run}; {TAIL}")
        if event.seq != seq:
            raise BundleError(f"{place}: event {event.seq} stands where event {seq} belongs; {TAIL}")
        assert event.n is not None
        key = (event.branch, event.n, event.attempt, event.type)
        if key in keys:
            raise BundleError(f"{place}: event {seq} records {event.type} of {event.branch}#{event.n} again; {TAIL}")
        keys.add(key)
    if not events or events[0].type != "run_created":
        raise BundleError(f"{place}: the log of {run} does not begin with run_created; {TAIL}")
    own: RunManifest = events[0].data.manifest  # type: ignore[attr-defined]
    if manifest is not None and own != manifest:
        raise BundleError(f"{place}: the manifest is not the one that the log of {run} begins with; {TAIL}")
    if own.created.utcoffset() is None:
        raise BundleError(f"{place}: the manifest's time {own.created} has no zone; {TAIL}")
    try:
        actual = status_of(events)
        _check_shapes(events)
        Ledger.of(events)
    except _MISFITS as exc:
        raise BundleError(f"{place}: the log of {run} does not fit together ({first_problem(exc)}); {TAIL}") from None
    if status not in (None, actual) and FINAL & {status, actual}:
        raise BundleError(f"{place}: {run} is said to be {status.value} and is {actual.value} in its log; {TAIL}")
    record = RunRecord(
        id=run,
        status=status or actual,
        manifest=own,
        next_seq=len(events) + 1,
        created=own.created.astimezone(UTC),
        parent_run=own.parent_run,
        fork_seq=own.fork_seq,
    )
    epochs = (event.data.epoch for event in events if event.type == "driving_started")  # type: ignore[attr-defined]
    return Log(record, events, max(epochs, default=0))


def _check_shapes(events: Iterable[Event]) -> None:
    """Refuse rows of another shape than their effect's (ValueError, LookupError); messages are read by the ledger."""
    kinds: dict[tuple[str, int | None], EffectKind] = {}
    for event in events:
        body, key = event.body, (event.branch, event.n)
        effect = body.get("effect")
        if effect is not None:
            plain = {name: value for name, value in effect.items() if name != "request"}
            canonical_json(effect)  # it has a fingerprint: NaN and infinities have none
            kinds[key] = kind = Effect.model_validate(plain).kind
            if (kind is EffectKind.REQUEST_MODEL) != isinstance(effect.get("request"), dict):
                raise ValueError(f"event {event.seq} has a request that does not belong to it, or none")
        if event.type == "completed":
            if key not in kinds:
                raise LookupError(f"event {event.seq} completes an effect that nothing says")
            outcome = Outcome.model_validate(body["outcome"])
            value = outcome.value
            if (outcome.ok or value is not None) and kinds[key] is EffectKind.REQUEST_MODEL:
                ModelResponse.model_validate(value)
            elif value is not None and kinds[key] is EffectKind.INVOKE_AGENT:
                AgentResult.model_validate(value)
        elif event.type == "run_ended" and body.get("result"):
            AgentResult.model_validate(body["result"])
        elif event.type == "budget_raised":
            Budget.model_validate(body["budget"])


def logs_of_lines(path: Path) -> list[Log]:
    """Return the logs in a file of events, each in order, of runs in any order; BundleError naming the line."""
    logs: dict[str, list[Event]] = {}
    with regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > form.MAX_LOG_BYTES:
            raise BundleError(f"{path} has {size:,} bytes; at most {form.MAX_LOG_BYTES:,} are read, {TAIL}")
        for number, line in lines_of(file, path):
            place = f"line {number} of {path}"
            event = from_line(line, place)
            if not form.RUN_ID.fullmatch(event.run):
                raise BundleError(f"{place} is of a run named {event.run[:60]!r}, which is no run's id; {TAIL}")
            log = logs.setdefault(event.run, [])
            if event.seq != len(log) + 1:
                raise BundleError(
                    f"{place} is event {event.seq} of {event.run} where event {len(log) + 1} belongs: only whole logs "
                    f"are imported; {TAIL}"
                )
            log.append(event)
    if not logs:
        raise BundleError(f"{path} holds no events; {TAIL}")
    return [checked_log(events, run, place=str(path)) for run, events in logs.items()]


@contextmanager
def regular(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading; BundleError for a pipe, a device, a folder, or what cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as exc:
        raise BundleError(f"{path} cannot be read: {exc.strerror}; name a bundle or a file of events") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise BundleError(f"{path} is no file; name a bundle or a file of events")
    with os.fdopen(handle, "rb") as file:
        yield file


def lines_of(file: IO[bytes], path: Path) -> Iterator[tuple[int, bytes]]:
    number = 0
    with unpacking(form.EVENTS, path):
        while line := file.readline(form.MAX_JSON_BYTES + 1):
            number += 1
            if len(line) > form.MAX_JSON_BYTES:
                raise BundleError(f"line {number} of {path} is longer than {form.MAX_JSON_BYTES:,} bytes; {TAIL}")
            if line.strip():
                yield number, line


@contextmanager
def unpacking(name: str, path: Path) -> Iterator[None]:
    """Turn what reading a damaged member raises into a BundleError."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, RuntimeError) as exc:
        raise BundleError(f"{path}: {name} cannot be unpacked ({exc}); get it again, {TAIL}") from None
