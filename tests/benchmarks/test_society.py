"""The benchmark of messages between agents runs; no time is judged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.patience import LONGEST_S

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "systems" / "society.py"


def measure(*words: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, str(BENCHMARK), *words, "--python", sys.executable]
    return subprocess.run(line, capture_output=True, text=True, timeout=LONGEST_S, check=False)


@pytest.mark.long
def test_messages_are_measured_beside_tool_calls() -> None:
    done = measure("--messages", "16", "--rounds", "1")
    assert done.returncode == 0, done.stderr
    head, *rows = done.stdout.splitlines()
    assert head.startswith("messages or calls")
    found = {row[:28].strip(): row[28:].split() for row in rows}
    assert [*found] == ["4 tool calls, react", "4 messages, coral", "16 tool calls, react", "16 messages, coral"]
    assert found["16 tool calls, react"][0] == "1.06", "each step is a request, and so is the end"
    assert found["16 tool calls, react"][2] == "1.00"
    assert all(float(cpu) > 0 for _, cpu, _, _ in found.values())


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--messages", "12"), "--messages is 12; it is a multiple of 8"),
        (("--messages", "0"), "--messages is 0; it is a multiple of 8"),
        (("--rounds", "0"), "--rounds is 0; it needs at least 1"),
    ],
)
def test_what_does_not_fit_is_refused(words: tuple[str, ...], sentence: str) -> None:
    done = measure(*words)
    assert done.returncode == 2 and sentence in done.stderr
