"""What the log of a run says besides its result: how many agents were asked."""

from __future__ import annotations

from collections.abc import Iterable

from agentorchestra.core.effects import EffectKind
from agentorchestra.core.events import Event


def delegations(events: Iterable[Event]) -> int:
    """Return how many agents the top agent of a run asked, one that it asked twice counted twice.

    These are the attempts of 002, app. C.1: each is a sub-agent for a part of the task. What sub-agents ask of others
    is not counted, nor who was started to be written to.
    """
    asked = {
        (event.branch, event.n, str(event.body["effect"]["arguments"]["name"]))
        for event in events
        if event.type == "started" and event.body["effect"]["kind"] == EffectKind.INVOKE_AGENT
    }
    agents = [f"{branch.rstrip('/')}/{n}.{name}" for branch, n, name in asked]
    return sum(sum(f"{branch}/".startswith(f"{one}/") for one in agents) == 1 for branch, _, _ in asked)
