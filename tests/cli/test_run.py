"""`run`, and what reads a run: `runs`, `show`, `replay`, `resume` of an ended one."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from agentorchestra.core.spec import RunResult
from tests.cli.support import QUESTION, Folder, clean_environment

FIELDS = {
    "status",
    "answer",
    "output",
    "report",
    "sources",
    "usage",
    "usage_by_model",
    "cost_usd",
    "run_id",
    "session",
    "system",
    "model",
    "duration_s",
    "artifacts",
    "files",
    "more_files",
    "folder",
    "diff",
    "tests",
    "questions",
    "until",
    "error",
    "error_type",
    "steps",
}


def test_the_answer_alone_is_on_stdout(folder: Folder) -> None:
    done = folder.run("run", QUESTION, "--file", "lease.txt")
    assert done.code == 0
    (run_id,) = folder.ids()
    assert done.out == folder.run("show", "last", "--json").json["result"]["answer"] + "\n"
    assert "three months" in done.out
    sources = 'Sources:\n  "The notice period is three months." (lease.txt, line 2)\n'
    assert sources in done.err
    assert done.status.startswith(f"completed, {run_id}, ")
    assert " tokens, $0, " in done.status
    assert done.status.endswith(" s")
    shown = folder.run("show", "last")
    assert (sources in shown.out, shown.err) == (True, "")
    progress = done.err.splitlines()
    assert progress[0] == f"run {run_id}"
    assert progress[1:3] == ["  files_in_view(chars=8000)", "step 1 (agentorchestra)"]
    assert any(line.startswith("  done(") for line in progress)
    assert "budget" not in done.err


@pytest.mark.long
def test_a_task_on_stdin(folder: Folder) -> None:
    task = folder.path / "task.txt"
    for data, code in ((QUESTION.encode(), 0), (b"What is \xff?", 2), (b"  \n", 2)):
        task.write_bytes(data)
        with task.open("rb") as given:
            done = folder.run("run", "-", "--file", "lease.txt", stdin=given)
        assert done.code == code, done.err
        if code == 0:
            assert "three months" in done.out
        elif b"\xff" in data:
            assert "the task in stdin is not UTF-8 (byte 8); write it in UTF-8" in done.err
    assert len(folder.ids()) == 1
    assert folder.assert_readable()["run"]["manifest"]["task"] == QUESTION


def test_json_is_one_object_and_nothing_else(folder: Folder) -> None:
    done = folder.run("run", QUESTION, "-f", "lease.txt", "--json", "--label", "a=1", "--label", "b=x=y")
    assert done.code == 0
    assert done.err == ""
    result = done.json
    assert set(result) == FIELDS
    assert RunResult.model_validate(result).answer == result["answer"]
    assert result["status"] == "completed"
    assert result["sources"][0] == {
        "source": "lease.txt",
        "place": "line 2",
        "quote": "The notice period is three months.",
    }
    assert result["usage_by_model"]["offline"]["requests"] == result["usage"]["requests"] >= result["steps"] > 1
    assert result["cost_usd"] == 0
    assert (result["system"], result["model"]) == ("agentorchestra", "offline")
    assert result["questions"] == result["artifacts"] == []
    (row,) = folder.run("runs", "--json").json
    assert row["run_id"] == result["run_id"]
    assert row["labels"] == {"a": "1", "b": "x=y"}
    assert row["files"] == ["lease.txt"]


def test_a_dry_run_says_what_scaling_comes_to_and_begins_none(folder: Folder) -> None:
    folder.write("agentorchestra.toml", "[parts]\ncandidates = 4\nrollouts = 2\n")
    words = ["run", QUESTION, "--dry-run", "--max-steps", "10"]
    done = folder.run(*words)
    assert done.code == 0, done.err
    assert "requests per step: 16 (a plain run: 1): 8 decisions, 8 to choose" in done.out
    assert "at most: 242 requests, 80 of them decisions" in done.out
    assert folder.run(*words, "--json").json["multiple"] == 16
    assert folder.run("runs", "--json").json == []


@pytest.mark.long
def test_an_answer_is_refined_as_the_command_says(folder: Folder) -> None:
    words = ["run", QUESTION, "--system", "direct"]
    plain = folder.run(*words, "--dry-run", "--json").json["requests_at_most"]
    refined = folder.run(*words, "--refine", "reflect", "--rounds", "2", "--dry-run", "--json").json
    assert refined["requests_at_most"] - plain == 2 * 2 * 2  # each is asked twice at most
    wrong = folder.run(*words, "--rounds", "2")
    assert wrong.code == 2 and "parts.rounds = 2, and nothing is refined; set parts.refine" in wrong.err
    assert folder.run("runs", "--json").json == []
    assert folder.run(*words, "--refine", "textgrad").code == 0
    run = folder.run("runs", "--json").json[0]["run_id"]
    parts = folder.run("show", run, "--json").json["run"]["manifest"]["parts"]
    assert (parts["refine"], parts["rounds"]) == ("textgrad", None)


def test_options_reach_the_manifest(folder: Folder) -> None:
    words = ["--system", "react", "--model", "offline", "--max-steps", "7", "--timeout-s", "50"]
    done = folder.run("run", QUESTION, *words, "--on-ask", "deny", "--on-uncertain", "retry")
    assert done.code in (0, 3)
    manifest = folder.assert_readable()["run"]["manifest"]
    assert manifest["task"] == QUESTION
    assert (manifest["system"], manifest["model"], manifest["max_steps"]) == ("react", "offline", 7)
    assert manifest["budget"]["active_s"] == 50
    assert (manifest["on_ask"], manifest["on_uncertain"]) == ("deny", "retry")


@pytest.mark.long
def test_the_workspace_is_where_it_is_told(folder: Folder) -> None:
    elsewhere = folder.path / "else where"
    assert folder.run("run", QUESTION, "-f", "lease.txt", "--workspace", elsewhere).code == 0
    assert not folder.workspace.exists()
    assert folder.ids() == []
    listed = folder.run("runs", "--json", env={"AGENTORCHESTRA_WORKSPACE": str(elsewhere)})
    assert len(listed.json) == 1


def test_runs_lists_the_newest_first(folder: Folder) -> None:
    for task in ("first task", "second task\nwith a line"):
        folder.run("run", task, "-f", "lease.txt")
    rows = folder.run("runs", "--json").json
    assert [row["task"] for row in rows] == ["second task\nwith a line", "first task"]
    assert set(rows[0]) == {
        "run_id",
        "status",
        "queued",
        "abandoned",
        "created",
        "task",
        "system",
        "model",
        "files",
        "labels",
        "session",
        "parent_run",
        "previous",
        "until",
    }
    assert [row["run_id"] for row in folder.run("runs", "--json", "--limit", "1").json] == [rows[0]["run_id"]]
    plain = folder.run("runs")
    assert [line.split()[0] for line in plain.out.splitlines()] == [row["run_id"] for row in rows]
    assert plain.out.splitlines()[0].endswith("second task with a line")


def test_reading_makes_no_workspace(folder: Folder) -> None:
    listed = folder.run("runs", "--json")
    assert (listed.code, listed.json, listed.err) == (0, [], "")
    plain = folder.run("runs")
    assert (plain.code, plain.out) == (0, "")
    assert "no runs in .agentorchestra yet" in plain.err
    for words in (
        ["show", "last"],
        ["answer", "last", "x"],
        ["approve", "last"],
        ["deny", "last"],
        ["resume", "last"],
        ["replay", "last"],
        ["cancel", "last"],
        ["tell", "last", "x"],
    ):
        done = folder.run(*words)
        assert done.code == 2
        assert done.error == (
            "there is no run 'last': .agentorchestra holds no workspace yet; start a run with "
            '`agentorchestra run "..."`, or name the workspace with --workspace'
        )
    assert folder.run("doctor").code == 0
    assert sorted(path.name for path in folder.path.iterdir()) == ["lease.txt"]


def test_a_run_is_named_by_the_beginning_of_its_id(folder: Folder) -> None:
    for _ in range(2):
        folder.run("run", QUESTION, "-f", "lease.txt")
    newest, older = folder.ids()
    assert older[:8] == newest[:8]
    for name in (older, older.removeprefix("run_"), older[:-1], older.lower()):
        assert folder.run("show", name).out.startswith(older), name
    assert folder.run("show", "last").out.startswith(newest)
    for word, sentence in (
        (older[:8], f"{older[:8]!r} is the beginning of 2 runs in the workspace .agentorchestra"),
        ("run_", "no run 'run_' in the workspace .agentorchestra; `agentorchestra runs` lists them"),
        ("run_0NOPE", "no run 'run_0NOPE' in the workspace .agentorchestra; `agentorchestra runs` lists them"),
    ):
        done = folder.run("show", word)
        assert done.code == 2
        assert sentence in done.error


def test_show_is_the_tree_of_effects(folder: Folder) -> None:
    folder.run("run", QUESTION, "-f", "lease.txt")
    shown = folder.run("show", "last", "--effects")
    assert shown.code == 0
    lines = shown.out.splitlines()
    (top,) = [line for line in lines if line.startswith("/#1 ")]
    assert f"agent agentorchestra: {QUESTION}  ok" in top
    assert "tokens" in top
    inner = [line for line in lines if line.startswith("  /1.agentorchestra#")]
    assert any("model offline (decision)  ok" in line and "tokens" in line for line in inner)
    assert any(f"agent deep_analyzer: {QUESTION}  ok" in line for line in inner)
    assert any(line.startswith("    /1.agentorchestra/") and "files_in_view(" in line for line in lines)
    assert any(line.startswith("answer: ") for line in lines)
    assert any(line.startswith("completed, run_") for line in lines)
    found = folder.assert_readable()
    assert set(found) == {"run", "result", "questions", "events", "abandoned", "folder", "conversation"}
    assert found["folder"] is None
    assert found["abandoned"] is False
    assert set(found["result"]) == FIELDS
    assert found["run"]["status"] == "completed"
    assert found["events"][0]["type"] == "run_created"


def test_replay_is_identical_until_a_prompt_changes(folder: Folder) -> None:
    folder.run("run", QUESTION, "-f", "lease.txt")
    keys = len({(e["branch"], e["n"]) for e in folder.assert_readable()["events"] if e["branch"]})
    done = folder.run("replay", "last")
    assert (done.code, done.err) == (0, "")
    assert done.out == f"identical: {keys} keys of {folder.ids()[0]} (completed)\n"
    found = folder.run("replay", "last", "--json").json
    assert (found["identical"], found["keys"], found["status"]) == (True, keys, "completed")
    prompts = folder.workspace / "prompts"
    prompts.mkdir()
    packaged = (files("agentorchestra.agents") / "prompts" / "planner.md").read_text(encoding="utf-8")
    (prompts / "planner.md").write_text(packaged + "\nBe brief.\n", encoding="utf-8")
    changed = folder.run("replay", "last", "--json")
    assert changed.code == 1
    assert changed.error.startswith("the run diverged at /1.agentorchestra#3: ")
    assert changed.json["error_type"] == "DivergedError"
    assert changed.json["status"] == "failed"
    folder.assert_readable()


@pytest.mark.long
def test_resume_of_an_ended_run_prints_its_result_again(folder: Folder) -> None:
    first = folder.run("run", QUESTION, "-f", "lease.txt", "--json").json
    events = folder.assert_readable()["events"]
    again = folder.run("resume", "last", "--json")
    assert again.code == 0
    assert again.json == first
    assert folder.assert_readable()["events"] == events


@pytest.mark.long
def test_limits_end_with_a_status_and_can_be_raised(app: Folder) -> None:
    done = app.run("run", "PLAN nap", "--timeout-s", "0.5", "--json")
    assert done.code == 3
    assert done.json["status"] == "timed_out"
    app.assert_readable()
    more = app.run("resume", "last", "--timeout-s", "100", "--json")
    assert more.code == 0
    assert more.json["run_id"] == done.json["run_id"]
    assert more.json["answer"] == "The tools said: slept"


def test_the_default_budget_is_printed_for_a_model_with_a_price(app: Folder) -> None:
    source = (app.path / "app.py").read_text()
    source = source.replace("ScriptedModel(script)", "ScriptedModel(script, price=Price(input=1, output=2))")
    app.write(
        "app.py",
        source.replace(
            "\nfrom agentorchestra", "\nfrom agentorchestra.core.settings import Price\nfrom agentorchestra", 1
        ),
    )
    done = app.run("run", "PLAN escape")
    assert done.code == 0
    assert "budget: 1 US dollar by default for scripted; --budget-usd changes it" in done.err
    assert ", $0.0" in done.status
    assert "budget:" not in app.run("run", "PLAN escape", "--budget-usd", "0.5").err
    manifest = app.assert_readable()["run"]["manifest"]
    assert manifest["budget"]["cost_usd"] == 0.5
    small = app.run("run", "PLAN escape", "--budget-usd", "0.000001", "--json")
    assert small.code == 3
    assert small.json["status"] == "budget_exhausted"
    larger = app.run("resume", "last", "--budget-usd", "1", "--json")
    assert (larger.code, larger.json["status"]) == (0, "completed")
    assert 0 < larger.json["cost_usd"] < 1


def test_what_a_model_writes_cannot_steer_the_terminal(app: Folder) -> None:
    done = app.run("run", "PLAN escape")
    assert done.code == 0
    assert done.out.splitlines()[0] == "red [31mtext"
    assert "\x1b" not in done.err
    assert "red \x1b[31mtext\x07" in app.run("resume", "last", "--json").json["answer"]


@pytest.mark.parametrize("words", [["run", QUESTION, "-f", "lease.txt"], ["runs"], ["show", "last"], ["--help"]])
@pytest.mark.long
def test_a_reader_that_went_away_is_no_error(folder: Folder, words: list[str]) -> None:
    folder.run("run", QUESTION, "-f", "lease.txt")
    with folder.start(*words) as started:
        assert started.process.stdout is not None
        started.process.stdout.close()
        started.process.stdout = None
        done = started.end()
    assert done.code == (1 if words == ["--help"] else 0)  # help is click's
    assert "error" not in done.err
    assert "BrokenPipe" not in done.err


@pytest.mark.long
def test_closed_streams_are_no_error(folder: Folder) -> None:
    def close_all() -> None:
        for descriptor in (0, 1, 2):
            os.close(descriptor)

    with folder.start("run", QUESTION, "-f", "lease.txt", preexec_fn=close_all) as started:
        assert started.end().code == 0
    assert folder.assert_readable()["run"]["status"] == "completed"


def test_a_full_disk_behind_stdout_is_said(folder: Folder) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with Path("/dev/full").open("w") as full:
        done = folder.run("run", QUESTION, "-f", "lease.txt", stdout=full)
    assert done.code == 1
    assert "standard output cannot be written" in done.error
    assert folder.assert_readable()["run"]["status"] == "completed"


@pytest.mark.long
def test_output_for_a_terminal_without_unicode(folder: Folder) -> None:
    env = {"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    done = folder.run("run", "Wie hoch ist die Miete? äöü 😀", "-f", "lease.txt", env=env, cold=True)
    assert done.code in (0, 3)
    listed = folder.run("runs", "--json", env=env, cold=True)
    assert listed.json[0]["task"] == "Wie hoch ist die Miete? äöü 😀"
    assert listed.out.isascii()


def test_stdout_is_the_answer_alone_for_scripts(folder: Folder) -> None:
    script = 'python="$1"; shift; "$python" -m agentorchestra "$@" 2>/dev/null | head -n 1'
    done = subprocess.run(
        ["sh", "-c", script, "sh", sys.executable, "run", QUESTION, "-f", "lease.txt"],
        cwd=folder.path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "three months" in done.stdout
    assert len(done.stdout.splitlines()) == 1


def test_an_environment_is_given_and_what_it_made_is_found(folder: Folder) -> None:
    done = folder.run("run", 'call files_write(path="notes/a.txt", content="hello")', "--environment", "files")
    assert done.code == 0
    (run_id,) = folder.ids()
    made = f".agentorchestra/runs/{run_id}/environments/main/folder"
    assert done.err.endswith(f"1 file in agentorchestra-out/{run_id}: notes/a.txt\n")
    assert (folder.path / made / "notes/a.txt").read_text() == "hello"
    shown = folder.run("show", run_id)
    assert f"folder: {made}\n" in shown.out
    assert "made: notes/a.txt (5 bytes)\n" in shown.out
    wrong = folder.run("run", "x", "--environment", "nope")
    known = "no environment 'nope'; there are: browser, computer, files, git"
    assert wrong.code == 2 and known in wrong.err
