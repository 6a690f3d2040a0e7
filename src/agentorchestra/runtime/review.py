"""The second look at a call that policy allows: a request of its own, whose doubts are put to the user."""

from __future__ import annotations

from pydantic import JsonValue

from agentorchestra.core.effects import Effect
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.policy import PolicyView, Reviewing, Verdict
from agentorchestra.runtime.branch import Branch
from agentorchestra.trust.review import doubted, doubts_of, review_key


async def reviewed(
    branch: Branch, key: EffectKey, effect: Effect, view: PolicyView, verdict: Verdict, base: dict[str, JsonValue]
) -> Verdict:
    """Return the verdict on an effect after the second look at it, where policy wants one."""
    run = branch.run
    build = run.services.review_effect
    off = run.manifest.policy_review == "off" or build is None or branch.apart or verdict.action != "allow"
    if off or not isinstance(run.policy, Reviewing) or not run.policy.wants_review(effect, view):
        return verdict
    assert build is not None
    its = review_key(key)
    record = run.ledger.records.get(its)
    outcome = record.outcome if record is not None else None
    if outcome is None:  # what was answered before a crash is not asked again, whatever would be shown by now
        looking = type(branch)(run, key, base, parent=branch, branch=its.branch)
        request = build(looking, effect, view)
        if request is None:
            return verdict
        outcome = await looking.perform(request)
    doubts = doubts_of(outcome)
    return doubted(effect, doubts) if doubts else verdict
