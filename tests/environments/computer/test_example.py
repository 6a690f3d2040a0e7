"""The example: a panel is pressed by what is seen of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.environments.computer.desks import why_not

EXAMPLE = Path(__file__).parents[3] / "examples" / "desktop" / "desktop.py"


@pytest.mark.long
@pytest.mark.real
@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_the_panel_is_pressed_in_order(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, EXAMPLE, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "right: the panel was pressed at green, blue, red" in done.stdout
