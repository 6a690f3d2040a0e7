"""`code`, `run --in` and `apply`: from a task to changes in the user's folder, and what their exit codes say."""

from __future__ import annotations

import os
import pty
import shlex
from pathlib import Path

import click
import pytest

from agentorchestra.cli.commands.code import code
from agentorchestra.cli.group import cli
from agentorchestra.cli.project import exit_code_of_code
from agentorchestra.core.spec import RunResult, RunStatus, TestsRan
from tests.cli.support import Folder
from tests.environments.gits import SANDBOX
from tests.support.projects import git, repository

pytestmark = pytest.mark.skipif(
    getattr(SANDBOX, "name", "") != "bubblewrap", reason="machines need bubblewrap (apt-get install bubblewrap)"
)
FIX = "call bash(command=\"sed -i 's/a - b/a + b/' calc.py\")"
TESTS = ("--tests", "python3 -B test_calc.py")
BROKEN, FIXED = "def add(a, b):\n    return a - b\n", "def add(a, b):\n    return a + b\n"


@pytest.fixture
def shop(folder: Folder) -> Path:
    files = {
        ".gitignore": "*.log\n",
        "calc.py": BROKEN,
        "test_calc.py": "import sys, calc\nsys.exit('it is wrong' if calc.add(1, 2) != 3 else 0)\n",
    }
    return repository(folder.path / "shop", files)


def test_a_failing_test_is_fixed_and_applied(folder: Folder, shop: Path) -> None:
    caches = "mkdir .cache __pycache__; touch .cache/CACHEDIR.TAG .cache/x __pycache__/calc.pyc made.log"
    done = folder.run("code", "shop", FIX.replace("sed ", f"{caches}; sed "), *TESTS, "--apply")
    assert done.code == 0, done.err
    assert f"commands run in a sandbox, in a copy of {shop.resolve()}: without a question" in done.err
    assert "\nmade.log: ignored by Git, in " in done.err
    assert "\n  bash(command=" in done.err and "terminal" not in done.err
    assert "\nthe tests pass: python3 -B test_calc.py\n" in done.err
    assert "\n-    return a - b\n+    return a + b\n" in done.err
    assert done.err.splitlines()[-1] == f"applied to {shop.resolve()}: calc.py"
    assert (shop / "calc.py").read_text() == FIXED
    assert not (folder.path / "agentorchestra-out").exists()
    again = folder.run("apply", "last")
    assert (again.code, again.err) == (0, f"{shop.resolve()} has all of it already: calc.py\n")
    assert folder.run("apply", "last", "--dry-run").err == again.err
    (shop / "calc.py").write_text("mine\n")
    assert "\n+    return a + b\n" in folder.run("apply", "last", "--dry-run").err
    refused = folder.run("apply", "last")
    assert (refused.code, (shop / "calc.py").read_text()) == (2, "mine\n")
    assert "this was changed there: calc.py" in refused.err


@pytest.mark.long
def test_while_the_tests_fail_nothing_is_applied_unless_it_is_said(folder: Folder, shop: Path) -> None:
    words = (
        "call bash(command=\"echo '# tried' >>calc.py; touch -d @0 calc.py\")",
        *TESTS,
        "--branch",
        "try",
        "--json",
    )
    done = folder.run("code", "shop", *words)
    (run_id,) = folder.ids()
    assert (done.code, done.json["tests"]["passed"]) == (1, False)
    assert "it is wrong" in done.json["tests"]["output"]
    assert done.json["diff"].endswith("\n+# tried\n")
    assert f"because the tests fail with exit code 1; agentorchestra apply {run_id} applies it all" in done.err
    assert git(shop, "branch", "--list") == "* main"
    made = folder.run("apply", "last", "--branch", "try", "--json")
    assert (made.code, made.json["branch"]) == (0, "try")
    assert git(shop, "show", "try:calc.py").endswith("# tried")
    assert (shop / "calc.py").read_text() == BROKEN
    taken = folder.run("code", "shop", "x", "--branch", "try")
    assert (taken.code, taken.error) == (
        2,
        "there is a branch 'try' already; give another name, or delete it: git branch -D try",
    )
    assert folder.ids() == [run_id]


def test_a_run_in_a_folder_asks_at_a_terminal(folder: Folder, shop: Path) -> None:
    ours, theirs = pty.openpty()
    fix = FIX.replace("bash", "terminal_run")
    try:
        with folder.start("run", fix, "--in", "shop", "--system", "react", stdin=theirs) as started:
            started.wait_for("Apply the changes of 1 file to ")
            os.write(ours, b"y\n")
            assert started.end().code == 0
    finally:
        os.close(ours)
        os.close(theirs)
    assert (shop / "calc.py").read_text() == FIXED


@pytest.mark.long
def test_a_run_that_waits_and_one_out_of_time_say_so(folder: Folder, shop: Path) -> None:
    folder.write("agentorchestra.toml", '[policy]\nask = ["terminal"]\n')
    waits = folder.run("code", "shop", FIX, "--json")
    assert (waits.code, waits.json["status"]) == (5, "waiting")
    late = folder.run("code", "shop", FIX, "--json", "--timeout-s", "0.001")
    assert (late.code, late.json["status"]) == (4, "timed_out")


@pytest.mark.parametrize(
    ("status", "passed", "code"),
    [
        (RunStatus.COMPLETED, None, 0),
        (RunStatus.COMPLETED, False, 1),
        (RunStatus.PARTIAL, True, 0),
        (RunStatus.PARTIAL, None, 3),
        (RunStatus.FAILED, None, 1),
        (RunStatus.BUDGET_EXHAUSTED, False, 4),
        (RunStatus.PAUSED, None, 5),
        (RunStatus.CANCELLED, None, 130),
    ],
)
def test_exit_codes(status: RunStatus, passed: bool | None, code: int) -> None:
    tests = None if passed is None else TestsRan(command="true", passed=passed, why="")
    assert exit_code_of_code(RunResult(status=status, tests=tests)) == code


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("run", "x", "--apply"), "--apply and --branch are for a run on a folder of yours; give --in DIR"),
        (("code", "shop", "x", "--apply", "--branch", "b"), "--apply and --branch exclude each other"),
        (("run", "--task-folder", "t", "--in", "shop"), "--task-folder and --in exclude each other"),
        (("code", "none", "x"), "none does not exist; name the folder that is to be worked on"),
    ],
)
def test_wrong_uses(folder: Folder, shop: Path, words: tuple[str, ...], sentence: str) -> None:
    done = folder.run(*words)
    assert (done.code, sentence in done.error) == (2, True), done.err
    assert folder.ids() == []
    assert sorted(one.name for one in shop.iterdir()) == [".git", ".gitignore", "calc.py", "test_calc.py"]


def test_the_workflow_for_ci_says_what_the_command_line_understands() -> None:
    text = (Path(__file__).parents[2] / "examples/ci/agentorchestra.yml").read_text()
    (line,) = [one.strip() for one in text.splitlines() if one.strip().startswith("agentorchestra ")]
    words = shlex.split(line.partition(" < ")[0])
    assert words[1] == "code"
    # A command keeps the options for help of the first context that it has.
    above = click.Context(cli, **cli.context_settings)
    context = code.make_context("code", words[2:], parent=above)
    assert (context.params["branch"], context.params["budget_usd"]) == ("$BRANCH", 2)
    assert context.params["as_json"]
