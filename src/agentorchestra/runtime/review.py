"""The second look at a call that policy allows: a request of its own, whose doubts are put to the user."""

from __future__ import annotations

from pydantic import JsonValue

from agentorchestra.core.effects import Effect
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.policy import PolicyView, Reviewing, Verdict
from agentorchestra.runtime.branch import Branch
from agentorchestra.trust.review import after_look, review_key


def with_look(branch: Branch, effect: Effect, view: PolicyView) -> PolicyView:
    """Return what policy sees of the run, with the word on whether a second look at an effect can follow."""
    run = branch.run
    may = run.services.may_review
    off = run.manifest.policy_review == "off" or may is None or branch.apart
    if off or not isinstance(run.policy, Reviewing) or not run.policy.wants_review(effect, view):
        return view
    assert may is not None
    return view.model_copy(update={"second_look": may(branch)})


async def looked_at(
    branch: Branch, key: EffectKey, effect: Effect, view: PolicyView, base: dict[str, JsonValue]
) -> Verdict:
    run, review = branch.run, review_key(key)
    record = run.ledger.records.get(review)
    outcome = record.outcome if record is not None else None
    if outcome is None:  # what was answered before a crash is not asked again, whatever would be shown by now
        looking = type(branch)(run, key, base, parent=branch, branch=review.branch)
        build = run.services.review_effect
        assert build is not None
        outcome = await looking.perform(build(looking, effect, view))
    return after_look(run.policy, effect, view, outcome)
