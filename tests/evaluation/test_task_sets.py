"""Terminal-Bench 2 and SWE-bench Verified: tasks are worked on through the terminal, and their own tests decide."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.errors import EvaluationError
from agentorchestra.core.messages import ModelRequest
from agentorchestra.evaluation.benchmarks.swe_bench import image_name
from agentorchestra.evaluation.bundle import read_bundle, write_bundle
from agentorchestra.evaluation.checks import kept_checks
from agentorchestra.evaluation.export import swe_bench_lines
from agentorchestra.evaluation.plan import Arm, read
from agentorchestra.evaluation.questions import load_set
from agentorchestra.evaluation.results import outcome, tables, values
from agentorchestra.evaluation.scores import attempts, score, take_verdicts
from agentorchestra.testing import call
from tests.evaluation import benchmark_data
from tests.evaluation.support import Trial
from tests.sandbox.images import add, libraries, system, write_image
from tests.sandbox.support import usable
from tests.support.runs import whole_runs

WORKER = Arm(name="worker", system="react", model="worker")


def works(commands: dict[str, str], seen: list[str] | None = None) -> Callable[[ModelRequest], Any]:
    """A model that runs the command for its task, then ends; `commands` has words of the task with what is run.

    What the commands gave is added to `seen`.
    """

    def reply(request: ModelRequest) -> Any:
        if given := [message.text for message in request.messages if message.role == "tool"]:
            if seen is not None:
                seen.extend(given)
            return call("done", answer="It is done.")
        asked = "\n".join(message.text for message in request.messages)
        (command,) = (one for words, one in commands.items() if words in asked)
        return call("terminal_run", command=command)

    return reply


@pytest.fixture
def sandbox() -> None:
    """Skip the test where there is no bubblewrap."""
    usable("bubblewrap")


# --- Terminal-Bench 2 ---------------------------------------------------------------------------------


def test_tasks_are_read_from_their_folders(tmp_path: Path) -> None:
    found = load_set("terminal-bench-2", benchmark_data.terminal_bench(tmp_path))
    assert [(one.id, one.group) for one in found.questions] == [
        ("count-jars", "medium"),
        ("rebuild-kernel", "hard"),
        ("sort-jars", "easy"),
    ]
    assert found.by_id["sort-jars"].task == "Sort the lines of jars.txt into sorted.txt."
    image, name = tmp_path / "images" / "rebuild-kernel.tar", "varn/rebuild-kernel:20251031"
    assert found.faults == {
        "rebuild-kernel": f"the task 'rebuild-kernel' lies on an image, and {image} is not there; where a Docker "
        f"engine is, `docker pull {name} && docker save -o {image} {name}` makes it"
    }
    image.parent.mkdir()
    image.write_bytes(b"an image")
    again = load_set("terminal-bench-2", tmp_path)
    assert (again.faults, again.version) == ({}, found.version)
    (tmp_path / "sort-jars" / "environment" / "jars.txt").write_text("other", encoding="utf-8")
    assert load_set("terminal-bench-2", tmp_path).version != found.version


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("environment/Dockerfile", "FROM a\nRUN x\n", "docker build -t sort-jars"),
        ("instruction.md", "", "instruction.md is empty"),
        ("task.toml", "version =", "is no TOML"),
        ("task.toml", 'version = "2.0"', "has the version '2.0'"),
    ],
)
def test_a_task_that_cannot_be_worked_on_is_a_fault_of_its_own(file: str, text: str, why: str, tmp_path: Path) -> None:
    benchmark_data.terminal_bench(tmp_path)
    (tmp_path / "sort-jars" / file).write_text(text, encoding="utf-8")
    faults = load_set("terminal-bench-2", tmp_path).faults
    assert sorted(faults) == ["rebuild-kernel", "sort-jars"]
    assert why in faults["sort-jars"]


def test_no_tasks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match=r"terminal-bench-2 needs --data: the folder of its tasks"):
        load_set("terminal-bench-2")
    with pytest.raises(EvaluationError, match=r"terminal-bench-2 is not at .*gone; name it with --data"):
        load_set("terminal-bench-2", tmp_path / "gone")
    with pytest.raises(EvaluationError, match="the set terminal-bench-2 holds no question"):
        load_set("terminal-bench-2", tmp_path)
    benchmark_data.terminal_bench(tmp_path / "data")
    for name in ("sort-jars", "count-jars"):
        shutil.rmtree(tmp_path / "data" / name)
    with pytest.raises(EvaluationError, match="none of the 1 chosen questions of terminal-bench-2 can be asked; the"):
        Trial(tmp_path, {"worker": works({})}).plan(WORKER, set_="terminal-bench-2")


@pytest.mark.long
@pytest.mark.usefixtures("sandbox")
async def test_the_tests_of_a_task_decide_and_run_once(tmp_path: Path) -> None:
    benchmark_data.terminal_bench(tmp_path / "data")
    commands = {
        "Sort the lines": "pwd; sort jars.txt > sorted.txt; ls -A /tests; ls -d /solution",
        "Write the number": "true",
    }
    seen: list[str] = []
    trial = Trial(tmp_path, {"worker": works(commands, seen)})
    plan = trial.plan(WORKER, set_="terminal-bench-2")
    ending = await trial.run(plan)
    assert (ending.runs, ending.refusals, [*ending.missing]) == (2, {}, ["rebuild-kernel"])
    assert (trial.progress[-1].done, trial.progress[-1].total) == (2, 2)
    scores = await trial.score(plan)
    by_id = {one.question: one for one in scores}
    assert {name: outcome(one) for name, one in by_id.items()} == {
        "sort-jars": "right",
        "count-jars": "wrong",
        "rebuild-kernel": "left out",
    }
    assert by_id["sort-jars"].why == "the tests gave the reward 1"
    assert (by_id["rebuild-kernel"].status, by_id["rebuild-kernel"].score) == ("missing", None)
    assert "docker pull varn/rebuild-kernel" in by_id["rebuild-kernel"].why
    assert values(scores, "worker") == {"sort-jars": [1.0], "count-jars": [0.0]}
    assert "Left out, as they cannot be asked or have no public answer: rebuild-kernel." in tables(plan, scores)[0].note
    (shown,) = (one for one in seen if "/app" in one)
    assert "test.sh" not in shown  # the tests come when it is done, the solution never
    assert "'/solution': No such file" in shown
    # What the machine is now says nothing: the tests are not run again.
    async with trial.workspace(trial.folder) as workspace:
        (workspace.files.folder(by_id["sort-jars"].run_id) / "sorted.txt").unlink()
        limits = [one.manifest.budget.active_s for one in await whole_runs(workspace)]
    assert limits == [90.0, 90.0]
    assert await trial.score(plan) == scores
    assert (await trial.run(plan)).runs == 0
    # Elsewhere the verdicts are those of the bundle.
    bundle = tmp_path / "trial.zip"
    async with trial.workspace(trial.folder) as workspace:
        await write_bundle(workspace, plan, bundle)
    async with trial.workspace(tmp_path / "there") as workspace:
        await read_bundle(workspace, bundle, trial.data)
        assert await score(workspace, plan, plan.load(), workspaces=trial.workspace) == scores
        (tmp_path / "there" / "evaluations" / "trial" / "checks.jsonl").unlink()
        again = await score(workspace, plan, plan.load(), workspaces=trial.workspace)
        await read_bundle(workspace, bundle)
        assert await score(workspace, plan, plan.load(), workspaces=trial.workspace) == scores
    assert {one.status for one in again} == {"judge_failed", "missing"}
    why = {one.why for one in again if one.status == "judge_failed"}
    assert len(why) == 2 and all("is where the run was made; score it there" in one for one in why)


# --- SWE-bench Verified -------------------------------------------------------------------------------


def git(folder: Path, *words: str) -> str:
    """What a git command prints."""
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    environ = {**os.environ, **who, "GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(["git", *words], cwd=folder, env=environ, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def repository(folder: Path) -> str:
    """Make a repository with a base, and the commit that SWE-bench's images begin with; return the base."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet")
    (folder / "jars.py").write_text("def count():\n    return 2 * 17\n", encoding="utf-8")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "base")
    base = git(folder, "rev-parse", "HEAD")
    (folder / "setup.cfg").write_text("[pinned]\n", encoding="utf-8")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "SWE-bench")
    return base


def image(folder: Path, repo: Path) -> Path:
    """Write an image like those of SWE-bench: a repository in /testbed, and git."""

    def testbed(tar: tarfile.TarFile) -> None:
        program = shutil.which("git")
        assert program is not None
        tar.add(Path(program).resolve(), "usr/bin/git")
        libraries(tar, [Path(program).resolve()])
        add(tar, "testbed", type=tarfile.DIRTYPE, mode=0o755)
        tar.add(repo, "testbed")

    return write_image(folder, (system, testbed), form="docker.tar", config={"WorkingDir": "/testbed"})


def test_an_issue_becomes_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inspect_evals.constants.INSPECT_EVALS_CACHE_PATH", tmp_path / "cache")
    data = benchmark_data.swe_bench(tmp_path / "data", suffix=".jsonl")
    found = load_set("swe-bench-verified", data)
    first = found.questions[0]
    assert (first.id, first.group, first.truth) == ("varn__jars-17", "<15 min fix", None)
    assert "The repository varn/jars is checked out in the folder /testbed" in first.task
    assert "<issue>\nJars are counted twice\n\n`count()` gives {n}.\n</issue>" in first.task
    assert image_name("varn__jars-17") == "swebench/sweb.eval.x86_64.varn_1776_jars-17:latest"
    assert "docker pull swebench/sweb.eval.x86_64.varn_1776_jars-17:latest && docker save -o" in found.faults[first.id]
    assert len(found.faults) == 3
    with pytest.raises(EvaluationError, match="swe-bench-verified needs --data: a folder with its table"):
        load_set("swe-bench-verified")
    (data / "test-00000-of-00001.jsonl").write_text("{}\n", encoding="utf-8")
    with pytest.raises(EvaluationError, match="has no column 'instance_id', so it is another set than swe-bench"):
        load_set("swe-bench-verified", data)


@pytest.mark.long
@pytest.mark.usefixtures("sandbox")
async def test_a_change_is_handed_to_the_harness_and_its_verdict_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inspect_evals.constants.INSPECT_EVALS_CACHE_PATH", tmp_path / "cache")
    base = repository(tmp_path / "repo")
    data = benchmark_data.swe_bench(tmp_path / "data", base)
    made = image(tmp_path / "made", tmp_path / "repo")
    (data / "images").mkdir()
    for name in ("varn__jars-17", "varn__jars-18"):
        shutil.copy(made, data / "images" / f"{name}.tar")
    change = "git status --short; printf 'def count():\\n    return 17\\n' > jars.py; echo new > other.py"
    trial = Trial(tmp_path, {"worker": works({"counted twice": change, "empty shelf": "cat jars.py"})})
    plan = trial.plan(WORKER, set_="swe-bench-verified")
    ending = await trial.run(plan)
    assert (ending.runs, ending.refusals, [*ending.missing]) == (2, {}, ["varn__mill-3"])
    scores = await trial.score(plan)
    assert [(one.status, one.score) for one in scores] == [("judge_failed", None), ("missing", 0.0), ("missing", None)]
    assert scores[0].why == "the set's own harness has not scored the change yet"
    assert scores[1].why == "nothing was changed in the repository"
    async with trial.workspace(trial.folder) as workspace:
        found = await attempts(workspace, plan)
        lines = [json.loads(one) for one in swe_bench_lines(plan, found, kept_checks(trial.folder, plan), "worker")]
        with pytest.raises(EvaluationError, match="trial has 2 repeats"):
            swe_bench_lines(plan.model_copy(update={"repeats": 2}), found, {}, "worker")
        with pytest.raises(EvaluationError, match="was not looked at yet; `agentorchestra eval score trial` does that"):
            swe_bench_lines(plan, found, {}, "worker")
    assert [(one["instance_id"], one["model_name_or_path"]) for one in lines] == [
        ("varn__jars-17", "trial-worker"),
        ("varn__jars-18", "trial-worker"),
    ]
    assert lines[1]["model_patch"] == ""
    assert "-    return 2 * 17\n+    return 17\n" in lines[0]["model_patch"]
    assert "setup.cfg" not in lines[0]["model_patch"]  # of the image's own commit
    # The change applies to the repository as the harness has it, and does what the run did.
    (tmp_path / "patch").write_text(lines[0]["model_patch"], encoding="utf-8")
    git(tmp_path / "repo", "apply", str(tmp_path / "patch"))
    assert (tmp_path / "repo" / "other.py").read_text(encoding="utf-8") == "new\n"
    report = tmp_path / "trial-worker.trial.json"
    ids = {
        "resolved_ids": ["varn__jars-17"],
        "unresolved_ids": [],
        "error_ids": [],
        "empty_patch_ids": ["varn__jars-18"],
    }
    report.write_text(json.dumps({**ids, "schema_version": 2}), encoding="utf-8")
    async with trial.workspace(trial.folder) as workspace:
        assert await take_verdicts(workspace, plan, "worker", report) == 1
        report.write_text(json.dumps({**ids, "resolved_ids": ["else"]}), encoding="utf-8")
        with pytest.raises(EvaluationError, match="says nothing of what the runs of worker changed"):
            await take_verdicts(workspace, plan, "worker", report)
        report.write_text("[]", encoding="utf-8")
        with pytest.raises(EvaluationError, match="is no report of SWE-bench's harness"):
            await take_verdicts(workspace, plan, "worker", report)
    scores = await trial.score(read(trial.folder, "trial"))
    assert [outcome(one) for one in scores] == ["right", "unanswered", "left out"]
    assert scores[0].why == "the harness: resolved"
