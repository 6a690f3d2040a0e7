"""Agents that write to each other, whatever moment the process is killed at: nothing is lost or sent twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentorchestra.core.effects import EffectKind
from agentorchestra.core.events import Event
from agentorchestra.core.spec import RunStatus
from tests.chaos.society_program import ANSWER, TASK, workspace
from tests.chaos.support import kill_points, only_run, python

pytestmark = pytest.mark.timeout(600)  # many processes, on a machine that may be busy

PROGRAM = Path(__file__).with_name("society_program.py")
WAITS = EffectKind.WAIT.value


def _sent(events: Sequence[Event]) -> list[str]:
    """What was sent or changed and recorded, by its key."""
    kinds = {one.span: one.body["effect"] for one in events if one.body.get("effect")}
    done = [str(one.span) for one in events if one.type == "completed"]
    return sorted(key for key in done if kinds[key]["kind"] == EffectKind.SEND_MESSAGE.value)


async def _whole(folder: Path) -> list[Event]:
    async with workspace(folder) as ws:
        result = await ws.run(TASK)
        assert (result.status, result.answer) == (RunStatus.COMPLETED, ANSWER)
        return await ws.log.events(result.run_id)


async def _killed(folder: Path, point: str, sent: list[str]) -> None:
    python([PROGRAM, folder], kill_at=point)
    run = await only_run(folder)
    async with workspace(folder) as ws:
        result = await ws.resume(run)
        assert (result.status, result.answer) == (RunStatus.COMPLETED, ANSWER), point
        assert (await ws.replay(run)).answer == ANSWER, point
        events = await ws.log.events(run)
    assert _sent(events) == sent, point
    completed = Counter(one.span for one in events if one.type == "completed")
    assert max(completed.values()) == 1, point


def _points(events: Sequence[Event]) -> list[str]:
    """The points around messages and waits that no second run can lack."""
    kinds = {one.span: one.body["effect"]["kind"] for one in events if one.body.get("effect")}
    wanted = {EffectKind.SEND_MESSAGE.value, WAITS}
    ended = {one.span for one in events if one.type == "completed"}
    return [one for one in kill_points(events) if (key := one.partition(":")[2]) in ended and kinds[key] in wanted]


async def test_a_society_survives_being_killed_around_a_message(tmp_path: Path) -> None:
    events = await _whole(tmp_path / "whole")
    sent = _sent(events)
    (worker,) = [key for key in sent if "coding_agent" in key]
    (words,) = [key for key in sent if "planner" in key]
    for number, point in enumerate([f"before:{worker}", f"after_record:{worker}", f"in_record:{words}"]):
        await _killed(tmp_path / str(number), point, sent)


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_a_society_survives_being_killed_at_every_message(tmp_path: Path) -> None:
    events = await _whole(tmp_path / "whole")
    points = _points(events)
    print(f"{len(points)} points")
    for number, point in enumerate(points):
        await _killed(tmp_path / str(number), point, _sent(events))
