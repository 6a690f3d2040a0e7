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

POLL_S = 0.1
"""Time between looks at the log of a followed run: one query by key, whoever drives the run."""

ALIVE_S = 15.0
"""Silence of a stream after which a comment shows both ends that the other is there."""

GOES_ON = frozenset({RunStatus.CREATED, RunStatus.RUNNING, RunStatus.WAITING, RunStatus.PAUSED})
"""Statuses at which a stream stays open: what comes next needs no new run."""


async def stream(ws: Workspace[Any], record: RunRecord, after: int, closing: asyncio.Event) -> AsyncIterator[bytes]:
    """Yield server-sent events: the log from a sequence on, live ones as they come, at last `end` with the status.

    The sequence is the id of an event, so a client that comes back with the last id it saw misses none and gets none
    twice. `end` has no id: it is no event of the log. It is left out where `closing` is set: the server is to stop.
    """
    status = record.status
    loop = asyncio.get_running_loop()
    spoken = loop.time()
    yield b"retry: 1000\n\n"
    while not closing.is_set():
        for event in await ws.store.load(record.id, after=after):
            after, spoken = event.seq, loop.time()
            status = _status_after(event, status)
            yield _message(event.model_dump(mode="json"), kind=event.type, id=event.seq)
        if status not in GOES_ON:
            yield _message({"run_id": record.id, "status": status}, kind="end")
            return
        if loop.time() - spoken > ALIVE_S:
            spoken = loop.time()
            yield b": still here\n\n"
        await _sleep(closing)


def _status_after(event: Event, status: RunStatus) -> RunStatus:
    if event.type == "driving_started":
        return RunStatus.RUNNING
    data = event.data if event.type == "run_ended" else None
    return RunStatus(data.status) if isinstance(data, RunEnded) else status


def _message(body: dict[str, Any], *, kind: str, id: int | None = None) -> bytes:
    head = "" if id is None else f"id: {id}\n"
    return f"{head}event: {kind}\ndata: {json.dumps(body)}\n\n".encode()


async def _sleep(closing: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(POLL_S):
            await closing.wait()
    except TimeoutError:
        pass
