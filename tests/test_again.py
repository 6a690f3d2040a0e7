"""A test of a real browser or desktop is tried once more, and the run says so; a leak and any other test is not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import PROJECT

CONFTEST = """
from tests.support.again import try_again

def pytest_collection_modifyitems(items):
    try_again(items)
"""
TESTS = """
import gc
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.again import real

def tries(name):
    with open(Path(__file__).with_name(name), "a") as file:
        file.write("x")
    return len(Path(__file__).with_name(name).read_text())

@pytest_asyncio.fixture(scope="module", loop_scope="module")
@real
async def whole():
    yield tries("fixture")

@pytest.mark.asyncio(loop_scope="module")
async def test_passes_then(whole):
    assert tries("then") == 2, "at first"

@pytest.mark.real
def test_never_passes():
    assert not tries("never"), "each time"

@pytest.mark.real
def test_leaks():
    if tries("leaks") == 1:
        open(__file__)
        gc.collect()

def test_another():
    assert tries("another") == 2, "once"
"""


@pytest.mark.long
def test_what_is_tried_again(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_inner.py").write_text(TESTS)
    words = ["-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider", "-c", str(PROJECT / "pyproject.toml")]
    command = [sys.executable, "-m", "pytest", "--rootdir", str(tmp_path), *words, str(tmp_path)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "3 failed, 1 passed, 2 rerun" in done.stdout, done.stdout
    tries = {name: len((tmp_path / name).read_text()) for name in ("then", "never", "leaks", "another")}
    assert tries == {"then": 2, "never": 2, "leaks": 1, "another": 1}
    summary = done.stdout[done.stdout.index("rerun test summary info") :]
    assert "RERUN test_inner.py::test_passes_then" in summary and "AssertionError: at first" in summary
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED ..")]
    assert {line.partition(" - ")[0].rpartition("::")[2] for line in failed} == {
        "test_never_passes",
        "test_leaks",
        "test_another",
    }
