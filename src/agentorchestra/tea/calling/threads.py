"""Plain functions in threads: they do not block the loop, and nothing is said about them that is not true.

A thread cannot be stopped from outside. So a cancelled call waits until its function has returned (or its time limit
has passed): whoever cancels a run then knows that nothing of it still acts. A call over its time limit is reported as
still running, and its thread is kept in sight until `aclose`.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class StillRunningError(Exception):
    """The time limit passed and the function has not returned."""


class NotStartedError(Exception):
    """The time limit passed before a thread was free."""


class Threads:
    """At most `limit` threads at a time for plain functions; each ends with its call."""

    def __init__(self, limit: int = 32) -> None:
        self._limit = limit
        self._free = asyncio.Semaphore(limit)
        self._running: set[asyncio.Future[Any]] = set()

    @property
    def running(self) -> int:
        """Functions that have not returned."""
        return len(self._running)

    async def run(self, function: Callable[[], T], *, name: str = "tool", limit_s: float | None = None) -> T:
        """Return the function's result within `limit_s` seconds, or raise NotStartedError or StillRunningError."""
        loop = asyncio.get_running_loop()
        ends = None if limit_s is None else loop.time() + limit_s
        try:
            async with asyncio.timeout_at(ends):
                await self._free.acquire()
        except TimeoutError:
            raise NotStartedError(f"{self._limit} functions are running already") from None
        work: Future[T] = Future()
        context = contextvars.copy_context()
        # A daemon: a function that hangs must not keep the process from ending when it is told to.
        thread = threading.Thread(target=_work, args=(work, context, function), name=f"tool-{name}", daemon=True)
        running = asyncio.wrap_future(work, loop=loop)
        self._running.add(running)
        running.add_done_callback(self._release)
        thread.start()
        try:
            await asyncio.wait({running}, timeout=None if ends is None else ends - loop.time())
        except asyncio.CancelledError:
            # Asked to stop: wait for the function's end, but not beyond its limit, nor when asked a second time.
            await asyncio.wait({running}, timeout=None if ends is None else max(0.0, ends - loop.time()))
            raise
        if not running.done():
            raise StillRunningError
        return running.result()

    def _release(self, future: asyncio.Future[Any]) -> None:
        self._running.discard(future)
        self._free.release()
        if not future.cancelled():
            future.exception()  # seen: a call that was given up has nobody else to look at it

    async def aclose(self) -> None:
        """Wait until every function has returned."""
        while self._running:
            await asyncio.wait(set(self._running))


def _work(work: Future[T], context: contextvars.Context, function: Callable[[], T]) -> None:
    work.set_running_or_notify_cancel()
    try:
        work.set_result(context.run(function))
    except (StopIteration, SystemExit, KeyboardInterrupt) as exc:
        # Neither may travel through a future: one is lost in it, the others would end the loop.
        work.set_exception(RuntimeError(f"{type(exc).__name__}: {exc}"))
    except BaseException as exc:
        work.set_exception(exc)
