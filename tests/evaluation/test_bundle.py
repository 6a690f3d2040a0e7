"""An evaluation in one file: it gives the same numbers in another workspace, and what does not fit is refused."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from agentorchestra.core.errors import BundleError, EvaluationError
from agentorchestra.evaluation.bundle import HEADER, read_bundle, write_bundle
from agentorchestra.evaluation.plan import PLAN, Arm, read
from agentorchestra.evaluation.questions import SCORERS
from agentorchestra.evaluation.results import tables
from agentorchestra.evaluation.scores import SCORES, judged_usd, kept_scores, score
from tests.evaluation.support import Trial, adds, adds_small, sums, write_set

GOOD, POOR = Arm(name="good", model="good"), Arm(name="poor", model="poor")


async def written(tmp_path: Path, count: int = 6) -> tuple[Trial, Path]:
    """A scored evaluation of two arms, and its bundle."""
    sums(tmp_path / "data", count)
    trial = Trial(tmp_path, {"good": adds, "poor": adds_small})
    plan = trial.plan(GOOD, POOR)
    await trial.run(plan)
    await trial.score(plan)
    path = tmp_path / "trial.zip"
    async with trial.workspace(trial.folder) as workspace:
        assert await write_bundle(workspace, plan, path) == 2 * count
    return trial, path


@pytest.mark.long
async def test_another_workspace_scores_and_reports_the_same(tmp_path: Path) -> None:
    trial, path = await written(tmp_path)
    before = kept_scores(trial.folder, read(trial.folder, "trial"))
    assert path.stat().st_mode & 0o777 == 0o600
    with zipfile.ZipFile(path) as archive:
        report = archive.read("report.md").decode()
    assert "| good - poor |" in report
    asked, there = len(trial.requests), tmp_path / "there"
    async with trial.workspace(there) as workspace:
        plan, runs = await read_bundle(workspace, path)
        assert (runs, plan.name, kept_scores(there, plan)) == (12, "trial", before)
        with pytest.raises(EvaluationError, match="the set local needs --data"):
            plan.load()
        plan, _ = await read_bundle(workspace, path, trial.data)
        assert read(there, "trial") == plan
        assert await score(workspace, plan, plan.load()) == before
        found = tables(plan, kept_scores(there, plan), await judged_usd(workspace, plan))
        result = await workspace.runs.result(before[0].run_id)
    assert [one for one in found if one.title != "Settings"] == [
        one for one in tables(read(trial.folder, "trial"), before) if one.title != "Settings"
    ]
    assert (result.answer, len(trial.requests)) == (before[0].answer, asked)


@pytest.mark.long
async def test_the_judges_runs_go_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCORERS, "asks", "tests.evaluation.support:ASKS")
    data = sums(tmp_path / "data", 2) / "questions.jsonl"
    data.write_text(data.read_text(encoding="utf-8").replace('"number"', '"asks"'), encoding="utf-8")
    trial = Trial(tmp_path, {"good": adds, "judge": lambda request: "yes"})
    plan = trial.plan(GOOD, judge="judge")
    await trial.run(plan)
    before = await trial.score(plan)
    assert [one.status for one in before] == ["ok", "ok"]
    asked, path = len(trial.requests), tmp_path / "trial.zip"
    async with trial.workspace(trial.folder) as workspace:
        assert await write_bundle(workspace, plan, path) == 4
    async with trial.workspace(tmp_path / "there") as workspace:
        plan, _ = await read_bundle(workspace, path, trial.data)
        assert await score(workspace, plan, plan.load()) == before
    assert len(trial.requests) == asked


async def test_what_does_not_fit_is_refused_and_nothing_is_imported(tmp_path: Path) -> None:
    trial, path = await written(tmp_path, 1)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(parts[HEADER])
    plan = json.loads(parts[PLAN])
    changed: list[tuple[dict[str, bytes | None], str]] = [
        ({"../evil": b"x"}, "'../evil' is in it; `agentorchestra import` takes those of runs"),
        ({PLAN: None}, "a part is missing or twice in it"),
        ({HEADER: b"{"}, "is damaged; take the file as it was"),
        ({HEADER: json.dumps({**header, "format": 2}).encode()}, "of format 2, and this version reads format 1"),
        ({PLAN: json.dumps({**plan, "name": "../x"}).encode()}, "the name '../x' is none of an evaluation"),
        ({SCORES: b"{}\n"}, "the plan or the scores do not fit"),
    ]
    bad = tmp_path / "bad.zip"
    async with trial.workspace(tmp_path / "there") as workspace:
        for change, said in changed:
            with zipfile.ZipFile(bad, "w") as archive:
                for name, part in {**parts, **change}.items():
                    if part is not None:
                        archive.writestr(name, part)
            with pytest.raises(BundleError) as refused:
                await read_bundle(workspace, bad)
            assert said in str(refused.value)
        with zipfile.ZipFile(bad, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, part in parts.items():
                archive.writestr(name, part)
        with pytest.raises(BundleError, match="its members are not stored; take the file as it was"):
            await read_bundle(workspace, bad)
        bad.write_bytes(b"no bundle")
        with pytest.raises(BundleError, match="give the file that `eval export --bundle` wrote"):
            await read_bundle(workspace, bad)
        assert await workspace.runs.list() == []
        sums(tmp_path / "other", 1, seed=2)
        with pytest.raises(EvaluationError, match="bring the former data back"):
            await read_bundle(workspace, path, tmp_path / "other")
    other = Trial(tmp_path / "second", trial.models)
    sums(other.data, 1)
    other.plan(POOR)
    async with other.workspace(other.folder) as workspace:
        with pytest.raises(EvaluationError, match="holds another evaluation trial; import this one into another"):
            await read_bundle(workspace, path)
        assert await workspace.runs.list() == []


@pytest.mark.long
async def test_no_secret_leaves_in_it_and_no_file_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trial, path = await written(tmp_path, 1)
    plan, new = read(trial.folder, "trial"), tmp_path / "new.zip"
    async with trial.workspace(trial.folder) as workspace:
        with pytest.raises(BundleError, match=r"trial\.zip is there already; name another file, or remove it"):
            await write_bundle(workspace, plan, path)
        monkeypatch.setenv("SORT_KEY", plan.version[:20])
        with pytest.raises(BundleError, match=r"its plan\.json holds the value of the secret SORT_KEY"):
            await write_bundle(workspace, plan, new)
    assert not new.exists()


async def test_what_has_no_score_yet_goes_along_without_a_report(tmp_path: Path) -> None:
    write_set(tmp_path / "data", [{"id": "a", "question": "What is 1 + 2?", "answer": 3, "scorer": "number"}])
    trial, path = Trial(tmp_path, {"good": adds}), tmp_path / "trial.zip"
    plan = trial.plan(GOOD)
    before = await trial.score(plan)
    assert [one.status for one in before] == ["not_run"]
    async with trial.workspace(trial.folder) as workspace:
        assert await write_bundle(workspace, plan, path) == 0
    async with trial.workspace(tmp_path / "there") as workspace:
        plan, runs = await read_bundle(workspace, path)
        assert (runs, kept_scores(workspace.folder, plan)) == (0, before)
