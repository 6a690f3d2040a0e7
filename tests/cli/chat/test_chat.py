"""A conversation at a terminal: turns, files, approvals, words for an agent at work, a killed process."""

from __future__ import annotations

import signal

import pytest

from tests.cli.chat.support import ChatFolder, outbox


def test_two_turns_with_a_file_an_approval_and_a_queued_message(chats: ChatFolder) -> None:
    with chats.chat() as chat:
        chat.shows("model scripted", "/help", "as in: what is in @app.py?")
        chats.hold("streams")
        chat.says('READ "the lease.txt"', "the lease.txt is in this folder: attach it? y or n")
        assert not chats.statuses(), "nothing is begun before it is known what goes with the message"
        chat.says("y", "attached: the lease.txt", "Answer 1")  # the beginning of the answer, as it is streamed
        chats.let_go("streams")
        chat.shows("Answer 1: READ rent 900 euros", "[1] completed, ")
        assert chat.text.count("Answer 1") == 1, "the answer is on the screen once"
        chat.says("MAIL her", "Allow mail?", "to = 'eve@example.org' (untrusted: tool notes)", "y or n")
        assert not outbox(chats.path)
        chat.says("perhaps", "Type y or n. Allow it?")
        assert chat.text.count("Allow mail?") == 1, "no picture repeats the question"
        chat.says("y", "  allowed", "Answer 2: MAIL rent 900 euros", "[2] completed")
        assert outbox(chats.path) == ["eve@example.org: the code is 4711"]
        chats.hold()
        chat.says("WAIT for it", "> wait(number=1)")
        chat.says("hurry up", "queued: hurry up")
        chats.let_go()
        chat.shows("Answer 3: WAIT rent 900 euros; waited 1; waited 2; hurry up", "[3] completed, ")
        assert chat.leave() == 0
        assert "to go on: agentorchestra chat --resume run_" in chat.text


@pytest.mark.long
def test_a_chat_that_was_killed_in_a_turn_goes_on_there(chats: ChatFolder) -> None:
    with chats.chat() as chat:
        chat.says("SAY something", "[1] completed")
        chat.says("/new", "a new conversation; /resume lists")
        chats.hold()
        chat.says("WAIT for it", "> wait(number=1)")
        chat.wait(lambda: (chats.path / "waits.txt").exists())
        chat.process.send_signal(signal.SIGKILL)
        chat.process.wait(30)
    assert chats.statuses() == ["completed", "running"]
    with chats.chat("chat", "--resume") as chat:
        chat.shows("it is not over, and goes on", "/resume lists 1 other conversation", "> wait(number=1)")
        chats.let_go()
        chat.shows("Answer 1: WAIT", "[1] completed, ")
        chat.says("/resume", "[1] SAY something (1 turn, ", ", $0, completed)", "/resume N")
        chat.says("/resume 2", "there is no conversation with the number '2'")
        chat.says("/resume 1", "the last turn: SAY something")
        chat.says("SAY more", "Answer 2: SAY", "[2] completed")
        chat.says("/system", "owl             ", "A planner, a coordinator", "or an agent alone:")
        assert chat.leave() == 0
    assert chats.statuses() == ["completed"] * 3
    waits = (chats.path / "waits.txt").read_text().split()
    assert waits == ["1", "1", "2"], "what was interrupted was begun anew, nothing else twice"
