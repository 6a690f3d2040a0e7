"""The sandbox at the command line: `sandbox`, `--unsafe-local`, and what `show` and `doctor` say of them."""

from __future__ import annotations

import json

import pytest

from tests.cli.screen import ProcessScreen
from tests.cli.support import Folder, clean_environment
from tests.support.patience import LONGEST_S

SETTINGS = 'app = "app:workspace"\nmodel = "scripted"\nsystem = "react"\n'
APP = """
from agentorchestra import Workspace
from agentorchestra.testing import ScriptedModel, call


def script(request):
    results = [message.text for message in request.messages if message.role == "tool"]
    return call("done", answer=results[0]) if results else call("bash", command="echo $((6*7)); id -u")


def workspace():
    return Workspace(models={"scripted": ScriptedModel(script)})
"""


@pytest.fixture
def bash(folder: Folder) -> Folder:
    """A folder whose model runs a command and answers with what it printed."""
    folder.write("app.py", APP)
    folder.write("agentorchestra.toml", SETTINGS)
    return folder


def test_a_program_runs(folder: Folder) -> None:
    done = folder.run("sandbox")
    assert (done.code, done.err) == (0, "")
    first, second = done.out.splitlines()
    assert first.startswith("bubblewrap: a program ran in ")
    assert second.endswith("numpy, pandas, openpyxl, python-calamine, matplotlib, pypdf, pillow, scipy, cloudpickle")
    found = folder.run("sandbox", "--json").json
    assert found == {"ok": True, "sandbox": "bubblewrap", "problem": "", "safe": True, "missing_libraries": []}
    assert not folder.workspace.exists()


def test_what_is_missing_is_named(folder: Folder) -> None:
    folder.write("agentorchestra.toml", '[sandbox]\nbackend = "none"\nlibraries = ["no-such-library"]\n')
    done = folder.run("sandbox")
    assert (done.code, done.out) == (1, 'no sandbox: the settings say sandbox.backend = "none"\n')
    assert folder.run("sandbox", "--json").json["missing_libraries"] == ["no-such-library"]
    line = next(one for one in folder.run("doctor").out.splitlines() if "sandbox" in one)
    assert line.startswith("warn") and "set sandbox.backend" in line


@pytest.mark.long
def test_nothing_to_run_it_with(folder: Folder) -> None:
    folder.environment["PATH"] = str(folder.path)
    done = folder.run("sandbox", env={})
    assert done.code == 1
    assert done.out.startswith("no sandbox: bubblewrap is not installed: install bubblewrap 0.8 or newer")
    assert "docker is not installed" in done.out


def test_a_backend_that_does_not_exist(folder: Folder) -> None:
    folder.write("agentorchestra.toml", '[sandbox]\nbackend = "magic"\n')
    done = folder.run("sandbox")
    assert done.code == 2
    assert "sandbox.backend is 'magic'; it can be one of: auto, bubblewrap, docker, unsafe-local, none" in done.err
    assert "Traceback" not in done.err


def test_the_image(folder: Folder) -> None:
    folder.write("agentorchestra.toml", '[sandbox]\nlibraries = ["networkx"]\n')
    lines = folder.run("sandbox", "--dockerfile").out.splitlines()
    assert lines[0].startswith("FROM python:")
    assert lines[1].startswith("RUN apt-get update") and " git " in lines[1]
    libraries = "numpy pandas openpyxl python-calamine matplotlib pypdf pillow scipy cloudpickle networkx"
    assert lines[2] == f"RUN pip install --no-cache-dir {libraries}"


def test_a_run_in_the_sandbox(bash: Folder) -> None:
    done = bash.run("run", "go", "--json")
    assert done.code == 0 and "sandbox" not in done.err
    assert json.loads(done.out)["answer"] == "42\n65534"
    assert "runs in sandbox" in bash.run("show", "last", "--effects").out


def test_unsafe_local_is_said_wherever_it_matters(bash: Folder) -> None:
    done = bash.run("run", "go", "--unsafe-local", "--json")
    assert done.code == 0
    assert "WARNING: --unsafe-local: programs that models write run without a sandbox" in done.err
    assert json.loads(done.out)["answer"].startswith("[run without a sandbox]\n42")
    assert (
        "sandbox: none (--unsafe-local): programs that models wrote could do what you may"
        in bash.run("show", "last").out
    )


def test_unsafe_local_is_red_at_a_terminal(bash: Folder) -> None:
    screen = ProcessScreen(columns=150)
    words = ["-m", "agentorchestra", "run", "go", "--unsafe-local"]
    with screen.start_warm(words, cwd=bash.path, environ={**clean_environment(), "TERM": "xterm"}) as process:
        assert process.wait(LONGEST_S) == 0
    screen.end()
    screen.close()
    assert b"\x1b[1;31mWARNING: --unsafe-local" in screen.written
