"""The benchmark of the stores runs; no time is judged."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.patience import LONGEST_S

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "store"


@pytest.mark.long
def test_every_store_is_measured() -> None:
    words = ["--effects", "20", "--runs", "1,5", "--rounds", "1", "--followed", "--python", sys.executable]
    done = subprocess.run(
        [sys.executable, BENCHMARK, *words], capture_output=True, text=True, timeout=LONGEST_S, check=True
    )
    lines = {line[:20].strip(): re.findall(r"\d[\d,.]*", line[20:]) for line in done.stdout.splitlines()[1:]}
    # The CPU of the database is a figure of PostgreSQL's.
    assert {name: len(cells) for name, cells in lines.items()} == {
        "sqlite, 1 run": 6,
        "sqlite, 5 runs": 6,
        "postgres, 1 run": 7,
        "postgres, 5 runs": 7,
    }, done.stderr
    # Two rows, each waited for: a lone run makes two commits per effect.
    assert lines["sqlite, 1 run"][1] == lines["postgres, 1 run"][1] == "2.00"


def test_what_does_not_fit_is_refused() -> None:
    for words, sentence in (
        (("--stores", "mysql"), "'mysql' names no stores; they are sqlite, postgres"),
        (("--runs", "0"), "'0' is no list of numbers above 0"),
        (("--effects", "0"), "--effects is 0 and --rounds 3; give at least 1"),
    ):
        done = subprocess.run([sys.executable, BENCHMARK, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and sentence in done.stderr
