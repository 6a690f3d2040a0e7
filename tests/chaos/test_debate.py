"""A process that dies in the middle of a debate: it goes on where it was, and nobody is asked twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentorchestra.core.ids import canonical_json
from tests.agents.debating import TOPIC
from tests.chaos.debate_program import OPTIONS, workspace
from tests.chaos.support import only_run, python

PROGRAM = Path(__file__).with_name("debate_program.py")

POINTS = [
    ("after_record:/1.debate/3.alice#1", 2),  # an opening statement; the others may be under way
    ("before:/1.debate/8.finance_expert#1", 0),  # a turn of the first round
    ("in_record:/1.debate/8.finance_expert#1", 1),
    ("after_record:/1.debate#10", 0),  # the round is summed up
    ("in_record:/1.debate#15", 1),  # the conclusion
]


@pytest.mark.long
async def test_a_debate_goes_on_where_it_was(tmp_path: Path) -> None:
    async with workspace(tmp_path / "whole") as ws:
        whole = await ws.run(TOPIC, options=OPTIONS)
    count = len((tmp_path / "whole.asked").read_text(encoding="utf-8").splitlines())
    for number, (kill_at, twice) in enumerate(POINTS):
        folder = tmp_path / str(number)
        python([PROGRAM, folder], kill_at=kill_at)
        run = await only_run(folder)
        async with workspace(folder) as ws:
            result = await ws.resume(run)
            assert canonical_json(result.output) == canonical_json(whole.output), kill_at
            assert (await ws.replay(run)).answer == whole.answer
            assert result.usage.requests == whole.usage.requests, kill_at
        asked = folder.with_suffix(".asked").read_text(encoding="utf-8").splitlines()
        assert len({*asked}) == count and len(asked) <= count + twice, kill_at
