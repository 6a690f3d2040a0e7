"""OAgents: an agent that plans, and revises its plan from what it observes (004, sec. 3.2).

    tips of earlier tasks, facts of the task ─> plan ─> subtasks, side by side ─> step ─> step ─> done
                                                  ^                                        │
                                                  └── every few steps: what was observed ──┘

Its substance is in `agents/parts/`, and for its searches, which are looked at again (3.1.2), in `agents/search/`.
Each part can be switched off, changed, and put into another system, by the settings `[parts]` alone.
It is one agent that reasons and acts in turn, as `react`, with the parts below. Acting by programs, as in the paper's
own runs, is the run's `action = "code"`.
"""

from __future__ import annotations

from typing import Any

from agentorchestra.agents.types import Kit
from agentorchestra.core.settings import PartSettings
from agentorchestra.core.spec import AgentResult, AgentSpec
from agentorchestra.runtime.context import BranchContext
from agentorchestra.systems.react import react

SEARCH = PartSettings(reflect=True, expand=2)
"""The search agent of 004, sec. 3.1.2: reflection, then expansion. The paper names no number of variants."""

PARTS = SEARCH.model_copy(update={"plan": "reviewed", "tips": True})
"""The paper's own parts (004, sec. 4.1 and table 7: the baseline reviews its plan, subtasks are a variant of it)."""


async def oagents(spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
    """Run one agent with a plan that is reviewed, and whatever other parts the settings choose."""
    return await react(spec, ctx, kit, own_parts=PARTS)
