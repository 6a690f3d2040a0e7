"""The workflow memory over several processes, one of which dies: nothing is written twice, no request paid twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentorchestra.core.effects import EffectKind
from agentorchestra.log.ledger import Ledger
from agentorchestra.testing import ScriptedModel
from tests.chaos.support import python, read_log, remembered
from tests.chaos.workflow_memory_program import FIRST, SECOND, librarian, workspace

pytestmark = pytest.mark.long

PROGRAM = Path(__file__).with_name("workflow_memory_program.py")
MARK = "QX-4417"


@pytest.mark.parametrize(("memory", "answer"), [("workflow", MARK), ("none", "unknown")])
def test_the_second_process_uses_what_the_first_learned(tmp_path: Path, memory: str, answer: str) -> None:
    assert python([PROGRAM, tmp_path / "ws", FIRST, memory]).strip() == MARK
    assert python([PROGRAM, tmp_path / "ws", SECOND, memory]).strip() == answer


WHOLE = [
    ("event", "Task"),
    ("event", "Step 1"),
    ("event", "Answer (completed)"),
    ("summary", "Marks"),
    ("insight", "The shelf mark of the atlas is QX-4417."),
]
REQUESTS = 3
POINTS = [
    ("before", 3, "the insights are read"),
    ("after_record", 7, "the step"),
    ("after_mark", 13, "the question at the end"),
    ("in_record", 13, "the question at the end"),
    ("after_record", 13, "the question at the end"),
    ("in_record", 16, "the insight"),
]


@pytest.mark.parametrize(("point", "n", "where"), POINTS)
async def test_a_killed_task_learns_once(tmp_path: Path, point: str, n: int, where: str) -> None:
    folder = tmp_path / "ws"
    async with workspace(folder) as ws:
        first = await ws.run(FIRST)
        assert first.answer == MARK
    python([PROGRAM, folder, SECOND, "workflow"], kill_at=f"{point}:/1.react#{n}")
    model = ScriptedModel(librarian, name="librarian")
    async with workspace(folder, model) as ws:
        (killed,) = [one.id for one in await ws.runs.list() if one.id != first.run_id]
        paid = [one for one in await read_log(folder, killed) if "'model':" in str(one.body.get("outcome"))]
        assert (await ws.resume(killed)).answer == MARK
        assert len(model.requests) == REQUESTS - len(paid), where
        assert await remembered(ws, killed) == WHOLE, where
        found = Ledger.of(await ws.store.load(killed)).records.values()
        asked = [one for one in found if one.effect["kind"] == EffectKind.REQUEST_MODEL and one.outcome is not None]
        assert [one.effect.get("purpose") for one in asked] == ["decision", "decision", "memory"]
        assert (await ws.replay(killed)).answer == MARK
        (known,) = await ws.memory.recall(kinds=("insight",))
        assert known.times == 2
