"""`pause`: from another process, of a run that waits, of one that is over; `answer` and `resume` after it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.support import Folder, wait_until
from tests.support.cli_pause import GATE, SETTINGS


def _passes(event: dict[str, Any]) -> bool:
    return str(event["body"]["effect"].get("component", "")).startswith("pass_gate@")


@pytest.mark.long
def test_a_busy_run_is_paused_from_elsewhere_and_goes_on(folder: Folder) -> None:
    folder.write("app.py", GATE)
    folder.write("agentorchestra.toml", SETTINGS + "max_steps = 100000\n")
    with folder.start("run", "Pass.", "--json") as started:
        wait_until((folder.path / "reached.txt").exists)
        paused = folder.run("pause", "last", "--reason", "lunch")
        assert paused.code == 0
        assert "was asked to pause: it ends what is under way first" in paused.out
        assert started.process.poll() is None
        folder.write("open.txt", "")  # from here on it would go on and on
        done = started.end()
    assert (done.code, done.json["status"]) == (3, "paused")
    found = folder.assert_readable()
    assert found["run"]["status"] == "paused"
    assert [e["body"]["reason"] for e in found["events"] if e["type"] == "pause_requested"] == ["lunch"]
    assert "paused" in folder.run("runs").out
    again = folder.run("pause", "last")
    assert (again.code, "is paused already; to go on: agentorchestra resume run_" in again.out) == (0, True)
    passed = len((folder.path / "reached.txt").read_text())
    folder.write("finish.txt", "")
    resumed = folder.run("resume", "last", "--json")
    # What was decided before the pause and not begun is done now; what had ended is not done again.
    in_all = len((folder.path / "reached.txt").read_text())
    assert (resumed.code, resumed.json["answer"]) == (0, f"passed {in_all} times")
    assert in_all - passed in (0, 1)
    called = [e["span"] for e in folder.assert_readable()["events"] if e["type"] == "started" and _passes(e)]
    assert len(called) == len(set(called)) == in_all
    over = folder.run("pause", "last")
    assert (over.code, "is over already (completed); nothing was changed" in over.out) == (0, True)


def test_a_paused_question_waits_for_the_resume(app: Folder) -> None:
    app.run("run", "PLAN ask")
    paused = app.run("pause", "last")
    assert (paused.code, "is paused; to go on: agentorchestra resume run_" in paused.out) == (0, True)
    shown = app.run("show", "last")
    assert "paused" in shown.out
    assert "to answer it: agentorchestra answer run_" in shown.out
    answered = app.run("answer", "last", "blue")
    assert (answered.code, "the run stays paused; to go on: agentorchestra resume run_" in answered.err) == (0, True)
    assert app.assert_readable()["run"]["status"] == "paused"
    done = app.run("resume", "last")
    assert (done.code, "The tools said: blue" in done.out) == (0, True)


@pytest.mark.long
def test_an_answer_does_not_start_a_cancelled_run(app: Folder) -> None:
    app.run("run", "PLAN ask")
    assert app.run("cancel", "last").code == 0
    paused = app.run("pause", "last")
    assert "is not under way (cancelled); nothing was changed; to go on: agentorchestra resume" in paused.out
    answered = app.run("answer", "last", "blue")
    assert "the run stays cancelled; to go on: agentorchestra resume" in answered.err
    assert app.run("resume", "last").code == 0


def test_a_run_that_does_not_exist(app: Folder) -> None:
    missing = app.run("pause", "run_x")
    assert missing.code == 2
    assert "Traceback" not in missing.err


MAIL = '''
from agentorchestra import RunContext, Workspace, tool
from agentorchestra.testing import ScriptedModel, call


@tool(effect="composite")
async def await_mail(ctx: RunContext[None]) -> str:
    """Wait for mail."""
    return "; ".join(one.content for one in await ctx.wait_for_mail())


def script(request):
    said = [message.text for message in request.messages if message.role == "tool"]
    return call("done", answer=said[0]) if said else call("await_mail")


def workspace():
    return Workspace(tools=[await_mail], models={"scripted": ScriptedModel(script, name="scripted")})
'''


@pytest.mark.long
def test_mail_from_another_process_starts_the_run_again(folder: Folder) -> None:
    folder.write("app.py", MAIL)
    folder.write("agentorchestra.toml", SETTINGS)
    waiting = folder.run("run", "Wait.")
    assert (waiting.code, "the run waits: react waits for mail from outside" in waiting.err) == (3, True)
    wrong = folder.run("tell", "last", "hello", "--to", "bob")
    assert (wrong.code, "has no agent 'bob' yet; its agents: react" in wrong.error) == (2, True)
    over = folder.run("tell", "last", "the parcel is here", "--to", "react")
    assert (over.code, over.out.splitlines()[0]) == (0, "the parcel is here")
    assert folder.run("replay", "last").code == 0
    folder.run("run", "Wait.")
    kept = folder.run("tell", "last", "hello", "--to", "react", "--no-resume")
    assert "it is read when the run goes on: agentorchestra resume" in kept.out
    due = folder.run("resume", "--due")
    assert (due.code, due.out.startswith("completed, run_")) == (0, True)
