"""`agentorchestra schedule`: times, missed ones, several drivers, and a process that is killed as it starts a run."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from agentorchestra import Workspace
from agentorchestra.core.errors import FencedError, MissingExtraError, ScheduleError
from agentorchestra.core.spec import RunStatus
from agentorchestra.workspace import schedules
from agentorchestra.workspace.schedules import machine_zone, time_points
from tests.cli.support import Folder, wait_until
from tests.cli.test_due import APP as SLEEPERS
from tests.support.clock import FakeClock

BERLIN = "Europe/Berlin"
APP = SLEEPERS.replace('days = float(request.messages[1].text.partition("DAYS ")[2].split()[0])', "days = 0").replace(
    'return call("wait_until", seconds=days * 86400)', 'return call("done", answer="looked")'
)
KILLED = '''
import os
import signal

from agentorchestra.core.effects import EffectKind


class Killing:
    """Is killed when the run of a time point is in the log, and before the schedule knows."""

    def __init__(self, handler):
        self._handler = handler

    def __getattr__(self, name):
        return getattr(self._handler, name)

    async def execute(self, effect, ctx):
        outcome = await self._handler.execute(effect, ctx)
        if effect.name == "start_scheduled_run" and Path("kill.txt").exists():
            Path("kill.txt").unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return outcome


def killing(handlers):
    return {**handlers, EffectKind.INVOKE_TOOL: Killing(handlers[EffectKind.INVOKE_TOOL])}
'''


@pytest.fixture
def app(tmp_path: Path) -> Folder:
    """A folder whose application has a clock that `ahead.txt` sets."""
    folder = Folder(tmp_path)
    folder.write("app.py", APP)
    folder.write("ahead.txt", "0")
    folder.write("agentorchestra.toml", 'app = "app:workspace"\nmodel = "scripted"\nsystem = "react"\n')
    return folder


def scheduled(app: Folder) -> dict[str, Any]:
    (state,) = app.run("schedule", "list", "--json").json
    return dict(state)


def of_schedules(app: Folder) -> list[dict[str, Any]]:
    return [row for row in app.run("runs", "--json").json if row["labels"].get("schedule")]


def test_each_time_point_is_an_ordinary_run_and_missed_ones_are_said(app: Folder) -> None:
    made = app.run("schedule", "0 9 * * *", "Look.", "--name", "daily", "--zone", "UTC", "--label", "team=a")
    assert (made.code, made.out) == (0, "daily\n") and "its first run begins at 20" in made.err
    assert app.run("resume", "--due").out == "no run is due\n" and not of_schedules(app)
    app.write("ahead.txt", "4")
    due = app.run("resume", "--due")
    assert due.code == 0 and "daily: missed 3 later time points: no process was there to start a run" in due.err
    (row,) = of_schedules(app)
    assert (row["status"], row["labels"]) == ("completed", {"schedule": "daily", "team": "a"})
    state = scheduled(app)
    assert (state["status"], state["count"], state["last"]["missed"]) == ("waiting", 1, 3)
    assert state["last"]["run_id"] == row["run_id"]
    assert app.run("replay", state["run_id"]).code == 0


@pytest.mark.long
def test_paused_resumed_removed(app: Folder) -> None:
    assert app.run("schedule", "pause", "last").code == 2 and not app.workspace.exists()
    app.run("schedule", "@daily", "Look.", "--zone", "UTC")
    name = scheduled(app)["name"]
    assert app.run("schedule", "pause", "last", "--json").json["status"] == "paused"
    app.write("ahead.txt", "2")
    assert app.run("resume", "--due").out == "no run is due\n"
    resumed = app.run("schedule", "resume", name[:20], "--json").json
    assert (resumed["status"], resumed["count"], resumed["last"]["missed"]) == ("waiting", 1, 1)
    app.run("resume", "--due")
    assert [row["status"] for row in of_schedules(app)] == ["completed"]
    assert app.run("schedule", "remove", name, "--json").json["status"] == "removed"
    assert app.run("schedule", "list", "--json").json == []
    app.write("ahead.txt", "9")
    assert app.run("resume", "--due").out == "no run is due\n" and len(of_schedules(app)) == 1


REFUSED: list[tuple[list[str], str]] = [
    (["0 9", "Look."], "'0 9' has 2 fields and a schedule has 5: write minute, hour, day of the month"),
    (["61 9 * * *", "Look."], "'61 9 * * *' names no times"),
    (["0 0 30 2 *", "Look."], "'0 0 30 2 *' names no times"),
    (["0 9 * * *", "Look.", "--zone", "Mars"], "'Mars' is no time zone of this machine"),
    (["0 9 * * *", " "], "the task is empty"),
    (["0 9 * * *", "Look.", "-f", "gone.txt"], "gone.txt does not exist"),
    (["0 9 * * *", "Look.", "--system", "reacct"], "no system 'reacct'"),
    (["0 9 * * *", "Look.", "--name", "taken"], "there is a schedule 'taken' already; remove it first"),
    (["pause", "none"], "no schedule 'none'; the schedules: taken"),
    (["0 9 * * *"], "Missing argument 'TASK'"),
]


@pytest.mark.long
def test_refused_before_anything_is_written(app: Folder) -> None:
    app.run("schedule", "0 9 * * *", "Look.", "--name", "taken")
    for words, sentence in REFUSED:
        wrong = app.run("schedule", *words)
        assert wrong.code == 2 and sentence in wrong.error
    assert len(app.ids()) == 1


def test_the_extra_that_is_missing_is_named(app: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    app.run("schedule", "0 9 * * *", "Look.", "--zone", "UTC")
    monkeypatch.setitem(sys.modules, "croniter", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'agentorchestra\[schedule\]'"):
        next(time_points("0 9 * * *", "UTC", datetime(2026, 1, 1, tzinfo=UTC)))
    app.write("ahead.txt", "2")
    due = app.run("resume", "--due")
    assert due.code == 1 and "cannot go on: schedules need the package croniter" in due.err
    monkeypatch.undo()
    assert app.run("resume", "--due").code == 0 and len(of_schedules(app)) == 1  # it was not lost


def points(cron: str, after: datetime, count: int) -> list[str]:
    return [f"{one:%d %H:%M}" for one in islice(time_points(cron, BERLIN, after), count)]


def test_the_clock_that_is_set_back_and_forward() -> None:
    autumn, spring = datetime(2026, 10, 24, 12, tzinfo=UTC), datetime(2027, 3, 27, 12, tzinfo=UTC)
    assert points("30 2 * * *", autumn, 2) == ["25 00:30", "26 01:30"]  # once, though the clock shows 2:30 twice
    assert points("30 * * * *", datetime(2026, 10, 25, 0, tzinfo=UTC), 3) == ["25 00:30", "25 01:30", "25 02:30"]
    assert points("30 2 * * *", spring, 2) == ["28 01:00", "29 00:30"]  # there is no 2:30: as the gap ends


def test_the_zone_of_the_machine() -> None:
    assert machine_zone({"TZ": "Asia/Tokyo"}) == machine_zone({"TZ": ":/usr/share/zoneinfo/Asia/Tokyo"}) == "Asia/Tokyo"
    with pytest.raises(ScheduleError, match="'EST5EDT4' is no time zone"):
        next(time_points("0 9 * * *", machine_zone({"TZ": "EST5EDT4"}), datetime(2026, 1, 1, tzinfo=UTC)))


def test_a_schedule_that_nothing_drives_says_so(tmp_path: Path) -> None:
    async def made() -> None:
        async with Workspace(tmp_path / ".agentorchestra", clock=FakeClock()) as ws:  # in October 2026
            await ws.schedules.add("0 9 1 * *", "Look.", model="offline", zone="UTC", name="monthly")

    asyncio.run(made())
    late = Folder(tmp_path).run("schedule", "list")
    assert "monthly  due " in late.out and "passed and no process has started a run: use" in late.out


async def test_two_drivers_start_one_run_for_each_time_point(tmp_path: Path) -> None:
    clock = FakeClock()
    async with Workspace(tmp_path, clock=clock) as one, Workspace(tmp_path, clock=clock) as other:
        waiting = await one.schedules.add("30 * * * *", "What is 6 * 7?", model="offline", zone="UTC")
        for hour in range(3):
            clock.time += timedelta(hours=1)
            ends = await asyncio.gather(
                *(ws.runs.take_up(waiting) for ws in (one, other, one, other)), return_exceptions=True
            )
            assert all(isinstance(end, FencedError) or end.status is RunStatus.WAITING for end in ends)  # type: ignore[union-attr]
            made = [run for run in await one.runs.list() if run.manifest.labels.get("schedule") == waiting]
            assert len(made) == hour + 1


@pytest.mark.long
async def test_a_time_point_whose_run_cannot_be_made_is_said_and_the_next_one_comes(tmp_path: Path) -> None:
    clock, note = FakeClock(), tmp_path / "note.txt"
    note.write_text("one")
    async with Workspace(tmp_path / "ws", clock=clock) as ws:
        waiting = await ws.schedules.add("@hourly", "What is in the note?", files=[note], model="offline", zone="UTC")
        note.unlink()
        clock.time += timedelta(hours=1)
        await ws.resume(waiting)
        (state,) = await ws.schedules.list()
        assert state.last is not None and "note.txt does not exist" in state.last.error and not state.last.run_id
        note.write_text("another")  # the file is read when the run begins
        clock.time += timedelta(hours=1)
        await ws.resume(waiting)
        (state,) = await ws.schedules.list()
        assert state.last is not None and state.last.run_id and state.status == "waiting"
        record = await ws.store.get_run(state.last.run_id)
        assert record is not None and record.manifest.files[0].size == len("another")


def test_missed_time_points_are_counted_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "MOST_MISSED", 5)
    began = datetime(2026, 1, 1, tzinfo=UTC)
    values = {"name": "a", "cron": "* * * * *", "zone": "UTC", "first": began, "spec": {"task": "Look."}}
    one = schedules.Schedule.model_validate(values)
    assert schedules.count_passed(one, began, began + timedelta(minutes=3)) == 3
    assert schedules.count_passed(one, began, began + timedelta(days=300)) == 5


def test_killed_between_the_start_of_a_run_and_its_record(app: Folder) -> None:
    app.write(
        "app.py",
        APP.replace("from datetime", f"{KILLED}\n\nfrom datetime", 1)
        .replace("clock=Clock()", "clock=Clock(), handlers=killing")
        .replace("import os", "from pathlib import Path\n\nimport os", 1),
    )
    app.run("schedule", "0 9 * * *", "Look.", "--zone", "UTC")
    app.write("ahead.txt", "1")
    app.write("kill.txt", "")
    with app.start("resume", "--due") as killed:
        wait_until(lambda: killed.process.poll() is not None)
    assert killed.process.returncode == -9
    assert [row["status"] for row in of_schedules(app)] == ["created"]
    assert scheduled(app)["count"] == 0
    app.run("resume", "--due")
    (row,) = of_schedules(app)
    assert row["status"] == "completed"
    assert scheduled(app)["last"]["run_id"] == row["run_id"]
    assert app.run("replay", scheduled(app)["run_id"]).code == 0


@pytest.mark.long
def test_schedule_run_waits_in_the_foreground(app: Folder) -> None:
    app.run("schedule", "0 9 * * *", "Look.", "--zone", "UTC", "--name", "daily")
    with app.start("schedule", "run") as waiting:
        waiting.wait_for("waiting for the times of 1 schedule; Ctrl-C stops it")
        app.write("ahead.txt", "1")
        wait_until(lambda: [row["status"] for row in of_schedules(app)] == ["completed"])
        waiting.wait_for("daily: started run_")
        waiting.interrupt()
        assert waiting.end().code in (0, 130)
