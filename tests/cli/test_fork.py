"""`fork`, `compare` and `--pin` at the command line."""

from __future__ import annotations

import pytest

from tests.cli.support import Folder


def _parent(app: Folder) -> str:
    assert app.run("run", "PLAN ask").code == 3
    assert app.run("answer", "last", "blue").code == 0
    (run_id,) = app.ids()
    return run_id


def test_a_fork_goes_on_from_an_event_and_is_shown(app: Folder) -> None:
    parent = _parent(app)
    events = app.run("show", parent, "--json").json["events"]
    asked = next(e for e in events if e["type"] == "completed" and e["branch"].endswith("ask_user"))
    key = f"{asked['branch']}#{asked['n']}"
    done = app.run("fork", parent, "--at", key)
    assert done.code == 0
    assert done.out.splitlines()[0] == "The tools said: blue"
    fork = next(one for one in app.ids() if one != parent)
    assert f"run {fork}, forked from {parent}" in done.err
    shown = app.run("show", fork)
    assert f"forked from {parent} at event {asked['seq']} (changed: nothing)" in shown.out
    assert "what stands before was done and paid by it" in shown.out
    assert app.run("replay", fork).code == 0
    listed = {one["run_id"]: one for one in app.run("runs", "--json").json}
    assert (listed[fork]["parent_run"], listed[parent]["parent_run"]) == (parent, None)
    same = app.run("compare", parent, fork)
    assert same.code == 0
    assert same.out.splitlines()[-1].startswith("equal: ")


@pytest.mark.long
def test_another_answer_parts_the_runs(app: Folder) -> None:
    parent = _parent(app)
    events = app.run("show", parent, "--json").json["events"]
    asked = next(e for e in events if e["type"] == "completed" and e["branch"].endswith("ask_user"))
    key = f"{asked['branch']}#{asked['n']}"
    done = app.run("fork", parent, "--at", key, "--set", f'outcome:{key}="red"', "--json")
    assert done.code == 0
    assert done.json["answer"] == "The tools said: red"
    found = app.run("compare", parent, done.json["run_id"])
    assert found.code == 1
    lines = found.out.splitlines()
    assert lines[0].endswith(f"(changed: outcome:{key})")
    assert f"alike, then at {key}: AskHuman human was asked the same and gave something else" in lines[1]
    assert {"    -blue", "    +red"} <= set(lines)
    assert "  answer: The tools said: red" in lines
    as_json = app.run("compare", parent, done.json["run_id"], "--json")
    assert as_json.code == 1
    assert as_json.json["difference"]["key"] == key


@pytest.mark.long
def test_a_fork_can_be_made_and_driven_later(app: Folder) -> None:
    parent = _parent(app)
    made = app.run("fork", parent, "--at", "2", "--no-resume", "--json")
    assert made.code == 0
    fork = made.json["run_id"]
    waits = app.run("resume", fork)
    assert waits.code == 3
    assert app.run("answer", fork, "green").out.splitlines()[0] == "The tools said: green"
    end = app.run("fork", parent, "--at", "end")
    assert end.out.splitlines()[0] == "The tools said: blue"


@pytest.mark.long
def test_what_cannot_be_changed_is_refused_in_a_sentence(app: Folder) -> None:
    parent = _parent(app)
    for arguments, sentence in (
        (["--at", "999"], "has the events 1 to"),
        (["--at", "/1.react#99"], "no recorded effect '/1.react#99'"),
        (["--at", "3", "--set", "system=owl"], "cannot be changed in a fork; what can: prompt:NAME=FILE"),
        (["--at", "3", "--set", "tool:send_mail=x"], "cannot be changed in a fork"),
        (["--at", "3", "--set", "prompt:react=missing.md"], "cannot be read"),
        (["--at", "3", "--set", "prompt:nobody=missing.md"], "no prompt 'nobody'"),
        (["--at", "3", "--set", "outcome:/1.react#1=yes"], "is not JSON"),
        (["--at", "3", "--model", "nobody"], "nobody"),
        (["--at", "3", "--set", "role:planner=x", "--set", "role:planner=y"], "given twice"),
    ):
        refused = app.run("fork", parent, *arguments)
        assert refused.code == 2, arguments
        assert sentence in refused.error
        assert "Traceback" not in refused.err
    assert app.ids() == [parent]
    assert app.run("compare", parent, "run_nobody").code == 2


def test_pin_takes_the_prompts_a_run_was_started_with(app: Folder) -> None:
    runs = []
    for _ in range(2):
        assert app.run("run", "PLAN ask").code == 3
        runs.append(app.ids()[0])
    assert len({*runs}) == 2
    prompts = app.workspace / "prompts"
    prompts.mkdir()
    from agentorchestra.workspace import packaged_prompts

    source = next(folder / "react.md" for folder in packaged_prompts() if (folder / "react.md").is_file())
    (prompts / "react.md").write_text(source.read_text(encoding="utf-8") + "\nBe brief.\n", encoding="utf-8")
    diverged = app.run("replay", runs[0])
    assert diverged.code == 1
    assert "message 0 (system) changed" in diverged.err
    todays = app.run("answer", runs[0], "blue")
    assert (todays.code, todays.out.splitlines()[0]) == (0, "The tools said: blue")
    assert "what is recorded holds: the request to scripted differs" in app.run("show", runs[0]).out
    assert app.run("replay", runs[0]).code == 0
    assert app.run("answer", runs[1], "blue", "--no-resume").code == 0
    pinned = app.run("resume", runs[1], "--pin")
    assert (pinned.code, pinned.out.splitlines()[0]) == (0, "The tools said: blue")
    assert app.run("replay", runs[1], "--pin").code == 0
