"""Each part decides on a task of its own: with it the answer is right, without it wrong (`benchmarks/parts`).

The models answer right exactly when a fact stands in their request; without the part no request has it. The facts are
drawn, from seeds that stand here.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.parts.archive import Search
from benchmarks.parts.catalog import TASKS
from benchmarks.parts.scales import Weighing
from benchmarks.parts.task import Task

SURE = [one for one in TASKS if one.errs is None]
CHOOSING = [one for one in TASKS if one.errs is not None]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize("task", SURE, ids=lambda one: one.name)
async def test_a_part_decides(tmp_path: Path, task: Task, seed: int) -> None:
    (plain,), (having,) = await task.done(range(seed, seed + 1), tmp_path)
    assert (having.right, having.seen) == (True, True)
    assert (plain.right, plain.seen) == (False, False)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["facts survey", "tips"])
async def test_a_setting_puts_a_part_into_the_team(tmp_path: Path, name: str) -> None:
    (task,) = [one for one in SURE if one.name == name]
    assert isinstance(task.do, Weighing)
    (plain,), (having,) = await replace(task, do=replace(task.do, system="agentorchestra")).done(range(1), tmp_path)
    assert (having.right, having.seen) == (True, True)
    assert (plain.right, plain.seen) == (False, False)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("task", CHOOSING, ids=lambda one: one.name)
async def test_a_part_that_chooses_decides_where_the_verifier_does_not_err(tmp_path: Path, task: Task) -> None:
    assert isinstance(task.do, Search)
    sure = replace(task, do=replace(task.do, errs=0.0))
    for start in range(0, 40, 5):  # for which volumes the part decides follows from the words of all prompts
        plain, having = await sure.done(range(start, start + 5), tmp_path)
        # Without the part the model is right only where the mark happened to stand in its request.
        assert all(one.right is one.seen for one in plain)
        # What one candidate has seen is chosen; a vote may be for another mark.
        assert task.parts.get("choose") == "vote" or all(one.right is one.seen for one in having)
        if any(one.right and not without.seen for without, one in zip(plain, having, strict=True)):
            return
    pytest.fail("the part decides for none of 40 volumes")
