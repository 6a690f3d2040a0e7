"""The user's words since the start of a run, for the agents that are asked afterwards: nobody has to repeat them.

What was heard stands in the log, before the call that asks the agent: a resume and a replay show the same.
"""

from __future__ import annotations

import re
from typing import Any

from agentorchestra.core.content import Block, Source, TextBlock, Trust
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.ids import EffectKey
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.prompts.catalog import PromptLibrary

MOST_TOLD = 4_000  # characters of the user's words that an agent is shown; the newest, for what was said last holds


def heard_before(ctx: BranchContext[Any]) -> list[str]:
    """Return what the user told before the call that owns a branch; each once, where it was said last."""
    words: list[str] = []
    branch: BranchContext[Any] | None = ctx
    while branch is not None:
        messages = []
        for n in range(1, branch.key.n):
            record = branch.run.ledger.records.get(EffectKey(branch.key.branch, n))
            if record is None or record.outcome is None or record.effect.get("kind") != EffectKind.RECEIVE:
                continue
            texts = record.outcome.value
            messages += [str(text) for text in texts] if isinstance(texts, list) else []
        words = [*messages, *words]
        branch = branch.parent
    return list(dict.fromkeys(reversed(words)))[::-1]


def user_words(ctx: BranchContext[Any], prompts: PromptLibrary, instruction: str) -> tuple[Block, ...]:
    """Return the user's words for an agent that is asked now, as far as its instruction does not have them."""
    texts = [text for text in heard_before(ctx) if not _stands_in(instruction, text)]
    quotes: list[str] = []
    left = MOST_TOLD
    for text in reversed(texts):
        if quotes and len(text) > left:
            break
        quotes.insert(0, text if len(text) <= left else f"{text[: left - 1]}…")
        left -= len(quotes[0])
    if not quotes:
        return ()
    words = prompts.get("told").render(told=quotes, left_out=len(texts) - len(quotes))
    return (TextBlock(text=words, source=Source(kind="human", ref="told"), trust=Trust.USER),)


def _stands_in(instruction: str, text: str) -> bool:
    """Return True if the words stand there as a whole: on lines of their own, or behind a colon."""
    return re.search(rf"(?:^|: ){re.escape(text.strip())}$", instruction, re.MULTILINE) is not None
