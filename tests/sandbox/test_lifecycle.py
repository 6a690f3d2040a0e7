"""Nothing is left behind: by many sandboxes at once, by those that are cancelled, by a parent that is killed."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from pydantic import JsonValue

from agentorchestra.sandbox import Program, Sandbox, SandboxLimits
from tests.sandbox.support import run
from tests.support.processes import PROJECT, Seen, nothing_left

LIMITS = SandboxLimits(seconds=100)


async def many(sandbox: Sandbox, count: int) -> Seen:
    """Many at once, each with its own answer, file and call."""
    called = set()

    async def call(name: str, arguments: dict[str, JsonValue]) -> JsonValue:
        called.add(arguments["n"])
        return arguments["n"]

    async def one(n: int) -> None:
        code = f"open('n.txt', 'w').write('{n}')\nprint(tools.same(n={n}) ** 2, open('kept').read())"
        program = Program("python", code, tools=("same",), kept={"kept": str(n).encode()})
        ran = await sandbox.run(program, LIMITS, call=call)
        assert (ran.ending, ran.stdout, ran.stderr) == ("exited", f"{n * n} {n}\n", "")
        assert ran.made == {"n.txt": str(n).encode()}

    seen = Seen()
    looking = asyncio.create_task(seen.keep_looking())
    try:
        await asyncio.gather(*(one(n) for n in range(count)))
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
    assert called == set(range(count))
    assert len(seen.processes) >= 2 * count, "the processes were seen, so their absence says something"
    await seen.gone()
    return seen


@pytest.mark.long
async def test_fifty_at_once_leave_nothing(safe: Sandbox, temporary: Path) -> None:
    await run(safe, "1")  # what is made once is made now
    with nothing_left(temporary):
        await many(safe, 50)


@pytest.mark.long
async def test_cancelled_at_any_moment_nothing_is_left(safe: Sandbox, temporary: Path) -> None:
    await run(safe, "1")
    seen = Seen()
    looking = asyncio.create_task(seen.keep_looking())
    with nothing_left(temporary):
        for delay in (0, 0.001, 0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3):
            task = asyncio.create_task(run(safe, "import time\nwhile True: time.sleep(1)"))
            await asyncio.sleep(delay)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await seen.gone()
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
    assert seen.processes


def test_cancelled_with_the_loop_nothing_is_left(safe: Sandbox, temporary: Path) -> None:
    seen = Seen()

    async def main() -> None:
        task = asyncio.create_task(run(safe, "import time\ntime.sleep(100)"))
        while not seen.processes:
            seen.look()
            await asyncio.sleep(0.01)
        assert not task.done()  # the loop ends while it runs, and cancels it

    asyncio.run(main())
    asyncio.run(seen.gone())


@contextlib.contextmanager
def programs(name: str, count: int) -> Iterator[tuple[subprocess.Popen[str], Seen]]:
    """A process whose sandboxes all run, and the processes below it."""
    command = [sys.executable, "-m", "tests.sandbox.many_program", name, str(count)]
    parent = subprocess.Popen(
        command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "up\n", parent.stderr.read() if parent.stderr else ""
        seen = Seen(parent.pid)
        seen.look()
        assert len(seen.processes) >= 4 * count
        yield parent, seen
    finally:
        parent.kill()
        parent.communicate()


@pytest.mark.parametrize("count", [2, pytest.param(50, marks=pytest.mark.long)])
async def test_when_the_parent_is_killed_everything_inside_ends(count: int, safe: Sandbox) -> None:
    with programs(safe.name, count) as (parent, seen):
        parent.kill()
        began = time.monotonic()
        await seen.gone()
        print(f"{len(seen.processes)} processes gone after {time.monotonic() - began:.2f} s")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupt_ends_everything_inside(number: signal.Signals, safe: Sandbox) -> None:
    with programs(safe.name, 2) as (parent, seen):
        parent.send_signal(number)
        _, said = await asyncio.to_thread(parent.communicate)
        assert parent.returncode != 0
        assert "never awaited" not in said
        assert "Unknown child process" not in said
        await seen.gone()


async def test_the_supervisor_goes_with_its_pipe(bubblewrap: Sandbox) -> None:
    """Without a signal too: a supervisor that cannot reach its host ends, and with it the sandbox."""
    with programs(bubblewrap.name, 1) as (parent, seen):
        parent.send_signal(signal.SIGSTOP)  # it neither answers nor ends
        first = next(one for one in parent_children(parent.pid) if "bwrap" in one.name())
        first.kill()
        others = Seen()
        others.processes = seen.processes - {first}
        await others.gone()


def parent_children(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children()
