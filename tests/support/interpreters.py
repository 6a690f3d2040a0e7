"""The processes of Monty's interpreters."""

from __future__ import annotations

import asyncio
import contextlib

import psutil


def interpreters() -> set[int]:
    """Return the processes that run programs."""
    found = set()
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE and "monty" in process.name():
                found.add(process.pid)
    return found


async def ended(pids: set[int]) -> None:
    """Wait for their end; the test's own time limit says when that takes too long."""
    while pids & interpreters():  # noqa: ASYNC110 - other processes set no event
        await asyncio.sleep(0.01)
