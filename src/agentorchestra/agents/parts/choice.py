"""The parts that the settings choose for an agent."""

from __future__ import annotations

from dataclasses import dataclass

from agentorchestra.agents.parts.base import Work
from agentorchestra.agents.parts.graph import Subtasks
from agentorchestra.agents.parts.plan import Planning
from agentorchestra.agents.parts.tips import Tips
from agentorchestra.core.settings import PartSettings
from agentorchestra.loop import Observe, Perceive

PLANNING_INTERVAL = 4
"""Steps from one review of the plan to the next, where nobody says another number (the text of 004 names none)."""


@dataclass(frozen=True)
class Chosen:
    """Parts for a step, in their order."""

    perceive: tuple[Perceive, ...] = ()
    observe: tuple[Observe, ...] = ()


def chosen_parts(settings: PartSettings, work: Work) -> Chosen:
    """Return the parts that settings choose."""
    perceive: list[Perceive] = [Tips(work).perceive] if settings.tips else []
    if settings.plan in ("once", "reviewed"):
        interval = settings.planning_interval or PLANNING_INTERVAL
        perceive.append(Planning(work, interval if settings.plan == "reviewed" else 0).perceive)
    if settings.subtasks:
        perceive.append(Subtasks(work).perceive)
    return Chosen(tuple(perceive))
