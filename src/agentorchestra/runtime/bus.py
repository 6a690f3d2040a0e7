"""The lossy bus: deltas, progress and committed events for whoever watches. Nothing is ever read back from it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from pydantic import BaseModel

from agentorchestra.core.events import Event, NewEvent


class Notice(BaseModel, frozen=True):
    """One thing seen on the bus."""

    kind: Literal["event", "delta", "progress", "question", "end"]
    run: str
    key: str = ""  # the effect's, as text; "" for the run's own events
    actor: str = ""
    text: str = ""  # for deltas (streamed model text), progress (a tool's line) and questions
    event: NewEvent | Event | None = None  # committed; its sequence is known only from the log
    result: Any = None


class Bus:
    """Fans notices out to bounded queues; a slow watcher loses the oldest, the run never waits."""

    def __init__(self, size: int = 1000) -> None:
        self._queues: list[asyncio.Queue[Notice]] = []
        self._size = size

    @property
    def listening(self) -> bool:
        return bool(self._queues)

    def publish(self, notice: Notice) -> None:
        for queue in self._queues:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(notice)

    @contextmanager
    def subscribe(self) -> Iterator[asyncio.Queue[Notice]]:
        """Open a queue that receives what is published while the context is open."""
        queue: asyncio.Queue[Notice] = asyncio.Queue(self._size)
        self._queues.append(queue)
        try:
            yield queue
        finally:
            self._queues.remove(queue)
