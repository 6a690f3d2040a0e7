"""`--json`: one object on stdout and nothing else there, of every command that changes something."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from agentorchestra.cli.group import cli
from tests.cli.support import Folder

READING = {
    *(
        "compare",
        "completion",
        "cost",
        "doctor",
        "log",
        "presets list",
        "presets show",
        "runs",
        "sandbox",
        "show",
        "status",
        "tail",
    ),
    *("eval compare", "eval list", "eval report", "evolve diff", "evolve history", "evolve status", "policy try"),
}
"""Commands that change nothing."""

STANDING = {"browser", "chat", "schedule run", "serve", "worker"}
"""Processes that are there until they are stopped, or until somebody leaves the prompt."""

OF_LINES = {"eval export"}
"""Commands that print JSON anyway, a line for each run."""


def every_command(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield " ".join(words), command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from every_command(found, (*words, name))


def test_each_command_that_changes_something_can_print_one_object() -> None:
    commands = dict(every_command(cli))
    assert {*READING, *STANDING, *OF_LINES} <= {*commands}
    lacking = [
        name
        for name, command in commands.items()
        if name not in READING | STANDING | OF_LINES and not any("--json" in one.opts for one in command.params)
    ]
    assert lacking == []


def test_what_runs_are_told_is_one_object(tmp_path: Path) -> None:
    folder = Folder(tmp_path).with_app()
    assert folder.run("run", "PLAN ask").code == 3
    (run,) = folder.ids()
    done = [
        folder.run(*words, "--json").json
        for words in (
            ("tell", run, "Hurry.", "--no-resume"),
            ("pause", run),
            ("pause", run),
            ("cancel", run),
            ("cancel", run),
        )
    ]
    assert [one["status"] for one in done] == ["waiting", "paused", "paused", "cancelled", "cancelled"]
    assert {one["run_id"] for one in done} == {run}
    assert folder.run("backup", "copy", "--json").json == {"path": "copy"}
    assert folder.run("backup", "copy", "--json").json["error_type"] == "BackupError"
    made = folder.run("new", "tool", "count_words", "--folder", "fresh", "--json").json
    assert made["files"][0] == "fresh/count_words.py" and (tmp_path / "fresh" / "app.py").exists()


def test_an_evaluation_and_its_scores_are_one_object_each(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write("questions.jsonl", '{"id": "a", "question": "What is 6 * 7?", "answer": "42"}\n')
    folder.write("agentorchestra.toml", 'model = "offline"\n')
    asked = folder.run(
        "eval", "run", "local", "--data", "questions.jsonl", "--system", "react", "--name", "first", "--json"
    )
    about = {"evaluation": "first", "asked": 1, "failed": 0, "left_out": [], "missing": {}, "refused": {}}
    assert (asked.code, asked.json) == (0, about)
    assert folder.run("eval", "resume", "first", "--json").json == {**about, "asked": 0}
    assert folder.run("eval", "score", "first", "--json").json == {
        "evaluation": "first",
        "answers": {"wrong": 1},  # the offline model says what it is in each answer
    }
    (run,) = folder.ids()
    assert folder.run("evolve", "rate", run, "1", "--json").json == {"run_id": run, "score": 1.0, "canaries": []}
