"""A process that dies while a workforce is at work: it goes on where it was, and nobody is asked twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentorchestra.core.spec import RunResult
from tests.chaos.owl_program import workspace
from tests.chaos.support import kill_points, only_run, python
from tests.systems.workforce import WORD

pytestmark = pytest.mark.timeout(600)  # many processes, on a machine that may be busy

PROGRAM = Path(__file__).with_name("owl_program.py")


async def _whole(folder: Path) -> tuple[RunResult, list[str], int]:
    """A run that nothing disturbs: its result, the points at which it could die, and how often its model was asked."""
    async with workspace(folder) as ws:
        result = await ws.run(WORD)
        points = kill_points(await ws.log.events(result.run_id))
    return result, points, _asked(folder)


def _asked(folder: Path) -> int:
    return len(folder.with_suffix(".asked").read_text(encoding="utf-8").splitlines())


async def _killed(folder: Path, point: str, whole: RunResult, count: int) -> None:
    """Die there, go on, and come to the same; what was asked and not recorded is asked again, and nothing else."""
    python([PROGRAM, folder], kill_at=point)
    run = await only_run(folder)
    async with workspace(folder) as ws:
        result = await ws.resume(run)
        assert (result.answer, result.report, result.status) == (whole.answer, whole.report, whole.status), point
        assert result.usage.requests == whole.usage.requests, point
        assert (await ws.replay(run)).answer == whole.answer_text, point
    twice = point.partition(":")[0] in ("after", "in_record")
    assert count <= _asked(folder) <= count + twice, point


async def test_a_workforce_goes_on_where_it_was(tmp_path: Path) -> None:
    whole, _, count = await _whole(tmp_path / "whole")
    await _killed(tmp_path / "killed", "after_record:/1.owl/3.web_agent#1", whole, count)  # a worker has decided


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_a_workforce_goes_on_from_wherever_it_was_killed(tmp_path: Path) -> None:
    whole, points, count = await _whole(tmp_path / "whole")
    print(f"{len(points)} points")
    for number, point in enumerate(points):
        await _killed(tmp_path / str(number), point, whole, count)
