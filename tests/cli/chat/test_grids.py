"""What may come in between: Ctrl-C, Ctrl-D and another size at every moment, long texts, a second chat."""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable

import pytest

from tests.cli.chat.support import ChatFolder, ChatTerminal, outbox
from tests.cli.support import LEASE, wait_until

pytestmark = pytest.mark.long


def at_the_prompt(chats: ChatFolder, chat: ChatTerminal) -> None:
    chat.shows("/help")


def with_a_draft(chats: ChatFolder, chat: ChatTerminal) -> None:
    chat.shows("/help")
    chat.type("a draft")
    chat.shows("> a draft")


def in_a_search(chats: ChatFolder, chat: ChatTerminal) -> None:
    chat.shows("/help")
    chat.type("\x12SA")
    chat.shows("SA")


def when_a_turn_begins(chats: ChatFolder, chat: ChatTerminal) -> None:
    chat.shows("/help")
    chats.hold()
    chat.type("WAIT for it\r")


def in_a_tool(chats: ChatFolder, chat: ChatTerminal) -> None:
    chats.hold()
    chat.says("WAIT for it", "> wait(number=1)")


def with_words_queued(chats: ChatFolder, chat: ChatTerminal) -> None:
    in_a_tool(chats, chat)
    chat.says("hurry up", "queued: hurry up")


def in_an_answer(chats: ChatFolder, chat: ChatTerminal) -> None:
    chats.hold("streams")
    chat.says("SAY something", "Answer 1")


def at_an_approval(chats: ChatFolder, chat: ChatTerminal) -> None:
    chat.says("MAIL her", "Allow mail?", "y or n")


def at_a_question(chats: ChatFolder, chat: ChatTerminal) -> None:
    chat.says("INQUIRE about it", "Which colour?", "Answer (Ctrl-D")


def when_it_pauses(chats: ChatFolder, chat: ChatTerminal) -> None:
    in_a_tool(chats, chat)
    chat.type("\x1b")
    chat.shows("pauses before the next step")


def when_it_waits(chats: ChatFolder, chat: ChatTerminal) -> None:
    at_a_question(chats, chat)
    chat.type("\x04")
    chat.shows("it waits for an answer")


def after_a_turn(chats: ChatFolder, chat: ChatTerminal) -> None:
    chat.says("SAY something", "[1] completed")


MOMENTS = [
    at_the_prompt,
    with_a_draft,
    in_a_search,
    when_a_turn_begins,
    in_a_tool,
    with_words_queued,
    in_an_answer,
    at_an_approval,
    at_a_question,
    when_it_pauses,
    when_it_waits,
    after_a_turn,
]
Moment = Callable[[ChatFolder, ChatTerminal], None]
UNDER_WAY = {when_a_turn_begins, in_a_tool, with_words_queued, in_an_answer, at_an_approval, at_a_question}


def freed(chats: ChatFolder) -> None:
    """Nothing waits any more."""
    for name in ("held", "streams"):
        (chats.path / name).unlink(missing_ok=True)


@pytest.mark.parametrize("moment", MOMENTS)
def test_ctrl_c_stops_a_turn_and_never_the_chat(chats: ChatFolder, moment: Moment) -> None:
    with chats.chat() as chat:
        moment(chats, chat)
        chat.type("\x03")
        if moment in UNDER_WAY | {when_it_pauses, when_it_waits}:
            chat.shows("a message begins the next")
        freed(chats)
        chat.type("\x15")  # what was queued or typed may stand in the line again
        chat.says("SAY at last", "> SAY at last")
        chat.wait(lambda: set(chats.statuses()) <= {"completed", "cancelled"})
        assert chat.leave() == 0
    assert chats.statuses()[-1] == "completed"
    assert not outbox(chats.path)


@pytest.mark.parametrize("moment", MOMENTS)
def test_ctrl_d_leaves_and_the_turn_goes_on_later(chats: ChatFolder, moment: Moment) -> None:
    with chats.chat() as chat:
        moment(chats, chat)
        if moment in (with_a_draft, in_a_search):
            chat.type("\x07\x05\x15")
        if moment in (at_an_approval, at_a_question):
            chat.type("\x04")
            chat.shows("it waits for an answer")
        if moment is when_a_turn_begins:
            chat.wait(lambda: len(chats.statuses()) == 1)
        assert chat.leave() == 0
    assert set(chats.statuses()) <= {"completed", "running", "waiting", "created", "paused"}
    freed(chats)
    if not chats.statuses():
        return
    with chats.chat("chat", "--resume") as chat:
        if moment is at_an_approval:
            chat.says("", "Allow mail?", "y or n")
            chat.says("n", "Reason (may be empty)")
            chat.type("\r")
        if moment in (at_a_question, when_it_waits):
            chat.says("", "Which colour?", "Answer (Ctrl-D")
            chat.type("red\r")
        chat.wait(lambda: chats.statuses() == ["completed"])
        chat.says("SAY at last", "[2] completed")
        assert chat.leave() == 0


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_window_is_closed(chats: ChatFolder, moment: Moment) -> None:
    with chats.chat() as chat:
        moment(chats, chat)
        chat.hang_up()
        chat.process.wait(60)
    assert set(chats.statuses()) <= {"completed", "running", "waiting", "created", "paused"}
    freed(chats)
    assert all(chats.assert_readable(run) for run in chats.ids())


@pytest.mark.parametrize("moment", MOMENTS)
def test_another_size_at_any_moment(chats: ChatFolder, moment: Moment) -> None:
    with chats.chat() as chat:
        moment(chats, chat)
        for columns, lines in ((40, 12), (20, 5), (130, 50), (100, 40)):
            fcntl.ioctl(chat.ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
            chat.process.send_signal(signal.SIGWINCH)
        if moment is at_an_approval:
            chat.says("n", "Reason (may be empty)")
            chat.type("\r")
        if moment is at_a_question:
            chat.type("red\r")
        if moment is when_it_waits:
            chat.says("", "Answer (Ctrl-D")
            chat.type("red\r")
        if moment in (with_a_draft, in_a_search):
            chat.type("\x07\x05\x15")
        freed(chats)
        if moment is when_it_pauses:
            chat.shows("what was done is kept")
            chat.type("\r")
        if moment not in (at_the_prompt, with_a_draft, in_a_search):
            chat.wait(lambda: chats.statuses() == ["completed"])
        chat.says("SAY at last", "> SAY at last")
        chat.wait(lambda: set(chats.statuses()) == {"completed"})
        assert chat.leave() == 0


def test_forty_columns(chats: ChatFolder) -> None:
    with chats.chat(columns=40, lines=14) as chat:
        chat.says('READ @"the lease.txt"', "READ rent 900 euros", "[1] completed")
        chat.says("MAIL her", "y or n")
        chat.says("n", "Reason (may be empty)")
        chat.type("\r")
        chat.shows("[2] completed")
        chats.hold()
        chat.says("WAIT for it", "> wait(number=1)")
        chats.let_go()
        chat.shows("[3] completed")
        assert chat.longest <= 40
        assert chat.leave() == 0


def test_a_paste_of_two_megabytes_becomes_a_file(chats: ChatFolder) -> None:
    with chats.chat() as chat:
        chat.shows("/help")
        chat.type("READ ")
        text = LEASE + "nothing here\n" * 155_000
        chat.paste(text)
        chat.shows('@".agentorchestra/chat/pasted-')
        chat.says("", "[1] completed")
        chat.says("/files", "(2,015,068 bytes), from you")
        assert chat.leave() == 0
    (pasted,) = (chats.workspace / "chat").glob("pasted-*.txt")
    assert pasted.read_text() == text


def test_a_paste_of_several_lines_is_one_message(chats: ChatFolder) -> None:
    with chats.chat() as chat:
        chat.shows("/help")
        chat.paste("SAY this\nand that\r\nand \x1b[31mthe rest")
        chat.shows("and that")
        chat.says("", "Answer 1: SAY", "[1] completed")
        assert chat.leave() == 0
    assert chats.statuses() == ["completed"]


def test_two_chats_on_one_session(chats: ChatFolder) -> None:
    with chats.chat("chat", "--session", "lease") as first, chats.chat("chat", "--session", "lease") as second:
        second.shows("/help")
        chats.hold()
        first.says("WAIT for it", "> wait(number=1)")
        second.says("SAY something", "of the session 'lease' is under way", "> SAY something")
        chats.let_go()
        first.shows("[1] completed")
        second.says("", "[2] completed")
        first.says("SAY more", "the session went on elsewhere meanwhile", "[3] completed")
        assert first.leave() == second.leave() == 0


def test_a_turn_that_another_chat_works_on_is_left_to_it(chats: ChatFolder) -> None:
    with chats.chat() as first:
        in_a_tool(chats, first)
        with chats.chat("chat", "--resume") as second:
            second.shows("is being driven by another process")
            second.type("\x03")
            second.shows("once more leaves")
            second.type("\x03")
            assert second.process.wait(60) == 0
        chats.let_go()
        first.shows("[1] completed")
        assert first.leave() == 0


def test_what_a_model_says_does_not_steer_the_terminal(chats: ChatFolder) -> None:
    with chats.chat() as chat:
        chats.hold("streams")
        chat.says("STEER me", "Red")
        chats.let_go("streams")
        chat.shows("[1] completed")
        assert "https://example.org/x" in chat.text
        assert "\x1b[31mtext" not in chat.everything
        assert not {"\x07", "\u202e"} & set(chat.everything)
        assert "\x1b]8" not in chat.everything
        assert chat.leave() == 0


def test_a_file_that_vanishes_is_a_sentence(chats: ChatFolder) -> None:
    with chats.chat() as chat:
        chat.shows("/help")
        chat.type('READ @"the le')
        chat.shows("the lease.txt")  # a Tab while they are being looked for only opens the list
        chat.type("\t")
        chat.shows('READ @"the lease.txt')
        (chats.path / "the lease.txt").unlink()
        chat.says('"', "there is no file 'the lease.txt' to attach", 'READ @"the lease.txt"')
        chat.type("\x15")
        chat.says("SAY something", "[1] completed")
        assert chat.leave() == 0


def test_branches_retries_and_saved_prompts(chats: ChatFolder) -> None:
    saved = chats.workspace / "chat"
    saved.mkdir(parents=True)
    (saved / "greet.md").write_text("SAY hello\n")
    with chats.chat() as chat:
        chat.says("/greet to everybody", "Answer 1: SAY", "[1] completed")
        chat.says('READ @"the lease.txt"', "Answer 2: READ rent 900 euros", "[2] completed")
        chat.says("/files", "the lease.txt (", "from you")
        chat.says("/undo", "turn 2 is left out from here on", '> READ @"the lease.txt"')
        chat.type("\x15")
        chat.says("SAY again", "Answer 2: SAY rent unknown", "[2] completed")
        chat.type("/retry\r")
        chat.wait(lambda: chat.text.count("[2] completed") == 3)
        chat.says("/fork", "[2] SAY again", "/fork N")
        chat.says("/fork 9", "there is no turn 9")
        chat.says("/fork 1", "goes on from turn 1")
        chat.says("/cost", "[1] 1,", "all turns: 1,")  # a copy of a copy; its original had more than 1,000 tokens
        chat.type("SAY otherwise\r")
        chat.wait(lambda: "[2] completed" in chat.text.partition("> SAY otherwise")[2])
        chat.says("/save talk.md", "written: talk.md")
        chat.says("/sav", "there is no command /sav; did you mean /save?")
        chat.says("/model nope", "error: ", "nope")
        chat.says("/model offline", "the next turn asks offline")
        chat.says("/model scripted", "the next turn asks scripted")
        chat.says("/system reakt", "did you mean 'react'?")
        chat.says("/undo", "turn 2 is left out")
        chat.type("\x15")
        chat.says("/undo", "turn 1 is left out")
        chat.type("\x15")
        chat.says("/fork", "/fork N goes on")
        chat.says("SAY hello", "Answer 1: SAY")
        chat.says("/clear", "a new conversation")
        chat.says("SAY anew", "Answer 1: SAY")
        assert chat.leave("/exit\r") == 0
    assert "## You\n\nSAY hello\n\nto everybody\n\n## Answer\n\nAnswer 1" in (chats.path / "talk.md").read_text()


def test_a_plain_chat_names_what_was_interrupted_and_opens_a_page_without_the_noise_of_its_programs(
    chats: ChatFolder,
) -> None:
    opener = chats.path / "bin" / "xdg-open"
    opener.parent.mkdir()
    opener.write_text('#!/bin/sh\necho "no method available" >&2\ntouch opened\nexit 3\n')
    opener.chmod(0o755)
    with chats.chat() as chat:
        in_a_tool(chats, chat)
        chat.process.send_signal(signal.SIGKILL)
        chat.process.wait(30)
    chats.run("run", "--no-out", "SAY something")
    with chats.chat("chat", PATH=f"{opener.parent}:{os.environ['PATH']}") as chat:
        chat.shows(
            "not over yet: WAIT for it; agentorchestra chat --resume run_", "/resume lists 2 other conversations"
        )
        chat.says("SAY something", "[1] completed")
        chat.says("/open", "for a browser:", "file://")
        chat.wait((chats.path / "opened").exists)
        assert chat.leave() == 0
        assert "no method available" not in chat.everything


@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs a terminal that wraps its lines anew: tmux")
def test_a_smaller_terminal_keeps_no_lines_of_what_was_drawn(chats: ChatFolder) -> None:
    def tmux(*words: str) -> str:
        command = ["tmux", "-S", str(chats.path / "tmux"), "-f", "/dev/null", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def shows(ready: Callable[[str], object]) -> str:
        wait_until(lambda: bool(ready(tmux("capture-pane", "-p"))))
        return tmux("capture-pane", "-p")

    chats.hold()
    chat = shlex.join(["env", "-C", str(chats.path), sys.executable, "-m", "agentorchestra", "chat"])
    tmux("new-session", "-d", "-x", "100", "-y", "40", chat)
    try:
        shows(lambda text: "/help" in text)
        tmux("send-keys", "WAIT for something of which a line on the screen says more than forty characters", "Enter")
        shows(lambda text: "> wait(number=1)" in text)
        tmux("resize-window", "-x", "40", "-y", "12")
        text = shows(lambda text: "..." in text and "approvals asked (Shift-Tab)\n" in text)
        assert text.count("react running") == text.count("running, ") == 1, text
    finally:
        tmux("kill-server")


def test_no_colour(chats: ChatFolder) -> None:
    with chats.chat(NO_COLOR="1") as chat:
        chat.says("SAY something", "[1] completed")
        assert chat.leave() == 0
        assert not re.search(r"\x1b\[(?:\d+;)*(?:3[0-7]|9[0-7]|38;[\d;]*)m", chat.everything)


def test_a_dumb_terminal_is_refused(chats: ChatFolder) -> None:
    with chats.chat(TERM="dumb") as chat:
        assert chat.process.wait(60) == 2
        chat.shows("a chat needs a terminal that can draw")


@pytest.mark.parametrize("words", [("chat",), ("chat", "--resume"), ("chat", "--resume", "nope")])
def test_what_a_chat_cannot_begin_with_is_a_sentence(chats: ChatFolder, words: tuple[str, ...]) -> None:
    (chats.path / "agentorchestra.toml").unlink()
    with chats.chat(*words) as chat:
        assert chat.process.wait(60) == 2
        chat.shows(["no model is set up", "there is no run yet", "no session and no run 'nope'"][len(words) - 1])


def test_without_a_command_the_chat_opens_where_a_model_is_set_up(chats: ChatFolder) -> None:
    with chats.chat("--") as chat:
        chat.says("SAY something", "Answer 1: SAY", "[1] completed")
        assert chat.leave() == 0


def test_without_a_command_and_a_model_setup_demo_and_help_are_offered(chats: ChatFolder) -> None:
    (chats.path / "agentorchestra.toml").unlink()
    with chats.chat("--") as chat:
        assert chat.process.wait(60) == 0
        chat.shows("No model is set up yet", "agentorchestra setup", "--model offline", "agentorchestra --help")


def test_changes_are_shown_and_applied_if_the_user_says_so(chats: ChatFolder) -> None:
    project = chats.path / "project"
    project.mkdir()
    (project / "a.txt").write_text("one\n")
    with chats.chat("chat", "--in", "project") as chat:
        chat.says("EDIT it", "+two", "Apply the changes of 1 file", "y or n")
        assert (project / "a.txt").read_text() == "one\n"
        chat.says("y", "applied to")
        assert (project / "a.txt").read_text() == "one\ntwo\n"
        chat.type("\x1b[Z")
        chat.shows("approvals denied")
        chat.says("MAIL her", "[2] completed")
        assert chat.leave() == 0
    assert not outbox(chats.path)
