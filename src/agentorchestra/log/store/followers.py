"""Who follows which run: events that are set when there is more in its log."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress


class Followers:
    """Used from any thread and any event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: dict[str, list[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = {}

    @property
    def runs(self) -> frozenset[str]:
        with self._lock:
            return frozenset(self._events)

    @contextmanager
    def following(self, run: str) -> Iterator[asyncio.Event]:
        """Give an event of the running loop, which `tell` sets while the context is open."""
        entry = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            self._events.setdefault(run, []).append(entry)
        try:
            yield entry[1]
        finally:
            with self._lock:
                left = self._events[run]
                left.remove(entry)
                if not left:
                    del self._events[run]

    def tell(self, runs: Collection[str]) -> None:
        """Set the events of those who follow these runs."""
        with self._lock:
            entries = [entry for run in runs for entry in self._events.get(run, ())]
        for loop, event in entries:
            with suppress(RuntimeError):  # a loop that was closed meanwhile has nobody who waits
                loop.call_soon_threadsafe(event.set)
