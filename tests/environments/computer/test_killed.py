"""A process with a desktop is killed (SIGKILL): nothing of it lives on, and whoever goes on is told what is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psutil
import pytest
from tests.chaos.support import start, until
from tests.environments.computer.desks import why_not

pytestmark = [pytest.mark.long, pytest.mark.real, pytest.mark.skipif(bool(why_not()), reason=why_not())]
PROGRAM = ("-m", "tests.environments.computer.desktop_program")


async def test_nothing_lives_on_and_what_is_lost_is_said(tmp_path: Path) -> None:
    process = start([*PROGRAM, tmp_path])

    await until(lambda: bool([*tmp_path.glob("runs/*/environments/main/computer/waiting")]), process)
    below = psutil.Process(process.pid).children(recursive=True)
    assert {"Xvfb", "openbox", "python3"} <= {one.name() for one in below}
    (display,) = tmp_path.glob("runs/*/environments/main/display")
    process.kill()
    process.communicate()
    await until(lambda: not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in below))

    again = start([*PROGRAM, tmp_path])
    out, err = await asyncio.to_thread(again.communicate)
    assert again.returncode == 0, err
    assert "the state of computer was lost with the process that held it; it was opened anew" in out
    assert "interrupted" in out or "uncertain" in out, "what was under way is not done again"
    assert "lives again" in out
    assert not display.exists()
