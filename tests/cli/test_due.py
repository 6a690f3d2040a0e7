"""Runs that wait for a time, as real processes see them: `run`, `runs`, `show`, `resume`, `resume --due`, `serve`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Folder, wait_until
from tests.support.web_serve import ask, serving

APP = '''
"""An application whose clock is as far ahead as `ahead.txt` says."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic

from agentorchestra import Workspace
from agentorchestra.testing import ScriptedModel, call


class Clock:
    def now(self):
        return datetime.now(UTC) + timedelta(days=float(Path("ahead.txt").read_text()))

    def monotonic(self):
        return monotonic()


def script(request):
    days = float(request.messages[1].text.partition("DAYS ")[2].split()[0])
    if any(message.role == "tool" for message in request.messages):
        return call("done", answer="slept well")
    return call("wait_until", seconds=days * 86400)


def workspace():
    return Workspace(models={"scripted": ScriptedModel(script, name="scripted")}, clock=Clock())
'''


@pytest.fixture
def app(tmp_path: Path) -> Folder:
    """A folder with that application."""
    folder = Folder(tmp_path)
    folder.write("app.py", APP)
    folder.write("ahead.txt", "0")
    folder.write("agentorchestra.toml", 'app = "app:workspace"\nmodel = "scripted"\nsystem = "react"\n')
    return folder


def test_a_run_that_waits_for_days_is_resumed_when_it_is_due(app: Folder) -> None:
    waiting = app.run("run", "DAYS 3")
    assert waiting.code == 3
    assert "the run waits until 20" in waiting.err and "to go on then: agentorchestra resume run_" in waiting.err
    (run,) = app.ids()
    (row,) = app.run("runs", "--json").json
    assert row["status"] == "waiting" and row["until"] is not None
    assert "(until 20" in app.run("runs").out
    assert "the run waits until 20" in app.run("show", "last").out
    events = len(app.assert_readable()["events"])
    early = app.run("resume", "last")
    assert (early.code, "the run waits until 20" in early.err) == (3, True)
    assert len(app.assert_readable()["events"]) == events  # looking costs nothing
    none = app.run("resume", "--due")
    assert (none.code, none.out) == (0, "no run is due\n")
    app.write("ahead.txt", "3.1")
    due = app.run("resume", "--due")
    assert (due.code, due.out.startswith(f"completed, {run}, ")) == (0, True)
    assert app.run("resume", "--due", "--json").json == []
    assert app.run("replay", "last").code == 0


def test_only_what_is_due_goes_on(app: Folder) -> None:
    for days in (1, 2, 5):
        app.run("run", f"DAYS {days}")
    app.run("pause", app.ids()[-1])  # the oldest one: it would be due
    app.write("ahead.txt", "2.5")
    results = app.run("resume", "--due", "--json").json
    assert [(one["status"], one["answer"]) for one in results] == [("completed", "slept well")]
    statuses = {row["task"]: row["status"] for row in app.run("runs", "--json").json}
    assert statuses == {"DAYS 1": "paused", "DAYS 2": "completed", "DAYS 5": "waiting"}


@pytest.mark.long
def test_one_that_cannot_go_on_does_not_hold_up_the_others(app: Folder) -> None:
    app.run("run", "DAYS 1")
    app.write("app.py", APP.replace('"scripted"', '"other"'))
    app.write("agentorchestra.toml", 'app = "app:workspace"\nmodel = "other"\nsystem = "react"\n')
    app.run("run", "DAYS 1")
    app.write("ahead.txt", "2")
    due = app.run("resume", "--due")
    assert due.code == 1
    assert "cannot go on: " in due.err and "scripted" in due.err and "Traceback" not in due.err
    assert due.out.startswith("completed, run_")


@pytest.mark.parametrize("words", [[], ["last", "--due"]])
def test_one_run_or_all_that_are_due(app: Folder, words: list[str]) -> None:
    wrong = app.run("resume", *words)
    assert (wrong.code, "name a RUN, or give --due or --abandoned, one of the three" in wrong.error) == (2, True)


@pytest.mark.long
def test_a_server_takes_up_what_is_due(app: Folder) -> None:
    app.run("run", "DAYS 1")
    (run,) = app.ids()
    with serving(app) as (started, address):
        assert started.process.stdout is not None
        token = started.process.stdout.readline().strip().partition(": ")[2]
        (listed,) = ask(address, "/runs", token)["runs"]
        assert listed["status"] == "waiting" and listed["until"] is not None
        app.write("ahead.txt", "1.1")
        wait_until(lambda: ask(address, f"/runs/{run}", token)["status"] == "completed")
        started.interrupt()
        assert started.end().code == 0
    assert app.assert_readable(run)["result"]["answer"] == "slept well"


@pytest.mark.long
def test_each_goes_on_with_its_preset(app: Folder) -> None:
    for preset in ("paper-001", "none"):
        assert app.run("run", "DAYS 2", "--preset", preset).code == 3
    app.write("ahead.txt", "2.1")
    due = app.run("resume", "--due", "--json")
    assert (due.code, [one["answer"] for one in due.json]) == (0, ["slept well"] * 2), due.err
