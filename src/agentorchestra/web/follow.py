"""The events of a run as they are written, whichever process writes them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from agentorchestra.core.events import Event, RunEnded
from agentorchestra.core.protocols import RunRecord
from agentorchestra.core.spec import RunStatus
from agentorchestra.workspace import Workspace

ALIVE_S = 15.0  # silence of a stream after which a comment shows both ends that the other is there

GOES_ON = frozenset({RunStatus.CREATED, RunStatus.RUNNING, RunStatus.WAITING, RunStatus.PAUSED})
"""Statuses at which a stream stays open: what comes next needs no new run."""


async def stream(ws: Workspace[Any], record: RunRecord, after: int, closing: asyncio.Event) -> AsyncIterator[bytes]:
    """Yield server-sent events: the log from a sequence on, live ones as they come, at last `end` with the status.

    The sequence is the id of an event, so a client that comes back with the last id it saw misses none and gets none
    twice. `end` has no id: it is no event of the log. It is left out where `closing` is set: the server is to stop.
    """
    status = record.status
    yield b"retry: 1000\n\n"
    with ws.store.follow(record.id) as news:
        while not closing.is_set():
            news.clear()
            for event in await ws.store.load(record.id, after=after):
                after = event.seq
                status = _status_after(event, status)
                yield _message(event.model_dump(mode="json"), kind=event.type, id=event.seq)
            if status not in GOES_ON:
                yield _message({"run_id": record.id, "status": status}, kind="end")
                return
            if not await _one_of(news, closing):
                yield b": still here\n\n"


def _status_after(event: Event, status: RunStatus) -> RunStatus:
    if event.type == "driving_started":
        return RunStatus.RUNNING
    data = event.data if event.type == "run_ended" else None
    return RunStatus(data.status) if isinstance(data, RunEnded) else status


def _message(body: dict[str, Any], *, kind: str, id: int | None = None) -> bytes:
    head = "" if id is None else f"id: {id}\n"
    return f"{head}event: {kind}\ndata: {json.dumps(body)}\n\n".encode()


async def _one_of(*events: asyncio.Event) -> bool:
    """Wait until one of the events is set; False after `ALIVE_S`."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        done, _ = await asyncio.wait(waits, timeout=ALIVE_S, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    return bool(done)
