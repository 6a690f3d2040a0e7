"""What programs on a desktop can do to it: every action ends in a bounded time, and the desktop can be used again."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
from tests.environments.computer.desks import FORM, Desk, program, why_not
from tests.support.again import real

from agentorchestra import Workspace
from agentorchestra.core.settings import Settings

pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(why_not()), reason=why_not())]

HOSTILE = (Path(__file__).parent / "hostile.py").read_text(encoding="utf-8")
MOST_S = 20.0
"""Far more than any action needs, and far less than for ever."""


@pytest.fixture
@real
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with Workspace(tmp_path, settings=Settings()) as ws:
        yield Desk(ws)


async def started(desk: Desk, *what: str, until: str = "done") -> int:
    """Start the hostile program and wait until it has done what it does; its number."""
    said = await desk.do("start_program", command=program(HOSTILE, *what))
    found = re.search(r"program (\d+) was started", said)
    assert found is not None, said
    while until and until not in (printed := await desk.do("output", program=int(found[1]))):
        assert "ended" not in printed, printed
        await asyncio.sleep(0.1)
    return int(found[1])


async def usable(desk: Desk) -> None:
    """Whether a program can be driven all the same."""
    said = await desk.do("start_program", command=program(FORM, "After that"), wait_s=60)
    found = re.search(r'new window (\d+): "After that"', said)
    assert found is not None, said
    number = int(found[1])
    await desk.do("wait", seconds=0.5)
    while f'{number}: "After that" at 100, 100, size 600 x 400' not in await desk.do("windows"):
        await desk.do("place_window", window=number, x=100, y=100, width=600, height=400)
    await desk.do("click", x=300, y=135)
    await desk.do("type_text", text="still here")
    await desk.do("click", x=160, y=195)
    assert {"what": "saved", "text": "still here"} in await desk.told("saved")


async def test_a_program_that_holds_the_server(desk: Desk) -> None:
    number = await started(desk, "grab server", until="")
    await asyncio.sleep(3)
    began = time.monotonic()
    said = await desk.refused("click", x=10, y=10)
    assert "the desktop did not answer within 5 s: a program may hold it for itself" in said
    assert f"{number} (" in said
    assert "the desktop did not answer within 5 s" in await desk.state()
    assert time.monotonic() - began < MOST_S
    await desk.tried("stop", program=number)
    await usable(desk)


async def test_a_program_that_holds_mouse_and_keyboard(desk: Desk) -> None:
    number = await started(desk, "grab input")
    assert (await desk.do("output", program=number)).startswith("0 0\n"), "it has them"
    for action, more in (("click", {"x": 10, "y": 10}), ("press", {"keys": "Return"}), ("type_text", {"text": "ж"})):
        began = time.monotonic()
        await desk.do(action, **more)
        assert time.monotonic() - began < MOST_S
    await desk.do("stop", program=number)
    await usable(desk)


async def test_a_title_without_end(desk: Desk) -> None:
    await started(desk, "long title")
    state = await desk.state()
    assert len(state) < 3_000
    assert "\x1b" not in state
    await usable(desk)


async def test_very_many_windows(desk: Desk) -> None:
    number = await started(desk, "many windows", "10000")
    while "more behind them" not in (state := await desk.state()):  # noqa: ASYNC110
        await asyncio.sleep(0.5)  # the window manager takes its time over so many
    assert len(state) < 8_000
    began = time.monotonic()
    await desk.tried("click", x=10, y=10)
    await desk.tried("screenshot")
    assert time.monotonic() - began < MOST_S
    await desk.tried("stop", program=number)
    await usable(desk)


async def test_windows_without_end(desk: Desk) -> None:
    number = await started(desk, "windows without end", until="")
    for action, more in (("windows", {}), ("click", {"x": 10, "y": 10}), ("press", {"keys": "a"})):
        began = time.monotonic()
        await desk.tried(action, **more)
        assert time.monotonic() - began < MOST_S
    await desk.tried("stop", program=number)
    await usable(desk)


async def test_a_frozen_program_is_said_to_be_busy_and_finds_its_text_later(desk: Desk) -> None:
    number = await started(desk, "polite", until="ready")
    assert "busy" not in await desk.do("type_text", text="a")
    assert (await desk.do("output", program=number)).startswith("ready\nkey\n[")
    processes = psutil.Process().children(recursive=True)
    (frozen,) = [one for one in processes if one.name() == "python3" and "polite" in one.cmdline()]
    frozen.suspend()
    began = time.monotonic()
    assert "is busy and has not taken in everything yet" in await desk.do("type_text", text="abc")
    assert "is still there" in await desk.do("close_window", window=1)
    assert time.monotonic() - began < MOST_S
    frozen.resume()
    assert "busy" not in await desk.do("press", keys="Return")
    assert (await desk.do("output", program=number)).startswith("ready\n" + 5 * "key\n" + "[")
    await desk.do("stop", program=number)
    await usable(desk)


async def test_a_server_that_is_made_to_use_much_memory(desk: Desk) -> None:
    number = await started(desk, "much memory", until="")
    while True:  # the server refuses, and the program ends, or it is ended with all that shows on it
        outcome = await desk.tried("output", program=number)
        if outcome.error is not None or "ended" in str(outcome.value):
            break
        await desk.tried("windows")
        await asyncio.sleep(0.2)
    (server,) = [one for one in psutil.Process().children(recursive=True) if one.name() == "Xvfb"]
    assert server.memory_info().rss < 1 << 30
    await usable(desk)


async def test_a_server_that_is_killed(desk: Desk) -> None:
    await desk.do("start_program", command=program(FORM, "Before"))
    (server,) = [one for one in psutil.Process().children(recursive=True) if one.name() == "Xvfb"]
    server.kill()
    said = await desk.refused("click", x=10, y=10)
    assert said.startswith("the desktop is gone (Xvfb ended") and "begins with an empty one" in said
    state = await desk.state()
    assert "empty; nothing runs" in state and "1: ended" in state
    await usable(desk)


async def test_a_server_that_is_frozen_is_ended_when_no_program_runs(desk: Desk) -> None:
    await desk.do("windows")
    (server,) = [one for one in psutil.Process().children(recursive=True) if one.name() == "Xvfb"]
    server.suspend()
    began = time.monotonic()
    said = await desk.refused("mouse_move", x=10, y=10)
    assert "was ended, as no program runs" in said
    assert time.monotonic() - began < MOST_S
    assert not server.is_running() or server.status() == psutil.STATUS_ZOMBIE
    await usable(desk)


async def test_programs_that_use_too_much_memory_are_ended_and_it_is_said(desk: Desk) -> None:
    await desk.do("start_program", command=program(FORM, "Victim"))
    hog = "import os\nfor _ in range(2): os.fork()\nmuch = bytearray(900_000_000)\nimport time\ntime.sleep(60)"
    await desk.do("start_program", command=program(hog), wait_s=0)
    for _ in range(100):
        state = await desk.state()
        if "memory" in state:
            break
        await asyncio.sleep(0.1)
    # The kernel kills the one; where there are no control groups, all programs are ended.
    assert re.search(r"2: .*a program was killed: .* more memory|programs ended: .*used [\d,]+ MiB of memory", state), (
        state
    )
    await usable(desk)
