"""The benchmark of the browser runs; no time is judged."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.browser import find_chromium
from tests.support.patience import LONGEST_S

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "browser"


@pytest.mark.long
@pytest.mark.real
def test_every_part_is_measured() -> None:
    find_chromium()
    words = ["--runs", "2", "--elements", "100", "--repeat", "1", "--python", sys.executable]
    done = subprocess.run(
        [sys.executable, BENCHMARK, *words], capture_output=True, text=True, timeout=LONGEST_S, check=False
    )
    assert done.returncode == 0, done.stderr
    _, runs, _, state, _, _, *actions = done.stdout.splitlines()
    count, right, _, together, each = map(float, runs.split())
    assert count == right == 2  # both answers are those of their pages
    assert 0 < each < together
    assert re.match(r" +\d+ +\d+ ms +[\d,]+ ch", state)
    names = ["go_to_url", "input_text", "select", "scroll", "scroll back", "click a button", "click a link"]
    assert [line[:16].strip() for line in actions] == names
    assert all(float(figure) > 0 for line in actions for figure in line[16:].split())


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--runs", "0"), "--runs 0 is no list of numbers above 0"),
        (("--elements", "x"), "--elements x is no list of numbers above 0"),
        (("--repeat", "0"), "--repeat is 0; it needs at least 1"),
        (("--parts", "all"), "--parts all names something else than runs, state, actions"),
    ],
)
def test_what_does_not_fit_is_refused(words: tuple[str, str], sentence: str) -> None:
    done = subprocess.run([sys.executable, BENCHMARK, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and sentence in done.stderr
