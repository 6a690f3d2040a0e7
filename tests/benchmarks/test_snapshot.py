"""The benchmark of large folders runs; no time is judged."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.sandbox.support import usable
from tests.support.patience import LONGEST_S

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "systems" / "snapshot.py"


def measure(*words: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, str(BENCHMARK), *words, "--python", sys.executable]
    return subprocess.run(line, capture_output=True, text=True, timeout=LONGEST_S, check=False)


@pytest.mark.long
def test_a_folder_is_kept_forked_and_given_to_candidates() -> None:
    usable("bubblewrap")
    done = measure("--megabytes", "5", "--candidates", "2")
    assert done.returncode == 0, done.stderr + done.stdout
    head, *rows = done.stdout.splitlines()
    assert head == "5 files of a megabyte"
    found = [re.fullmatch(r"(.*?) +([\d.]+) (s|GB)", row) for row in rows]
    assert [one[1] for one in found if one] == [
        "kept, all is new",
        "kept again, a small file is new",
        "forked, put back, one action more",
        "2 candidates, an action each",
        "on the disk, three runs",
    ]
    assert all(float(one[2]) > 0 for one in found if one)


@pytest.mark.parametrize("words", [("--megabytes", "0"), ("--candidates", "1")])
def test_what_does_not_fit_is_refused(words: tuple[str, ...]) -> None:
    done = measure(*words)
    assert done.returncode == 2 and "give at least 1 megabyte, and from 2 to 16 candidates" in done.stderr
