"""The requests that test-time scaling and refinement come to, before any is made."""

from __future__ import annotations

from pydantic import BaseModel

from agentorchestra.agents.parts.refine import REQUESTS, ROUNDS
from agentorchestra.core.budget import Budget
from agentorchestra.core.settings import PartSettings

_TRIES = 2  # times that the verifier is asked where its reply is of no use


class Foresight(BaseModel, frozen=True):
    """The requests of a run's main agent, its verifier and its refinement, as the settings `[parts]` have them.

    What a plan, a memory, better queries and sub-agents ask, and what a summary of a long history takes, comes besides.
    """

    runs: int  # whole runs at the same time
    steps: int  # that one run may take at most
    decisions_per_step: int  # of all runs together; 1 without scaling
    choices_per_step: int  # requests to the verifier in such a step, where each is answered the first time
    multiple: int  # requests of a step, as a multiple of the one request of the plain run
    # `decisions_at_most`, `requests_at_most`: of the whole run; the limits of the budget cut it earlier
    decisions_at_most: int
    requests_at_most: int
    budget: Budget  # these limits


def foreseen(parts: PartSettings, steps: int, budget: Budget) -> Foresight:
    """Return what the parts come to in a run of so many steps; see `scaling.drive` and the choosers."""
    runs, width, choice = parts.rollouts or 1, parts.width or 1, parts.choose
    rivals = (parts.candidates or 1) * width
    choices = 0
    # Plain steps are not chosen from.
    if rivals > 1 or parts.threshold is not None or (runs > 1 and choice == "process"):
        by_choice = {"listwise": min(width, rivals - 1), "pairwise": rivals - 1, "vote": 0}
        choices = by_choice.get(choice or "process", rivals)
        if parts.threshold is not None:
            choices += width if choice not in by_choice else 2 * width
    comparisons = {"outcome": 0 if choices else runs, "pairwise": runs - 1, "process": 0, "vote": 0}.get(
        choice or "listwise", 1
    )
    between_runs = comparisons if runs > 1 else 0
    refinement = REQUESTS.get(parts.refine or "", 0) * (parts.rounds or ROUNDS)
    most = runs * steps * rivals
    decisions = most if budget.steps is None else min(most, budget.steps)
    return Foresight(
        runs=runs,
        steps=steps,
        decisions_per_step=runs * rivals,
        choices_per_step=runs * choices,
        multiple=runs * (rivals + choices),
        decisions_at_most=decisions,
        requests_at_most=decisions + _TRIES * (min(runs * steps, decisions) * choices + between_runs + refinement),
        budget=budget,
    )
