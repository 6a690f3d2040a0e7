"""`benchmarks/injection` runs and prints its shares; tests/policy has its cases one by one."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "injection"


@pytest.mark.long
@pytest.mark.timeout(600)  # hundreds of runs, on a machine that may be busy
def test_the_shares_are_printed(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARK), "--python", sys.executable]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"attacks stopped: (\d+) of \1 \(without the policy \1 of them happen\)", done.stdout)
    assert "the argument stands in the user's words: 30 of 30 without a question" in done.stdout
    assert "the argument comes from elsewhere: 0 of 30 without a question (30 asked 1 times); 30 done" in done.stdout
