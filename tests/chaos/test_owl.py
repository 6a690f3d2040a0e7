"""A process that dies while a workforce is at work: it goes on where it was, and nobody is asked twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.owl_program import workspace
from tests.chaos.support import only_run, python
from tests.systems.workforce import WORD

PROGRAM = Path(__file__).with_name("owl_program.py")

POINTS = [
    ("after_record:/1.owl/3.web_agent#1", 0),  # the first worker has decided
    pytest.param("before:/1.owl#6", 0, marks=pytest.mark.long),  # the second plan is asked for
    pytest.param("in_record:/1.owl#11", 1, marks=pytest.mark.long),  # the answer
]


@pytest.mark.parametrize(("kill_at", "twice"), POINTS)
async def test_a_workforce_goes_on_where_it_was(tmp_path: Path, kill_at: str, twice: int) -> None:
    async with workspace(tmp_path / "whole") as ws:
        whole = await ws.run(WORD)
    count = len((tmp_path / "whole.asked").read_text(encoding="utf-8").splitlines())
    folder = tmp_path / "killed"
    python([PROGRAM, folder], kill_at=kill_at)
    run = await only_run(folder)
    async with workspace(folder) as ws:
        result = await ws.resume(run)
        assert (result.answer, result.report, result.status) == (whole.answer, whole.report, whole.status)
        assert result.usage.requests == whole.usage.requests
        assert (await ws.replay(run)).answer == whole.answer
    asked = folder.with_suffix(".asked").read_text(encoding="utf-8").splitlines()
    assert len(asked) <= count + twice
