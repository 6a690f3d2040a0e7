"""The futures of writes: for tasks, for threads, for callbacks, for `asyncio.wrap_future`."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading

import pytest

from agentorchestra.log.store.commits import Landing, land


def later(*landings: tuple[Landing[int], int | None, BaseException | None]) -> threading.Thread:
    """Land them in another thread."""
    thread = threading.Thread(target=lambda: land(landings))
    thread.start()
    return thread


async def test_tasks_callbacks_and_wrapped_futures_hear_it() -> None:
    one, two, three = Landing[int](), Landing[int](), Landing[int]()
    heard: list[BaseException | None] = []
    three.add_done_callback(lambda future: heard.append(future.exception()))
    waiting = [one.waiter(), asyncio.wrap_future(two)]
    error = ValueError("no")
    thread = later((one, 1, None), (two, 2, None), (three, None, error))
    assert await asyncio.gather(*waiting) == [1, 2]
    thread.join()
    assert heard == [error]
    with pytest.raises(ValueError, match="no"):
        await three.waiter()
    assert (await one.waiter(), one.result(0), one.done()) == (1, 1, True)
    three.add_done_callback(lambda future: heard.append(None))
    assert heard == [error, None]


async def test_threads_that_wait_are_woken() -> None:
    for _ in range(200):
        landing = Landing[int]()
        other = Landing[int]()
        waits = asyncio.gather(
            asyncio.to_thread(landing.result, 60), asyncio.to_thread(concurrent.futures.wait, [other], 60)
        )
        thread = later((landing, 5, None), (other, 6, None))
        result, (ended, rest) = await waits
        thread.join()
        assert (result, ended, rest) == (5, {other}, set())


async def test_a_cancelled_task_does_not_cancel_the_write() -> None:
    landing = Landing[int]()
    task = asyncio.ensure_future(landing.waiter())
    await asyncio.sleep(0)
    task.cancel()
    assert not landing.cancel()
    thread = later((landing, 1, None))
    thread.join()
    assert await landing.waiter() == 1


def test_a_loop_that_was_closed_hurts_nobody() -> None:
    landing, other = Landing[int](), Landing[int]()

    async def leave() -> None:
        _ = landing.waiter()

    asyncio.run(leave())
    land([(landing, 1, None), (other, 2, None)])
    assert (landing.result(0), other.result(0)) == (1, 2)
