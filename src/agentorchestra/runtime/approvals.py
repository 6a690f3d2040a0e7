"""What a recorded approval is about: one call, as it was shown to whoever answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentorchestra.core.effects import Effect, EffectKind
from agentorchestra.core.errors import DivergedError
from agentorchestra.core.ids import EffectKey
from agentorchestra.runtime.ledger import Ledger


def same_call(key: EffectKey, asked: Mapping[str, Any], effect: Effect) -> None:
    """Check that a question was asked about this very call.

    Args:
        key: of the call.
        asked: the details of the recorded question.
        effect: the call as it is made now.

    Raises:
        DivergedError: the code, a prompt or the model now makes another call there.
    """
    if (_name(asked), asked.get("arguments", {})) != (effect.name, effect.arguments):
        raise DivergedError(
            f"the run diverged at {key}: permission was asked for {_name(asked)} with other arguments than "
            f"{effect.name} would be called with now, and an answer holds for one call only. "
            "Run it with what it was recorded with (--pin takes the prompts and tools it was started with), "
            "or start a new run",
            branch=key.branch,
            n=key.n,
        )


def refused_before(ledger: Ledger, effect: Effect) -> bool:
    """Whether the user has refused a call of this component with these arguments: nobody is asked twice."""
    for record in ledger.records.values():
        asked = record.effect
        if asked.get("kind") != EffectKind.ASK_HUMAN or asked.get("purpose") != "approval":
            continue
        outcome, details = record.outcome, asked.get("arguments", {})
        refused = outcome is not None and outcome.ok and outcome.value is not True
        about = refused and "origins" in details and _name(details) == effect.name
        if about and details.get("arguments", {}) == effect.arguments:
            return True
    return False


def _name(details: Mapping[str, Any]) -> str:
    component = str(details.get("component", ""))
    return component.rpartition("@")[0] or component


__all__ = ["refused_before", "same_call"]
