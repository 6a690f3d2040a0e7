"""Generated tools that later questions reuse: in the order of the plan, counted from the log (000, sec. 5.2)."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from agentorchestra.core.errors import EvaluationError
from agentorchestra.core.settings import Settings
from agentorchestra.evaluation.plan import Arm
from agentorchestra.evaluation.results import tables
from tests.agents.generating import Model, numeral
from tests.evaluation.support import Trial, adds, sums, write_set
from tests.sandbox.support import usable

MAKER = Arm(name="team", system="tool_generator", settings={"sandbox.backend": "bubblewrap"}, reuse=True)


def numerals(folder: Path, *numbers: int) -> None:
    """Write a set of numbers to be written as Roman numerals."""
    asked = "Write the number {one} as a Roman numeral."
    write_set(folder, [{"id": f"n{one}", "question": asked.format(one=one), "answer": numeral(one)} for one in numbers])


@pytest.mark.long  # trials in a sandbox
async def test_a_tool_that_one_question_made_serves_those_after_it(tmp_path: Path) -> None:
    await asyncio.to_thread(usable, "bubblewrap")
    numerals(tmp_path / "data", 12, 48, 2026)
    model = Model()
    trial = Trial(tmp_path, {"m": model.answer})
    plan = trial.plan(MAKER, suite="000-sec5.2")
    ending = await trial.run(plan, at_once=4)
    assert (ending.runs, ending.refusals) == (3, {})
    assert model.asked.count("written") == 1
    scores = await trial.score(plan)
    assert [(one.status, one.made, one.found, one.reused) for one in scores] == [
        ("ok", ("roman",), (), ()),
        ("ok", (), ("roman",), ("roman",)),
        ("ok", (), ("roman",), ("roman",)),
    ]
    found = {one.title: one for one in tables(plan, scores)}
    assert found["Reuse"].rows == (("team", "1", "1", "100.0", "2", "2"),)
    assert found["Beside the paper"].rows == (("team", "here", "100.0 of 1 tools"), ("team", "AgentOrchestra", "30"))
    with pytest.raises(EvaluationError, match="trial measures reuse, and a question that is tried again would have"):
        await trial.run(plan, again=True)
    other = plan.model_copy(update={"name": "other"})
    with pytest.raises(
        EvaluationError, match=r"the workspace has the generated tool 'roman' of run_\w+, which is none of"
    ):
        await trial.run(other)


async def test_questions_that_reuse_tools_are_asked_one_after_another(tmp_path: Path) -> None:
    sums(tmp_path / "data", 5)
    trial = Trial(tmp_path, {"good": adds})
    await trial.run(trial.plan(Arm(name="good", reuse=True)), at_once=8)
    assert [re.findall(r"What is (\d)", text)[0] for _, text in trial.requests] == ["0", "1", "2", "3", "4"]
    assert [one.done for one in trial.progress] == [1, 2, 3, 4, 5]


def test_reuse_is_measured_of_one_arm_that_is_asked_once(tmp_path: Path) -> None:
    sums(tmp_path / "data", 2)
    trial = Trial(tmp_path, {"good": adds})
    with pytest.raises(EvaluationError, match="trial measures reuse with 2 arms and 1 repeats, and tools that one of"):
        trial.plan(Arm(name="one", reuse=True), Arm(name="two"))
    with pytest.raises(EvaluationError, match="with 1 arms and 3 repeats"):
        trial.plan(Arm(name="one", reuse=True), repeats=3)
    arm = Arm(name="one", reuse=True, settings={"generator.keep": "run"})
    with pytest.raises(EvaluationError, match=r"may learn from another; leave it out, it is .workspace"):
        arm.merge(Settings())
