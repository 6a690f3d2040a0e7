"""A process that dies at work on a copy of a folder: `resume` goes on in the copy, and its changes are the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentorchestra.core.spec import RunStatus
from tests.chaos.projects_program import workspace
from tests.chaos.support import only_run, python
from tests.support.projects import files_below, repository
from tests.workspace.test_projects import needs_bubblewrap

PROGRAM = Path(__file__).with_name("projects_program.py")
POINTS = [
    f"{point}:/1.mini_swe#{n}" for n in (2, 3, 5, 6) for point in ("before", "after", "in_record", "after_record")
]
SHORT = "in_record:/1.mini_swe#6"


@needs_bubblewrap
@pytest.mark.parametrize(
    "kill_at", [one if one == SHORT else pytest.param(one, marks=pytest.mark.long) for one in POINTS]
)
async def test_a_run_that_died_goes_on_in_its_copy(tmp_path: Path, kill_at: str) -> None:
    user, folder = repository(tmp_path / "user", {"a.txt": "zero\n", "gone": ""}), tmp_path / "ws"
    before = files_below(user)
    python([PROGRAM, folder, user], kill_at=kill_at)
    assert files_below(user) == before
    run_id = await only_run(folder)
    async with workspace(folder) as ws:
        result = await ws.resume(run_id)
        assert result.status is RunStatus.COMPLETED, result.error
        assert (await ws.replay(run_id)).answer == "done"
        assert (await ws.files.apply(run_id)).changed == ("a.txt", "b.txt", "gone")
    assert files_below(user) == {"a.txt": b"zero\none\n", "b.txt": b"zero\none\n" * 2}
