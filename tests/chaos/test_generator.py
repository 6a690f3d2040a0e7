"""A process that dies while a tool is made: it goes on where it was, nobody is asked twice, it is registered once."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentorchestra.sandbox.bubblewrap import Bubblewrap
from tests.agents.generating import TASK, called, phases
from tests.chaos.generator_program import workspace
from tests.chaos.support import only_run, python, read_log

PROGRAM = Path(__file__).with_name("generator_program.py")

AGENT = "/1.tool_generator"
POINTS = [
    (f"in_record:{AGENT}#5", 1),  # the code is written and not recorded: it is asked for again
    (f"before:{AGENT}/8.trial_roman#1", 0),  # a trial is under way
    (f"after:{AGENT}#15", 0),  # the tool is registered, and that is not recorded
    (f"after_record:{AGENT}#15", 0),  # it is recorded
]


@pytest.mark.long
async def test_a_generation_goes_on_where_it_was(tmp_path: Path) -> None:
    if problem := await Bubblewrap().problem():
        pytest.skip(problem)
    async with workspace(tmp_path / "whole") as ws:
        whole = await ws.run(TASK)
        told = phases(await ws.log.events(whole.run_id))
    count = len((tmp_path / "whole.asked").read_text(encoding="utf-8").splitlines())
    assert whole.answer == "MCMXCIV" and count == 3
    for number, (kill_at, twice) in enumerate(POINTS):
        folder = tmp_path / str(number)
        python([PROGRAM, folder], kill_at=kill_at)
        run = await only_run(folder)
        async with workspace(folder) as ws:
            result = await ws.resume(run)
            assert (result.answer, result.report) == (whole.answer, whole.report), kill_at
            (version,) = await ws.tcp.versions("roman")
            assert (version.version, version.run, version.state) == ("1.0.0", run, "active"), kill_at
            assert (await ws.replay(run)).answer == whole.answer
        events = await read_log(folder, run)
        assert phases(events) == told, kill_at
        first_attempts = [event for event in events if event.attempt == 1]
        assert called(first_attempts, "trial_roman") == [1, 4, 1994] * 2, kill_at
        asked = folder.with_suffix(".asked").read_text(encoding="utf-8").splitlines()
        assert len({*asked}) == count and len(asked) <= count + twice, kill_at
