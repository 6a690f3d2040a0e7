"""A validation by forks asks less than running anew, of both versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentorchestra.evaluation.plan import read
from agentorchestra.evaluation.runner import found_runs
from tests.evolution.test_evolver import Shop


@pytest.mark.long
async def test_a_later_gate_goes_on_in_the_runs_of_an_earlier_one(tmp_path: Path) -> None:
    # Half of the amounts are below 50 euros: the first patch mends those, the second one the others.
    shop = Shop(tmp_path, count=26, first=12)
    before: dict[str, int] = {}

    def told(line: str) -> None:
        before[line.partition(":")[0]] = shop.asked["worker"]

    shop.tell = told
    first, second = await shop.evolve(rounds=2, batch=8)
    assert [one.ended for one in (first, second)] == ["promoted", "promoted"]
    # A run is two requests. The tool's code acts after the first one, so that is copied, in both arms.
    questions = len(read(shop.folder, "cents-2-gate").ids)
    assert (first.spared, second.spared) == (0, 2 * questions)
    assert before["round 1"] - before["cents-1-gate"] == 4 * questions
    assert before["round 2"] - before["cents-2-gate"] == 2 * questions
    assert second.decision is not None and second.decision.cost_ratio == pytest.approx(1, abs=0.2)
    async with shop.workspace(shop.folder) as ws:
        forks = await found_runs(ws, read(shop.folder, "cents-2-gate"))
        parents = {one.manifest.parent_run for one in forks.values()}
        assert len(parents) == questions and None not in parents
        for one in list(forks.values())[:2]:
            await ws.replay(one.id)
