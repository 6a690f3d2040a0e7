"""`benchmarks/patterns`: what is recognised in the labelled conversations, in each half."""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.patience import LONGEST_S
from tests.support.society_plays import DATA

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "patterns"


@pytest.mark.parametrize("held_out", [False, True])
def test_patterns_are_recognised(held_out: bool) -> None:
    found = runpy.run_path(str(BENCHMARK))
    made = found["scores"](held_out=held_out)
    whole = found["total"](made)
    assert min(whole.precision, whole.recall) >= found["LEAST"], (whole.precision, whole.recall)
    for name, score in made.items():
        assert score.found + len(score.missed) >= 7, name
        if not held_out:
            assert min(score.precision, score.recall) >= found["LEAST"], (name, score)


def test_what_is_found_wrongly_or_missed_counts(tmp_path: Path) -> None:
    shutil.copytree(DATA, tmp_path / "data")
    labels = json.loads((DATA / "labels.json").read_text(encoding="utf-8"))
    for label in labels.values():
        label["patterns"] = [{"pattern": "agent_substitution", "messages": [2]}]
    (tmp_path / "data" / "labels.json").write_text(json.dumps(labels), encoding="utf-8")
    found = runpy.run_path(str(BENCHMARK))
    made = found["scores"](held_out=False, data=tmp_path / "data")
    assert made["direct_dispatch"].precision == 0.0 and made["agent_substitution"].recall < 0.5
    assert made["agent_substitution"].precision == 1.0


def test_the_command_prints_both_halves(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARK), "--python", sys.executable, "--verbose"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    made, held = done.stdout.split("held out\n")
    assert made.count("precision") == held.count("precision") == 5
    assert "missed: none" in made and "missed" not in held
