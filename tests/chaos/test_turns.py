"""A process that dies in a turn of a session: it is resumed or cancelled, and the next turn goes on from there."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentorchestra.core.errors import SessionBusyError
from agentorchestra.workspace import Workspace
from tests.chaos.support import python
from tests.chaos.turns_program import workspace

PROGRAM = Path(__file__).with_name("turns_program.py")
NOTED = {"the decision": 2, "the call": 3, "the second decision": 5, "the answer": 6}
POINTS = [(f"{point}:/1.react#{n}", n) for n in NOTED.values() for point in ("before", "in_record", "after_record")]
SHORT = ("after_record:/1.react#3", 3)


async def _killed(ws: Workspace[None]) -> str:
    """The turn whose process died; the next one has to wait for it."""
    (killed,) = [one.id for one in await ws.runs.list() if one.manifest.previous is not None]
    with pytest.raises(SessionBusyError, match=f"the turn {killed} of the session 'words' is under way"):
        await ws.session("words").run("Note dune")
    return killed


@pytest.mark.parametrize(
    ("kill_at", "number"), [one if one == SHORT else pytest.param(*one, marks=pytest.mark.long) for one in POINTS]
)
@pytest.mark.parametrize("resumes", [True, False])
async def test_a_turn_that_died_is_resumed_or_cancelled(
    tmp_path: Path, kill_at: str, number: int, resumes: bool
) -> None:
    folder = tmp_path / "ws"
    async with workspace(folder) as ws:
        assert (await ws.session("words").run("Note sea")).answer == "sea, task 1"
    python([PROGRAM, folder, "tide"], kill_at=kill_at)
    async with workspace(folder) as ws:
        killed = await _killed(ws)
        if resumes:
            assert (await ws.resume(killed)).answer == "sea tide, task 2"
            assert (await ws.replay(killed)).answer == "sea tide, task 2"
        else:
            await ws.cancel(killed)
        recorded = number > 3 or (number == 3 and kill_at.startswith("after"))
        words = "sea tide dune" if resumes or recorded else "sea dune"
        third = await ws.session("words").run("Note dune")
        assert third.answer == f"{words}, task 3"
        assert (await ws.replay(third.run_id)).answer == third.answer
