"""Follow-up questions on the command line."""

from __future__ import annotations

import json

import pytest

from tests.cli.support import Folder

QUESTIONS = ("What is the rent?", "And what is the notice period?")


def test_a_run_is_gone_on_from_by_the_next_one_and_by_name(folder: Folder) -> None:
    first = folder.call("run", QUESTIONS[0], "--file", "lease.txt", "--model", "offline", "--system", "react")
    (run,) = json.loads(folder.call("runs", "--json").out)
    assert f"to ask further: agentorchestra run --continue {run['run_id']} TASK" in first.err
    (folder.path / "lease.txt").unlink()
    second = folder.call("run", "--continue", QUESTIONS[1], "--model", "offline", "--system", "react")
    assert "three months" in second.out
    assert f"to ask further: agentorchestra run --continue {run['run_id']} TASK" in second.err
    third = folder.call(
        "run", "--continue", run["run_id"][:-1], QUESTIONS[0], "--model", "offline", "--system", "react"
    )
    assert "900" in third.out
    turns = json.loads(folder.call("runs", "--session", run["run_id"], "--json").out)
    assert [one["previous"] for one in turns] == [turns[1]["run_id"], run["run_id"], None]
    assert "deleted 3 runs" in folder.call("gc", "--session", run["run_id"], "--grace", "0s").out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("run", "a", "b"), "TASK is 2 arguments; put the whole of it into quotation marks"),
        (("run", "--continue", "a", "b", "--session", "c"), "two sessions: 'a' and --session 'c'"),
        (("run", "--continue", "again?"), "there is no run yet to go on from"),
        (("run", "--continue", "nope", "again?"), "there is no session and no run 'nope' to go on from"),
        (("resume", "last", "--max-steps", "90"), 'agentorchestra run --continue last "Go on" --max-steps 90'),
        (("gc", "--session", "s", "--keep", "1"), "--session erases a session whole"),
    ],
)
def test_wrong_uses_are_one_sentence(folder: Folder, words: tuple[str, ...], sentence: str) -> None:
    result = folder.call(*words)
    assert result.code == 2 and sentence in result.err
