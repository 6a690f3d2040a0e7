"""Whether an effect may go on: by the capabilities of its branch, by policy, by people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from agentorchestra.core.effects import Effect, EffectKind
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.spec import first_names
from agentorchestra.runtime.run import Run
from agentorchestra.trust.approvals import refused_before, same_call
from agentorchestra.trust.provenance import origins

if TYPE_CHECKING:
    from agentorchestra.runtime.session import Session


def granted(run: Run, effect: Effect) -> frozenset[str]:
    """What a component is made of is its maker's choice: its caller gets that through it, and nothing else."""
    by_makers = run.services.granted
    return frozenset() if by_makers is None else by_makers(effect) & frozenset(run.manifest.tools)


def refused(session: Session[Any], effect: Effect) -> str | None:
    """Why the capability set refuses an effect, None if it does not."""
    own = session.capabilities
    if own is None:
        return None
    agent = session.agent
    if effect.kind is EffectKind.INVOKE_TOOL and agent is not None and effect.name in agent.own_tools:
        return None  # made for this agent by whoever runs it
    if effect.kind in (EffectKind.INVOKE_TOOL, EffectKind.INVOKE_ACTION) and effect.name not in own:
        return f"{effect.name!r} is not among the tools this agent may use: {first_names(sorted(own), 60)}"
    if effect.kind in (EffectKind.INVOKE_AGENT, EffectKind.SPAWN):
        wanted = effect.arguments.get("tools")
        extra = (
            sorted({str(t) for t in wanted} - own - granted(session.run, effect)) if isinstance(wanted, list) else []
        )
        if extra:
            return (
                f"the sub-agent was to get {', '.join(extra)}, which its caller may not use itself; "
                f"choose from {first_names(sorted(own), 60)}"
            )
    return None


async def judge(session: Session[Any], key: EffectKey, effect: Effect, base: dict[str, JsonValue]) -> str | None:
    """Policy's refusal in one sentence, None if the effect may go on."""
    run = session.run
    records = run.ledger.records
    asked = records.get(EffectKey(f"{key.path}.approval", 1)) if records else None
    if asked is not None:
        # The call was put to a human: only the answer decides, whatever policy would say by now.
        details = dict(asked.effect.get("arguments", {}))
        same_call(key, details, effect)
        question = str(details.pop("question", ""))
        reason = question
    else:
        view = run.view()
        verdict = run.policy.decide(effect, view)
        if verdict.action == "allow":
            return None
        reason = verdict.reason
        if verdict.action == "deny":
            return f"denied: {reason}"
        if refused_before(run.ledger, effect):
            return "denied: the user has refused this very call before in this run"
        question = f"Allow {effect.name}? {reason}"
        details = {
            "component": effect.component,
            "arguments": effect.arguments,
            "trust": {name: trust.value for name, trust in verdict.arguments.items()},
            "origins": origins(effect, verdict.arguments, session.sight, view.user_content, tuple(run.files)),
        }
    answer = await session.ask_door(key, question, details, base, "approval")
    if answer.ok and answer.value is True:
        return None
    if not answer.ok:
        return f"denied: {reason} ({answer.error})"
    said = "" if answer.value in (False, True, None) else f": {answer.value}"
    return f"denied by the user{said}"


__all__ = ["granted", "judge", "refused"]
