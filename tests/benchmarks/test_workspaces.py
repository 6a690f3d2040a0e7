"""The benchmark of workspaces with many runs; no time is judged."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.patience import LONGEST_S

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "workspaces"


@pytest.mark.long
def test_every_command_is_measured() -> None:
    words = ["--runs", "12", "--few", "2", "--repeat", "1"]
    done = subprocess.run(
        [sys.executable, BENCHMARK, *words], capture_output=True, text=True, timeout=LONGEST_S, check=True
    )
    _, *lines, last = done.stdout.splitlines()
    commands = ("show", "show by prefix", "runs", "runs --json", "cost", "gc --dry-run")
    assert [line[:32].strip() for line in lines] == [f"{name}, {runs} runs" for runs in (2, 12) for name in commands]
    assert all(float(cell) > 0 for line in lines for cell in line[32:].split())
    assert re.fullmatch(r"a further run adds +\d+\.\d KiB", last)


def test_what_does_not_fit_is_refused() -> None:
    done = subprocess.run([sys.executable, BENCHMARK, "--few", "0"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "--few is 0; it needs at least 1" in done.stderr
