"""Tips from questions that are not asked: what they taught is shown to the arms that take tips, and to no other."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.errors import EvaluationError
from agentorchestra.core.messages import ModelRequest
from agentorchestra.core.spec import RunStatus
from agentorchestra.evaluation.plan import PLAN, Arm, EvalPlan, folder_of, read
from agentorchestra.evaluation.results import tables
from agentorchestra.testing import call, decide
from tests.evaluation.support import Trial, sums

LESSON = "What is asked is a sum of two numbers: add both."


def learner(request: ModelRequest) -> Any:
    """A model that adds wrongly, unless its prompt says how; of a task that has ended it remembers how."""
    text = "\n".join(one.text for one in request.messages)
    if not request.tools:
        return json.dumps({"summary": "Two numbers were added.", "insights": [{"text": LESSON}]})
    first, other = map(int, re.findall(r"What is (\d+) \+ (\d+)\?", text)[0])
    return decide(calls=[call("done", answer=str(first + other if LESSON in text else other))])


TIPPED = Arm(name="tipped", system="react", settings={"parts.tips": True})
PLAIN = Arm(name="plain", system="react")


@pytest.mark.long
async def test_a_split_apart_teaches_the_arms_that_take_tips(tmp_path: Path) -> None:
    sums(tmp_path / "data", 9)
    trial = Trial(tmp_path, {"m": learner})
    plan = trial.plan(PLAIN, TIPPED, tips=3, sample=4, seed=5)
    assert (len(plan.tips), len(plan.ids), {*plan.tips} & {*plan.ids}) == (3, 4, set())
    assert {plan.load().by_id[one].group for one in plan.tips} == {"1", "2", "3"}
    ending = await trial.run(plan)
    assert (ending.runs, ending.refusals) == (3 + 8, {})
    assert (trial.progress[-1].done, trial.progress[-1].total) == (11, 11)
    scores = await trial.score(plan)
    right = {arm: {one.question for one in scores if one.arm == arm and one.score} for arm in ("plain", "tipped")}
    assert right["tipped"] == {*plan.ids}
    assert right["plain"] <= {"q0"}, "no tip reaches it"
    settings = {what: value for what, value in tables(plan, scores)[-1].rows}  # noqa: C416
    assert settings["tips from"] == f"3 other questions: {', '.join(plan.tips)}"
    before = len(trial.requests)
    assert (await trial.run(plan)).runs == 0
    assert len(trial.requests) == before


async def test_other_insights_of_the_workspace_would_be_tips_too(tmp_path: Path) -> None:
    sums(tmp_path / "data", 6)
    trial = Trial(tmp_path, {"m": learner})
    async with trial.workspace(trial.folder) as workspace:
        result = await workspace.run("What is 1 + 2?", system="react", memory="workflow")
        assert result.status is RunStatus.COMPLETED
    with pytest.raises(EvaluationError, match=f"remembers insights of {result.run_id}, which gives no tips in trial"):
        await trial.run(trial.plan(TIPPED, tips=2))


def test_tips_that_cannot_be_are_refused(tmp_path: Path) -> None:
    sums(tmp_path / "data", 3)
    trial = Trial(tmp_path, {"m": learner})
    with pytest.raises(EvaluationError, match="2 questions give tips, and no arm takes them; set parts"):
        trial.plan(PLAIN, tips=2)
    with pytest.raises(EvaluationError, match="all 3 questions would give tips, and none be asked; give a"):
        trial.plan(TIPPED, tips=3)
    plan: EvalPlan = trial.plan(TIPPED, tips=1)
    file = folder_of(trial.folder, plan.name) / PLAN
    written = json.loads(file.read_text(encoding="utf-8")) | {"tips": [plan.ids[0]]}
    file.write_text(json.dumps(written), encoding="utf-8")
    with pytest.raises(EvaluationError, match=f"the question '{plan.ids[0]}' gives tips and is asked; a split"):
        read(trial.folder, plan.name)
