"""The benchmark of the parts runs; tests/systems/test_parts.py has its tasks one by one."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from tests import warm
from tests.support.patience import LONGEST_S

ROOT = Path(__file__).parents[2]


def measure(*words: str) -> subprocess.CompletedProcess[str]:
    return warm.run(["-m", "benchmarks.parts", *words], cwd=ROOT, environ=os.environ, timeout=LONGEST_S)


@pytest.mark.long
def test_the_gain_is_printed_and_the_same_in_every_run() -> None:
    done = measure("--seeds", "6", "--parts", "reflection")
    assert done.returncode == 0, done.stderr
    *_, row = done.stdout.splitlines()
    cells = (
        r"\| reflection \| 6 \| `threshold = 5` \| 20% \| ([\d.]+) % \| ([\d.]+) % \| \+([\d.]+) \| [\d.]+ \| [\d.]+ \|"
    )
    found = re.fullmatch(cells, row)
    assert found is not None and float(found[2]) - float(found[1]) == pytest.approx(float(found[3]), abs=0.1)
    assert measure("--seeds", "6", "--parts", "reflection").stdout == done.stdout


@pytest.mark.sampled(2)
@pytest.mark.parametrize("words", [("--parts", "luck"), ("--seeds", "-1")])
def test_what_does_not_fit_is_refused(words: tuple[str, ...]) -> None:
    done = measure(*words)
    assert done.returncode == 2 and "the parts: facts survey, plan review, " in done.stderr
