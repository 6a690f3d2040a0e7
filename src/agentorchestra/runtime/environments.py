"""The handler of actions on environments, with what keeps instances apart, in order and where the run stands."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic_core import to_jsonable_python

from agentorchestra.core.budget import NO_USAGE
from agentorchestra.core.conditions import conditions_of, untrue
from agentorchestra.core.content import MediaBlock, Source, TextBlock, Trust
from agentorchestra.core.effects import Effect, EffectKind, Mode, Outcome, blocks_value, failed
from agentorchestra.core.errors import EnvironmentLostError, StoreError, ToolError
from agentorchestra.core.ids import canonical_json
from agentorchestra.core.protocols import BaseHandler
from agentorchestra.log.folders import MAIN
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.open_environments import CHANGED, OpenEnvironment, Place, as_grounded, open_at
from agentorchestra.runtime.results import MAX_RESULT_CHARS, ToolResult, cut_result, result_value
from agentorchestra.runtime.worlds import (
    ENV_STATE,
    STATE_ACTION,
    asked_environment,
    last_snapshot,
    new_environment,
    past_snapshots,
    was_changed,
)


class EnvironmentHandler(BaseHandler):
    """Actions on environment instances, their snapshots and restores.

    The snapshot an instance stands at lies in the run's state under `env:INSTANCE`, so a hit, a winning candidate or a
    resume bring it along by themselves: an instance that stands elsewhere is restored before it acts.
    """

    def __init__(self, *, max_result_chars: int = MAX_RESULT_CHARS) -> None:
        self._max_chars = max_result_chars

    def mode(self, effect: Effect) -> Mode:
        """Return the action's mode; snapshots and restores are repeatable."""
        return effect.mode if effect.kind is EffectKind.INVOKE_ACTION else Mode.REPEATABLE

    async def execute(self, effect: Effect, ctx: BranchContext[Any]) -> Outcome:
        if effect.kind is EffectKind.INVOKE_ACTION and effect.mode is Mode.COMPOSITE:
            outcome = await self._compose(effect, ctx)
            if outcome is not None:
                return outcome
        instance = effect.instance or effect.name
        place, busy, run = (effect.world, instance), _instances_above(ctx), ctx.run
        if place in busy:
            return failed(
                "mistake",
                f"{instance} is in the middle of an action of its own, out of which this one came; it cannot act "
                "on itself",
            )
        if _would_deadlock(place, busy, run.wanted):
            return failed(
                "mistake",
                f"{instance} waits for {busy[0][1]}, out of whose action this one came: each would wait for the other; "
                "try again later",
            )
        ctx.acting_on = place
        for holder in busy:
            run.wanted[holder].append(place)
        try:
            # Agents at work at the same time share it: nobody restores it while another one acts.
            await run.using[place].acquire()
        finally:
            for holder in busy:
                run.wanted[holder].remove(place)
        try:
            return await self._act(effect, instance, ctx)
        finally:
            run.using[place].release()

    async def _compose(self, effect: Effect, ctx: BranchContext[Any]) -> Outcome | None:
        """Return what an action gives that is made of effects; None for an action of an environment with a state.

        It holds no instance: the effects that it performs act on it, one after the other.
        """
        action = str(effect.arguments.get("action", ""))
        composes = getattr(asked_environment(ctx.run, effect.name), "composes", None)
        if composes is None or not composes(action):
            return None
        environment = new_environment(ctx.run, effect.name)
        values = effect.arguments.get("arguments")
        value = await environment.act(action, dict(values) if isinstance(values, dict) else {}, ctx)
        return await self._outcome(value, effect, action, ctx)

    async def _outcome(self, value: Any, effect: Effect, action: str, ctx: BranchContext[Any]) -> Outcome:
        result = value if isinstance(value, ToolResult) else ToolResult(value)
        content, whole = await cut_result(
            result_value(
                result.content, Trust.UNTRUSTED, result.sources, origin=Source(kind="environment", ref=effect.name)
            ),
            f"{effect.name}-{action}",
            ctx,
            max_chars=self._max_chars,
        )
        return Outcome(value=content, artifacts=result.artifacts + whole, trust=Trust.UNTRUSTED)

    async def _act(self, effect: Effect, instance: str, ctx: BranchContext[Any]) -> Outcome:
        name = f"{ENV_STATE}{instance}"
        state = ctx.vars.get(name)
        ref = state if isinstance(state, str) else None
        try:
            live, loss = await self._instance(effect, instance, ref, ctx)
        except EnvironmentLostError as exc:
            return failed("environment_lost", str(exc))
        except ToolError as exc:
            return failed("error", f"{instance} could not be opened: {exc}", error_type=type(exc).__name__)
        if loss is not None:
            if live.alone:
                ctx.vars[name] = None
            else:  # what lies on disk is there still: from here on that is the state
                await self._try_to_keep(live, name, ctx)
            return failed("environment_lost", loss)
        environment = live.members[effect.name]
        if effect.kind is EffectKind.SNAPSHOT:
            await self._keep(live, name, ctx)
            return Outcome(value={"snapshot": live.ref}, trust=Trust.SYSTEM)
        if effect.kind is EffectKind.RESTORE:
            snapshot = str(effect.arguments.get("snapshot", ""))
            await live.keeper.restore(await ctx.blob(snapshot))
            live.stands_at(snapshot)
            ctx.vars[name] = snapshot
            return Outcome(value={"snapshot": snapshot}, trust=Trust.SYSTEM)
        action = str(effect.arguments.get("action", ""))
        if action == STATE_ACTION:
            look = getattr(environment, "state_for", None)
            view = await (environment.state() if look is None else look(ctx))
            return Outcome.of(blocks_value(view), usage=NO_USAGE, trust=Trust.UNTRUSTED)
        names = [schema.name for schema in environment.actions()]
        if action not in names:
            return failed("mistake", f"{effect.name} has no action {action!r}; its actions: {', '.join(names)}")
        values = effect.arguments.get("arguments")
        arguments = dict(values) if isinstance(values, dict) else {}
        conditions = conditions_of(environment, action)
        missing = untrue(conditions.before, arguments)
        if missing:
            return failed("mistake", f"{instance} does not allow {action} now: not true that {' and '.join(missing)}")
        mutates = environment.mutates(action)
        problem: str | None = None
        try:
            value = await environment.act(action, arguments, ctx)
        finally:
            # A failed action may have changed something too: the snapshot tells where the instance really stands.
            if mutates and environment.branching == "snapshot":
                problem = await self._try_to_keep(live, name, ctx)
        if mutates and not environment.durable and environment.branching == "none":
            live.stands_at(CHANGED)
            ctx.vars[name] = CHANGED
        violations = untrue(conditions.after, arguments, value)
        if violations:
            return failed(
                "error", f"{action} was done on {instance}, but then it was not true that {' and '.join(violations)}"
            )
        notes: tuple[str, ...] = getattr(live.keeper, "notes", tuple)() if mutates and problem is None else ()
        if problem is not None:  # what the action gave must not be lost with it
            notes = (f"{action} was done on {instance}, but how it stands now could not be kept: {problem}",)
        return await self._outcome(_with_notes(value, notes), effect, action, ctx)

    async def _try_to_keep(self, live: OpenEnvironment, name: str, ctx: BranchContext[Any]) -> str | None:
        """Keep a snapshot; return the sentence that says why there is none (more than can be kept, for one)."""
        try:
            await self._keep(live, name, ctx)
        except StoreError:
            raise  # the log cannot be written either
        except Exception as exc:  # somebody's snapshot: whatever it raises, how the instance stands is not known
            live.stands_at(CHANGED)
            ctx.vars[name] = CHANGED
            return str(exc) if isinstance(exc, ToolError) else f"{type(exc).__name__}: {exc}"
        return None

    async def _keep(self, live: OpenEnvironment, name: str, ctx: BranchContext[Any]) -> None:
        data = await live.keeper.snapshot()
        if data is not live.content or ctx.vars.get(name) != live.ref:  # else the log names it, and it was put
            if ctx.run.replaying:  # it writes nothing: what it would keep was kept when the run was recorded
                live.stands_at(hashlib.sha256(data).hexdigest(), data)
            else:
                kind = getattr(live.keeper, "snapshot_type", "application/octet-stream")
                live.stands_at(await ctx.run.services.store.put_blob(data, kind), data)
        ctx.vars[name] = live.ref

    async def _instance(
        self, effect: Effect, instance: str, ref: str | None, ctx: BranchContext[Any]
    ) -> tuple[OpenEnvironment, str | None]:
        """Return the open instance, standing where its world stands; a sentence if that state is lost."""
        run, name = ctx.run, effect.name
        place = (effect.world, instance)
        live = run.environments.get(place)
        member = live.members.get(name) if live is not None else None
        if live is not None and member is not None and effect.component != f"{name}@{member.version}":
            # It was updated meanwhile (calls outside of runs): the new version goes on from the state of the old one.
            if live.alone:
                run.environments.pop(place)
                live = None
            else:
                live.members.pop(name)
            await member.close()
        loss: str | None = None
        if run.replaying:
            # An action that is entered again finds what it found then, whichever branch is faster today. Actions on one
            # instance were recorded in the order in which they were done.
            record = run.ledger.records.get(ctx.key)
            ref = last_snapshot(run.ledger, place, ref, before=record.seq if record is not None else 0)
            if live is not None and live.ref != ref:
                run.environments.pop(place)
                await live.close()
                live = None
        elif live is None:
            ref = last_snapshot(run.ledger, place, ref)
        if live is None:
            if ref == CHANGED and effect.world != MAIN and not was_changed(run.ledger, place):
                raise ToolError("how it stood where this rival world begins could not be kept")
            data = None if ref is None or ref == CHANGED else await run.blob(ref)
            live = run.environments[place] = await open_at(new_environment(run, name), ref, data, ctx)
            if not run.replaying:
                live.past |= past_snapshots(run.ledger, place)
            if ref == CHANGED:
                loss = (
                    f"the state of {instance} was lost with the process that held it; it was opened anew, "
                    "look at its state before going on"
                )
        elif name not in live.members:
            environment = new_environment(run, name)
            if live.alone or as_grounded(environment) is None:
                raise ToolError(f"{instance!r} is the instance of {', '.join(live.members)}, not of {name!r}")
            await live.join(environment, ctx)
        # To an older state of the same instance nothing is put back.
        if loss is None and ref is not None and ref != CHANGED and ref not in live.past:
            await live.keeper.restore(await ctx.blob(ref))
            live.stands_at(ref)
        return live, loss


def _with_notes(value: Any, notes: Sequence[str]) -> Any:
    if not notes:
        return value
    if isinstance(value, ToolResult):
        return replace(value, content=_with_notes(value.content, notes))
    text = "\n".join(f"[{note}]" for note in notes)
    if isinstance(value, TextBlock | MediaBlock):
        value = [value]
    if isinstance(value, list | tuple) and value and all(isinstance(part, TextBlock | MediaBlock) for part in value):
        return [*value, TextBlock(text=text)]
    return f"{value if isinstance(value, str) else canonical_json(to_jsonable_python(value))}\n{text}"


def _instances_above(ctx: BranchContext[Any]) -> list[Place]:
    """Return the instances in the middle of whose actions this effect comes, the nearest first: they wait for it."""
    places = []
    branch = ctx.parent
    while branch is not None:
        if branch.acting_on is not None:
            places.append(branch.acting_on)
        branch = branch.parent
    return places


def _would_deadlock(place: Place, holding: list[Place], waits: Mapping[Place, list[Place]]) -> bool:
    """Return True if an action on this instance waits, through others, for one that is held here."""
    seen: set[Place] = set()
    open_ = [place]
    while open_:
        current = open_.pop()
        if current in holding:
            return True
        if current not in seen:
            seen.add(current)
            open_ += waits.get(current, ())
    return False
