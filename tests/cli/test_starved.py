"""Processes that lack descriptors, threads or memory: they say what lacks, and they end."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from agentorchestra.core.resources import shortage
from tests import warm
from tests.support.patience import LONGEST_S

QUESTION = "What is 6 * 7?"
RUN = [sys.executable, "-m", "agentorchestra", "run", QUESTION, "--model", "offline"]

# The n-th thread and all that follow cannot be started, or die before they have begun, as where memory ends.
PROGRAM = """
import sys, threading
from agentorchestra.cli import main
how, most, *words = sys.argv[1:]
started = 0
real_start, real_ident = threading._start_new_thread, threading.Thread._set_ident

def start(*args):
    global started
    started += 1
    if started > int(most):
        raise RuntimeError("can't start new thread")
    return real_start(*args)

def ident(thread):
    global started
    started += thread is not threading.main_thread()
    if started > int(most):
        raise MemoryError
    real_ident(thread)

if how == "refused":
    threading._start_new_thread = start
else:
    threading.Thread._set_ident = ident
sys.exit(main(words))
"""


def ended(words: list[str], *, limit: tuple[int, int] | None = None) -> subprocess.CompletedProcess[str]:
    """The process once it has ended; one that hangs is a failure."""
    set_limit = None if limit is None else partial(resource.setrlimit, limit[0], (limit[1], limit[1]))
    return subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
        preexec_fn=set_limit,
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("most", [12, 14, 16, 18])
def test_too_few_descriptors(tmp_path: Path, most: int) -> None:
    done = ended([*RUN, "--workspace", str(tmp_path / "ws")], limit=(resource.RLIMIT_NOFILE, most))
    assert done.returncode == 1, done.stderr
    assert f"this process may open {most} files at once, which is too few (ulimit -n)" in done.stderr
    assert "bug in agentorchestra" not in done.stderr and "make it writable" not in done.stderr


@pytest.mark.parametrize(
    ("limit", "most", "said"),
    [
        (resource.RLIMIT_NOFILE, 10, "this process may have 10 open files (ulimit -n); allow at least 12"),
        (resource.RLIMIT_AS, 150_000 * 1024, "address space (ulimit -v, in KiB); allow at least 268,435,456"),
    ],
)
def test_limits_that_suffice_for_no_run(tmp_path: Path, limit: int, most: int, said: str) -> None:
    done = ended([*RUN, "--workspace", str(tmp_path / "ws")], limit=(limit, most))
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
    assert not (tmp_path / "ws").exists()


@pytest.mark.sampled(3)  # each way, and each number of threads
@pytest.mark.parametrize("how", ["refused", "dies"])
@pytest.mark.parametrize("most", [0, 3])
def test_no_further_thread(tmp_path: Path, how: str, most: int) -> None:
    words = ["run", QUESTION, "--model", "offline", "--workspace", str(tmp_path / "ws")]
    done = warm.run(["-c", PROGRAM, how, str(most), *words], environ=os.environ, timeout=LONGEST_S)
    assert done.returncode == 1, done.stderr
    said = (
        "this process cannot start another thread"
        if how == "refused"
        else "this process has too little memory to begin a thread"
    )
    assert f"error: {said}" in done.stderr and "ulimit -v" in done.stderr
    assert "bug in agentorchestra" not in done.stderr


@pytest.mark.long
@pytest.mark.parametrize("kilobytes", [120_000, 150_000, 200_000, 350_000, 500_000, 600_000])
def test_little_address_space(tmp_path: Path, kilobytes: int) -> None:
    """Whether it suffices is chance; that the process ends, and what it says, is not."""
    done = ended([*RUN, "--workspace", str(tmp_path / "ws")], limit=(resource.RLIMIT_AS, kilobytes * 1024))
    if done.returncode != 0:
        assert "ulimit -v" in done.stderr, done.stderr
    assert "bug in agentorchestra" not in done.stderr


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(24, "Too many open files"), "(ulimit -n)"),
        (OSError(23, "Too many open files in system"), "the whole system"),
        (OSError(12, "Cannot allocate memory"), "too little memory (ulimit -v"),
        (BlockingIOError(11, "Resource temporarily unavailable"), ""),
        (MemoryError(), "too little memory (ulimit -v"),
        (RuntimeError("can't start new thread"), "cannot start another thread"),
        (RuntimeError("failed to spawn monty worker: Too many open files (os error 24)"), "(ulimit -n)"),
        (RuntimeError("anything else"), ""),
        (OSError(2, "No such file"), ""),
    ],
)
def test_what_an_error_says_is_lacking(error: Exception, said: str) -> None:
    found = shortage(error)
    assert said in found if said else found == ""
    wrapped = ValueError("another error")
    wrapped.__cause__ = error
    assert shortage(wrapped) == found
