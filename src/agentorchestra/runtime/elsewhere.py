"""Delegations that are done in other processes: handing one out, taking over its rows; what a part of a run may do."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

from agentorchestra.core.budget import Bound, Budget
from agentorchestra.core.effects import Effect, EffectKind, Outcome
from agentorchestra.core.errors import PartElsewhereError
from agentorchestra.core.events import Event
from agentorchestra.core.ids import EffectKey, part_id
from agentorchestra.core.policy import Separable
from agentorchestra.log.folders import MAIN
from agentorchestra.log.ledger import within
from agentorchestra.runtime.branch import Branch
from agentorchestra.runtime.part import Away, rows_of
from agentorchestra.runtime.run import Run, wait_for
from agentorchestra.runtime.worlds import asked_environment

# -- in the run --------------------------------------------------------------------------------------------------------


async def done_elsewhere(child: Branch, effect: Effect, marked: Future[tuple[int, ...]] | None) -> Outcome | None:
    """Have the delegation that owns a branch done elsewhere; return its outcome once the run has recorded it.

    None where it is to be done here, from its beginning or from where its part handed it back.
    """
    run, branch, key = child.run, child.parent, child.key
    have, again = run.services.elsewhere, child.attempt_number > 1
    if branch is None or branch.parent is None or marked is None or run.part is not None or branch.world != MAIN:
        return None
    if not again and (have is None or not have.makes):
        return None
    anew = not any(within(one.branch, key.path) for one in run.ledger.records)
    if have is None:
        await _refuse_lost(run, key, anew=anew)
        return None
    # One share is left for whatever else the run does meanwhile.
    ways = 1 + (branch.last_n - key.n + 1 if branch.batch else 1)
    # Before anything is awaited: after a crash nobody else is to take what a part may be spending.
    limits, hold = child.node.lend(ways) or (None, child.node.hold(Budget()))
    try:
        if not (have.makes and _may_leave(run, effect)):
            limits = None
        (seq,) = await wait_for(marked)
        away = await have(run, key, seq, limits, anew=anew)
        if away is None:
            return None
        hold.release()
        hold = child.node.hold(away.limits)
        try:
            await away.ended()
        except asyncio.CancelledError:
            if await away.stop():
                await _take_over(child, away)
            raise
        return await _take_over(child, away)
    finally:
        hold.release()


async def _refuse_lost(run: Run, key: EffectKey, *, anew: bool) -> None:
    """Raise PartElsewhereError for a delegation whose part this process cannot take over: doing it here doubles it."""
    name = part_id(run.id, key)
    if anew and await run.services.store.get_run(name) is not None:
        raise PartElsewhereError(
            f"the sub-agent at {key} of run {run.id} is a job of its own ({name}), which only a worker takes over; "
            f"let one go on with the run: `agentorchestra submit --again {run.id}`"
        )


def _may_leave(run: Run, effect: Effect) -> bool:
    """Return True if an agent needs nothing that only its run's process has."""
    # Who was spawned, and whether they can act, is counted in the process.
    if any(record.effect.get("kind") == EffectKind.SPAWN for record in run.ledger.records.values()):
        return False
    if effect.timeout_s is not None:
        return False
    tools = effect.arguments.get("tools")
    named = [str(one) for one in tools if one in run.services.environments] if isinstance(tools, list) else []
    return all(asked_environment(run, name).branching == "stateless" for name in named)


async def _take_over(child: Branch, away: Away) -> Outcome | None:
    """Take the rows of a part into the run; return the delegation's outcome, None if it has none."""
    run, key = child.run, child.key
    rows = rows_of(away.events(), key, child.attempt_number)
    if rows:
        seqs = await wait_for(run.append(*rows))
        pairs = zip(rows, seqs, strict=True)
        fresh = run.take_over([Event.model_construct(**row.__dict__, run=run.id, seq=seq) for row, seq in pairs], key)
        for node in child.node.chain():
            node.spent = node.spent + fresh.spent_under(node.scope)
    await away.remove()
    return run.ledger.records[key].outcome


# -- in the part -------------------------------------------------------------------------------------------------------

_OWN = frozenset(
    {
        EffectKind.REQUEST_MODEL,
        EffectKind.EMBED,
        EffectKind.TRANSCRIBE,
        EffectKind.INVOKE_TOOL,
        EffectKind.INVOKE_ACTION,
        EffectKind.INVOKE_AGENT,
        EffectKind.RECEIVE,
        EffectKind.RUN_CODE,
    }
)
"""Kinds that a part may perform. Questions, mail, waits, spawned agents and memories concern the whole run."""


async def let_begin(branch: Branch, key: EffectKey, effect: Effect, *, composite: bool, begun: bool) -> None:
    """Return where an effect without an outcome may go on in a part; one beside the delegation waits for its end.

    Args:
        branch: it stands on.
        key, effect: of the effect.
        composite: whether it is entered again.
        begun: whether it was started before.

    Raises:
        HandedBackError: it may not, or the part has ended.
    """
    run, part = branch.run, branch.run.part
    assert part is not None
    if part.over.is_set():
        raise part.ended()
    if part.leads(key) and begun and composite:
        return
    if within(key.branch, part.key.path):
        if not begun and effect.invalid is None and (why := _beyond(run, effect)):
            raise part.ended(why)
        return
    if not (branch.batch and branch.batch <= part.number_on(key.branch) <= branch.last_n):
        # Whatever comes before the delegation was recorded when the part was made.
        raise part.ended(f"{effect.name} at {key} is not recorded")
    await part.over.wait()
    raise part.ended()


def _beyond(run: Run, effect: Effect) -> str:
    """Return why only the run itself may perform an effect, "" if a part of it may."""
    if effect.kind not in _OWN:
        return f"{effect.kind.value} concerns the whole run"
    if effect.kind is EffectKind.INVOKE_ACTION and asked_environment(run, effect.name).branching != "stateless":
        return f"the environment {effect.name} is the run's"
    if isinstance(run.policy, Separable):
        return "" if run.policy.alone(effect, run.view()) else f"{effect.name} is judged by what the whole run does"
    judged = effect.kind in (EffectKind.INVOKE_TOOL, EffectKind.INVOKE_ACTION, EffectKind.RUN_CODE)
    return f"the policy may judge {effect.name} by what the whole run does" if judged else ""


def short_of(run: Run, scope: str, bound: Bound, usual: Bound) -> bool:
    """Return True if what a part was lent is short, and not a limit that its agents have of their own.

    Args:
        run: the part.
        scope: whose limit it is, "" if the effect was cut to fit.
        bound: the most that the effect may cost.
        usual: what one of a usual length needs.
    """
    if run.part is None:
        return False
    if scope:
        return not within(scope, run.part.key.path)
    return bound.tokens < usual.tokens or bound.cost_usd < usual.cost_usd


__all__ = ["done_elsewhere", "let_begin", "short_of"]
