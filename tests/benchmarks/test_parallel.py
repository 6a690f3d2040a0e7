"""The benchmark of parallel delegations runs; no time is judged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.patience import LONGEST_S

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "systems" / "parallel.py"


def measure(*words: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, str(BENCHMARK), *words, "--python", sys.executable]
    return subprocess.run(line, capture_output=True, text=True, timeout=LONGEST_S, check=False)


@pytest.mark.long
def test_each_way_is_measured() -> None:
    done = measure("--children", "3", "--wait", "0.5", "--rounds", "1")
    assert done.returncode == 0, done.stderr
    head, *rows = done.stdout.splitlines()
    assert head.startswith("3 sub-agents, each waits 0.5 s")
    found = {row[:32].strip(): row[32:].split() for row in rows}
    assert [*found] == ["at once", "one after the other", "as subtasks"]
    assert found["one after the other"][1] == "1"
    assert float(found["one after the other"][0]) > 1.5, "each waited for its answer"
    assert all(float(cpu) > 0 for _, _, cpu in found.values())


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--children", "17"), "--children is 17; at most 16 delegations go out at once, and at least 1"),
        (("--rounds", "0"), "--rounds is 0, --wait 1; give at least 1 round and no less than 0 s"),
        (("--wait", "-1"), "--rounds is 3, --wait -1; give at least 1 round and no less than 0 s"),
    ],
)
def test_what_does_not_fit_is_refused(words: tuple[str, ...], sentence: str) -> None:
    done = measure(*words)
    assert done.returncode == 2 and sentence in done.stderr
