"""Runs whose process is killed between their creation and the moment it begins them: listed, and taken up."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agentorchestra import Workspace
from agentorchestra.core.errors import LogChangedError
from agentorchestra.core.spec import RunStatus
from tests import warm
from tests.support.patience import LONGEST_S

TASK = "What is 6 * 7?"
KILLED = "import os, signal, sys\ndef kill(*args, **more):\n    os.kill(os.getpid(), signal.SIGKILL)\n"
OF_COMMAND = (
    "from agentorchestra.cli import main\nimport agentorchestra.cli.start as start\nstart.drive = kill\n"
    f"main(['run', {TASK!r}, '--model', 'offline'])\n"
)
OF_PROGRAM = (
    "import asyncio\nfrom agentorchestra import Workspace\n"
    "async def run():\n    async with Workspace() as ws:\n        ws.assembly().driver.drive = kill\n"
    f"        await ws.run({TASK!r}, model='offline')\n"
    "asyncio.run(run())\n"
)
MADE = (
    "import asyncio\nfrom agentorchestra import Workspace\n"
    "async def run():\n    async with Workspace() as ws:\n"
    f"        await ws.create({TASK!r}, model='offline')\n        kill()\n"
    "asyncio.run(run())\n"
)


def python(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What a Python in the folder says."""
    return warm.run(words, cwd=folder, environ=os.environ, timeout=LONGEST_S)


def command(folder: Path, *words: str) -> Any:
    """The JSON that a command prints."""
    done = python(folder, "-m", "agentorchestra", *words, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("code", [OF_COMMAND, OF_PROGRAM], ids=["command", "program"])
def test_a_run_that_was_killed_before_it_began_is_taken_up(tmp_path: Path, code: str) -> None:
    assert python(tmp_path, "-c", KILLED + code).returncode == -signal.SIGKILL
    (listed,) = command(tmp_path, "runs")
    assert (listed["status"], listed["abandoned"]) == ("created", True)
    (taken,) = command(tmp_path, "resume", "--abandoned")
    assert (taken["run_id"], taken["status"]) == (listed["run_id"], "completed")
    assert command(tmp_path, "resume", "--abandoned") == []


def test_a_run_that_was_made_for_later_is_not_abandoned(tmp_path: Path) -> None:
    assert python(tmp_path, "-c", KILLED + MADE).returncode == -signal.SIGKILL
    (listed,) = command(tmp_path, "runs")
    assert (listed["status"], listed["abandoned"]) == ("created", False)
    assert command(tmp_path, "resume", "--abandoned") == []


async def test_a_process_that_lives_may_be_about_to_begin(tmp_path: Path) -> None:
    async with Workspace(tmp_path / "ws") as ws:
        run = await ws.create(TASK, model="offline", begins=True)
        assert await ws.runs.standings() == {run: "created"}
        async with Workspace(tmp_path / "ws") as other:  # anybody may drive it, as before
            assert (await other.resume(run)).status is RunStatus.COMPLETED


async def test_a_log_that_was_changed_is_not_printed_as_lines(tmp_path: Path) -> None:
    async with Workspace(tmp_path / ".agentorchestra") as ws:
        result = await ws.run(TASK, model="offline")
        whole = [event async for event in ws.log.select(verify=True)]
        assert whole == await ws.log.events(result.run_id)
    good = await asyncio.to_thread(python, tmp_path, "-m", "agentorchestra", "log", "--jsonl")
    assert good.returncode == 0 and len(good.stdout.splitlines()) == len(whole)
    with sqlite3.connect(next((tmp_path / ".agentorchestra").glob("*.db*"))) as connection:
        connection.execute("UPDATE events SET actor = 'somebody else' WHERE seq = 3")
    connection.close()
    done = await asyncio.to_thread(python, tmp_path, "-m", "agentorchestra", "log", "--jsonl")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"event 3 of run {result.run_id}" in done.stderr and "Traceback" not in done.stderr
    async with Workspace(tmp_path / ".agentorchestra") as ws:
        assert len([event async for event in ws.log.select()]) == len(whole)  # who only looks may look
        for limit in (None, 100):
            with pytest.raises(LogChangedError):
                [event async for event in ws.log.select(limit=limit, verify=True)]
