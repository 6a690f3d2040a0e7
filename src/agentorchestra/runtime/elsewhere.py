"""Agents at work in other processes: handing one out, taking over its rows; what a part of a run may do."""

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
    if branch is None or branch.parent is None or marked is None or effect.timeout_s is not None:
        return None
    ways = branch.last_n - key.n + 1 if branch.batch else 1
    done = await _leave(child, effect, key, marked, ways=ways, again=child.attempt_number > 1)
    return run.ledger.records[key].outcome if done else None


async def turn_elsewhere(branch: Branch, key: EffectKey) -> None:
    """Have a turn of a spawned agent done elsewhere, up to where it writes or waits; the run has its rows then.

    Args:
        key: of the decision with which the turn begins. Where it is recorded, what is left of a part is removed.
    """
    run, turn, founder = branch.run, branch.turn, branch.parent
    assert turn is not None and founder is not None and run.last_append is not None
    turn.begins = False
    again = run.epoch is not None and run.epoch > 1
    # Whatever the agent knows is in the log with the last rows.
    await _leave(branch, turn.spawn, key, run.last_append, ways=len(founder.spawns.at_work()), again=again)


async def _leave(
    child: Branch, effect: Effect, first: EffectKey, marked: Future[tuple[int, ...]], *, ways: int, again: bool
) -> bool:
    """Have a part do what an agent does; return whether one did, and the run has its rows.

    Args:
        effect: with which it was called or spawned.
        first: the key that tells this part from others of the same agent.
        marked: whose last event is the last one that the part needs to know.
        ways: how many agents share what is free.
        again: another process may have made the part.
    """
    run, have = child.run, child.run.services.elsewhere
    if run.part is not None or child.world != MAIN or not (again or (have is not None and have.makes)):
        return False
    name, below = part_id(run.id, first), first == child.key
    records = run.ledger.records
    anew = not any(within(key.branch, first.path) for key in records) if below else first not in records
    if have is None:
        await _refuse_lost(run, name, child.key, anew=anew)
        return False
    # Before anything is awaited: after a crash nobody else is to take what a part may be spending.
    # One share is left for whatever else the run does meanwhile.
    limits, hold = child.node.lend(1 + ways) or (None, child.node.hold(Budget()))
    try:
        if not (have.makes and _may_leave(run, effect)):
            limits = None
        seqs = await wait_for(marked)
        away = await have(run, name, child.key, seqs[-1], limits, anew=anew)
        if away is None:
            return False
        hold.release()
        hold = child.node.hold(away.limits)
        try:
            await away.ended()
        except asyncio.CancelledError:
            if await away.stop():
                await _take_over(child, effect, away)
            raise
        await _take_over(child, effect, away)
        return True
    finally:
        hold.release()


async def _refuse_lost(run: Run, name: str, key: EffectKey, *, anew: bool) -> None:
    """Raise PartElsewhereError for work whose part this process cannot take over: doing it here doubles it."""
    if anew and await run.services.store.get_run(name) is not None:
        raise PartElsewhereError(
            f"the sub-agent at {key} of run {run.id} is a job of its own ({name}), which only a worker takes over; "
            f"let one go on with the run: `agentorchestra submit --again {run.id}`"
        )


def _may_leave(run: Run, effect: Effect) -> bool:
    """Return True if an agent needs nothing that only its run's process has."""
    tools = effect.arguments.get("tools")
    names = [str(tool) for tool in tools if tool in run.services.environments] if isinstance(tools, list) else []
    return all(asked_environment(run, name).branching == "stateless" for name in names)


async def _take_over(child: Branch, effect: Effect, away: Away) -> None:
    run, key = child.run, child.key
    attempt = child.attempt_number if effect.kind is EffectKind.INVOKE_AGENT else None
    rows = rows_of(away.events(), key, attempt)
    if rows:
        seqs = await wait_for(run.append(*rows))
        pairs = zip(rows, seqs, strict=True)
        fresh = run.take_over([Event.model_construct(**row.__dict__, run=run.id, seq=seq) for row, seq in pairs], key)
        for node in child.node.chain():
            node.spent = node.spent + fresh.spent_under(node.scope)
    await away.remove()


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
    """Return where an effect without an outcome may go on in a part; one beside its agent waits for its end.

    Args:
        branch: it stands on.
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
        if not begun and effect.invalid is None and (reason := _beyond(run, effect)):
            raise part.ended(reason)
        return
    number = part.number_on(key.branch)
    if key.n <= number and not (branch.batch and branch.batch <= number <= branch.last_n):
        # Whatever leads there was recorded when the part was made.
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
    has_policy = effect.kind in (EffectKind.INVOKE_TOOL, EffectKind.INVOKE_ACTION, EffectKind.RUN_CODE)
    return f"the policy may judge {effect.name} by what the whole run does" if has_policy else ""


def short_of(run: Run, scope: str, bound: Bound, usual: Bound) -> bool:
    """Return True if what a part was lent is short, and not a limit that its agents have of their own.

    Args:
        scope: whose limit it is, "" if the effect was cut to fit.
        bound: the most that the effect may cost.
        usual: what one of a usual length needs.
    """
    if run.part is None:
        return False
    if scope:
        return not within(scope, run.part.key.path)
    return bound.tokens < usual.tokens or bound.cost_usd < usual.cost_usd


__all__ = ["done_elsewhere", "let_begin", "short_of", "turn_elsewhere"]
