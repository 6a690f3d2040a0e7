"""The end in plain words: whether a reply without a call ends an agent's work, and the answer that it is."""

from __future__ import annotations

import re
from typing import Any

from agentorchestra.agents.conversation import begun_with
from agentorchestra.agents.outputs import SEARCH
from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Provenance, provenance_of
from agentorchestra.core.messages import ModelResponse, ToolSchema
from agentorchestra.core.spec import TURN
from agentorchestra.loop import State
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tools.todo import Plans

PLAIN = 3
"""The way of checking (`RunManifest.checks`) from which on a plain reply is looked at before it ends the work."""

FILE_NAMES = Provenance(kind="file", ref="names", trust=Trust.UNTRUSTED)
"""The source of the names of the task's files. An agent that knows only these names has read no file."""

_MARKUP = re.compile(r"(`+).*?\1|(?<![\w*\\])\*\*(?=[^\s*])(?P<bold>[^*`]*[^\s*`])\*\*(?![\w*])")
_CODE = re.compile(r"\A(`+)(?P<inside>[^`]+)\1\Z")


def answer_of(words: str, ctx: BranchContext[Any]) -> str:
    """Return a plain reply as the answer: one line without Markdown's bold, and backticks around the whole of it."""
    answer = words.strip()
    if "\n" in answer or ctx.manifest.checks < PLAIN:
        return answer
    whole = _CODE.match(answer)
    return whole["inside"].strip() if whole else _MARKUP.sub(lambda match: match["bold"] or match[0], answer)


def refusal_of(response: ModelResponse, ctx: BranchContext[Any]) -> str:
    """Return that the model refused, or that its provider withheld the reply; "" for any other reply."""
    if response.finish_reason != "content_filter" or response.tool_calls or ctx.manifest.checks < PLAIN:
        return ""
    return f"The model refused, or its provider withheld the reply: {response.text.strip() or 'without a word'}"


def open_work(state: State, ctx: BranchContext[Any], finish: ToolSchema | None) -> str:
    """Return what is to be done before plain words end an agent's work, "" where they end it.

    That are open steps of its own plan, and sources of what it read, if `finish`, which ends its work, takes sources.
    """
    if ctx.manifest.checks < PLAIN or state.must_answer in ("steps", "budget"):
        return ""
    if state.must_answer:
        return "the work came to no end by itself"  # so the answer is a partial one
    plans = Plans.of(ctx.vars)
    steps = plans.plans[plans.active].steps if plans.active is not None else []
    open_steps = [f"{n} ({step.text})" for n, step in enumerate(steps) if step.status in ("not_started", "in_progress")]
    if open_steps:
        reason = f"your plan has open steps: {', '.join(open_steps)}. Carry them out, or mark them with todo, before "
        reason += "you answer"
        return f"{reason}. If nothing of it is left to do, give the answer again"
    read = read_by(state, ctx)
    if not read or finish is None or "sources" not in finish.parameters.get("properties", {}):
        return ""
    reason = f"your answer lacks its sources. Call {finish.name} with the same answer and, for what it takes from "
    reason += f"{', '.join(read[:5])}, name, place and exact words"
    return f"{reason}. If it takes nothing from there, give the answer again"


def read_by(state: State, ctx: BranchContext[Any]) -> list[str]:
    """Return the names of the files, pages and searches that an agent read, in a session those of this turn alone.

    What an agent says that it asked is not among them: that agent gave its own sources.
    """
    by_turn = ctx.manifest.checks >= TURN
    turn = [block for message in (*state.task_messages, *state.messages[state.steps_at :]) for block in message.content]
    sources = provenance_of(turn) if by_turn and begun_with(ctx) is not None else state.sources
    own = Provenance(kind="agent", ref=ctx.actor, trust=Trust.UNTRUSTED)  # its answers of earlier turns
    suspects = [source for source in sources if source.trust is Trust.UNTRUSTED and source not in (FILE_NAMES, own)]
    kinds = ("file", "web") if by_turn else ("file", "web", "agent")
    return [source.ref for source in suspects if source.kind in kinds or source.ref == SEARCH]
