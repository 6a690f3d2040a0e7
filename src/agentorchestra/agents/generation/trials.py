"""Trials of a tool: its examples and the task's case, in processes of their own, and what is wrong with what came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from agentorchestra.agents.generation.specification import Case, same, short
from agentorchestra.agents.state import add_tools
from agentorchestra.core.effects import Outcome
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.handler import effect_for
from agentorchestra.tea.calling.signatures import schema_problems
from agentorchestra.tea.calling.tool import Tool


@dataclass(frozen=True)
class Trials:
    """The problems that trials showed, what the last case gave, and the seconds that each call took."""

    problems: tuple[str, ...]
    value: JsonValue = None
    seconds: tuple[float, ...] = ()


async def try_cases(
    ctx: BranchContext[Any], tool: Tool[..., Any], cases: Sequence[Case], returns: Mapping[str, Any], *, twice: bool
) -> Trials:
    """Call a tool with every case, the last of which is the task's own; `twice` to see that it gives the same."""
    seconds: list[float] = []
    first = await _call(ctx, tool, cases, seconds)
    problems = [
        text
        for case, outcome in zip(cases, first, strict=True)
        if (text := _wrong(case, outcome, returns, is_example=case is not cases[-1]))
    ]
    if not problems and twice:
        again = await _call(ctx, tool, cases, seconds)
        problems = [
            f"called twice with {short(case.arguments)} it gave {_gave(before)} and then {_gave(after)}"
            for case, before, after in zip(cases, first, again, strict=True)
            if not after.ok or not same(before.value, after.value)
        ]
    return Trials(tuple(problems), first[-1].value, tuple(seconds))


async def _call(
    ctx: BranchContext[Any], tool: Tool[..., Any], cases: Sequence[Case], seconds: list[float]
) -> list[Outcome]:
    began = ctx.now
    add_tools(ctx, tool)
    outcomes = await ctx.perform_all(
        [effect_for(tool, dict(case.arguments), role=ctx.role, provenance=ctx.provenance) for case in cases]
    )
    seconds += [(outcome.ended_at - began).total_seconds() for outcome in outcomes if outcome.ended_at is not None]
    return outcomes


def _wrong(case: Case, outcome: Outcome, returns: Mapping[str, Any], *, is_example: bool) -> str:
    """Return what is wrong with a result; whoever writes the code is not told what the case has to give."""
    head = f"with {short(case.arguments)}"
    if not outcome.ok:
        return f"{head} it failed: {(outcome.error or outcome.status)[:400]}"
    if case.known and not same(outcome.value, case.expected):
        right = f"and not {short(case.expected)}" if is_example else "which is not what the task says"
        return f"{head} it gave {_gave(outcome)}{' ' if is_example else ', '}{right}"
    if misfits := schema_problems(outcome.value, dict(returns)):
        return f"{head} it gave {_gave(outcome)}, which does not fit what it returns: {misfits[0][:200]}"
    return ""


def _gave(outcome: Outcome) -> str:
    return short(outcome.value) if outcome.ok else f"an error ({(outcome.error or outcome.status)[:200]})"
