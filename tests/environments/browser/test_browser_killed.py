"""The process that has the browser is killed: nothing lives on or stays on disk, and a resume has the logins."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest
from tests.browser import find_chromium
from tests.chaos.support import start, until
from tests.environments.browser.troubles import Troubles, troubles

pytestmark = [pytest.mark.long, pytest.mark.real]
PROGRAM = ("-m", "tests.environments.browser.browser_program")


@pytest.fixture
async def site() -> AsyncIterator[Troubles]:
    find_chromium()
    async with troubles() as site:
        yield site


@pytest.fixture
def temporary() -> Iterator[Path]:
    """For the temporary files of the program; its path is short, as Chromium's sockets need it."""
    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp") as place:
        yield Path(place)


async def hanging(
    tmp_path: Path, temporary: Path, site: Troubles
) -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    """A run in the middle of an action, and all processes below its own."""
    process = start([*PROGRAM, tmp_path, site.address], environ={"TMPDIR": str(temporary)})
    await until(site.waiting.is_set, process)
    below = psutil.Process(process.pid).children(recursive=True)
    assert any("--type=renderer" in one.cmdline() for one in below)
    assert [*temporary.iterdir()]
    return process, below


async def nothing_left(temporary: Path, below: list[psutil.Process]) -> None:
    """No process, no folder; looked for until it is so, or the test's time is over."""
    await until(lambda: not any(alive(one) for one in below))
    await until(lambda: not [*temporary.iterdir()])


def alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def named(below: list[psutil.Process], word: str) -> psutil.Process:
    """The one with this word in its command, the first that was started."""
    return next(one for one in below if any(word in part for part in one.cmdline()))


async def test_killed_in_the_middle_of_an_action_and_resumed(site: Troubles, tmp_path: Path, temporary: Path) -> None:
    process, below = await hanging(tmp_path, temporary, site)
    process.kill()
    process.communicate()
    await nothing_left(temporary, below)

    site.over.set()  # from now on there is an answer
    asked = len(site.asked)
    again = start([*PROGRAM, tmp_path, site.address], environ={"TMPDIR": str(temporary)})
    out, err = await asyncio.to_thread(again.communicate)
    assert again.returncode == 0, err
    assert "tab: kept for this tab, site: kept for the site, cookie: who=ada" in out
    # The tab was opened again where it was; nobody logged in again.
    assert [one for one in site.asked[asked:] if one != "/favicon.ico"] == ["/tab", "/hang", "/tab"]
    assert not [*temporary.iterdir()]


@pytest.mark.parametrize("stopped", ["user-data-dir", "run-driver"])
async def test_a_stopped_browser_or_driver_goes_with_it(
    site: Troubles, tmp_path: Path, temporary: Path, stopped: str
) -> None:
    process, below = await hanging(tmp_path, temporary, site)
    named(below, stopped).suspend()
    process.kill()
    process.communicate()
    await nothing_left(temporary, below)


async def test_interrupted_at_the_terminal(site: Troubles, tmp_path: Path, temporary: Path) -> None:
    process, below = await hanging(tmp_path, temporary, site)
    process.send_signal(signal.SIGINT)
    named(below, "run-driver").send_signal(signal.SIGINT)  # Ctrl-C is for all of a terminal's processes
    await asyncio.to_thread(process.communicate)
    await nothing_left(temporary, below)
