"""Suites: every published row has its arm or its reason, arms can be run, and the report has both numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentorchestra.core.errors import EvaluationError
from agentorchestra.evaluation.plan import Arm, read
from agentorchestra.evaluation.questions import SOURCES
from agentorchestra.evaluation.report import markdown
from agentorchestra.evaluation.results import tables
from agentorchestra.evaluation.runner import arm_workspace
from agentorchestra.evaluation.suites.suite import Suite, suite, suites
from tests.cli.support import Folder
from tests.evaluation.support import Trial, adds, adds_small, gaia_over_files, write_set
from tests.evaluation.test_command import folder_with
from tests.support import solver

SUITES = suites()


@pytest.mark.parametrize("one", SUITES.values(), ids=SUITES)
def test_each_published_row_has_an_arm_or_a_reason(one: Suite) -> None:
    here = [row for arm in one.arms for row in arm.rows]
    left = [row for each in one.left_out for row in each.rows]
    assert sorted([*here, *left]) == sorted(one.cells.rows)
    assert {*one.columns.values()} <= {*one.cells.columns}
    assert one.set in SOURCES
    assert all(each.why for each in one.left_out)


@pytest.mark.long  # opens a workspace for each arm
@pytest.mark.parametrize("one", SUITES.values(), ids=SUITES)
async def test_each_arm_can_be_run(one: Suite, tmp_path: Path) -> None:
    (tmp_path / "agentorchestra.toml").write_text(
        '[models.one]\nmodel = "openai:one"\nbase_url = "http://127.0.0.1:9/v1"\nprice = { input = 1, output = 1 }\n',
        encoding="utf-8",
    )
    for each in one.arms:
        async with arm_workspace(tmp_path / ".agentorchestra", each.arm) as workspace:
            system = each.system or workspace.settings.system
            await workspace.runs.foresee("Why?", system=system, model="one", environments=each.environments)
            assert await workspace.runs.list() == []


def test_an_unknown_suite_is_refused() -> None:
    with pytest.raises(EvaluationError, match=r"there is no suite '004-table1'; the suites: 000-table2, "):
        suite("004-table1")


@pytest.mark.long  # inspect-evals takes seconds to import
def test_a_suite_from_its_questions_to_both_numbers(tmp_path: Path) -> None:
    gaia_over_files(tmp_path / "data", 3)
    with solver.serving() as server:
        folder = folder_with(tmp_path, server.base_url)
        words = ("eval", "suite", "002-table3", "--data", "data", "--model", "local", "--sample", "2")
        done = folder.run(*words, "--budget-usd", "20", "--question-usd", "1")
        assert done.code == 0, done.err
        assert "AOrchestra, arXiv:2602.03786, table 3: GAIA validation: percent right" in done.err
        assert "not here: Ours (Gemini-3-Flash), mixed: its models are yours to name" in done.err
        plan = read(tmp_path / ".agentorchestra", "002-table3")
        assert (plan.suite, plan.repeats, len(plan.ids)) == ("002-table3", 1, 2)
        assert [(one.name, one.model, one.preset) for one in plan.arms] == [
            ("react", "local", "paper-002-gaia"),
            ("aorchestra", "local", "paper-002-gaia"),
        ]
        assert folder.run("eval", "score", "002-table3").out.strip() == "4 ok"
    report = folder.run("eval", "report", "002-table3").out
    assert re.search(r"^\| aorchestra \| here \| 100\.0 \[.*\] of 2 \| \$0\.\d{4} \|$", report, re.MULTILINE), report
    assert "| aorchestra | Ours, Gemini-3-Flash | 80 | 0.79 |" in report
    assert "| react | ReAct, Claude-4.5-haiku | 47.88 | 0.066 |" in report
    assert "Not here: Ours (Gemini-3-Flash), mixed: its models are yours" in report


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("name", "repeats", "said"),
    [
        (
            "004-figure3",
            1,
            ["| base | here | - |", "| reflection | here | +50.0 [", "| reflection | Reflection | 3.03 |"],
        ),
        ("004-table7", 1, ["| reviewed | here | 50.0 [", "| reviewed | OAgents | 51.52 | 67.92 | 48.83 | 26.92 |"]),
        ("003-table2", 1, ["| coral | here | 50.0 [", "| owl | OWL, GPT 4.1 Mini | 55.15 | 73.58 | 51.16 | 30.77 |"]),
        ("002-table1-gaia", 3, ["| react | here | 50.0 [", "| react | ReAct, DeepSeek-V3.2 | 46.7 | 71.51 |"]),
    ],
)
async def test_what_arms_came_to_stands_above_their_rows(
    name: str, repeats: int, said: list[str], tmp_path: Path
) -> None:
    lines = [
        {"id": f"q{one}", "question": f"What is {one} + 20?", "answer": one + 20, "level": f"level {level}"}
        for one, level in ((1, 1), (2, 2), (6, 1), (7, 2))
    ]
    write_set(tmp_path / "data", lines)
    trial = Trial(tmp_path, {"good": adds, "poor": adds_small})  # the poor one is wrong on 6 and 7
    arms = [Arm(name=one.name, model="good" if number else "poor") for number, one in enumerate(suite(name).arms)]
    plan = trial.plan(*arms, repeats=repeats, suite=name)
    await trial.run(plan)
    found = tables(plan, await trial.score(plan))
    (beside,) = [one for one in found if one.title == "Beside the paper"]
    text = markdown(plan, [beside])
    assert not [one for one in said if one not in text], text
    for column, cell in zip(beside.head[2:], beside.rows[0][2:], strict=True):
        # Of both levels one question is right; of level 3 none was asked.
        assert cell.startswith("-" if column in ("level 3", "gain") else "50.0 ["), (column, cell)


def test_a_suite_that_cannot_begin_says_why(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    done = folder.run("eval", "suite", "004-tabel7")
    assert (done.code, "there is no suite '004-tabel7'; the suites: 000-table2" in done.err) == (2, True)
    done = folder.run("eval", "suite", "list")
    assert done.out.count("\n") == len(SUITES)
    assert "004-table7  gaia-validation; reviewed, static, subtasks, tips. Plans: reviewed" in done.out
