"""A process that dies while an optimiser is at work: it goes on where it was, and nothing is asked twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentorchestra.core.spec import RunResult
from tests.chaos.support import kill_points, only_run, python
from tests.chaos.textgrad_program import workspace
from tests.evolution.optimising import options, two_prompts

pytestmark = pytest.mark.timeout(600)  # many processes, on a machine that may be busy

PROGRAM = Path(__file__).with_name("textgrad_program.py")


async def _whole(folder: Path) -> tuple[RunResult, list[str], int]:
    """A run that nothing disturbs: its result, the points at which it could die, and how often its model was asked."""
    async with workspace(folder) as ws:
        result = await ws.run("Improve it.", options=options(*two_prompts()))
        points = kill_points(await ws.log.events(result.run_id))
    assert len(result.output) == 1
    return result, points, _asked(folder)


def _asked(folder: Path) -> int:
    return len(folder.with_suffix(".asked").read_text(encoding="utf-8").splitlines())


async def _killed(folder: Path, point: str, whole: RunResult, count: int) -> None:
    """Die there, go on, and come to the same; what was asked and not recorded is asked again, and nothing else."""
    python([PROGRAM, folder], kill_at=point)
    run = await only_run(folder)
    async with workspace(folder) as ws:
        result = await ws.resume(run)
        assert (result.output, result.report) == (whole.output, whole.report), point
        assert result.usage.requests == whole.usage.requests, point
        assert (await ws.replay(run)).answer == whole.answer_text, point
    twice = point.partition(":")[0] in ("after", "in_record")
    # Two gradients are asked for at the same time: the other one may be under way.
    assert count <= _asked(folder) <= count + 1 + twice, point


async def test_an_optimiser_goes_on_where_it_was(tmp_path: Path) -> None:
    whole, _, count = await _whole(tmp_path / "whole")
    await _killed(tmp_path / "killed", "after_record:/1.textgrad#2", whole, count)  # one step back from the outcome


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_an_optimiser_goes_on_from_wherever_it_was_killed(tmp_path: Path) -> None:
    whole, points, count = await _whole(tmp_path / "whole")
    print(f"{len(points)} points")
    for number, point in enumerate(points):
        await _killed(tmp_path / str(number), point, whole, count)
