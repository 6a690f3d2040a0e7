"""A server that is killed again and again while many tasks call it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from agentorchestra.core.errors import ToolError
from tests.mcp.support import HttpServer, called, calls, children, opened, stdio, words, written

TASKS, EACH = 8, 20
KILLS = {False: 6, True: 4}
"""By whether calls are repeated: those are tried five times, and one may be under way each time."""


@pytest.mark.long
@pytest.mark.parametrize("trust", [False, True], ids=["once", "repeatable"])
@pytest.mark.parametrize("http", [False, True], ids=["stdio", "http"])
async def test_nothing_happens_twice_and_nothing_is_claimed_that_did_not(
    tmp_path: Path, http: bool, trust: bool
) -> None:
    tool = "repeat" if trust else "count"
    before = set(children())
    done: list[int] = []
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(HttpServer(tmp_path)) if http else None
        entry = {"url": server.url, "trust": trust} if server is not None else stdio(tmp_path, trust=trust)
        toolkit = await stack.enter_async_context(opened(written(tmp_path, srv=entry)))

        async def work(task: int) -> None:
            for number in range(task * EACH, (task + 1) * EACH):
                try:
                    assert words(await called(toolkit, f"srv_{tool}", n=number)) == f"{tool} {number}"
                    done.append(number)
                except ToolError as error:
                    assert "may have happened" in str(error)
                    assert not trust

        async def kill() -> None:
            for kills in range(1, KILLS[trust] + 1):
                while len(calls(tmp_path)) < kills * TASKS:  # noqa: ASYNC110 - another process writes them
                    await asyncio.sleep(0.005)
                if server is not None:
                    server.launch()
                for process in set(children()) - before:
                    process.kill()

        await asyncio.gather(*map(work, range(TASKS)), kill())
    happened = [int(line.split()[1]) for line in calls(tmp_path)]
    assert set(done) <= set(happened)
    assert trust or len(happened) == len(set(happened))
    assert len(done) >= TASKS * EACH - KILLS[trust] * TASKS
