"""The patterns of a society, and the cases that a model found, as lines: each with the messages it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

from agentorchestra.agents.society.reader import Case, EdgeCase
from agentorchestra.cli.output import one_line
from agentorchestra.cli.view.sequence import list_lines
from agentorchestra.log.conversation import Conversation
from agentorchestra.log.patterns import Name, Pattern

UNREAD_HINT = "not looked for: a model finds them; name one with --model"


def pattern_lines(talk: Conversation, patterns: Sequence[Pattern]) -> Iterator[str]:
    """Yield each pattern with its messages, or that it does not occur."""
    for name in get_args(Name):
        own = [pattern.messages for pattern in patterns if pattern.pattern == name]
        yield from _lines(talk, name, [("", messages) for messages in own])


def case_lines(talk: Conversation, cases: Sequence[EdgeCase]) -> Iterator[str]:
    """Yield each edge case with its messages, or that it does not occur."""
    for name in get_args(Case):
        yield from _lines(talk, name, [(case.why, case.messages) for case in cases if case.case == name])


def _lines(talk: Conversation, name: str, groups: Sequence[tuple[str, tuple[int, ...]]]) -> Iterator[str]:
    title = name.replace("_", " ")
    if not groups:
        yield f"{title}: none"
    for reason, messages in groups:
        yield f"{title}: {'messages' if len(messages) > 1 else 'message'} {', '.join(map(str, messages))}"
        if reason:
            yield f"  {one_line(reason, 500)}"
        yield from (f"  {line}" for line in list_lines(talk, messages))
