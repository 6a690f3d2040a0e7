"""The futures of a store's writes, whose waiting tasks are woken together: once for each batch and event loop.

`asyncio.wrap_future` wakes the loop's thread for every future: 7 % more CPU for a step where many runs share a commit.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

_LOCK = threading.Lock()


class Landing(Future[T]):
    """A write that is queued. Who awaits may be cancelled; what is queued is written all the same."""

    def __init__(self) -> None:
        super().__init__()
        self._awaiting: list[asyncio.Future[T]] | None = []

    def cancel(self) -> bool:
        """Refuse: the `interrupted` row relies on it."""
        return False

    def waiter(self) -> asyncio.Future[T]:
        """Return a future of the running loop that ends as this one does; cancelling it is nothing to this one."""
        waiter: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with _LOCK:
            if self._awaiting is not None:
                self._awaiting.append(waiter)
                return waiter
        error = self.exception()
        _wake([(waiter, None if error is not None else self.result(), error)])
        return waiter

    def land(self, result: Any, error: BaseException | None) -> list[asyncio.Future[T]]:
        """Set the result or the error; return the futures to be woken."""
        if error is not None:
            self.set_exception(error)
        else:
            self.set_result(result)
        with _LOCK:
            waiters, self._awaiting = self._awaiting, None
        return waiters or []


def land(landings: Iterable[tuple[Landing[Any], Any, BaseException | None]]) -> None:
    """Set results or errors, and wake each loop once."""
    loops: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any, BaseException | None]]] = {}
    for landing, result, error in landings:
        for waiter in landing.land(result, error):
            loops.setdefault(waiter.get_loop(), []).append((waiter, result, error))
    for loop, waiters in loops.items():
        with suppress(RuntimeError):  # a loop that was closed meanwhile has nobody who waits
            loop.call_soon_threadsafe(_wake, waiters)


def _wake(waiters: list[tuple[asyncio.Future[Any], Any, BaseException | None]]) -> None:
    for waiter, result, error in waiters:
        if waiter.done():
            continue
        if error is not None:
            waiter.set_exception(error)
        else:
            waiter.set_result(result)
