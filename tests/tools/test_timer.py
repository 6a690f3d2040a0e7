"""`wait_until` in whole runs: what an agent may wait for, and what it is told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import JsonValue

from agentorchestra.core.spec import RunStatus
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace

START = datetime(2027, 1, 30, 8, 0, tzinfo=UTC)


class _Clock:
    def __init__(self) -> None:
        self.time = START

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return 0.0


def _waits(**arguments: JsonValue) -> ScriptedModel:
    return ScriptedModel(
        lambda request: decide(
            calls=[call("done", answer=request.messages[-2].text)]
            if any(m.role == "tool" for m in request.messages)
            else [call("wait_until", **arguments)]
        )
    )


async def test_an_agent_waits_for_tomorrow(tmp_path: Path) -> None:
    clock = _Clock()
    async with Workspace(tmp_path, clock=clock) as ws:
        model = _waits(time="2027-01-31T09:00:00+01:00")
        waiting = await ws.run("Tell me the weekday tomorrow at nine.", model=model, system="react")
        assert (waiting.status, waiting.until) == (RunStatus.WAITING, START + timedelta(days=1))
        clock.time += timedelta(days=1, seconds=1)
        over = await ws.resume(waiting.run_id)
        assert over.answer == "It is 2027-01-31T08:00:01Z now, Sunday."
        await ws.replay(over.run_id)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "It is 2027-01-30T08:00:00Z now, Saturday."),
        ({"time": "2020-01-01T00:00Z"}, "It is 2027-01-30T08:00:00Z now, Saturday."),
        ({"time": "tomorrow"}, "'tomorrow' is no time; write it like 2027-01-31T09:00:00+01:00"),
        ({"time": "2027-01-31T09:00"}, "the time 2027-01-31T09:00 has no zone"),
        ({"time": "2028-02-01T09:00Z"}, "2028-02-01T09:00:00+00:00 is too far away; wait for at most 366 days"),
        ({"seconds": -5}, "-5 seconds cannot be waited for; wait for 0 to 366 days"),
        ({"seconds": 1e12}, "1e+12 seconds cannot be waited for; wait for 0 to 366 days"),
        ({"time": "2027-01-31T09:00Z", "seconds": 5}, "give `time` or `seconds`, one of the two"),
    ],
)
async def test_what_it_answers_at_once(tmp_path: Path, arguments: dict[str, JsonValue], said: str) -> None:
    async with Workspace(tmp_path, clock=_Clock()) as ws:
        over = await ws.run("Wait.", model=_waits(**arguments), system="react")
        assert said in over.answer
        await ws.replay(over.run_id)
