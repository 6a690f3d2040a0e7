"""Environments that are open in a run: where each stands, which world goes on, what is brought to disk at the end.

The snapshot a world stands at lies in the run's state under `env:INSTANCE`, so hits, rival worlds and the world of a
winner bring it along. Branches of one world work on one instance: what a branch has in its state may be older than what
a branch beside it has done meanwhile, and then the instance stays as it is.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from pydantic import JsonValue

from agentorchestra.core.effects import Effect, EffectKind
from agentorchestra.core.errors import UnknownComponentError
from agentorchestra.core.protocols import Environment, Ground, Grounded
from agentorchestra.log.folders import MAIN

if TYPE_CHECKING:
    from agentorchestra.runtime.run import Run
    from agentorchestra.runtime.session import Session

CHANGED = "acted"
"""In place of a snapshot: the instance was changed, and nothing holds how it stands."""

STATE = "env:"
"""How the names of the run's state begin that hold where an instance stands."""

_OF_AN_INSTANCE = frozenset({EffectKind.INVOKE_ACTION, EffectKind.SNAPSHOT, EffectKind.RESTORE})


@dataclass
class LiveEnvironment:
    """An open instance, of one environment or of all that share a ground.

    Attributes:
        keeper: whose state it is: the environment itself, or the ground.
        members: the open environments by name; on a ground, all that were used so far.
        ref: the snapshot it stands at; None for a new one.
        past: the snapshots it stood at since it was opened, that one too.
    """

    keeper: Environment | Ground
    members: dict[str, Environment] = field(default_factory=dict)
    ref: str | None = None
    past: set[str] = field(default_factory=set)

    @property
    def alone(self) -> bool:
        """Whether it is one environment, not several on a ground."""
        return any(one is self.keeper for one in self.members.values())

    def stands_at(self, ref: str | None) -> None:
        """Note the snapshot that it stands at from here on."""
        self.ref = ref
        if ref is not None:
            self.past.add(ref)

    def has_stood_at(self, ref: str) -> bool:
        """Whether a state is this one, or an older one of the same instance: then nothing is put back."""
        return ref in self.past

    async def join(self, environment: Environment, ctx: Session[Any]) -> None:
        """Open one more environment on the ground."""
        on_ground = grounded(environment)
        assert on_ground is not None
        on_ground.stand_on(cast(Ground, self.keeper))
        try:
            await environment.open(ctx)
        except BaseException:
            await environment.close()
            raise
        self.members[environment.name] = environment

    async def close(self) -> None:
        """Close what is open, the ground last; one that fails does not keep the others open."""
        alone = self.alone
        for one in [*self.members.values()]:
            with contextlib.suppress(Exception):
                await one.close()
        if not alone:
            with contextlib.suppress(Exception):
                await self.keeper.close()
        self.members.clear()


def grounded(environment: Any) -> Grounded | None:
    """An environment as one that shares a ground; None if it does not."""
    return environment if isinstance(environment, Grounded) and environment.ground else None


def made(name: str, run: Run) -> Environment:
    """A new instance of an environment.

    Raises:
        UnknownComponentError: if there is none of this name.
    """
    factory = run.services.environments.get(name)
    if factory is None:
        known = ", ".join(sorted(run.services.environments)) or "none"
        raise UnknownComponentError(f"no environment {name!r} is registered; registered: {known}")
    return factory()


def stops_at_failure(run: Run, effect: Effect) -> bool:
    """Return True if an action is on an environment whose later actions of one decision depend on the earlier ones."""
    if effect.kind is not EffectKind.INVOKE_ACTION or effect.name not in run.services.environments:
        return False
    return bool(getattr(made(effect.name, run), "stops_at_failure", False))


def mistaken(session: Session[Any], effect: Effect) -> str | None:
    """Return what an open environment finds wrong with an action by a mere look, before policy judges it; else None."""
    if effect.kind is not EffectKind.INVOKE_ACTION:
        return None
    live = session.run.environments.get((effect.world, effect.instance or effect.name))
    check = getattr(live.members.get(effect.name), "mistaken", None) if live is not None else None
    given = effect.arguments.get("arguments")
    if check is None or not isinstance(given, dict):
        return None
    problem: str | None = check(str(effect.arguments.get("action", "")), given, session)
    return problem


async def opened(environment: Environment, ref: str | None, ctx: Session[Any]) -> LiveEnvironment:
    """An environment opened and put where its world stands; a ground is laid first.

    Args:
        environment: a new one.
        ref: the snapshot; None for a new instance, CHANGED for one whose state nothing holds.
        ctx: of the effect that needs it.
    """
    on_ground = grounded(environment)
    if on_ground is not None:
        ground = await on_ground.lay(ctx)
        live = LiveEnvironment(ground)
        if ref != CHANGED:  # what another process may have left on disk is not where the run stands
            await ground.restore(None if ref is None else await ctx.blob(ref))
            live.stands_at(ref)
        await live.join(environment, ctx)
        return live
    await environment.open(ctx)
    live = LiveEnvironment(environment, {environment.name: environment})
    if ref is not None and ref != CHANGED:
        await environment.restore(await ctx.blob(ref))
        live.stands_at(ref)
    return live


def standing(run: Run, place: tuple[str, str], ref: str | None, *, before: int = 0) -> str | None:
    """Where an instance stands that is not open: what its world recorded last, or what came into the world later.

    Args:
        run: its log so far.
        place: world and instance.
        ref: what the branch that asks has in its state: of a winner's world, or older than what a branch beside it did.
        before: what was recorded from this sequence on counts not; 0 for all that is recorded.
    """
    world, instance = place
    name = f"{STATE}{instance}"
    last, last_seq, came = ref, 0, 0
    for record in run.ledger.records.values():
        outcome = record.outcome
        if outcome is None or name not in outcome.writes or record.kind not in _OF_AN_INSTANCE:
            continue
        if before and record.seq >= before:
            continue
        value = outcome.writes[name]
        if value == ref:
            came = max(came, record.seq)
        if record.effect.get("world", "main") == world and record.seq > last_seq:
            last, last_seq = value if isinstance(value, str) else None, record.seq
    return last if last_seq > came else ref


def stood_at(run: Run, place: tuple[str, str]) -> set[str]:
    """The states that an instance stood at in this very world, by what is recorded: none of them is one to go back to
    because a branch beside the last one still has it in view."""
    world, instance = place
    values = [
        record.outcome.writes.get(f"{STATE}{instance}")
        for record in run.ledger.records.values()
        if record.outcome is not None and record.kind in _OF_AN_INSTANCE and record.effect.get("world", MAIN) == world
    ]
    return {value for value in values if isinstance(value, str) and value != CHANGED}


def acted_in(run: Run, place: tuple[str, str]) -> bool:
    """Whether an instance was changed in this very world, by what is recorded."""
    world, instance = place
    name = f"{STATE}{instance}"
    return any(
        record.outcome is not None and name in record.outcome.writes and record.effect.get("world", MAIN) == world
        for record in run.ledger.records.values()
        if record.kind in _OF_AN_INSTANCE
    )


def standing_now(session: Session[Any]) -> dict[str, JsonValue]:
    """Where the instances of a branch's world stand, for rival worlds that begin there.

    The branch itself has what the last of several agents it called left, in listed order; another one may have acted
    after that.
    """
    found: dict[str, JsonValue] = {}
    if session.run.replaying:  # its log holds what comes later, too
        return found
    for name, ref in session.vars.items():
        if name.startswith(STATE) and (ref is None or isinstance(ref, str)):
            found[name] = standing(session.run, (session.world, name.removeprefix(STATE)), ref)
    return found


async def take_over(session: Session[Any], below: str) -> None:
    """Go on where a rival world stands: what is open follows at once, what the rivals have open is closed.

    Args:
        session: of the branch that goes on, with the winner's state.
        below: how the names of the rivals' worlds begin.
    """
    run = session.run
    over = [place for place in run.environments if place[0].startswith(below)]
    for world, instance in over:
        live = run.environments[world, instance]
        if not live.alone and (session.world, instance) not in run.environments:
            # What the user finds in the end is this world's.
            await _lay(session, instance, live)
    for place, live in [*run.environments.items()]:
        if place[0] == session.world:
            async with run.using[place]:
                await _bring(live, session.vars.get(f"{STATE}{place[1]}"), session)
    for place in over:
        async with run.using[place]:
            await run.environments.pop(place).close()


async def _lay(session: Session[Any], instance: str, like: LiveEnvironment) -> None:
    member = grounded(next(iter(like.members.values()), None))
    if member is not None:
        ground = await member.lay(session)
        await ground.restore(None)
        session.run.environments[session.world, instance] = LiveEnvironment(ground)


async def _bring(live: LiveEnvironment, ref: JsonValue, session: Session[Any]) -> None:
    if isinstance(ref, str) and ref != CHANGED and live.ref != ref:
        await live.keeper.restore(await session.blob(ref))
        live.stands_at(ref)


async def settle(root: Session[Any]) -> None:
    """Bring what lies on disk to where a run stands that has ended, if the process that ended it did not work on it."""
    run = root.run
    stands = {name.removeprefix(STATE): ref for name, ref in root.vars.items() if name.startswith(STATE)}
    wanted = {
        instance: ref
        for instance, ref in stands.items()
        if isinstance(ref, str) and (root.world, instance) not in run.environments
    }
    for name in run.manifest.tools if wanted else ():
        environment = grounded(made(name, run)) if name in run.services.environments else None
        if environment is not None and environment.ground in wanted:
            ref = standing(run, (root.world, environment.ground), wanted.pop(environment.ground))
            ground = await environment.lay(root)
            try:
                if ref is not None and ref != CHANGED:
                    await ground.restore(await root.blob(ref))
            finally:
                await ground.close()


__all__ = [
    "CHANGED",
    "STATE",
    "LiveEnvironment",
    "acted_in",
    "grounded",
    "made",
    "opened",
    "settle",
    "standing",
    "standing_now",
    "stood_at",
    "take_over",
]
