"""`pause`: from another process, of a run that waits, of one that is over; `answer` and `resume` after it."""

from __future__ import annotations

from tests.cli.support import Folder, wait_until


def test_a_busy_run_is_paused_from_elsewhere_and_goes_on(app: Folder) -> None:
    app.hold()
    with app.start("run", "PLAN nap", "--json") as started:
        wait_until((app.path / "slow.txt").exists)
        paused = app.run("pause", "last", "--reason", "lunch")
        assert paused.code == 0
        assert "was asked to pause: it ends what is under way first" in paused.out
        app.let_go()
        done = started.end()
    assert (done.code, done.json["status"]) == (3, "paused")
    found = app.assert_readable()
    assert found["run"]["status"] == "paused"
    assert [e["body"]["reason"] for e in found["events"] if e["type"] == "pause_requested"] == ["lunch"]
    assert "paused" in app.run("runs").out
    again = app.run("pause", "last")
    assert (again.code, "is paused already; to go on: agentorchestra resume run_" in again.out) == (0, True)
    (app.path / "slow.txt").unlink()
    resumed = app.run("resume", "last", "--json")
    assert (resumed.code, resumed.json["answer"]) == (0, "The tools said: slept")
    assert not (app.path / "slow.txt").exists(), "what had ended before the pause is not done again"
    assert app.run("replay", "last").code == 0
    over = app.run("pause", "last")
    assert (over.code, "is over already (completed); nothing was changed" in over.out) == (0, True)


def test_a_paused_question_waits_for_the_resume(app: Folder) -> None:
    app.run("run", "PLAN ask")
    paused = app.run("pause", "last")
    assert (paused.code, "is paused; to go on: agentorchestra resume run_" in paused.out) == (0, True)
    shown = app.run("show", "last")
    assert "paused" in shown.out
    assert "to answer it: agentorchestra answer run_" in shown.err
    answered = app.run("answer", "last", "blue")
    assert (answered.code, "the run stays paused; to go on: agentorchestra resume run_" in answered.err) == (0, True)
    assert app.assert_readable()["run"]["status"] == "paused"
    done = app.run("resume", "last")
    assert (done.code, "The tools said: blue" in done.out) == (0, True)


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
