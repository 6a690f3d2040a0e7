"""A coroutine goes on from where it stands: values, failures and cancellations reach it as if it were awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from agentorchestra.tea.calling.begun import Begun


async def begun(coroutine: Coroutine[Any, Any, Any]) -> Any:
    waits_for = coroutine.send(None)
    return await Begun(coroutine, waits_for)


async def test_it_gives_what_the_coroutine_gives() -> None:
    seen: list[int] = []

    async def work() -> str:
        for n in range(3):
            await asyncio.sleep(0)
            seen.append(n)
        await asyncio.sleep(0.001)
        return "done"

    assert await begun(work()) == "done"
    assert seen == [0, 1, 2]


async def test_what_it_waits_for_fails_inside() -> None:
    failing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(failing.set_exception, OSError("gone"))

    async def work() -> str:
        try:
            await failing
        except OSError as exc:
            await asyncio.sleep(0)
            return f"caught {exc}"
        return "not reached"

    assert await begun(work()) == "caught gone"


async def test_a_failure_comes_out() -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        raise LookupError("nothing")

    with pytest.raises(LookupError, match="nothing"):
        await begun(work())


async def test_a_cancellation_reaches_it_and_it_may_clear_up() -> None:
    cleared: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleared.append("yes")

    task = asyncio.create_task(begun(work()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleared == ["yes"]


async def test_a_time_limit_ends_it() -> None:
    async def work() -> None:
        await asyncio.Event().wait()

    coroutine = work()
    waits_for = coroutine.send(None)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await Begun(coroutine, waits_for)


def test_one_that_is_dropped_is_closed() -> None:
    closed: list[str] = []

    async def work() -> None:
        try:
            await _Once()
        finally:
            closed.append("yes")

    coroutine = work()
    rest = Begun(coroutine, coroutine.send(None)).__await__()
    next(rest)
    rest.close()
    assert closed == ["yes"]


class _Once:
    def __await__(self) -> Any:
        yield None
