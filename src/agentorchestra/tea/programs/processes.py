"""The processes in which Monty runs programs: started with the first one, none is lost, all end with the workspace."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, TypeVar

from agentorchestra.core.errors import ResourceError
from agentorchestra.core.resources import refuse_shortage

T = TypeVar("T")

START_S = 30.0  # how long Monty may take to start: it takes a tenth of a second


@dataclass
class Lease:
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

    async def take(self, options: dict[str, Any]) -> Lease:
        """Return a fresh interpreter; the first call starts the pool.

        Monty believes for ever that an interpreter is in use whose checkout was cancelled. So who is cancelled does
        not wait for it any longer, and it is given back as soon as it is there.
        """
        pool = await self._started()
        checkout = pool.checkout(**options)
        taking = asyncio.ensure_future(_without_panic(checkout.__aenter__()))
        try:
            return Lease(await asyncio.shield(taking), checkout)
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
                try:
                    async with asyncio.timeout(START_S):
                        await _without_panic(pool.__aenter__())
                except TimeoutError:
                    # Where a thread of its runtime cannot be started, Monty waits for it for ever.
                    raise ResourceError(
                        f"the interpreter of programs did not start within {START_S:g} s: too little address space "
                        "(ulimit -v) or too many threads (ulimit -u); allow more of it, then resume the run"
                    ) from None
                self._pool = pool
            return self._pool

    async def aclose(self) -> None:
        async with self._lock:
            pool, self._pool = self._pool, None
            await asyncio.gather(*self._returning)
            if pool is not None:
                await pool.__aexit__(None, None, None)


async def _without_panic(starting: Awaitable[T]) -> T:
    """Await what Monty does; where its runtime panics, raise what can be handled."""
    try:
        return await starting
    except (Exception, asyncio.CancelledError):
        raise
    except BaseException as exc:
        refuse_shortage(exc)
        raise


async def _give_back(checkout: Any, taking: asyncio.Future[Any]) -> None:
    """Wait for an interpreter that nobody wants any longer, and give it back."""
    try:
        await taking
    except Exception:  # there was none: nothing is to be given back
        return
    await checkout.__aexit__(None, None, None)
