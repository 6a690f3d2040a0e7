"""Ctrl-C: the run is cancelled, the log is intact, no traceback."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from tests.cli.support import PACKAGE_PARENT, Folder, wait_until
from tests.support.patience import LONGEST_S


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_cancels_the_run(app: Folder, number: signal.Signals) -> None:
    with app.start("run", "PLAN sleep", cold=True) as started:
        wait_until((app.path / "slow.txt").exists)
        started.process.send_signal(number)
        done = started.end()
    assert done.code == 130
    (run_id,) = app.ids()
    assert done.status.startswith(f"cancelled, {run_id}, ")
    assert f"to go on: agentorchestra resume {run_id}" in done.err
    found = app.assert_readable()
    assert found["run"]["status"] == "cancelled"
    assert found["events"][-1]["type"] == "run_ended"


@pytest.mark.long
def test_ctrl_c_with_json_is_one_object(app: Folder) -> None:
    app.hold()
    with app.start("run", "PLAN nap", "--json") as started:
        wait_until((app.path / "slow.txt").exists)
        started.interrupt()
        done = started.end()
    assert done.code == 130
    assert done.json["status"] == "cancelled"
    assert done.json["run_id"] == app.ids()[0]
    (app.path / "slow.txt").unlink()
    with app.start("resume", "last", "--json") as again:
        wait_until((app.path / "slow.txt").exists)
        again.interrupt()
        assert again.end().code == 130
    app.let_go()
    whole = app.run("resume", "last", "--json")
    assert whole.code == 0
    assert whole.json["answer"] == "The tools said: slept"
    assert whole.json["steps"] == 2


@pytest.mark.long
def test_ctrl_c_twice_ends_the_process_at_once(app: Folder) -> None:
    source = (app.path / "app.py").read_text()
    stubborn = source.replace("await asyncio.sleep(seconds)", "import time\n    time.sleep(4)").replace(
        "async def slow", "def slow"
    )
    app.write("app.py", stubborn)
    with app.start("run", "PLAN nap") as started:
        wait_until((app.path / "slow.txt").exists)
        started.interrupt()
        started.wait_for("stopping (once more ends it at once)")
        started.interrupt()
        done = started.end()
    assert done.code == 130
    app.assert_readable()
    assert app.run("resume", "last", "--json").json["status"] == "completed"


@pytest.mark.long
def test_ctrl_c_at_any_time_leaves_no_traceback(app: Folder) -> None:
    """From before the first import to after the last line."""
    for delay in (0.05, 0.15, 0.3, 0.45, 0.6, 0.8, 1.1):
        with app.start("run", "PLAN escape", "--json") as started:
            try:
                started.process.wait(delay)
            except subprocess.TimeoutExpired:
                started.interrupt()
            out, err = started.process.communicate(timeout=LONGEST_S)
        code = started.process.returncode
        # While Python itself starts or ends, the signal is Python's: nothing of this package is there to take it.
        # In the middle of its own first imports it gives up with 1.
        starting = "Fatal Python error" in err or err.startswith("Could not import runpy module")
        if code == -signal.SIGINT or (code == 1 and starting):
            assert "entry.py" not in err
            continue
        assert code in (0, 130), (code, out, err)
        assert "Traceback" not in err
    for run_id in app.ids():
        app.assert_readable(run_id)


BLOCKED = """
import sys, time

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            print("importing", file=sys.stderr, flush=True)
            time.sleep(600)

sys.meta_path.insert(0, Blocked())
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("module", ["click", "agentorchestra.cli.commands.run", "agentorchestra.workspace"])
def test_ctrl_c_in_the_middle_of_an_import(folder: Folder, module: str) -> None:
    folder.write("sitecustomize.py", BLOCKED.format(module=module))
    places = {"PYTHONPATH": f"{folder.path}{os.pathsep}{PACKAGE_PARENT}"}
    with folder.start("run", "What is 2+2?", "--json", env=places) as started:
        started.wait_for("importing\n")
        started.interrupt()
        done = started.end()
    assert (done.code, done.err) == (130, "importing\nerror: stopped\n")
    assert done.json == {"status": "cancelled", "error": "stopped", "error_type": "Interrupted"}
    assert folder.ids() == []


def test_ctrl_c_while_stdin_is_waited_for(folder: Folder) -> None:
    with folder.start("run", "What is the notice period?", stdin=subprocess.PIPE) as started:
        started.wait_for("waiting for the end of stdin")
        started.interrupt()
        done = started.end()
    assert (done.code, done.error) == (130, "stopped")
    assert not folder.workspace.exists()


@pytest.mark.long
def test_ctrl_c_when_all_is_done_changes_nothing(app: Folder) -> None:
    source = (app.path / "app.py").read_text(encoding="utf-8")
    app.write(
        "app.py",
        source + "\n\nimport atexit, sys, time\n"
        'atexit.register(lambda: (print("ending", file=sys.stderr, flush=True), time.sleep(600)))\n',
    )
    with app.start("run", "PLAN escape", "--json", cold=True) as started:
        started.wait_for("ending\n")
        started.interrupt()
        done = started.end()
    assert (done.code, done.json["status"]) == (0, "completed")
    assert "Exception" not in done.err
