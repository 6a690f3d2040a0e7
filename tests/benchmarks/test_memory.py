"""The benchmark of a process's memory runs; no figure is judged."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.patience import LONGEST_S

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "memory"


@pytest.mark.long
def test_every_kind_is_measured() -> None:
    words = ["--runs", "3", "--warm", "2", "--python", sys.executable]
    done = subprocess.run(
        [sys.executable, BENCHMARK, *words], capture_output=True, text=True, timeout=LONGEST_S, check=True
    )
    _, *rows = done.stdout.splitlines()
    found = [re.fullmatch(r"(\w+) +[\d.]+ +-?[\d.]+", row) for row in rows]
    assert [one[1] for one in found if one] == ["offline", "team", "given"]
