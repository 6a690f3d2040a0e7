"""What the store's tests have in common."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, cast

from tests import warm
from tests.support.patience import LONGEST_S

from agentorchestra.core.events import (
    Answered,
    CancelRequested,
    EffectCompleted,
    EffectStarted,
    NewEvent,
    RunCreated,
    Told,
    new_event,
)
from agentorchestra.core.protocols import Owner
from agentorchestra.core.spec import RunManifest
from agentorchestra.log.store import PostgresStore, SqliteStore
from agentorchestra.log.store.sql import SqlStore

T = TypeVar("T")

TS = datetime(2026, 11, 5, 12, 30, 15, 123456, tzinfo=UTC)
SOURCE = Path(__file__).resolve().parents[2]


def manifest(task: str = "count the sheep", **changes: Any) -> RunManifest:
    return RunManifest(**{"task": task, "seed": "s", "created": TS, **changes})


def created(task: str = "count the sheep", **changes: Any) -> NewEvent:
    return new_event(RunCreated(manifest=manifest(task, **changes)), ts=TS)


def started(n: int | None = 0, branch: str = "/", attempt: int = 1) -> NewEvent:
    return new_event(EffectStarted(effect={"kind": "x"}, fingerprint="f"), ts=TS, branch=branch, n=n, attempt=attempt)


def completed(n: int | None = 0, value: Any = "ok", branch: str = "/", **fields: Any) -> NewEvent:
    return new_event(
        EffectCompleted(outcome={"value": value}, fingerprint="f"), ts=TS, branch=branch, n=n, actor="a", **fields
    )


def told(text: str = "hello") -> NewEvent:
    return new_event(Told(text=text, by="me"), ts=TS)


def answered(question: str = "/#1") -> NewEvent:
    return new_event(Answered(question=question, answer=[1, None]), ts=TS)


def cancel() -> NewEvent:
    return new_event(CancelRequested(), ts=TS)


def owner(pid: int = 1) -> Owner:
    return Owner(host="here", pid=pid, started=1.5)


async def done(future: Future[T]) -> T:
    return await asyncio.wrap_future(future)


class HeldStore(SqliteStore):
    """Its writer can be held inside a transaction, so that what comes meanwhile is one batch."""

    def __init__(self, folder: Path, *, max_bytes: int | None = None) -> None:
        super().__init__(folder, max_bytes=max_bytes)
        self.batches: list[list[str]] = []
        self._hold: threading.Event | None = None
        self._holding = threading.Event()

    def before_commit(self, runs: list[str]) -> None:
        hold = self._hold
        if hold is not None:
            self._hold = None
            self._holding.set()
            assert hold.wait(60)

    def after_commit(self, runs: list[str]) -> None:
        self.batches.append(runs)

    @contextmanager
    def held(self, run: str) -> Iterator[None]:
        """What is queued inside the block is written by one transaction after it."""
        self._holding.clear()
        self._hold = hold = threading.Event()
        first = self.append(run, None, [told("hold")])
        assert self._holding.wait(60)
        before = len(self.batches)
        try:
            yield
        finally:
            hold.set()
        first.result(60)
        # What was queued inside may be written already.
        del self.batches[:before]


def kind_of(place: str) -> type[SqlStore]:
    """The class of the store at a place: a folder, or `postgresql://...#schema`."""
    return PostgresStore if place.startswith("postgresql://") else SqliteStore


def store_at(place: str, kind: type[SqlStore] | None = None) -> SqlStore:
    """The store at a place, or one of a class derived from its own."""
    made: Any = kind or kind_of(place)
    if not place.startswith("postgresql://"):
        return cast("SqlStore", made(Path(place)))
    url, _, schema = place.partition("#")
    return cast("SqlStore", made(url, schema=schema))


def python(program: str, *arguments: str | Path, **options: Any) -> subprocess.Popen[str]:
    """A Python process that runs `program` with these arguments, `tests` and the package on its path."""
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join([str(SOURCE / "src"), str(SOURCE)])
    if not options:
        return warm.start(["-c", program, *arguments], environ=environment, streams=[subprocess.PIPE] * 3)
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        **options,
    )


def finish(process: subprocess.Popen[str], text: str = "") -> str:
    """Send text, wait for the end; its output. It must end well and without a word on stderr."""
    out, err = process.communicate(text, timeout=LONGEST_S)
    assert process.returncode == 0, err
    assert err == ""
    return out


def store_threads() -> list[str]:
    return sorted(t.name for t in threading.enumerate() if t.name.startswith("store-"))
