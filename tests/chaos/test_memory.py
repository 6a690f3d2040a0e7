"""A process that dies while it remembers: nothing that was recorded is lost, and nothing is remembered twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.memory_program import workspace
from tests.chaos.support import python, remembered

PROGRAM = Path(__file__).with_name("memory_program.py")
ANSWER = "tide 4, remembered 1"

WHOLE = [
    ("event", "Task"),
    ("event", "Step 1"),
    ("event", "Answer (completed)"),
    ("summary", "Count"),
    ("insight", "Letters can be counted."),
]
WRITES = {"the task": 3, "the step": 6, "the answer": 9, "the summary": 11, "the insight": 12}
ELSEWHERE = {"the reading": 2, "the model": 10}
POINTS = [
    (f"{point}:/1.react#{n}", name) for name, n in WRITES.items() for point in ("before", "in_record", "after_record")
]
POINTS += [(f"{point}:/1.react#{n}", name) for name, n in ELSEWHERE.items() for point in ("before", "after_record")]
SHORT = ("in_record:/1.react#11", "the summary")


@pytest.mark.parametrize(
    ("kill_at", "where"), [one if one == SHORT else pytest.param(*one, marks=pytest.mark.long) for one in POINTS]
)
async def test_what_is_remembered_is_remembered_once(tmp_path: Path, kill_at: str, where: str) -> None:
    folder = tmp_path / "ws"
    async with workspace(folder) as ws:
        first = await ws.run("Count sea", session="s")
        assert first.answer == "sea 3, remembered 0"
    python([PROGRAM, folder, "tide"], kill_at=kill_at)
    async with workspace(folder) as ws:
        (killed,) = [one.id for one in await ws.runs.list() if one.id != first.run_id]
        assert (await ws.resume(killed)).answer == ANSWER
        assert await remembered(ws, killed) == WHOLE, where
        assert (await ws.replay(killed)).answer == ANSWER
        third = await ws.run("Count dune", session="s")
        assert third.answer == "dune 4, remembered 2"
