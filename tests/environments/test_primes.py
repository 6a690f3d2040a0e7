"""The case study G.1: a file is written, looked at, imported, and its result checked."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.environments.gits import SANDBOX

EXAMPLE = Path(__file__).parents[2] / "examples" / "primes" / "primes.py"


@pytest.fixture
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("primes", EXAMPLE)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.skipif(SANDBOX is None, reason="no sandbox here: install bubblewrap")
def test_the_import_and_the_check_succeed(
    example: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result, faults = asyncio.run(example.write_and_run(tmp_path))
    assert faults == [] and result.steps == 5
    said = capsys.readouterr().out
    done = [line.strip() for line in said.splitlines() if line.startswith("  ")]
    assert [line.partition(":")[0] for line in done if line.startswith(("terminal_run", "python:", "done"))] == [
        "terminal_run",
        "terminal_run",
        "python",
        "terminal_run",
        "done",
    ]
    assert "25 2 97" in said
    # The file the user finds does the same without us.
    (made,) = tmp_path.glob("workspace/runs/*/environments/main/folder/prime.py")
    alone = subprocess.run([sys.executable, "-I", made], capture_output=True, text=True, check=True)
    assert alone.stdout.strip() == result.answer
