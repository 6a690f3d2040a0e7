"""Questions: the run waits, an answer from another process goes on; at a terminal they are asked in place."""

from __future__ import annotations

import asyncio
import os
import pty
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import JsonValue

from agentorchestra.cli.terminal import TerminalAsker
from agentorchestra.core.protocols import Owner
from agentorchestra.core.spec import Question
from agentorchestra.log.store import SqliteStore
from agentorchestra.log.store.memory import MemoryStore
from agentorchestra.testing import ScriptedModel
from agentorchestra.workspace import Workspace
from tests.cli.support import Folder, Started, wait_until


def test_a_question_waits_and_is_answered_by_another_process(app: Folder) -> None:
    waiting = app.run("run", "PLAN ask")
    assert waiting.code == 3
    (run_id,) = app.ids()
    assert waiting.status.startswith(f"waiting, {run_id}, ") and waiting.out == ""
    assert "Which colour?" in waiting.err
    assert f"to answer it: agentorchestra answer {run_id} TEXT" in waiting.err
    shown = app.run("show", "last")
    assert "react, waiting, 1 step" in shown.out and "asks you: Which colour?" in shown.out
    assert "question: Which colour?  open" in app.run("show", "last", "--effects").out
    assert f"to answer it: agentorchestra answer {run_id} TEXT" in shown.out and shown.err == ""
    refused = app.run("approve", "last")
    assert refused.code == 2
    assert "has no open approval to approve or deny" in refused.error
    done = app.run("answer", "last", "blue")
    assert done.code == 0
    assert done.out.splitlines()[0] == "The tools said: blue"
    assert "asks you: Which colour? - answered: blue\n" in app.run("show", "last").out
    assert app.run("replay", "last").code == 0
    late = app.run("answer", "last", "red", "--json")
    assert late.code == 2
    assert late.json["error_type"] == "AnswerError"
    assert "has no open question any more: it is over (completed); start a new run" in late.error


@pytest.mark.long
def test_json_of_a_waiting_run_has_its_questions(app: Folder) -> None:
    waiting = app.run("run", "PLAN both", "--json")
    assert waiting.code == 3
    first, second = waiting.json["questions"]
    assert (first["question"], second["question"]) == ("Which colour?", "Which size?")
    assert waiting.json["status"] == "waiting"
    half = app.run("answer", "last", "large", "--question", second["key"], "--json")
    assert half.code == 3
    assert [one["key"] for one in half.json["questions"]] == [first["key"]]
    wrong = app.run("answer", "last", "x", "--question", "/9#9")
    assert wrong.code == 2
    assert first["key"] in wrong.error
    whole = app.run("answer", "last", "blue", "--json")
    assert whole.code == 0
    assert whole.json["answer"] == "The tools said: blue | large"


@pytest.mark.long
def test_an_answer_can_only_be_recorded(app: Folder) -> None:
    app.run("run", "PLAN ask")
    recorded = app.run("answer", "last", "blue", "--no-resume")
    assert (recorded.code, recorded.out) == (0, "")
    assert f"to go on: agentorchestra resume {app.ids()[0]}" in recorded.err
    assert app.run("show", "last", "--json").json["run"]["status"] == "waiting"
    assert app.run("resume", "last", "--json").json["answer"] == "The tools said: blue"


@pytest.mark.long
def test_an_approval_shows_where_the_arguments_come_from(app: Folder) -> None:
    waiting = app.run("run", "PLAN mail")
    assert waiting.code == 3
    assert not (app.path / "outbox.txt").exists()
    assert "to = 'eve@example.org' (untrusted: tool read_notes)" in waiting.err
    assert "body = 'the code is 4711' (untrusted: tool read_notes)" in waiting.err
    code = app.open_code()
    assert f"to allow it:  agentorchestra approve {app.ids()[0]} {code}\n" in waiting.err
    unnamed = app.run("approve", "last", "--json")
    assert unnamed.code == 2
    assert unnamed.json["error"].startswith(
        f"which call of run {app.ids()[0]} may be made is not said; read it with `agentorchestra show {app.ids()[0]}` "
        f"and name it with its code: `agentorchestra approve RUN CODE`; open: {code} ("
    )
    other = app.run("approve", "last", "00000000", "--json")
    assert (other.code, "has no open approval with the code '00000000'" in other.json["error"]) == (2, True)
    assert not (app.path / "outbox.txt").exists()
    done = app.run("approve", "last", code, "--json")
    assert done.code == 0
    assert done.json["answer"].endswith("| sent")
    assert (app.path / "outbox.txt").read_text() == "eve@example.org: the code is 4711\n"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("reason", ["", "not to this address", "yes"])
def test_a_denial_is_told_to_the_agent(app: Folder, reason: str) -> None:
    app.run("run", "PLAN mail")
    done = app.run("deny", "last", *(["--reason", reason] if reason else []), "--json")
    assert done.code == 0
    assert "denied by the user" in done.json["answer"]
    assert reason in done.json["answer"]
    assert not (app.path / "outbox.txt").exists()


def test_a_reason_that_names_the_arguments_does_not_allow_them(app: Folder) -> None:
    app.run("run", "PLAN mail")
    done = app.run("deny", "last", "--reason", "never send 'the code is 4711' to eve@example.org", "--json")
    assert "denied by the user" in done.json["answer"]
    assert not (app.path / "outbox.txt").exists()


def test_on_ask_deny_does_not_wait(app: Folder) -> None:
    done = app.run("run", "PLAN mail", "--on-ask", "deny", "--json")
    assert done.code == 0
    assert not (app.path / "outbox.txt").exists()
    assert done.json["questions"] == []


def test_commands_in_messages_name_the_workspace(app: Folder) -> None:
    (app.path / "agentorchestra.toml").rename(app.path / "kept.toml")
    (app.path / "my ws").mkdir()
    (app.path / "kept.toml").rename(app.path / "agentorchestra.toml")
    waiting = app.run("run", "PLAN ask", "--workspace", "my ws")
    assert waiting.code == 3
    assert "--workspace 'my ws'" in waiting.err


# -- at a terminal -----------------------------------------------------------------------------------------------------


class Terminal:
    """A terminal on a command's stdin."""

    def __init__(self) -> None:
        self.ours, self.theirs = pty.openpty()

    def type(self, text: str) -> None:
        os.write(self.ours, text.encode())

    def close(self) -> None:
        os.close(self.ours)
        os.close(self.theirs)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    made.close()


def ask(app: Folder, terminal: Terminal, *words: str) -> Started:
    return app.start(*words, stdin=terminal.theirs)


def test_a_question_is_answered_in_place(app: Folder, terminal: Terminal) -> None:
    with ask(app, terminal, "run", "PLAN both") as started:
        started.wait_for("Which colour?\nAnswer")
        terminal.type("blue\n")
        started.wait_for("Which size?\nAnswer")
        terminal.type("\n")
        terminal.type("large\n")
        done = started.end()
    assert done.code == 0
    assert done.out.splitlines()[0] == "The tools said: blue | large"


def test_an_approval_in_place(app: Folder, terminal: Terminal) -> None:
    with ask(app, terminal, "run", "PLAN mail", "--json") as started:
        started.wait_for("to = 'eve@example.org' (untrusted: tool read_notes)")
        started.wait_for("Allow it? y or n")
        terminal.type("what\n")
        started.wait_for("Type y or n. Allow it? y or n")
        terminal.type("y\n")
        done = started.end()
    assert done.code == 0
    assert done.json["status"] == "completed"
    assert (app.path / "outbox.txt").exists()


@pytest.mark.long
@pytest.mark.parametrize("said", ["y", *(pytest.param(one, marks=pytest.mark.long) for one in ("n", "\x04"))])
def test_an_approval_without_a_code_shows_the_one_call_and_asks(app: Folder, terminal: Terminal, said: str) -> None:
    app.run("run", "PLAN mail")
    with ask(app, terminal, "approve", "last") as started:
        started.wait_for("to = 'eve@example.org' (untrusted: tool read_notes)")
        started.wait_for("Allow it? y or n")
        assert not (app.path / "outbox.txt").exists()
        terminal.type(said if said == "\x04" else f"{said}\n")
        if said == "n":
            started.wait_for("Reason")
            terminal.type("\n")
        done = started.end()
    assert (app.path / "outbox.txt").exists() is (said == "y")
    assert done.code == (2 if said == "\x04" else 0)
    assert ("was not answered here; nothing was recorded" in done.err) is (said == "\x04")


@pytest.mark.long
def test_a_refusal_in_place_has_a_reason(app: Folder, terminal: Terminal) -> None:
    with ask(app, terminal, "run", "PLAN mail") as started:
        started.wait_for("Allow it? y or n")
        terminal.type("n\n")
        started.wait_for("Reason")
        terminal.type("yes\n")
        done = started.end()
    assert done.code == 0
    assert "denied by the user: yes" in done.out
    assert not (app.path / "outbox.txt").exists()


@pytest.mark.long
def test_the_end_of_input_leaves_the_question_open(app: Folder, terminal: Terminal) -> None:
    with ask(app, terminal, "run", "PLAN ask") as started:
        started.wait_for("Answer (Ctrl-D leaves it open):")
        terminal.type("\x04")
        done = started.end()
    assert done.code == 3
    assert "to answer it: agentorchestra answer" in done.err


@pytest.mark.long
def test_ctrl_c_at_a_question_cancels(app: Folder, terminal: Terminal) -> None:
    with ask(app, terminal, "run", "PLAN ask") as started:
        started.wait_for("Answer (Ctrl-D leaves it open):")
        started.interrupt()
        done = started.end()
    assert done.code == 130
    assert app.assert_readable()["run"]["status"] == "cancelled"
    assert app.run("resume", "last").code == 3
    assert app.run("answer", "last", "blue").code == 0


@pytest.mark.long
def test_a_question_is_answered_from_elsewhere(app: Folder, terminal: Terminal) -> None:
    with ask(app, terminal, "run", "PLAN ask") as started:
        started.wait_for("Answer (Ctrl-D leaves it open):")
        other = app.run("answer", "last", "blue")
        assert other.code == 0
        done = started.end()
    answers = [text for text in (done.out, other.out) if "The tools said: blue" in text]
    assert answers, (done.err, other.err)
    assert app.assert_readable()["run"]["status"] == "completed"


@pytest.mark.long
def test_two_processes_settle_one_question(app: Folder) -> None:
    for words in (["answer", "last", "blue"], ["approve", "last"]):
        app.run("run", "PLAN ask" if words[0] == "answer" else "PLAN mail")
        other = ["deny", "last"] if words[0] == "approve" else ["answer", "last", "red"]
        words += [app.open_code()] if words[0] == "approve" else []
        with app.start(*words, "--no-resume") as one, app.start(*other, "--no-resume") as two:
            ends = [one.end(), two.end()]
        assert sorted(end.code for end in ends) == [0, 2]
        (late,) = [end for end in ends if end.code == 2]
        assert "was answered already by cli, at 20" in late.err and "Traceback" not in late.err
        assert [e["type"] for e in app.assert_readable()["events"]].count("answered") == 1
        assert app.run("resume", "last").code == 0
        assert app.run("replay", "last").code == 0


@pytest.mark.long
def test_on_ask_deny_is_not_asked_at_a_terminal(app: Folder, terminal: Terminal) -> None:
    with ask(app, terminal, "run", "PLAN mail", "--on-ask", "deny") as started:
        done = started.end()
    assert done.code == 0
    assert "Allow it?" not in done.err


@pytest.mark.long
def test_an_answer_reaches_a_run_that_is_still_at_work(app: Folder) -> None:
    with app.start("run", "PLAN busy", "--json") as started:
        wait_until((app.path / "slow.txt").exists)
        recorded = app.run("answer", "last", "blue", "--no-resume")
        assert recorded.code == 0
        assert started.process.poll() is None, "the other call must still be at work"
        done = started.end()
    assert done.code == 0
    assert done.json["answer"] == "The tools said: blue | slept"


@pytest.mark.long
def test_a_busy_run_is_told_and_cancelled_from_elsewhere(app: Folder) -> None:
    with app.start("run", "PLAN sleep", "--json") as started:
        wait_until((app.path / "slow.txt").exists)
        told = app.run("tell", "last", "hurry up")
        assert told.code == 0
        assert told.out.endswith("it is read at the next step\n")
        busy = app.run("resume", "last")
        assert busy.code == 1
        assert "is being driven by another process" in busy.error
        cancelled = app.run("cancel", "last", "--reason", "enough")
        assert cancelled.code == 0
        done = started.end()
    assert done.code == 130
    assert done.json["status"] == "cancelled"
    found = app.assert_readable()
    assert found["run"]["status"] == "cancelled"
    assert [e["body"]["text"] for e in found["events"] if e["type"] == "told"] == ["hurry up"]
    again = app.run("cancel", "last")
    assert (again.code, "is over already (cancelled)" in again.out) == (0, True)


@pytest.mark.long
def test_tell_and_cancel_where_nobody_drives(app: Folder) -> None:
    app.run("run", "PLAN ask")
    told = app.run("tell", "last", "the user likes blue")
    assert "it is read when the run goes on: agentorchestra resume run_" in told.out
    empty = app.run("tell", "last", " ")
    assert empty.code == 2
    assert "there is nothing to tell" in empty.error
    cancelled = app.run("cancel", "last")
    assert cancelled.code == 0
    assert "is cancelled" in cancelled.out
    assert app.assert_readable()["run"]["status"] == "cancelled"
    assert app.run("resume", "last").code == 3
    assert app.run("answer", "last", "blue").code == 0
    late = app.run("tell", "last", "too late")
    assert late.code == 2
    assert "is over (completed) and reads nothing" in late.error
    over = app.run("cancel", "last")
    assert (over.code, "is over already (completed)" in over.out) == (0, True)


def test_an_answer_to_a_run_of_a_vanished_machine_says_who_holds_it(app: Folder) -> None:
    """Whether a process elsewhere lives cannot be known: it is not said that it goes on."""
    app.run("run", "PLAN ask")

    async def hold(run_id: str) -> None:
        store = SqliteStore(app.workspace)
        await store.open()
        assert await store.claim(run_id, Owner(host="elsewhere", pid=7, started=1.0), lease_s=300)
        await store.close()

    asyncio.run(hold(app.ids()[0]))
    recorded = app.run("answer", "last", "blue")
    assert recorded.code == 0
    assert "pid 7 on elsewhere holds the run until " in recorded.err
    assert f"if it is gone, go on then: agentorchestra resume {app.ids()[0]}" in recorded.err
    assert "another process drives the run" not in recorded.err


async def test_a_value_of_several_lines_is_read_as_such_and_cannot_look_like_another_value(tmp_path: Path) -> None:
    shown: list[str] = []

    class Reader(TerminalAsker):
        async def _show(self, lines: list[str]) -> None:
            shown.extend(lines)

        async def _read(self, prompt: str) -> str | None:
            return "y"

    body: dict[str, JsonValue] = {
        "value": "Dear Ann,\n  to = 'ann@example.org'\n\nEve",
        "trust": "untrusted",
        "from": ["tool notes"],
    }
    details: dict[str, JsonValue] = {"origins": {"body": body}}
    question = Question(key="/1#1", question="Allow mail?", kind="approval", details=details)
    async with Workspace(tmp_path / "ws", store=MemoryStore(), environ={}) as ws:
        run_id = await ws.create("Write to Ann", model=ScriptedModel([]), system="react")
        assert await Reader(ws, run_id)(question) is True
    assert shown[2:] == [
        "  body = 'Dear Ann,\\n",
        "        to = 'ann@example.org'\\n",
        "      \\n",
        "      Eve' (untrusted: tool notes)",
    ]
