"""The futures of a store's writes, whose waiting tasks are woken together: once for each batch and event loop.

`asyncio.wrap_future` wakes the loop's thread for every future, which costs more than the write itself where many runs
share a commit.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from concurrent.futures import Future, _base
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


_LOCK = threading.Lock()
"""For a few instructions at a time, of all of them: a condition for each would cost as much as all the rest."""


class Landing(Future[T]):
    """A write that is queued. Who awaits may be cancelled; what is queued is written all the same.

    The condition of its base class is made when somebody asks for it: a thread that waits, or a callback. Whoever asks
    later than `land` finds the state set; for whoever asked before, `land` goes through the condition.
    """

    def __init__(self) -> None:
        self._made: threading.Condition | None = None
        self._state = _base.PENDING
        self._result: T | None = None
        self._exception: BaseException | None = None
        self._waiters: list[Any] = []
        self._done_callbacks: list[Any] = []
        self._awaiting: list[asyncio.Future[T]] = []

    @classmethod
    def landed(cls, result: Any, error: BaseException | None) -> Landing[Any]:
        """One that is done from the start."""
        made: Landing[Any] = cls()
        made._result, made._exception, made._state = result, error, _base.FINISHED
        return made

    @property
    def _condition(self) -> threading.Condition:  # type: ignore[override]
        if self._made is None:
            with _LOCK:
                if self._made is None:
                    self._made = threading.Condition()
        return self._made

    def cancel(self) -> bool:
        """Never: the `interrupted` row relies on it."""
        return False

    @property
    def over(self) -> bool:
        """Whether it has landed."""
        return self._state is _base.FINISHED

    def given(self) -> T:
        """The result of one that has landed; raises its error."""
        if self._exception is not None:
            raise self._exception
        return self._result  # type: ignore[return-value]

    def waiter(self) -> asyncio.Future[T]:
        """A future of the running loop that ends as this one does; cancelling it is nothing to this one."""
        made: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with _LOCK:
            if self._state == _base.PENDING:
                self._awaiting.append(made)
                return made
        _end(made, self._exception, self._result)
        return made

    def land(self, result: Any, error: BaseException | None) -> list[asyncio.Future[T]]:
        """Set the result or the error; what is to be woken with it."""
        with _LOCK:
            self._result, self._exception = result, error
            self._state = _base.FINISHED
            condition = self._made
        if condition is not None:
            with condition:
                for waiter in self._waiters:
                    waiter.add_exception(self) if error is not None else waiter.add_result(self)
                condition.notify_all()
            self._invoke_callbacks()  # type: ignore[attr-defined]
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
