"""Patterns in how agents worked together, recognised by code (003, sec. 4.4.1)."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from agentorchestra.log.conversation import Conversation

Name = Literal["direct_dispatch", "planner_mediated_decomposition", "instruction_refinement", "agent_substitution"]


class Pattern(BaseModel, frozen=True):
    """A pattern that a conversation shows.

    Attributes:
        pattern: which of the paper's four.
        messages: the numbers of the exchanges it rests on, in their order.
    """

    pattern: Name
    messages: tuple[int, ...]


def patterns(talk: Conversation) -> list[Pattern]:
    """Return the patterns of a conversation, in the order of their first messages."""
    return []
