"""Reads that requests share: of many at once, one answers all that came before it began."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedRead(Generic[T]):
    """A read that whoever asks while one is under way waits for together: each gets one that began after it asked."""

    def __init__(self, read: Callable[[], Awaitable[T]]) -> None:
        self._read = read
        self._under_way: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def __call__(self) -> T:
        """Return what the next one to begin reads; raise what it raises."""
        if self._next is None:
            self._next = asyncio.create_task(self._begin(self._under_way))
        return await asyncio.shield(self._next)  # others wait for it, too

    async def _begin(self, before: asyncio.Task[T] | None) -> T:
        if before is not None:
            await asyncio.wait([before])
        self._under_way, self._next = self._next, None
        return await self._read()
