"""What the log of a run says besides its result: agents that were asked, tools that were made and called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentorchestra.core.effects import EffectKind
from agentorchestra.core.events import Event
from agentorchestra.core.ids import EffectKey
from agentorchestra.log.ledger import Ledger

_PHASE = "tool_phase"


@dataclass(frozen=True)
class Course:
    # agents that its top agent asked, one that it asked twice counted twice. These are the attempts of 002, app. C.1:
    # each is a sub-agent for a part of the task. What sub-agents ask of others is not counted, nor who was started to
    # be written to.
    delegations: int
    tools: frozenset[str]  # tools that were generated and registered (000, app. D.6)
    matches: frozenset[str]  # tools that the generator found in place of making one
    calls: frozenset[str]  # all tools that were called


def course(events: Sequence[Event]) -> Course:
    """Return what happened in a run by its log."""
    effects = [(key, record.effect) for key, record in Ledger.of(events).records.items()]
    tools = (effect for _, effect in effects if effect["kind"] == EffectKind.INVOKE_TOOL)
    calls = [(_name(effect), effect.get("arguments", {})) for effect in tools]
    phases = [arguments for name, arguments in calls if name == _PHASE]
    return Course(
        delegations=_delegations(effects),
        tools=frozenset(str(phase["tool"]) for phase in phases if phase["phase"] == "registered"),
        matches=frozenset(
            str(phase["outcome"]).partition("@")[0]
            for phase in phases
            if phase["phase"] == "retrieved" and str(phase["outcome"]).endswith(" fits")
        ),
        calls=frozenset(name for name, _ in calls),
    )


def _name(effect: Mapping[str, Any]) -> str:
    return str(effect.get("component", "")).rpartition("@")[0]


def _delegations(effects: Iterable[tuple[EffectKey, Mapping[str, Any]]]) -> int:
    calls = [(key, effect["arguments"]["name"]) for key, effect in effects if effect["kind"] == EffectKind.INVOKE_AGENT]
    agents = [f"{key.branch.rstrip('/')}/{key.n}.{name}/" for key, name in calls]
    return sum(sum(f"{key.branch}/".startswith(agent) for agent in agents) == 1 for key, _ in calls)
