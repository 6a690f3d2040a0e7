"""Every command that steers a run, each in a process of its own, over both databases."""

from __future__ import annotations

import pytest

from tests.cli.support import APP_SETTINGS, Folder, Result, wait_until
from tests.postgres import PASSWORD, Postgres
from tests.support.cli_pause import GATE, SETTINGS


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, folder: Folder) -> str:
    """The settings that name the database."""
    if request.param == "sqlite":
        return ""
    server: Postgres = request.getfixturevalue("server")
    folder.environment["PGPASSWORD"] = PASSWORD
    schema = request.getfixturevalue("schema")
    return f'database = "{server.tcp(password=None)}"\ndatabase_schema = "{schema}"\n'


def _process(folder: Folder, *words: str) -> Result:
    with folder.start(*words) as started:
        return started.end()


@pytest.mark.long
def test_a_run_at_work_is_paused_resumed_and_cancelled(folder: Folder, database: str) -> None:
    folder.write("app.py", GATE)
    folder.write("agentorchestra.toml", f"{database}{SETTINGS}max_steps = 100000\n")
    with folder.start("run", "Pass.", "--json") as started:
        wait_until((folder.path / "reached.txt").exists)
        assert "was asked to pause" in _process(folder, "pause", "last").out
        folder.write("open.txt", "")
        assert started.end().json["status"] == "paused"
    passed = len((folder.path / "reached.txt").read_text())
    (folder.path / "open.txt").unlink()
    with folder.start("resume", "last", "--json") as started:
        wait_until(lambda: len((folder.path / "reached.txt").read_text()) > passed)
        assert _process(folder, "cancel", "last").code == 0
        assert started.end().json["status"] == "cancelled"
    assert len((folder.path / "reached.txt").read_text()) == passed + 1


@pytest.mark.long
def test_a_run_that_waits_is_answered_approved_denied_and_paused(folder: Folder, database: str) -> None:
    folder.with_app(f"{database}{APP_SETTINGS}")
    assert _process(folder, "run", "PLAN mail").code == 3
    assert "is paused" in _process(folder, "pause", "last").out
    approved = _process(folder, "approve", "last", folder.open_code())
    assert "the run stays paused" in approved.err
    late = _process(folder, "deny", "last")
    assert (late.code, "was answered already by cli, at 20" in late.err) == (2, True)
    assert not (folder.path / "outbox.txt").exists()
    assert _process(folder, "resume", "last").code == 0
    assert (folder.path / "outbox.txt").read_text() == "eve@example.org: the code is 4711\n"
    assert _process(folder, "run", "PLAN ask").code == 3
    assert _process(folder, "answer", "last", "green", "--no-resume").code == 0
    due = _process(folder, "resume", "--due")
    assert (due.code, due.out.startswith("completed, run_")) == (0, True)
    assert _process(folder, "replay", "last").code == 0
