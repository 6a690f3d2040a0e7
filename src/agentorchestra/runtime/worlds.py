"""Where the environments of a run's worlds stand: by what is recorded, in rival worlds, and on disk at the end.

The snapshot a world stands at lies in the run's state under `env:INSTANCE`, so hits, rival worlds and the world of a
winner bring it along. Branches of one world work on one instance: what a branch has in its state may be older than what
a branch beside it has done meanwhile, and then the instance stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.effects import Effect, EffectKind, Mode, Tag
from agentorchestra.core.errors import EnvironmentLostError, UnknownComponentError
from agentorchestra.core.names import did_you_mean
from agentorchestra.core.protocols import Environment, RunContext
from agentorchestra.log.folders import MAIN
from agentorchestra.log.ledger import Ledger, Record
from agentorchestra.runtime.open_environments import CHANGED, OpenEnvironment, Place, as_grounded
from agentorchestra.runtime.run import Run

ENV_STATE = "env:"  # how the names of the run's state begin that hold where an instance stands
STATE_ACTION = "state"  # the action every environment has: what an agent sees of it now

_OF_AN_INSTANCE = frozenset({EffectKind.INVOKE_ACTION, EffectKind.SNAPSHOT, EffectKind.RESTORE})
_OUTSIDE = frozenset({Tag.SPEND, Tag.SEND})
_ONE_WAY = frozenset({EffectKind.SEND_MESSAGE, EffectKind.SPAWN})  # what others see at once: no world holds it


def new_environment(run: Run, name: str) -> Environment:
    """Return a new instance of an environment; UnknownComponentError if there is none of this name."""
    return _factory(run, name)()


def asked_environment(run: Run, name: str) -> Environment:
    """Return the instance that says what an environment is: the same one for the whole run, and never opened.

    Raises:
        UnknownComponentError: there is no environment of this name.
    """
    factory = _factory(run, name)
    made_by, environment = run.asked.get(name, (None, None))
    if environment is None or made_by is not factory:  # another version was registered meanwhile
        environment = factory()
        run.asked[name] = factory, environment
    return environment


def _factory(run: Run, name: str) -> Callable[[], Environment]:
    factory = run.services.environments.get(name)
    if factory is None:
        names = sorted(run.services.environments)
        guess = did_you_mean(name, names, f"there are: {', '.join(names) or 'none'}")
        raise UnknownComponentError(f"no environment {name!r}; {guess}")
    return factory


def may_be_tried(run: Run, effect: Effect) -> bool:
    """Return True if rival worlds may each do an effect: it only looks, or what it changes stays in its own world."""
    if effect.tags & _OUTSIDE or effect.kind in _ONE_WAY:
        return False
    if effect.kind is EffectKind.INVOKE_ACTION and effect.name in run.services.environments:
        environment, action = asked_environment(run, effect.name), str(effect.arguments.get("action", ""))
        return environment.branching == "snapshot" or action == STATE_ACTION or not environment.mutates(action)
    if effect.kind is not EffectKind.INVOKE_TOOL or effect.mode is Mode.COMPOSITE:
        return True  # the effects of a composite are judged one by one
    return effect.mode is not Mode.ONCE and Tag.WRITE not in effect.tags


def world_of(run: Run, effect: Effect, world: str) -> str:
    """Return the world in which an effect acts: of an environment that cannot branch there is one for all rivals."""
    if world == MAIN or effect.kind not in _OF_AN_INSTANCE or effect.name not in run.services.environments:
        return world
    return MAIN if asked_environment(run, effect.name).branching == "none" else world


def stops_at_failure(run: Run, effect: Effect) -> bool:
    """Return True if an action is on an environment whose later actions of one decision depend on the earlier ones."""
    if effect.kind is not EffectKind.INVOKE_ACTION or effect.name not in run.services.environments:
        return False
    return bool(getattr(asked_environment(run, effect.name), "stops_at_failure", False))


def obvious_mistake(run: Run, effect: Effect, ctx: Any) -> str | None:
    """Return what an open environment finds wrong with an action by a mere look, before policy judges it; else None."""
    if effect.kind is not EffectKind.INVOKE_ACTION:
        return None
    live = run.environments.get((effect.world, effect.instance or effect.name))
    check = getattr(live.members.get(effect.name), "mistaken", None) if live is not None else None
    arguments = effect.arguments.get("arguments")
    if check is None or not isinstance(arguments, dict):
        return None
    problem: str | None = check(str(effect.arguments.get("action", "")), arguments, ctx)
    return problem


# -- what is recorded --------------------------------------------------------------------------------------------------


def _states(ledger: Ledger, instance: str) -> Iterator[tuple[Record, JsonValue]]:
    """Yield the effects on an instance that changed where it stands, and where it stood after each."""
    name = f"{ENV_STATE}{instance}"
    for record in ledger.records.values():
        if record.outcome is not None and name in record.outcome.writes and record.kind in _OF_AN_INSTANCE:
            yield record, record.outcome.writes[name]


def _is_in(record: Record, world: str) -> bool:
    return bool(record.effect.get("world", MAIN) == world)


def last_snapshot(ledger: Ledger, place: Place, ref: str | None, *, before: int = 0) -> str | None:
    """Return where an instance stands that is not open: what its world recorded last, or what came into it later.

    Args:
        ref: what the branch that asks has in its state: of a winner's world, or older than what a branch beside it did.
        before: what was recorded from this sequence on counts not; 0 for all that is recorded.
    """
    world, instance = place
    last, last_seq, came = ref, 0, 0
    for record, value in _states(ledger, instance):
        if before and record.seq >= before:
            continue
        if value == ref:
            came = max(came, record.seq)
        if _is_in(record, world) and record.seq > last_seq:
            last, last_seq = value if isinstance(value, str) else None, record.seq
    return last if last_seq > came else ref


def final_snapshot(ledger: Ledger, instance: str) -> str | None:
    """Return where an instance stands in the world that is the run's; of a run under way, by what is recorded."""
    name, seq = f"{ENV_STATE}{instance}", 0
    state = ledger.begins.vars.get(name) if ledger.begins is not None else None
    for key, record in ledger.records.items():
        if key.branch == "/" and record.outcome is not None and name in record.outcome.writes and record.seq > seq:
            state, seq = record.outcome.writes[name], record.seq  # that of a winner among rivals, too
    return last_snapshot(ledger, (MAIN, instance), state if isinstance(state, str) else None)


def past_snapshots(ledger: Ledger, place: Place) -> set[str]:
    """Return the recorded states of an instance in this very world: none is gone back to for a branch's older view."""
    world, instance = place
    values = [value for record, value in _states(ledger, instance) if _is_in(record, world)]
    return {value for value in values if isinstance(value, str) and value != CHANGED}


def was_changed(ledger: Ledger, place: Place) -> bool:
    world, instance = place
    return any(_is_in(record, world) for record, _ in _states(ledger, instance))


# -- rival worlds, and the end -----------------------------------------------------------------------------------------


def current_states(run: Run, world: str, state: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return where the instances of a branch's world stand, for rival worlds that begin there.

    The branch itself has what the last of several agents it called left, in listed order; another one may have acted
    after that.
    """
    if run.replaying:  # its log holds what comes later, too
        return {}
    return {
        name: last_snapshot(run.ledger, (world, name.removeprefix(ENV_STATE)), ref)
        for name, ref in state.items()
        if name.startswith(ENV_STATE) and (ref is None or isinstance(ref, str))
    }


async def adopt_world(run: Run, world: str, rivals: str, ctx: RunContext[Any]) -> None:
    """Go on where a rival world stands: what is open follows at once, what the rivals have open is closed.

    `rivals` is how the names of the rivals' worlds begin; `ctx` is of the branch that goes on, with the winner's state.
    """
    over = [place for place in run.environments if place[0].startswith(rivals)]
    for place in over:
        live, here = run.environments[place], (world, place[1])
        if not live.alone and here not in run.environments:
            # What the user finds in the end is this world's.
            member = as_grounded(next(iter(live.members.values()), None))
            if member is not None:
                ground = await member.lay(ctx)
                await ground.restore(None)
                run.environments[here] = OpenEnvironment(ground)
    for place, live in [*run.environments.items()]:
        if place[0] == world:
            async with run.using[place]:
                ref = ctx.vars.get(f"{ENV_STATE}{place[1]}")
                if isinstance(ref, str) and ref != CHANGED and live.ref != ref:
                    await live.keeper.restore(await run.blob(ref))
                    live.stands_at(ref)
    for place in over:
        async with run.using[place]:
            await run.environments.pop(place).close()


async def lay_ground(run: Run, name: str, ctx: Any) -> None:
    """Put the ground of an environment where its world stands, for what acts on it beside its actions.

    What a killed process left there is gone then. A ground that is open stays as it is.
    """
    environment = as_grounded(new_environment(run, name))
    assert environment is not None
    place = (ctx.world, environment.ground)
    async with run.using[place]:
        if place in run.environments:
            return
        state = ctx.vars.get(f"{ENV_STATE}{environment.ground}")
        ref = last_snapshot(run.ledger, place, state if isinstance(state, str) else None)
        ground = await environment.lay(ctx)
        await ground.restore(None if ref in (None, CHANGED) else await run.blob(str(ref)))
        live = run.environments[place] = OpenEnvironment(ground, past=past_snapshots(run.ledger, place))
        live.stands_at(ref)


async def bring_to_disk(run: Run, world: str, ctx: RunContext[Any]) -> None:
    """Bring what lies on disk to where a run stands that has ended, where the process that ended it did not use it."""
    stands = {name.removeprefix(ENV_STATE): ref for name, ref in ctx.vars.items() if name.startswith(ENV_STATE)}
    refs = {name: ref for name, ref in stands.items() if isinstance(ref, str) and (world, name) not in run.environments}
    for name in run.manifest.tools if refs else ():
        environment = as_grounded(new_environment(run, name)) if name in run.services.environments else None
        if environment is not None and environment.ground in refs:
            ref = last_snapshot(run.ledger, (world, environment.ground), refs.pop(environment.ground))
            ground = await environment.lay(ctx)
            try:
                if ref is not None and ref != CHANGED:
                    with suppress(EnvironmentLostError):  # what lies there stays; whoever acts on it is told
                        await ground.restore(await run.blob(ref))
            finally:
                await ground.close()
