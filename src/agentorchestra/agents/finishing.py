"""The end in plain words: whether a reply without a call ends an agent's work, and the answer that it is."""

from __future__ import annotations

import re
from typing import Any

from agentorchestra.agents.outputs import SEARCH
from agentorchestra.core.content import Trust
from agentorchestra.core.effects import Provenance
from agentorchestra.core.messages import ModelResponse, ToolSchema
from agentorchestra.loop import State
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tools.todo import Plans

PLAIN = 3
"""The way of checking (`RunManifest.checks`) from which on a plain reply is looked at before it ends the work."""

FILE_NAMES = Provenance(kind="file", ref="names", trust=Trust.UNTRUSTED)
"""Where the names of the task's files came from: an agent that is told these alone has read none of them."""

MOST_NAMED = 5
"""Names of material, and steps of a plan, that an agent is told of."""

_BOLD = re.compile(r"(`+)(?:.*?)\1|(?<![\w*\\])\*\*(?=[^\s*])(?P<bold>[^*`]*[^\s*`])\*\*(?![\w*])")
_CODE = re.compile(r"\A(`+)(?P<inside>[^`]+)\1\Z")


def unmarked(answer: str) -> str:
    """Return an answer of one line without Markdown's bold, and without backticks around the whole of it."""
    if "\n" in answer:
        return answer
    if (whole := _CODE.match(answer)) is not None:
        return whole["inside"].strip()
    return _BOLD.sub(lambda match: match["bold"] or match[0], answer)


def refusal_of(response: ModelResponse) -> str:
    """Return that the model refused, or that its provider withheld the reply; "" for any other reply."""
    if response.finish_reason != "content_filter" or response.tool_calls:
        return ""
    words = response.text.strip()
    return f"The model refused, or its provider withheld the reply{f': {words}' if words else ''}"


def open_work(state: State, ctx: BranchContext[Any], finish: ToolSchema | None) -> str:
    """Return what is to be done before plain words end an agent's work, "" where they end it.

    That are open steps of the agent's own plan, and sources: of what was read in files, on pages and by other agents.

    Args:
        finish: the tool that ends its work, which may take sources; None where it is not offered.
    """
    if ctx.manifest.checks < PLAIN or state.must_answer in ("steps", "budget"):
        return ""
    if state.must_answer:
        return "the work came to no end by itself"  # so the answer is a partial one
    plans = Plans.of(ctx.vars)
    steps = plans.plans[plans.active].steps if plans.active is not None else []
    left = [f"{n} ({one.text})" for n, one in enumerate(steps) if one.status in ("not_started", "in_progress")]
    if left:
        return (
            f"your plan has open steps: {', '.join(left[:MOST_NAMED])}. Carry them out, or mark them with todo, before "
            "you answer. If nothing of it is left to do, give the answer again"
        )
    read = list(dict.fromkeys(one.ref for one in state.sources if _is_material(one)))
    if not read or finish is None or "sources" not in finish.parameters.get("properties", {}):
        return ""
    return (
        f"your answer lacks its sources. Call {finish.name} with the same answer and, for what it takes from "
        f"{', '.join(read[:MOST_NAMED])}, the sources: name, place, exact words. If it rests on nothing that was read, "
        "give it again in plain words"
    )


def _is_material(one: Provenance) -> bool:
    """Return True for what is cited: files, pages, results of a search, agents that read such."""
    if one.trust is not Trust.UNTRUSTED or one == FILE_NAMES:
        return False
    return one.kind in ("file", "web", "agent") or (one.kind == "tool" and one.ref == SEARCH)
