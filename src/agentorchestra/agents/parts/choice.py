"""The parts that the settings choose for an agent."""

from __future__ import annotations

from agentorchestra.agents.parts.base import PartWork
from agentorchestra.agents.parts.graph import Subtasks
from agentorchestra.agents.parts.plan import Planning
from agentorchestra.agents.parts.tips import Tips
from agentorchestra.core.settings import PartSettings
from agentorchestra.loop import Perceive

PLANNING_INTERVAL = 4
"""Steps from one review of the plan to the next, where nobody says another number (the text of 004 names none)."""


def chosen_parts(settings: PartSettings, work: PartWork) -> tuple[Perceive, ...]:
    perceive: list[Perceive] = [Tips(work, settings.tip or "").perceive] if settings.tips or settings.tip else []
    if settings.plan in ("once", "reviewed"):
        interval = settings.planning_interval or PLANNING_INTERVAL
        perceive.append(Planning(work, interval if settings.plan == "reviewed" else 0).perceive)
    if settings.subtasks:
        perceive.append(Subtasks(work).perceive)
    return tuple(perceive)
