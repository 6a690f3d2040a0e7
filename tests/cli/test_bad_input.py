"""Bad input: one sentence with the way out, the right exit code, and a log that can be read."""

from __future__ import annotations

import resource
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import QUESTION, Folder, wait_until
from tests.support.patience import LONGEST_S

Prepare = Callable[[Folder], list[str]]


def run_with_file(name: str, content: bytes | None) -> Prepare:
    def prepare(folder: Folder) -> list[str]:
        if content is not None:
            folder.write(name, content)
        return ["run", QUESTION, "--file", name]

    return prepare


def a_folder(folder: Folder) -> list[str]:
    (folder.path / "papers").mkdir()
    return ["run", QUESTION, "--file", "papers"]


@pytest.mark.parametrize(
    ("prepare", "kind", "parts"),
    [
        (lambda _: ["run", ""], "EmptyTaskError", ["the task is empty", "say what is to be done"]),
        (lambda _: ["run", " \n\t"], "EmptyTaskError", ["the task is empty"]),
        (run_with_file("none.txt", None), "FileInputError", ["none.txt"]),
        (run_with_file("empty.txt", b""), "FileInputError", ["empty.txt", "empty"]),
        (run_with_file("broken.pdf", b"%PDF-1.7 nothing more"), "FileInputError", ["broken.pdf"]),
        (a_folder, "FileInputError", ["papers", "folder"]),
        (lambda _: ["run", QUESTION, "--model", "gpt-5"], "UnknownModelError", ["'gpt-5'", "openai:gpt-5"]),
        (lambda _: ["run", QUESTION, "--model", "nosuch:x"], "UnknownModelError", ["'nosuch:x'"]),
        (lambda _: ["run", QUESTION, "--model", ""], "UnknownModelError", ["''"]),
        (lambda _: ["run", QUESTION, "--system", "swarm"], "UnknownSystemError", ["'swarm'", "react"]),
        (lambda _: ["run", QUESTION, "--model", "openai:gpt-5"], "MissingKeyError", ["OPENAI_API_KEY", "export"]),
    ],
)
def test_bad_input_is_refused_in_one_sentence(folder: Folder, prepare: Prepare, kind: str, parts: list[str]) -> None:
    words = prepare(folder)
    done = folder.run(*words, "--json")
    assert done.code == 2
    for part in parts:
        assert part in done.error
    assert done.json == {"status": "failed", "error": done.error, "error_type": kind}
    assert len(done.err.splitlines()) == 1
    assert folder.ids() == [], "nothing that was refused is in the log"


@pytest.mark.long
def test_an_unreadable_file(open_folder: Folder, bound: dict[str, Any]) -> None:
    open_folder.write("secret.txt", "secret").chmod(0)
    done = open_folder.run("run", QUESTION, "--file", "secret.txt", **bound)
    assert done.code == 2
    assert "secret.txt" in done.error
    assert "permission denied" in done.error


def test_an_unwritable_workspace(open_folder: Folder, bound: dict[str, Any]) -> None:
    (open_folder.path / "locked").mkdir()
    (open_folder.path / "locked").chmod(0o555)
    done = open_folder.run("run", QUESTION, "--workspace", "locked/ws", "--json", **bound)
    assert done.code == 1
    assert "locked/ws" in done.error
    assert "choose another --workspace" in done.error
    assert done.json["error_type"] == "WorkspaceNotWritableError"
    checked = open_folder.run("doctor", "--workspace", "locked/ws", **bound)
    assert checked.code == 1
    assert any(line.split()[:2] == ["fail", "workspace"] for line in checked.out.splitlines())


@pytest.mark.long
def test_a_workspace_that_may_not_be_entered(open_folder: Folder, bound: dict[str, Any]) -> None:
    assert open_folder.run("run", QUESTION, "-f", "lease.txt").code == 0
    open_folder.workspace.chmod(0)
    for words in (["runs", "--json"], ["show", "last", "--json"]):
        done = open_folder.run(*words, **bound)
        assert done.code == 1
        assert ".agentorchestra" in done.error
        assert done.json["error_type"] == "WorkspaceNotWritableError"
    assert open_folder.run("doctor", **bound).code == 1


def test_a_file_in_place_of_the_workspace(folder: Folder) -> None:
    folder.write("ws", "not a folder")
    done = folder.run("run", QUESTION, "--workspace", "ws")
    assert done.code == 1
    assert "ws (it is a file, not a folder); make it writable, or choose another --workspace" in done.error
    assert folder.run("doctor", "--workspace", "ws").code == 1


def test_a_newer_workspace(folder: Folder) -> None:
    folder.run("run", QUESTION, "-f", "lease.txt")
    with sqlite3.connect(folder.workspace / "workspace.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    for words in (["run", QUESTION], ["runs"], ["show", "last"], ["resume", "last"]):
        done = folder.run(*words)
        assert done.code == 1
        assert "written by a later version of agentorchestra (format '9999'" in done.error
        assert "upgrade, or choose another --workspace" in done.error
    checked = folder.run("doctor")
    assert checked.code == 1 and "9999" in checked.out


def test_a_corrupt_workspace(folder: Folder) -> None:
    folder.workspace.mkdir()
    (folder.workspace / "workspace.db").write_bytes(b"this is no database" * 500)
    for words in (["run", QUESTION], ["runs"], ["show", "last"]):
        done = folder.run(*words, "--json")
        assert done.code == 1
        assert done.json["error_type"] == "WorkspaceCorruptError"
    assert folder.run("doctor").code == 1


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ("model = ", ["agentorchestra.toml cannot be read", "correct it"]),
        ("modle = 'x'", ["modle", "agentorchestra.toml"]),
        ("max_steps = 0", ["max_steps = 0", "greater than or equal to 1"]),
        ("[models.x]\nmodel = 'a:b'\nprice = 3", ["models.x.price"]),
    ],
)
def test_settings_that_do_not_fit(folder: Folder, settings: str, parts: list[str]) -> None:
    folder.write("agentorchestra.toml", settings)
    done = folder.run("run", QUESTION)
    assert done.code == 2
    for part in parts:
        assert part in done.error
    assert folder.run("doctor").code == 1
    assert not folder.workspace.exists()


def test_an_environment_that_does_not_fit(folder: Folder) -> None:
    done = folder.run("run", QUESTION, env={"AGENTORCHESTRA_MAX_STEPS": "many"})
    assert done.code == 2
    assert "max_steps" in done.error
    assert "'many'" in done.error


@pytest.mark.parametrize(
    ("app", "sentence"),
    [
        (None, "the app 'app:workspace' cannot be loaded"),
        ("workspace = 3 +", "the app 'app:workspace' cannot be loaded"),
        ("def workspace(): raise KeyError('x')", "KeyError"),
        ("workspace = lambda: 3", "the app 'app:workspace' is a int, not a Workspace"),
        ("import sys; sys.exit(5)", "SystemExit: 5"),
    ],
)
def test_an_application_that_cannot_be_loaded(folder: Folder, app: str | None, sentence: str) -> None:
    folder.write("agentorchestra.toml", "app = 'app:workspace'")
    if app is not None:
        folder.write("app.py", app)
    done = folder.run("run", QUESTION)
    assert done.code in (1, 2)
    assert sentence in done.error


@pytest.mark.long
def test_a_bug_is_one_sentence_and_a_traceback_only_on_request(folder: Folder) -> None:
    folder.write("agentorchestra.toml", "app = 'app:workspace'")
    folder.write(
        "app.py",
        "from agentorchestra import Workspace\n"
        "class Broken(Workspace):\n"
        "    async def open(self): raise ZeroDivisionError('one\\ntwo')\n"
        "workspace = Broken()\n",
    )
    done = folder.run("run", QUESTION, "--json")
    assert done.code == 1
    assert done.error == (
        "this is a bug in agentorchestra: ZeroDivisionError: one two; please report it, "
        "AGENTORCHESTRA_DEBUG=1 shows the traceback"
    )
    assert done.json["error_type"] == "ZeroDivisionError"
    with folder.start("run", QUESTION, env={"AGENTORCHESTRA_DEBUG": "1"}) as started:
        _, err = started.process.communicate(timeout=LONGEST_S)
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("error: this is a bug")


@pytest.mark.long
def test_the_quota_of_the_workspace(app: Folder) -> None:
    assert app.run("run", "PLAN escape", "--json").code == 0  # what every workspace keeps has its place
    limit = (app.workspace / "workspace.db").stat().st_size + 150_000  # the texts of this run are some 225,000
    app.with_app(f'app = "app:workspace"\nmodel = "scripted"\nsystem = "react"\nmax_bytes = {limit}\n')
    done = app.run("run", "PLAN fill", "--json")
    assert done.code == 1
    assert "no space left for the log" in done.error
    assert f"raise its limit of {limit} bytes" in done.error
    assert done.json["error_type"] == "StoreFullError"
    assert done.json["run_id"] in app.ids()
    assert f"to go on: agentorchestra resume {done.json['run_id']}" in done.err
    app.assert_readable()
    app.with_app()
    again = app.run("resume", "last", "--json")
    assert (again.code, again.json["status"]) == (0, "completed")
    app.assert_readable()


@pytest.mark.long
def test_a_full_disk(app: Folder) -> None:
    assert app.run("runs").code == 0
    done = app.run("run", "PLAN fill", "--json", limits={resource.RLIMIT_FSIZE: 1_000_000})
    assert done.code == 1
    assert "no space left for the log" in done.error
    assert done.json["run_id"] == app.ids()[0]
    app.assert_readable()
    again = app.run("resume", "last", "--json")
    assert (again.code, again.json["status"]) == (0, "completed")
    app.assert_readable()


def test_a_disk_that_is_full_from_the_start(folder: Folder) -> None:
    done = folder.run("run", QUESTION, limits={resource.RLIMIT_FSIZE: 0})
    assert done.code == 1
    assert "no space left" in done.error
    assert folder.run("run", QUESTION, "-f", "lease.txt").code == 0


def test_a_run_whose_file_was_lost(folder: Folder) -> None:
    folder.run("run", QUESTION, "-f", "lease.txt")
    run_id = folder.ids()[0]
    (folder.workspace / "runs" / run_id / "files" / "lease.txt").unlink()
    assert folder.assert_readable()["run"]["status"] == "completed"


@pytest.mark.long
def test_tools_that_this_process_does_not_have(app: Folder) -> None:
    assert app.run("run", "PLAN ask").code == 3
    (app.path / "agentorchestra.toml").unlink()
    # The run names its application itself.
    assert app.run("answer", "last", "blue", "--json").json["answer"] == "The tools said: blue"
    assert app.run("replay", "last").code == 0
    (app.path / "app.py").rename(app.path / "other.py")
    done = app.run("replay", "last")
    assert done.code == 2
    assert "the app 'app:workspace' cannot be loaded from" in done.error


@pytest.mark.long
def test_a_killed_process_leaves_a_log_that_goes_on(app: Folder) -> None:
    app.hold()
    with app.start("run", "PLAN nap") as started:
        wait_until((app.path / "slow.txt").exists)
        started.process.send_signal(signal.SIGKILL)
        started.process.wait(LONGEST_S)
    assert app.assert_readable()["run"]["status"] == "running"
    app.let_go()
    again = app.run("resume", "last", "--json")
    assert again.code == 0
    assert again.json["answer"] == "The tools said: slept"


def test_relative_paths_stand_for_the_current_folder(folder: Folder) -> None:
    inner = Folder(folder.path / "inner")
    inner.path.mkdir()
    done = inner.run("run", QUESTION, "--file", Path("..") / "lease.txt", "--json")
    assert done.code == 0
    assert done.json["sources"][0]["source"] == "lease.txt"
