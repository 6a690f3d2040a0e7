"""Test-time scaling: how an agent's work is driven, several courses of it beside each other (004, sec. 3.2.3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

from agentorchestra.agents.decider import ModelDecider
from agentorchestra.agents.parts.verifier import Reflecting, Verifier, chooser
from agentorchestra.agents.state import agent_state
from agentorchestra.core.errors import UsageError
from agentorchestra.core.settings import PartSettings
from agentorchestra.core.spec import first_names
from agentorchestra.loop import Decide, Decision, Parts, Seen, State, beam, best_of, linear
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.worlds import may_be_tried


async def drive(
    state: State, ctx: BranchContext[Any], parts: Parts, settings: PartSettings, verifier: Verifier
) -> State:
    """Do the work plainly, by rival steps or as rival runs; UsageError where a rival's acts cannot be taken back."""
    runs, candidates, width = settings.rollouts or 1, settings.candidates or 1, settings.width or 1
    if runs > 1 or candidates > 1:
        parts = replace(parts, decide=_at_once(parts.decide))
    course: Callable[[State, BranchContext[Any]], Awaitable[State]] = partial(_plainly, parts=parts)
    if candidates > 1 or settings.threshold is not None or (runs > 1 and settings.choose == "process"):
        choose = chooser(settings.choose or "process", verifier, width)
        if settings.threshold is not None:
            choose = Reflecting(choose, verifier, settings.threshold, width)
        course = partial(_beam, parts=parts, choose=choose, width=width, candidates=candidates)
    if runs == 1:
        return await course(state, ctx)
    _refuse_one_way(ctx, runs)
    return await best_of(state, ctx, course, choose=chooser(settings.choose or "listwise", verifier), runs=runs)


async def _plainly(state: State, ctx: BranchContext[Any], *, parts: Parts) -> State:
    return await linear(state, ctx, parts)


async def _beam(state: State, ctx: BranchContext[Any], *, parts: Parts, **options: Any) -> State:
    return await beam(state, ctx, parts, **options)


def _at_once(decider: Decide) -> Decide:
    """Return `decide` for rivals that decide at the same time: what one keeps of its request is not another's."""

    async def decide(state: State, view: list[Seen], ctx: BranchContext[Any]) -> Decision:
        return await copy(decider)(state, view, ctx)

    return decide


def _refuse_one_way(ctx: BranchContext[Any], runs: int) -> None:
    one_way = {tool.name for tool in agent_state(ctx).may_call(ctx) if not may_be_tried(ctx.run, tool)}
    if one_way:
        raise UsageError(
            f"parts.rollouts = {runs} would do the work {runs} times, and this cannot be taken back: "
            f"{first_names(sorted(one_way))}. Say what the tool touches (@tool(effect=...)) if it only reads, leave it "
            "out, or set parts.candidates instead: that calls it once, for the step that is chosen"
        )


def weighted_decide(deciders: Sequence[ModelDecider], weights: Sequence[float]) -> Decide:
    """Return `decide` with a model drawn by weights for each decision, the same in a resume (004, eq. 7)."""

    async def decide(state: State, view: list[Seen], ctx: BranchContext[Any]) -> Decision:
        (decider,) = ctx.random.choices(deciders, weights)
        return await decider(state, view, ctx)

    return decide
