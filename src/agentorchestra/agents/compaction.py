"""Compaction: when the window fills, the oldest steps of an agent become a summary. Calls and results stay in pairs.

What an agent was told first and what the user says in between stays word for word; the newest steps stay as they are.
In a session the tasks of later turns are the user's words too, and of the turns before the answers go last.
The front of the prompt changes only when something is taken out, so that a provider's cache serves the steps between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from agentorchestra.agents.requests import model_effect
from agentorchestra.agents.state import settled_record
from agentorchestra.core.content import Block, Source, TextBlock, Trust, block_from, lowest
from agentorchestra.core.effects import provenance_of
from agentorchestra.core.messages import Message, ModelSettings, ToolCall
from agentorchestra.core.messages import system as system_message
from agentorchestra.core.spec import PAGES_ONCE
from agentorchestra.loop import MATERIAL, TASK, State
from agentorchestra.models.prices import estimate_messages_tokens, estimate_text_tokens
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.prompts.prompt import Prompt

FULL = 0.9  # part of the window at which steps are taken out

KEPT_SHARE = 0.5
"""Part of the window that is filled after that; what lies between is the room for the steps until the next time."""

SUMMARY_TOKENS = 1_024  # the longest summary, if a tenth of the window is not less
SHORTEST = 200  # characters that are left of a result, however small the window is

_WORDS_PER_TOKEN = 0.6
_NAME = "summary"
PURPOSE = "summary"


@dataclass(frozen=True)
class Summariser:
    """The model of the role `summariser`, with the tokens that it can read."""

    model: str
    settings: ModelSettings
    window: int
    content_hash: str
    prompt: Prompt


@dataclass(frozen=True)
class Compaction:
    """An `observe` part: keeps the next prompt inside the window."""

    window: int  # tokens the agent's model can read
    reply: int  # tokens its answer may take
    task: str
    summariser: Summariser

    async def __call__(self, state: State, ctx: BranchContext[Any]) -> State:
        # A fork's model may have another window than its parent's, and a later version may count otherwise: what was
        # done is done again, nothing else.
        record = settled_record(ctx)
        is_summary = record is not None and record.effect.get("purpose") == PURPOSE
        # In estimated tokens, of which the window holds as many as the last request's count says, or a refusal.
        room = int((self.window - self.reply) / (state.scale if ctx.manifest.checks >= PAGES_ONCE else 1))
        prompt = min(room, state.ceiling or room)
        room = prompt - state.overhead
        if state.is_over or (estimate_messages_tokens(state.messages) <= room * FULL and not is_summary):
            return state
        head, rest = state.messages[: state.head], state.messages[state.head :]
        words, summary, steps = _split(rest)
        longest = min(SUMMARY_TOKENS, max(64, self.window // 10))
        left = int(room * KEPT_SHARE) - estimate_messages_tokens(head) - longest
        words, former = _newest_words(words, left)
        head_tokens = estimate_messages_tokens((*head, *words))
        left = int(room * KEPT_SHARE) - head_tokens - longest
        survivors = _survivors(steps, _ends(rest), left)
        ids = {*map(id, survivors)}
        former_steps = [*former, *(step for step in steps if id(step) not in ids)]
        if is_summary and not former_steps:
            former_steps, survivors = steps[:-1], steps[-1:]
        if former_steps and record is not None and not is_summary:
            summary = (_summary_of(summary, former_steps, _list(summary, former_steps, longest)),)
        elif former_steps or is_summary:
            summary = (await self._summarise(summary, former_steps, longest, prompt, ctx),)
        fits = int(room * FULL) - head_tokens - estimate_messages_tokens(summary)
        shorter = shorten([message for step in survivors for message in step], fits)
        messages = (*head, *summary, *_in_order(rest, words, survivors, shorter))
        return state.model_copy(update={"messages": messages, "compactions": state.compactions + 1})

    async def _summarise(
        self,
        summary: tuple[Message, ...],
        steps: Sequence[Sequence[Message]],
        longest: int,
        prompt: int,
        ctx: BranchContext[Any],
    ) -> Message:
        """Return the message in place of steps: the summariser's words, or a list where nobody may be asked."""
        summariser = self.summariser
        messages = [*summary, *(message for step in steps for message in step)]
        reply = min(longest, summariser.settings.max_tokens or longest)
        order = system_message(summariser.prompt.render(task=self.task, max_words=int(reply * _WORDS_PER_TOKEN)))
        # Its own window may be larger: but what it has to read is never more than what did not fit.
        room = int(min(summariser.window - reply, prompt) * FULL) - estimate_messages_tokens((order,))
        message = Message(role="user", content=steps_as_blocks(shorten(messages, room)))
        outcome = await ctx.perform(
            model_effect(
                summariser.model,
                (order, message),
                summariser.settings.model_copy(update={"max_tokens": reply}),
                summariser.content_hash,
                role="summariser",
                purpose=PURPOSE,
                provenance=provenance_of(message.content),
            )
        )
        text = outcome.response.text.strip() if outcome.ok else ""
        if not text:
            text = _list(summary, steps, longest)
        return _summary_of(summary, steps, _fitting(text, longest))


def _summary_of(summary: Sequence[Message], steps: Sequence[Sequence[Message]], text: str) -> Message:
    """Return a text as the message in place of steps, trusted no further than what it speaks of."""
    messages = [*summary, *(message for step in steps for message in step)]
    trust = lowest(Trust.AGENT, *(block.trust for message in messages for block in message.content))
    block = TextBlock(text=f"Summary of earlier steps:\n{text}", source=Source(kind="memory"), trust=trust)
    return Message(role="user", content=(block,), name=_NAME)


def _split(messages: Sequence[Message]) -> tuple[tuple[Message, ...], tuple[Message, ...], list[list[Message]]]:
    """Return the user's words, the summary so far, and the steps: each a decision with all its results."""
    words: list[Message] = []
    summary: list[Message] = []
    steps: list[list[Message]] = []
    for message in messages:
        if message.name == _NAME and message.role == "user":
            summary.append(message)
        elif _is_words(message):
            words.append(message)
        elif message.role == "assistant" or message.name == MATERIAL or not steps:
            steps.append([message])
        else:
            steps[-1].append(message)
    return tuple(words), tuple(summary), steps


def _is_words(message: Message) -> bool:
    """Return True for a message with the user's words alone: the task of a later turn, or what was told."""
    is_human = all(block.source is not None and block.source.kind == "human" for block in message.content)
    return message.role == "user" and (message.name == TASK or (is_human and message.name is None))


def _newest_words(words: Sequence[Message], tokens: int) -> tuple[tuple[Message, ...], list[list[Message]]]:
    """Return the newest words of a session that fit, and the older ones; without later turns all stay."""
    if not any(message.name == TASK for message in words):
        return tuple(words), []
    newest = [step[0] for step in _newest([[message] for message in words], tokens)]
    return tuple(newest), [[message] for message in words[: len(words) - len(newest)]]


def _ends(messages: Sequence[Message]) -> set[int]:
    """Return the ids of the messages with which the earlier turns of a session ended: those before each later task."""
    return {id(before) for before, message in pairwise(messages) if message.name == TASK}


def _survivors(steps: Sequence[list[Message]], ends: set[int], tokens: int) -> list[list[Message]]:
    """Return the steps that stay: the answers of earlier turns, if all have room, and the newest; the last one always.

    Args:
        steps: oldest first.
        ends: ids of the messages with which earlier turns ended.
        tokens: room for them.
    """
    answers = [step for step in steps if id(step[-1]) in ends]
    left = tokens - estimate_messages_tokens([message for step in answers for message in step])
    if not answers or left < 0:
        return _newest(steps, tokens)
    rest = [step for step in steps if id(step[-1]) not in ends]
    newest = _fitting_steps(rest, left) if steps[-1] is answers[-1] else _newest(rest, left)
    ids = {*map(id, (*answers, *newest))}
    return [step for step in steps if id(step) in ids]


def _in_order(
    messages: Sequence[Message], words: Sequence[Message], steps: list[list[Message]], shorter: Sequence[Message]
) -> list[Message]:
    """Return what is kept: the user's words before the steps, in a session each task before its own."""
    if not any(message.name == TASK for message in words):
        return [*words, *shorter]
    place = {id(message): number for number, message in enumerate(messages)}
    places = [(place[id(message)], message) for message in words]
    places += [(place[id(was)], entry) for was, entry in zip((m for step in steps for m in step), shorter, strict=True)]
    return [message for _, message in sorted(places, key=lambda pair: pair[0])]


def _newest(steps: Sequence[list[Message]], tokens: int) -> list[list[Message]]:
    """Return the newest steps that fit; the last one always stays."""
    fitting = _fitting_steps(steps, tokens)
    return fitting or [*steps[-1:]]


def _fitting_steps(steps: Sequence[list[Message]], tokens: int) -> list[list[Message]]:
    fitting: list[list[Message]] = []
    for step in reversed(steps):
        tokens -= estimate_messages_tokens(step)
        if tokens < 0:
            break
        fitting.insert(0, step)
    return fitting


def shorten(messages: list[Message], tokens: int) -> tuple[Message, ...]:
    """Cut the longest texts until the messages fit, evenly; nothing is left out as a whole."""
    shorter = tuple(messages)
    blocks = [block for message in shorter for block in message.content]
    limit = max((len(block.text) for block in blocks if isinstance(block, TextBlock)), default=0)
    while estimate_messages_tokens(shorter) > tokens and limit > SHORTEST:
        limit = max(SHORTEST, int(limit * 0.7))
        shorter = tuple(_cut(message, limit) for message in messages)
    return shorter


def _cut(message: Message, limit: int) -> Message:
    if all(not isinstance(block, TextBlock) or len(block.text) <= limit for block in message.content):
        return message
    return message.model_copy(update={"content": tuple(_cut_block(block, limit) for block in message.content)})


def _cut_block(block: Block, limit: int) -> Block:
    if not isinstance(block, TextBlock) or len(block.text) <= limit:
        return block
    out = len(block.text) - limit
    head = limit * 2 // 3
    text = (
        f"{block.text[:head]}\n[{out:,} characters left out here, the context is full: "
        f"call again for a smaller part]\n{block.text[len(block.text) - (limit - head) :]}"
    )
    return block.model_copy(update={"text": text})


def steps_as_blocks(messages: Sequence[Message]) -> tuple[Block, ...]:
    """Return steps as material for a model that is asked about them: each piece keeps its source and its trust."""
    blocks: list[Block] = []
    names: dict[str, str] = {}
    for message in messages:
        if message.role == "assistant":
            blocks += [block_from("The agent wrote:", trust=Trust.SYSTEM), *message.content]
            for call in message.tool_calls:
                names[call.id] = call.name
                blocks.append(block_from(f"The agent called {_rendering(call)}", trust=Trust.AGENT))
        elif message.role == "tool":
            verb = "failed" if message.is_error else "gave"
            name = names.get(message.tool_call_id or "", message.name or "a tool")
            blocks += [block_from(f"{name} {verb}:", trust=Trust.SYSTEM), *message.content]
        else:
            blocks += message.content
    return tuple(blocks)


def _rendering(call: ToolCall) -> str:
    arguments = (
        call.arguments
        if isinstance(call.arguments, str)
        else ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
    )
    return f"{call.name}({arguments})"


def _list(summary: tuple[Message, ...], steps: Sequence[Sequence[Message]], tokens: int) -> str:
    """List what was done, a line a call, the newest ones: the summary where no model may be asked for one."""
    lines = [line for message in summary for line in message.text.splitlines()[1:]]
    for step in steps:
        results = {message.tool_call_id: message for message in step if message.role == "tool"}
        lines += [f"- asked: {' '.join(message.text.split())[:160]}" for message in step if message.name == TASK]
        for message in step:
            for call in message.tool_calls:
                result = results.get(call.id)
                gist = " ".join(result.text.split())[:160] if result is not None else ""
                lines.append(f"- {_rendering(call)[:160]}: {gist}")
    while lines and estimate_text_tokens("\n".join(lines)) > tokens:
        lines.pop(0)
    return "\n".join(lines)


def _fitting(text: str, tokens: int) -> str:
    while estimate_text_tokens(text) > tokens:
        text = text[: int(len(text) * 0.9)]
    return text
