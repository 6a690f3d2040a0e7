"""The futures of a store's writes, whose waiting tasks are woken together: once for each batch and event loop.

`asyncio.wrap_future` wakes the loop's thread for every future, which costs more than the write itself where many runs
share a commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


class Landing(Future[T]):
    """A write that is queued. Who awaits may be cancelled; what is queued is written all the same."""

    def __init__(self) -> None:
        super().__init__()
        self._awaiting: list[asyncio.Future[T]] = []

    def cancel(self) -> bool:
        """Never: the `interrupted` row relies on it."""
        return False

    def waiter(self) -> asyncio.Future[T]:
        """A future of the running loop that ends as this one does; cancelling it is nothing to this one."""
        made: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._condition:
            if not self.done():
                self._awaiting.append(made)
                return made
        _end(made, self.exception(), None if self.exception() else self.result())
        return made

    def land(self, result: Any, error: BaseException | None) -> list[asyncio.Future[T]]:
        """Set the result or the error; what is to be woken with it."""
        if error is not None:
            self.set_exception(error)
        else:
            self.set_result(result)
        # Nobody adds one to a future that is done.
        return self._awaiting


def land(landings: Iterable[tuple[Landing[Any], Any, BaseException | None]]) -> None:
    """Set results or errors, and wake each loop once."""
    loops: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], BaseException | None, Any]]] = {}
    for landing, result, error in landings:
        for waiter in landing.land(result, error):
            loops.setdefault(waiter.get_loop(), []).append((waiter, error, result))
    for loop, waiters in loops.items():
        with suppress(RuntimeError):  # a loop that was closed meanwhile has nobody who waits
            loop.call_soon_threadsafe(_wake, waiters)


def _wake(waiters: list[tuple[asyncio.Future[Any], BaseException | None, Any]]) -> None:
    for waiter, error, result in waiters:
        if not waiter.done():
            _end(waiter, error, result)


def _end(waiter: asyncio.Future[Any], error: BaseException | None, result: Any) -> None:
    if error is not None:
        waiter.set_exception(error)
    else:
        waiter.set_result(result)


__all__ = ["Landing", "land"]
