"""The benchmark of evaluations runs; no time is judged."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.patience import LONGEST_S

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_every_stage_is_measured() -> None:
    words = ["-m", "benchmarks.evaluation", "--questions", "6", "--latency-s", "0.01", "--at-once", "2"]
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=LONGEST_S, check=False
    )
    assert done.returncode == 0, done.stderr
    ideal, *stages = done.stdout.splitlines()
    assert ideal.split() == ["ideal", "0.03", "s:", *["6", "questions", "of", "0.01", "s,", "2", "at", "once"]]
    assert [re.sub(r"[\d.]+", "N", one).split() for one in stages] == [
        [name, "N", "s,", "N", "of", "the", "ideal"] for name in ("asked", "again", "scored")
    ]
