"""The ten everyday programs of examples/ten-things do what they say, and two type checkers read them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import warm
from tests.support.patience import LONGEST_S

ROOT = Path(__file__).parent.parent.parent


def test_all_of_them_run(tmp_path: Path) -> None:
    program = ROOT / "examples/ten-things/ten_things.py"
    code = f"import runpy, pathlib; ran = runpy.run_path({str(program)!r}, run_name='__main__')"
    code += f"; ran['test_price'](pathlib.Path({str(tmp_path / 'ten')!r}))"
    done = warm.run(["-c", code], environ=os.environ, timeout=LONGEST_S)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:5] == ["0.4", "0.4", "0.4", "from mine", "on"]
    assert [line.partition("(")[0] for line in lines[5:9]] == ["StepTaken", "ToolCalled"] * 2
    assert lines[9].startswith("4 = 2+2") and "Allow pay?" in lines[9] and lines[9].endswith("Bob is paid.")
    assert lines[10] and len(lines) == 11


@pytest.mark.long
def test_another_type_checker_reads_the_public_types() -> None:
    checker = Path(sys.executable).with_name("basedpyright")
    if not checker.exists() and shutil.which("basedpyright") is None:
        pytest.skip("basedpyright is not installed")
    done = subprocess.run(
        [str(checker), "--project", "pyrightconfig.json"], cwd=ROOT, capture_output=True, text=True, timeout=LONGEST_S
    )
    assert done.returncode == 0, done.stdout
