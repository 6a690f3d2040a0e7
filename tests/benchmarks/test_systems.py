"""`python benchmarks/systems` runs every packaged system on one task; no time is judged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests import warm
from tests.support.patience import LONGEST_S

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "systems"


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [BENCHMARK / "__main__.py", "--python", sys.executable, *words]
    return warm.run(command, environ=os.environ, timeout=LONGEST_S)


@pytest.mark.long
def test_requests_and_bytes_of_each_system_beside_react() -> None:
    done = _run("--rounds", "1", "--systems", "agentorchestra,aorchestra,coral,owl")
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()[1:]}
    # Five steps and the end; the planner hands on and finishes; so does the orchestrator, and the log is reviewed.
    # Who leads by mail opens a thread, writes, waits and submits; who is asked writes back and waits.
    # A workforce has a plan, an assignment and an answer beside the work.
    counts = {"react": "6", "agentorchestra": "8", "aorchestra": "9", "coral": "11", "owl": "9"}
    assert {name: row[0] for name, row in rows.items()} == counts
    assert [rows["react"][n] for n in (1, 3, 5, 7)] == ["1.00"] * 4
    sizes = {name: int(row[2].replace(",", "")) for name, row in rows.items()}
    assert all(row[3] == f"{sizes[name] / sizes['react']:.2f}" for name, row in rows.items())


@pytest.mark.long
def test_it_runs_every_system_that_has_tools() -> None:
    done = _run("--rounds", "1", "--things", "1")
    assert done.returncode == 0, done.stderr
    named = [line.split()[0] for line in done.stdout.splitlines()[1:]]
    assert named[0] == "react" and {"agentorchestra", "aorchestra", "coral", "mini_swe", "owl"} <= {*named}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--systems", "reakt"), "there is no system 'reakt' here; the systems: react, agentorchestra,"),
        (("--things", "11"), "--things is 11; it is a number from 1 to 10"),
        (("--rounds", "0"), "--rounds is 0; it needs at least 1"),
    ],
)
def test_what_does_not_fit_is_refused(words: tuple[str, str], sentence: str) -> None:
    done = _run(*words)
    assert done.returncode == 2 and sentence in done.stderr
