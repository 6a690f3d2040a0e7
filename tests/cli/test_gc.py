"""`gc`."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from agentorchestra.log.store import writer
from tests.cli.support import APP_SETTINGS, Folder
from tests.postgres import Postgres


@pytest.fixture(params=["sqlite", "postgres"])
def work(folder: Folder, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, schema: str) -> Folder:
    """An application; what was put a moment ago may go."""
    monkeypatch.setattr(writer, "TOUCHED_S", 0.0)
    lines = ""
    if request.param == "postgres":
        server: Postgres = request.getfixturevalue("server")
        lines = f'database = "{server.url}"\ndatabase_schema = "{schema}"\n'
    return folder.with_app(lines + APP_SETTINGS)


def started(work: Folder, task: str, *words: str | Path) -> str:
    run: str = work.run("run", task, *words, "--json").json["run_id"]
    return run


def listed(work: Folder) -> set[str]:
    return {one["run_id"] for one in work.run("runs", "--json").json}


def contents(work: Folder) -> int:
    return sum(1 for path in (work.workspace / "files").glob("??/*"))


@pytest.mark.sampled(2)
def test_nothing_goes_unless_it_is_asked_for(work: Folder) -> None:
    assert work.run("gc").out == "deleted 0 runs, 0 folders, 0 files and 0 blobs (0 bytes)\n"
    run = started(work, "PLAN fill")
    assert work.run("gc", "--grace", "0s").out == "deleted 0 runs, 0 folders, 0 files and 0 blobs (0 bytes)\n"
    assert listed(work) == {run}
    assert work.run("replay", run).code == 0


@pytest.mark.long
def test_old_runs_go_with_all_they_had(work: Folder) -> None:
    work.write("note.txt", "a note")
    work.write("other.txt", "another note")
    first = started(work, "PLAN fill", "-f", "note.txt", "-f", "other.txt")
    second = started(work, "PLAN fill", "-f", "note.txt")
    waiting = started(work, "PLAN ask", "-f", "other.txt")
    third = started(work, "PLAN escape")
    assert contents(work) == 2
    dry = work.run("gc", "--keep", "1", "--older-than", "0s", "--grace", "0s", "--dry-run", "--json").json
    assert (dry["runs"], dry["folders"], dry["files"], dry["dry_run"]) == ([second, first], 2, 1, True)
    assert listed(work) == {first, second, waiting, third}
    assert (work.workspace / "runs" / first).exists()
    done = work.run("gc", "--keep", "1", "--grace", "0s")
    assert done.out.splitlines()[0].startswith("deleted 2 runs, 2 folders, 1 file and ")
    assert done.out.splitlines()[1:] == [f"  {second}", f"  {first}"]
    assert listed(work) == {waiting, third}
    assert not (work.workspace / "runs" / first).exists()
    # The file that the waiting run still has.
    assert contents(work) == 1
    assert work.run("answer", waiting, "green").code == 0
    assert work.run("replay", waiting).code == 0
    assert work.run("gc", "--keep", "1", "--grace", "0s", "--json").json["files"] == 1
    assert contents(work) == 0
    assert work.run("show", first).code == 2


def test_what_is_young_stays(work: Folder) -> None:
    work.write("note.txt", "a note")
    run = started(work, "PLAN fill", "-f", "note.txt")
    done = work.run("gc", "--keep", "0", "--json").json
    assert (done["runs"], done["files"], done["blobs"]) == ([run], 0, 0)
    assert contents(work) == 1
    assert work.run("gc", "--older-than", "0s", "--json").json["runs"] == []


@pytest.mark.sampled(2)
def test_ages_and_statuses(work: Folder) -> None:
    run = started(work, "PLAN escape")
    assert work.run("gc", "--older-than", "1h", "--json").json["runs"] == []
    assert work.run("gc", "--keep", "0", "--status", "failed", "--status", "cancelled", "--json").json["runs"] == []
    assert work.run("gc", "--keep", "0", "--status", "completed", "--json").json["runs"] == [run]


@pytest.mark.sampled(2)
def test_what_a_fork_was_made_from_stays(work: Folder) -> None:
    run = started(work, "PLAN ask")
    assert work.run("answer", run, "green").code == 0
    fork = work.run("fork", run, "--at", "end", "--no-resume", "--json")
    assert fork.code == 0, fork.err
    done = work.run("gc", "--keep", "0", "--json").json
    assert (done["runs"], done["kept"]) == ([], [run])
    done = work.run("gc", "--keep", "0", "--status", "created", "--status", "completed", "--json").json
    assert done["runs"] == [fork.json["run_id"], run]


@pytest.mark.sampled(2)
def test_folders_of_no_run_go_when_they_are_old(work: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    run = started(work, "PLAN escape")
    for name in ("run_LOST", "notes"):
        (work.workspace / "runs" / name).mkdir(parents=True)
    assert work.run("gc", "--json").json["folders"] == 0
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 2 * 86_400)
    assert work.run("gc", "--json").json["folders"] == 1
    assert sorted(path.name for path in (work.workspace / "runs").iterdir()) in (["notes"], ["notes", run])


@pytest.mark.parametrize(
    "words", [("--older-than", "30"), ("--older-than", "-1d"), ("--older-than", "1e9d"), ("--grace", "x")]
)
def test_what_is_no_length_of_time(folder: Folder, words: tuple[str, str]) -> None:
    done = folder.run("gc", *words)
    assert done.code == 2
    assert f"{words[1]!r} is no length of time; write it as 30d, 12h or 90m" in done.err


def test_runs_that_somebody_comes_back_to_cannot_be_named(folder: Folder) -> None:
    done = folder.run("gc", "--keep", "0", "--status", "waiting")
    assert done.code == 2
    assert "'waiting' is not one of" in done.err


@pytest.mark.long
def test_a_driven_run_stays(work: Folder) -> None:
    with work.start("run", "PLAN sleep") as process:
        while not (work.path / "slow.txt").exists():
            assert process.process.poll() is None
            time.sleep(0.02)
        (run,) = listed(work)
        done = work.run("gc", "--keep", "0", "--status", "running", "--json").json
        assert (done["runs"], done["kept"]) == ([], [run])
        process.process.terminate()
