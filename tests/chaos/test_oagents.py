"""A process that dies while an agent plans or its subtasks are done: it goes on where it was, nobody is asked twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.oagents_program import TASK, workspace
from tests.chaos.support import only_run, python

PROGRAM = Path(__file__).with_name("oagents_program.py")

POINTS = [
    ("after_record:/1.oagents/6.subtask_1#1", 0),  # the first subtask's agent has decided
    pytest.param("before:/1.oagents#4", 0, marks=pytest.mark.long),  # the plan is asked for
    pytest.param("in_record:/1.oagents#13", 1, marks=pytest.mark.long),  # the review
]


@pytest.mark.parametrize(("kill_at", "twice"), POINTS)
async def test_an_agent_with_parts_goes_on_where_it_was(tmp_path: Path, kill_at: str, twice: int) -> None:
    async with workspace(tmp_path / "whole") as ws:
        whole = await ws.run(TASK)
    assert whole.answer == "6 kg"
    count = len((tmp_path / "whole.asked").read_text(encoding="utf-8").splitlines())
    folder = tmp_path / "killed"
    python([PROGRAM, folder], kill_at=kill_at)
    run = await only_run(folder)
    async with workspace(folder) as ws:
        result = await ws.resume(run)
        assert (result.answer, result.status, result.usage.requests) == ("6 kg", whole.status, whole.usage.requests)
        assert (await ws.replay(run)).answer == "6 kg"
    asked = folder.with_suffix(".asked").read_text(encoding="utf-8").splitlines()
    assert len(asked) <= count + twice
