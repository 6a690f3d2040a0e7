"""Plain functions in threads: what cancelling and time limits mean for them."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time

import pytest

from agentorchestra.tea.calling.threads import NotStartedError, StillRunningError, Threads
from tests.support.patience import LONGEST_S


def _alive() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("tool-")]


class Work:
    """A function that runs until it is let go."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.go = threading.Event()
        self.ended = False

    def __call__(self) -> str:
        self.started.set()
        assert self.go.wait(LONGEST_S)
        self.ended = True
        return "done"

    async def under_way(self) -> None:
        """Wait until the function runs."""
        await asyncio.to_thread(self.started.wait, LONGEST_S)


async def test_the_loop_goes_on_and_the_thread_ends() -> None:
    threads = Threads()
    work = Work()
    task = asyncio.create_task(threads.run(work, name="slow"))
    await work.under_way()
    assert (_alive(), threads.running) == (["tool-slow"], 1)
    work.go.set()
    assert await task == "done"
    await asyncio.to_thread(_gone)
    assert threads.running == 0


def _gone() -> None:
    while _alive():  # the test's own limit ends it
        time.sleep(0.01)


async def test_context_variables_and_exceptions_travel() -> None:
    variable = contextvars.ContextVar("variable", default="no")
    variable.set("yes")
    assert await Threads().run(variable.get) == "yes"

    def fail(error: BaseException) -> None:
        raise error

    with pytest.raises(KeyError):
        await Threads().run(lambda: fail(KeyError("k")))
    for error in (StopIteration(3), SystemExit(3), KeyboardInterrupt(3)):
        with pytest.raises(RuntimeError, match=f"{type(error).__name__}: 3"):
            await Threads().run(lambda error=error: fail(error))  # type: ignore[misc]


async def test_cancelling_waits_for_the_functions_end() -> None:
    threads = Threads()
    work = Work()
    task = asyncio.create_task(threads.run(work))
    await work.under_way()
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=0.1)
    assert not done, "a cancelled call must not end before its function"
    work.go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (work.ended, threads.running) == (True, 0)


async def test_cancelling_does_not_wait_longer_than_the_limit() -> None:
    threads = Threads()
    work = Work()
    task = asyncio.create_task(threads.run(work, limit_s=2.0))
    await work.under_way()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(LONGEST_S):
            await task
    assert (work.ended, threads.running) == (False, 1)
    work.go.set()
    await threads.aclose()
    assert (work.ended, threads.running) == (True, 0)


async def test_cancelling_twice_does_not_wait() -> None:
    threads = Threads()
    work = Work()
    task = asyncio.create_task(threads.run(work))
    await work.under_way()
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0.01)
    assert (task.cancelled(), work.ended) == (True, False)
    work.go.set()
    await threads.aclose()


async def test_a_limit_is_reported_and_the_function_kept_in_sight() -> None:
    threads = Threads()
    work = Work()
    with pytest.raises(StillRunningError):
        await threads.run(work, limit_s=0.05)
    assert (threads.running, work.ended) == (1, False)
    work.go.set()
    await threads.aclose()
    assert (threads.running, work.ended) == (0, True)


async def test_no_more_threads_than_allowed() -> None:
    threads = Threads(limit=2)
    works = [Work() for _ in range(3)]
    tasks = [asyncio.create_task(threads.run(work)) for work in works]
    await works[0].under_way()
    await works[1].under_way()
    await asyncio.sleep(0.05)
    assert threads.running == 2 and not works[2].started.is_set()
    with pytest.raises(NotStartedError, match="2 functions are running already"):
        await threads.run(lambda: "never", limit_s=0.05)
    works[0].go.set()
    await works[2].under_way()
    for work in works:
        work.go.set()
    assert await asyncio.gather(*tasks) == ["done"] * 3


async def test_a_call_cancelled_before_its_turn_never_runs() -> None:
    threads = Threads(limit=1)
    first, second = Work(), Work()
    running = asyncio.create_task(threads.run(first))
    await first.under_way()
    waiting = asyncio.create_task(threads.run(second))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    first.go.set()
    assert await running == "done"
    assert not second.started.is_set()


async def test_an_error_after_the_limit_is_not_shouted_about(caplog: pytest.LogCaptureFixture) -> None:
    threads = Threads()
    go = threading.Event()

    def late() -> None:
        assert go.wait(LONGEST_S)
        raise ValueError("late")

    with pytest.raises(StillRunningError):
        await threads.run(late, limit_s=0.02)
    go.set()
    await threads.aclose()
    assert not caplog.records
