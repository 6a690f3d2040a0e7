"""Branches of one run at the same time: siblings are let finish, then the gravest error goes up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from agentorchestra.core.errors import (
    BudgetExhaustedError,
    ConcurrentUseError,
    DivergedError,
    DoorError,
    ModelError,
    ResourceError,
    StoreError,
    SuspendedError,
)
from agentorchestra.runtime.mail_room import MailRoom

T = TypeVar("T")


class ReplayEnd(Exception):
    """The recording holds no more of this branch."""


CONTROL = (DoorError, ModelError, StoreError, ResourceError, ReplayEnd)
"""What concerns the run and not one effect: it goes up through whatever performed it."""

_SEVERITY: tuple[type[BaseException], ...] = (
    StoreError,
    ResourceError,
    DivergedError,
    ConcurrentUseError,
    ModelError,
    BudgetExhaustedError,
    DoorError,
    ReplayEnd,
)


def _worst(errors: list[BaseException]) -> BaseException:
    """Return the one error that goes up: the gravest, waiting ones merged into one."""
    waiting = [exc for exc in errors if isinstance(exc, SuspendedError)]
    for kind in _SEVERITY:
        for exc in errors:
            if isinstance(exc, kind) and not isinstance(exc, SuspendedError):
                return exc
    keys = tuple(key for exc in waiting for key in exc.waiting_for)
    times = [exc.until for exc in waiting if exc.until is not None]
    first = next((exc for exc in waiting if exc.waiting_for), waiting[0])  # the others only say that they stopped
    return SuspendedError(str(first), waiting_for=keys, until=min(times, default=None))


async def in_parallel(
    work: Sequence[Callable[[], Awaitable[T]]], room: MailRoom
) -> tuple[list[T | None], BaseException | None]:
    """Do all of the work at once, as so many branches that can act; a single one runs in the caller's own task.

    Returns:
        The results in listed order (None for those that failed), and the error that has to go up.
    """
    results: list[T | None] = [None] * len(work)
    errors: list[BaseException] = []
    left = len(work)

    async def run_index(index: int) -> None:
        nonlocal left
        try:
            results[index] = await work[index]()
        except CONTROL as exc:
            errors.append(exc)
            if isinstance(exc, SuspendedError):
                room.suspended += 1
        finally:
            left -= 1
            if left:
                room.give_up()

    room.take_up(len(work) - 1)
    if len(work) == 1:
        await run_index(0)
    else:
        await _all([asyncio.create_task(run_index(index)) for index in range(len(work))])
    return results, _worst(errors) if errors else None


async def _all(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Wait for all tasks; when cancelled, cancel them and wait until they have ended."""
    try:
        done, _ = await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
    for task in done:
        if not task.cancelled() and task.exception() is not None:
            raise task.exception()  # type: ignore[misc]
