"""A process that dies between rival steps: the resume has the same candidates and the same winner, and acts once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.chaos.rivals_program import workspace
from tests.chaos.support import only_run, python

PROGRAM = Path(__file__).with_name("rivals_program.py")

POINTS = [
    "after_record:/1.react/3.2#1",  # the third candidate has decided, others are at work
    "after_record:/1.react#8",  # the winner's call was made
    pytest.param("after_record:/1.react#4", marks=pytest.mark.long),  # the first reward is there
    pytest.param("in_record:/1.react#5", marks=pytest.mark.long),  # a reward is paid, but not recorded
    pytest.param("after_record:/1.react#7", marks=pytest.mark.long),  # all rewards are there
    pytest.param("after_record:/1.react/11.1#1", marks=pytest.mark.long),  # the second round
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kill_at", POINTS)
async def test_the_same_candidates_are_resumed(tmp_path: Path, kill_at: str) -> None:
    async with workspace(tmp_path / "whole") as ws:
        whole = await ws.run("Write it and send it.", environments=["files"])
        keys = sorted(str(event.span) for event in await ws.log.events(whole.run_id) if event.type == "completed")
    asked = Counter((tmp_path / "whole.asked").read_text(encoding="utf-8").splitlines())
    assert whole.answer == "third, then third" and asked["send third"] == 1 and asked.total() == 17
    folder = tmp_path / "killed"
    python([PROGRAM, folder], kill_at=kill_at)
    run = await only_run(folder)
    async with workspace(folder) as ws:
        result = await ws.resume(run)
        assert (result.answer_text, result.status) == (whole.answer_text, whole.status)
        assert sorted(str(event.span) for event in await ws.log.events(run) if event.type == "completed") == keys
        files = [path.name for path in ws.files.folder(run).rglob("*.txt")]
        assert files == ["third.txt"]
        assert (await ws.replay(run)).answer == whole.answer
    again = Counter(folder.with_suffix(".asked").read_text(encoding="utf-8").splitlines())
    assert again["send third"] == 1 and [name for name in again if name.startswith("send")] == ["send third"]
    # What had been asked and was under way when the process died may be asked again, by each of four at most.
    assert again.keys() == asked.keys() and all(again[name] <= asked[name] + 4 for name in asked)
