"""The processes in which Monty runs programs: started with the first one, none is lost, all end with the workspace."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any


@dataclass
class Held:
    """An interpreter of the pool, until it is given back."""

    interpreter: Any
    _checkout: Any

    async def give_back(self, *error: Any) -> None:
        """Let others have it; `error` is what ended its use, as for `__aexit__`."""
        await self._checkout.__aexit__(*(error or (None, None, None)))


class MontyPool:
    """At most so many interpreters that run at the same time; further programs wait."""

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._pool: Any = None
        self._lock = asyncio.Lock()
        self._returning: set[asyncio.Future[None]] = set()

    async def take(self, options: dict[str, Any]) -> Held:
        """Return a fresh interpreter; the first call starts the pool.

        Monty believes for ever that an interpreter is in use whose checkout was cancelled. So who is cancelled does
        not wait for it any longer, and it is given back as soon as it is there.
        """
        checkout = (await self._started()).checkout(**options)
        taking = asyncio.ensure_future(checkout.__aenter__())
        try:
            return Held(await asyncio.shield(taking), checkout)
        except asyncio.CancelledError:
            returning = asyncio.ensure_future(_give_back(checkout, taking))
            self._returning.add(returning)
            returning.add_done_callback(self._returning.discard)
            raise

    async def _started(self) -> Any:
        async with self._lock:
            if self._pool is None:
                from pydantic_monty import AsyncMonty

                pool = AsyncMonty(max_processes=self._processes)
                await pool.__aenter__()
                self._pool = pool
            return self._pool

    async def aclose(self) -> None:
        """End the interpreters; idempotent."""
        async with self._lock:
            pool, self._pool = self._pool, None
            await asyncio.gather(*self._returning)
            if pool is not None:
                await pool.__aexit__(None, None, None)


async def _give_back(checkout: Any, taking: asyncio.Future[Any]) -> None:
    """Wait for an interpreter that nobody wants any longer, and give it back."""
    try:
        await taking
    except Exception:  # there was none: nothing is to be given back
        return
    await checkout.__aexit__(None, None, None)
