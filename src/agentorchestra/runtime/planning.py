"""The plan of a run: asked for once for each message of the user, when policy first needs it (trust/plan.py)."""

from __future__ import annotations

from agentorchestra.core.effects import Effect
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.policy import PLAN, Plan, PlanningPolicy, PolicyView
from agentorchestra.runtime.branch import Branch
from agentorchestra.runtime.run import Run
from agentorchestra.trust.plan import plan_branch, read_plan

_TRIES = 2


async def with_plan(branch: Branch, effect: Effect, view: PolicyView) -> PolicyView:
    """Return what policy sees of the run when it judges an effect; a plan that it needs is asked for first."""
    run = branch.run
    view = view.model_copy(update={"trusted": branch.seen.trusted_values})
    build = run.services.plan_effect
    off = run.manifest.policy_plan == "off" or build is None or branch.apart or effect.purpose == PLAN
    if off or not isinstance(run.policy, PlanningPolicy) or not run.policy.wants_plan(effect, view):
        return view
    async with run.planning:  # of several at the same time, one asks
        await _ask(branch)
    return run.view().model_copy(update={"trusted": branch.seen.trusted_values})


async def _ask(branch: Branch) -> None:
    """Ask for the plan of what the user has said by now; what is recorded is not asked for again."""
    run = branch.run
    path = plan_branch(run.ledger.last_words())
    problem = ""
    for n in range(1, _TRIES + 1):
        key = EffectKey(path, n)
        record = run.ledger.records.get(key)
        if record is None or record.outcome is None:
            if not await _make_request(branch, key, problem):
                return
            record = run.ledger.records[key]
        assert record.outcome is not None
        plan = read_plan(record.effect, record.outcome)
        if isinstance(plan, Plan) or not record.outcome.ok:
            return
        problem = plan


async def _make_request(branch: Branch, key: EffectKey, problem: str) -> bool:
    """Have the request made on a branch of its own, so that no key of the run is another one for it."""
    run: Run = branch.run
    root = branch
    while root.parent is not None:
        root = root.parent
    planning = type(branch)(run, root.key, {}, parent=root, branch=key.branch)
    planning.last_n = key.n - 1
    build = run.services.plan_effect
    effect = build(planning, run.user_content, problem) if build is not None else None
    if effect is None:
        return False
    await planning.perform(effect)
    return True
