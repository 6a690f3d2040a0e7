"""An approval that outlives the process that asked for it."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.workspace import Workspace
from tests.chaos.conftest import Log
from tests.chaos.support import KILLED, only_run, python, read_log, start, until

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]  # many processes, on a machine that may be busy

CLI = ("-m", "agentorchestra.cli")
PROGRAM = Path(__file__).with_name("clerk_program.py")
TASK = ("run", "Answer this letter with thanks.", "--file")
APPROVAL = "/1.react/7.approval#1"
SEND = "/1.react#7"


@pytest.fixture
def folder(tmp_path: Path, log: Log) -> Path:
    shutil.copy(PROGRAM, tmp_path / "app.py")
    settings = ['app = "app:workspace"', 'model = "clerk"', 'system = "react"', *log()]
    (tmp_path / "agentorchestra.toml").write_text("\n".join(settings))
    (tmp_path / "letter.txt").write_text("Hello! Please write to tide@example.org.\n")
    return tmp_path


def _cli(folder: Path, *words: str, kill_at: str = "", code: int = 0) -> dict[str, Any]:
    whole: list[str | Path] = [*CLI, *words, "--workspace", folder / "ws", "--json"]
    printed = python(whole, kill_at=kill_at, code=code)
    result: dict[str, Any] = json.loads(printed) if printed else {}
    return result


def _code(folder: Path, run: str) -> str:
    (question,) = _cli(folder, "show", run)["questions"]
    return str(question["code"])


def _sent(folder: Path) -> list[str]:
    path = folder / "sent.txt"
    return path.read_text().splitlines() if path.exists() else []


def _run(folder: Path, kill_at: str) -> str:
    """A run that asks; killed there, or ended as waiting. Its id."""
    result = _cli(folder, *TASK, str(folder / "letter.txt"), kill_at=kill_at, code=3)
    run = asyncio.run(only_run(folder / "ws"))
    if not kill_at:
        assert (result["status"], [one["key"] for one in result["questions"]]) == ("waiting", [APPROVAL])
    if kill_at.startswith("in_mark:/"):
        # It died before the question was in the log: whoever resumes asks it.
        assert _cli(folder, "resume", run, code=3)["status"] == "waiting"
    assert _sent(folder) == []
    return run


KILLED_WHILE_ASKING = [
    "",
    f"in_mark:{APPROVAL}",
    f"after_mark:{APPROVAL}",
    f"before:{APPROVAL}",
    "in_mark:run_ended",
    "after_mark:run_ended",
]


@pytest.mark.parametrize("kill_at", KILLED_WHILE_ASKING)
def test_what_was_approved_is_done_once(folder: Path, kill_at: str) -> None:
    run = _run(folder, kill_at)
    _cli(folder, "approve", run, _code(folder, run), "--no-resume")
    assert _sent(folder) == []
    result = _cli(folder, "resume", run)
    assert (result["status"], result["answer"]) == ("completed", "sent to tide@example.org")
    assert _sent(folder) == [f"{SEND} tide@example.org Thank you."]
    assert _cli(folder, "resume", run) == result
    assert len(_sent(folder)) == 1
    _cli(folder, "replay", run)


@pytest.mark.parametrize("kill_at", KILLED_WHILE_ASKING)
def test_what_was_denied_is_never_done(folder: Path, kill_at: str) -> None:
    run = _run(folder, kill_at)
    _cli(folder, "deny", run, "--reason", "yes, but not today", "--no-resume")
    result = _cli(folder, "resume", run)
    assert result["status"] == "completed"
    assert "denied by the user" in result["answer"] and "not today" in result["answer"]
    assert _sent(folder) == []
    _cli(folder, "replay", run)
    assert _sent(folder) == []


async def test_the_process_that_waits_for_a_terminal_is_killed(folder: Path) -> None:
    words: list[str | Path] = [*CLI, *TASK, folder / "letter.txt", "--workspace", folder / "ws", "--json"]
    process = start(words, environ={"ASK_HERE": "1"})
    await until((folder / "asked.txt").exists, process)
    process.kill()
    process.communicate()
    assert process.returncode == KILLED
    run = await only_run(folder / "ws")
    await asyncio.to_thread(_cli, folder, "approve", run, _code(folder, run), "--no-resume")
    assert (await asyncio.to_thread(_cli, folder, "resume", run))["answer"] == "sent to tide@example.org"
    assert len(_sent(folder)) == 1


@pytest.mark.parametrize(
    ("point", "done"),
    [
        pytest.param(f"in_record:{APPROVAL}", 1),
        pytest.param(f"after_record:{APPROVAL}", 1),
        pytest.param(f"in_mark:{SEND}", 1),
        pytest.param(f"after_mark:{SEND}", 0),
        pytest.param(f"before:{SEND}", 0),
        (f"after:{SEND}", 1),
        pytest.param(f"in_record:{SEND}", 1),
    ],
)
def test_killed_between_the_approval_and_its_deed(folder: Path, point: str, done: int) -> None:
    run = _run(folder, "")
    _cli(folder, "approve", run, _code(folder, run), "--no-resume")
    _cli(folder, "resume", run, kill_at=point)
    result = _cli(folder, "resume", run)  # nobody is asked again
    assert result["status"] == "completed"
    assert len(_sent(folder)) == done
    uncertain = not point.startswith("in_mark") and point.endswith(SEND)
    assert result["answer"].startswith("send was started before" if uncertain else "sent to tide@example.org")
    events = asyncio.run(read_log(folder / "ws", run))
    assert [event.span for event in events if event.type == "completed"].count(APPROVAL) == 1


async def test_a_reason_is_never_read_as_a_yes(folder: Path) -> None:
    run = await asyncio.to_thread(_run, folder, "")
    ws: Workspace[None] = Workspace(folder / "ws")
    async with ws:
        await ws.deny(run, reason="yes")
    result = await asyncio.to_thread(_cli, folder, "resume", run)
    assert "denied by the user" in result["answer"]
    assert _sent(folder) == []
