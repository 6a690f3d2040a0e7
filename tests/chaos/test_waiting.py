"""A timer of a day and a pause, whatever moment the process is killed at: nothing lost, nothing doubled, in time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.events import Event
from tests.chaos.support import KILLED, kill_points, read_log, start
from tests.support.patience import LONGEST_S

pytestmark = pytest.mark.timeout(600)  # many processes, on a machine that may be busy

PROGRAM = ("-m", "tests.chaos.waiting_program")
LINES = ["worked", "went on", "slept", "over"]
TIMER = "/1.sleeper#1"


def _ahead(folder: Path, days: float) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "ahead.txt").write_text(str(days))


def _job(folder: Path, what: str, kill_at: str) -> dict[str, Any] | None:
    """The result of one job; None if it was killed. It is not where it does not come to that point."""
    process = start((*PROGRAM, folder, what), kill_at=kill_at)
    out, err = process.communicate(timeout=LONGEST_S)
    assert process.returncode == 0 or (kill_at and process.returncode == KILLED), (kill_at, err)
    result: dict[str, Any] | None = json.loads(out) if process.returncode == 0 else None
    return result


def _done(folder: Path) -> list[str]:
    path = folder / "done.txt"
    return path.read_text().splitlines() if path.exists() else []


def _driven(folder: Path, point: str = "") -> list[Event]:
    """To the end, resumed as often as it takes, a day later when it only waits; killed there once. Its log."""
    _ahead(folder, 0)
    statuses: list[str] = []
    answer, kill_at = "", point
    while "completed" not in statuses:
        result = _job(folder, "run" if not statuses else "resume", kill_at)
        statuses.append("killed" if result is None else result["status"])
        assert len(statuses) < 8, (point, statuses)
        if result is None:
            kill_at = ""
        else:
            answer = str(result["answer"])
        if result is not None and result["status"] == "waiting":
            assert statuses.count("waiting") == 1, (point, statuses)
            assert not {"slept", "over"} & set(_done(folder)), point
            log = asyncio.run(read_log(folder, "run_test"))
            began = next(one.ts for one in log if one.type == "started" and one.span == TIMER)
            # A crash does not begin it anew.
            assert datetime.fromisoformat(result["until"]) == began + timedelta(days=1), point
            _ahead(folder, 1.01)
    assert statuses.count("killed") == bool(point), (point, statuses)
    assert "waiting" in statuses and ("paused" in statuses or point), (point, statuses)
    done = _done(folder)
    assert len(done) == len(set(done)), (point, done)
    # What is not there was started before the kill: the agent was told that it may have happened.
    assert set(done) == set(LINES) or "uncertain" in answer or answer.endswith("None"), (point, done, answer)
    events = asyncio.run(read_log(folder, "run_test"))
    completed = [event.span for event in events if event.type == "completed"]
    assert len(completed) == len(set(completed)) == 7, (point, completed)
    return events


def _grid(folder: Path, points: Sequence[str]) -> None:
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda case: _driven(folder / str(case[0]), case[1]), enumerate(points)))


SLICE = [f"after_mark:{TIMER}", "after_record:/2.worker#1", f"in_record:{TIMER}", "after:/1.sleeper#2"]


@pytest.mark.long
def test_a_timer_and_a_pause_survive_being_killed(tmp_path: Path) -> None:
    _grid(tmp_path, SLICE)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_timer_and_a_pause_survive_being_killed_at_every_point(tmp_path: Path) -> None:
    points = kill_points(_driven(tmp_path / "clean"))
    print(f"{len(points)} points")
    _grid(tmp_path, points)
