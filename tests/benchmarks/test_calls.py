"""The benchmark of calls runs; no figure is judged."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.support.patience import LONGEST_S

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "calls"


def test_calls_and_frames_are_counted() -> None:
    words = ["--list", "2", "--python", sys.executable]
    done = subprocess.run(
        [sys.executable, BENCHMARK, *words], capture_output=True, text=True, timeout=LONGEST_S, check=True
    )
    total, rooms, frames, *functions = done.stdout.splitlines()
    assert re.fullmatch(r"calls: [\d,]+ up to the first step, [\d,]+ in all", total)
    assert "runtime " in rooms and re.search(r": \d+ frames in \d+ files$", frames) and len(functions) == 2
