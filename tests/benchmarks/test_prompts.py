"""`benchmarks/prompts` holds first requests to their budgets, and fails one that is longer."""

from __future__ import annotations

import os
import re
import runpy
import sys
from pathlib import Path

import pytest
from tests import warm
from tests.support.patience import LONGEST_S

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "prompts"


def test_first_requests_keep_to_their_budgets(tmp_path: Path) -> None:
    command = [str(BENCHMARK), "--python", sys.executable, "--agents", "react,planner,deep_analyzer"]
    command += ["--plays", "coding,research"]
    done = warm.run(command, environ=os.environ, cwd=tmp_path, timeout=LONGEST_S)
    assert done.returncode == 0, done.stdout + done.stderr
    for agent, budget in (("react", "8,000"), ("planner", "6,000"), ("deep_analyzer", "7,000")):
        assert re.search(rf"^{agent} +[\d,]+ .* {budget}$", done.stdout, re.MULTILINE), done.stdout
    for play in ("coding", "research"):
        assert re.search(rf"^{play} +3 +[56] ", done.stdout, re.MULTILINE), done.stdout


async def test_a_longer_one_fails(capsys: pytest.CaptureFixture[str]) -> None:
    found = runpy.run_path(str(BENCHMARK))
    found["BUDGETS"]["react"] = 100
    found["AIMS"]["research"] = (0, 100)
    assert await found["main"](["react"], ["research"], verbose=True) == 1
    printed = capsys.readouterr().out
    assert "characters; the budget is 100" in printed and "schema done" in printed
    assert "characters in its requests; the aim is 100" in printed


@pytest.mark.long
@pytest.mark.real
async def test_a_form_keeps_to_its_aim(capsys: pytest.CaptureFixture[str]) -> None:
    found = runpy.run_path(str(BENCHMARK))
    assert await found["main"]([], ["form"], verbose=False) == 0
    assert re.search(r"^form +3 +7 ", capsys.readouterr().out, re.MULTILINE)
