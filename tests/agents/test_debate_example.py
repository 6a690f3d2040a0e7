"""The case study G.2, as it is run from the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import LONGEST_S

EXAMPLE = Path(__file__).parents[2] / "examples" / "team" / "debate.py"


@pytest.mark.long
def test_two_experts_compute_answer_each_other_and_agree_on_what_was_computed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLE, tmp_path], capture_output=True, text=True, timeout=LONGEST_S, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    lines = done.stdout.splitlines()
    assert (
        "- It costs 35.1 times what it earned in the last four quarters. (finance_expert, mathematics_expert) [A1]"
        in lines
    )
    assert any("leave the mean uncertain by 4.7 points" in line and line.endswith("[B2]") for line in lines)
    assert "**whether the swings are paid for**: other horizons" in lines
    assert lines[-1].startswith("run: run_") and "(completed, $0.0000)" in lines[-1]
