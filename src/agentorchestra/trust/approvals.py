"""Questions as people see them; what a recorded approval is about: one call, as it was shown to whoever answered."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from agentorchestra.core.effects import Effect, EffectKind, Provenance
from agentorchestra.core.errors import DivergedError
from agentorchestra.core.ids import EffectKey, canonical_json
from agentorchestra.core.spec import Question
from agentorchestra.log.ledger import Ledger
from agentorchestra.trust.provenance import what_was_seen

_CODE_CHARS = 8


def question_of(
    key: str, arguments: Mapping[str, Any], *, approval: bool, provenance: Sequence[Provenance]
) -> Question:
    """Build a question from the effect that asks it, with what the agent that asks has seen.

    `approval` says whether it asks permission for a call.
    """
    details = {name: value for name, value in arguments.items() if name != "question"}
    question = Question(key=key, question=str(arguments.get("question", "")), details=details)
    if not approval:
        return question.model_copy(update={"details": details | what_was_seen(provenance)})
    return question.model_copy(update={"kind": "approval", "code": _code(key, details)})


def _code(key: str, details: Mapping[str, Any]) -> str:
    shown = canonical_json([key, details.get("component", ""), details.get("arguments", {})])
    return hashlib.sha256(shown.encode("utf-8", "surrogatepass")).hexdigest()[:_CODE_CHARS]


def same_call(key: EffectKey, asked: Mapping[str, Any], effect: Effect) -> None:
    """Check that a question (its recorded details) was asked about this very call.

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
    """Return True if the user has refused a call of this component with these arguments: nobody is asked twice."""
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
