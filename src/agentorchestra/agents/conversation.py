"""The conversation of a session, as its next turn goes on with it (docs/sessions.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentorchestra.agents.agent import is_top
from agentorchestra.core.content import Block, TextBlock, Trust
from agentorchestra.core.messages import Message
from agentorchestra.core.turns import TurnState
from agentorchestra.loop import MATERIAL, TASK
from agentorchestra.runtime.context import BranchContext

CONVERSING = frozenset({"agentorchestra", "aorchestra", "coral", "mini_swe", "oagents", "react", "static"})
"""The packaged systems whose top agent goes on with the messages of the turn before; so do agents without a workflow
in code. The others are told the session's last tasks and answers."""


def converses(system: str, agents: Mapping[str, Any]) -> bool:
    """Return True if the top agent of a system goes on with a conversation; `agents` are those of the run by name."""
    agent = agents.get(system)
    return system in CONVERSING if agent is None else agent.drive is None


def begun_with(ctx: BranchContext[Any]) -> TurnState | None:
    """Return what the turn before left, for the top agent of a turn; None for the first turn and for other agents."""
    return ctx.run.ledger.begins if is_top(ctx) else None


def conversation(ctx: BranchContext[Any], *, native: bool) -> tuple[Message, ...]:
    """Return the messages that an agent goes on with, without a system prompt; () where there are none.

    With a memory system there are none: it says itself what is told of earlier tasks.
    """
    begins = begun_with(ctx)
    if begins is None or ctx.manifest.memory:
        return ()
    messages = tuple(message for message in begins.messages if message.role != "system")
    return messages if native or not begins.native else in_words(messages)


def files_in_conversation(ctx: BranchContext[Any]) -> frozenset[str]:
    """Return the names of the files of which a part stands in the conversation that an agent goes on with."""
    sources = [block.source for message in conversation(ctx, native=True) for block in message.content]
    return frozenset(source.ref for source in sources if source is not None and source.kind == "file" and source.place)


def turn_messages(order: Block, context: Sequence[Block]) -> tuple[Message, ...]:
    """Return the messages with the task of a later turn: the user's words, and apart from them what may be dropped."""
    material = (Message(role="user", name=MATERIAL, content=tuple(context)),) if context else ()
    return (Message(role="user", name=TASK, content=(order,)), *material)


def in_words(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return messages for a model that takes no native calls: calls and results in words, each with its trust."""
    native: list[Message] = []
    for message in messages:
        if message.role == "tool":
            head = TextBlock(text=f"Result of {message.name} ({message.tool_call_id}):", trust=Trust.SYSTEM)
            native.append(Message(role="user", content=(head, *message.content)))
        elif message.tool_calls:
            lines = [f"Called {call.name} ({call.id}): {call.arguments}" for call in message.tool_calls]
            words = TextBlock(text="\n".join(lines), trust=Trust.AGENT)
            native.append(Message(role="assistant", content=(*message.content, words)))
        else:
            native.append(message)
    return tuple(native)
