"""The stages that every effect of a run goes through (docs/door.md).

ledger -> policy -> reserve -> mark -> execute -> record (and settle)
"""

from __future__ import annotations

import asyncio
import inspect
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from agentorchestra.core.budget import NO_COST, Bound
from agentorchestra.core.content import Trust, lowest
from agentorchestra.core.effects import (
    BESIDE,
    OF_MODELS,
    Effect,
    EffectKind,
    Mode,
    Outcome,
    OutcomeStatus,
    failed,
)
from agentorchestra.core.errors import (
    AgentOrchestraError,
    BudgetExhaustedError,
    DivergedError,
    ModelError,
    SuspendedError,
    UnknownComponentError,
)
from agentorchestra.core.events import EffectCompleted, EffectStarted, NewEvent
from agentorchestra.core.frozen import constructed
from agentorchestra.core.ids import EffectKey, sha256_text
from agentorchestra.core.protocols import Sizing
from agentorchestra.log.ledger import Record, within
from agentorchestra.runtime.budget import BudgetShort, Hold, exhausted
from agentorchestra.runtime.open_environments import mistaken
from agentorchestra.runtime.parallel import CONTROL, ReplayEnd
from agentorchestra.runtime.permission import judge, refused
from agentorchestra.runtime.run import observe, wait_for
from agentorchestra.runtime.state import PRIVATE

if TYPE_CHECKING:
    from agentorchestra.runtime.session import Session

_DECISIONS = ("decision", "final")
_LAZY = frozenset({EffectKind.RECEIVE})
"""Kinds whose record need not be awaited: it is committed before any row that comes after it."""


async def through(
    session: Session[Any], key: EffectKey, effect: Effect, base: dict[str, JsonValue], *, skipped: bool = False
) -> Outcome:
    """Let an effect through the door.

    Args:
        session: the branch it stands on.
        key: its place there.
        effect: what the branch's code asks for.
        base: the run's state as the effect finds it.
        skipped: it must not be started, for the reason in `effect.invalid`.
    """
    run = session.run
    handler = run.services.handlers.get(effect.kind)
    if handler is None:
        raise UnknownComponentError(f"no handler is registered for {effect.kind.value}; the workspace registers them")
    effect = effect.model_copy(update={"world": session.world}) if effect.world != session.world else effect
    if not effect.content_hash:
        # Every effect names the code that executes it; a component without a hash of its own is its handler.
        effect = effect.model_copy(update={"content_hash": source_hash(type(handler))})
    effect = session.sight.of(run.redactor.effect(handler.redact(effect)))
    mode = handler.mode(effect)
    if run.replaying:
        run.visited.add(key)
        # What the door itself asked about this effect has no code that asks again.
        asked = [EffectKey(f"{key.path}.approval", 1)]
        asked += [EffectKey(f"{key.path}.uncertain", n) for n in range(1, run.ledger.attempts.get(key, 0) + 1)]
        run.visited.update(one for one in asked if one in run.ledger.records)

    # ledger
    record = run.ledger.records.get(key)
    if record is not None:
        if not skipped:
            change = run.ledger.compare(key, effect, record)
            if change is not None:
                run.note_change(key, change)
        if record.outcome is not None:
            return await _hit(session, key, effect, record, mode, base)
    if run.replaying:
        if effect.kind in run.sealed:
            run.visited.update(k for k in run.ledger.records if within(k.branch, key.path))
        elif mode is Mode.COMPOSITE and record is not None:
            entered = await _reenter(session, key, effect, mode, handler, base, 1)
            if effect.kind is EffectKind.SPAWN:
                return entered
        raise ReplayEnd(str(key))

    _pause_before(session, key, effect)
    attempt = run.ledger.attempts.get(key, 0) + 1
    if effect.invalid is not None:
        status: OutcomeStatus = "skipped" if skipped else "mistake"
        # The sentence may name what a schema allows: that is somebody else's where the schema is.
        own = effect.declared is None or effect.declared.trust is not Trust.UNTRUSTED
        said = failed(status, effect.invalid, trust=lowest(Trust.AGENT, effect.lowest_trust), own_words=own)
        return await record_outcome(session, key, effect, Mode.PURE, said, attempt)
    refusal = refused(session, effect)
    if refusal is None and record is None and (mistake := mistaken(session, effect)) is not None:
        return await record_outcome(session, key, effect, Mode.PURE, failed("mistake", mistake), attempt)
    if refusal is None and (record is None or not record.started):
        refusal = await judge(session, key, effect, base)
    if refusal is not None:
        denied = failed("denied", refusal, trust=lowest(Trust.AGENT, effect.lowest_trust))
        return await record_outcome(session, key, effect, Mode.PURE, denied, attempt)

    # a crash left the mark of an effect that must not be repeated
    if record is not None and record.started and mode is Mode.ONCE:
        doubt = await _uncertain(session, key, effect, base, attempt, record.attempt)
        if doubt is not None:
            return doubt

    # reserve
    decision = effect.purpose in _DECISIONS and effect.kind is EffectKind.REQUEST_MODEL
    final = effect.purpose == "final"
    acting, bound, keep = _sized(session, handler, effect, decision=decision)
    if decision:
        once = {"steps": 1, "active_s": run.longest_decision_s}
        bound, keep = bound.model_copy(update=once), keep.model_copy(update=once)
    hold: Hold | None = None
    if bound is NO_COST and mode is not Mode.COMPOSITE and not final:
        hold = Hold(session.node, bound)  # most calls cost nothing that could be held
    elif mode is not Mode.COMPOSITE:
        try:
            hold = await session.node.reserve(bound, final=final, decision=decision, keep=keep)
        except BudgetShort as short:
            beside = effect.purpose in BESIDE
            if beside or (not final and (short.soft or short.node is not run.budget)):
                return await record_outcome(session, key, effect, Mode.PURE, failed("limited", str(short)), attempt)
            raise exhausted(short) from None

    # mark
    try:
        _pause_before(session, key, effect)  # it may have queued for the budget
        if mode is not Mode.PURE:
            encoded = run.ledger.codec.encode(effect)
            body = EffectStarted.written(encoded, effect.fingerprint, bound, session.batch)
            mark = run.written(EffectStarted, body, **session.about(key, attempt))
            marked = run.append(mark)
            run.ledger.records[key] = Record(
                fingerprint=effect.fingerprint,
                effect=run.ledger.codec.kept(encoded, effect),
                attempt=attempt,
                started=True,
                bound=bound,
                marked=mark.ts if record is None else record.marked,
                began=0 if record is None else record.began,
            )
            run.ledger.attempts[key] = attempt
            if mode is Mode.COMPOSITE:
                observe(marked)  # its children's rows come after it in the same log
            else:
                (seq,) = await wait_for(marked)
                if record is None:
                    run.ledger.records[key].began = seq
    except BaseException:
        if hold is not None:
            hold.release()
        raise

    return await _act(session, key, effect, acting, mode, handler, base, attempt, hold, decision)


def _sized(session: Session[Any], handler: Any, effect: Effect, *, decision: bool) -> tuple[Effect, Bound, Bound]:
    """Return the effect to execute, the most it can cost, and what is kept for its agent's last answer.

    How much is left depends on what runs beside it, so it is neither compared nor logged as what was asked for.
    """
    if effect.request is None or not isinstance(handler, Sizing):
        bound: Bound = handler.bound(effect)
        return effect, bound, bound
    final = effect.purpose == "final"
    return handler.sized(effect, lambda usual: session.node.room(usual if decision else None, final=final))


async def _uncertain(
    session: Session[Any], key: EffectKey, effect: Effect, base: dict[str, JsonValue], attempt: int, doubted: int
) -> Outcome | None:
    """What to do with a `once` effect that was started and never completed; None to execute it again.

    Leave to repeat it holds for the attempt in doubt only: one that is lost too is asked about anew.
    """
    sentence = (
        f"{effect.name} was started before the run was interrupted and may have happened; check before doing it again"
    )
    how = session.run.manifest.on_uncertain
    if how == "ask":
        answer = await session.ask_door(
            key,
            f"{effect.name} may have happened before the crash. Do it again?",
            {"component": effect.component, "arguments": effect.arguments},
            base,
            "uncertain",
            doubted,
        )
        how = "retry" if answer.ok and answer.value is True else "report"
    if how == "retry":
        return None
    return await record_outcome(session, key, effect, Mode.ONCE, failed("uncertain", sentence), attempt)


def _pause_before(session: Session[Any], key: EffectKey, effect: Effect) -> None:
    if session.run.pausing:
        raise SuspendedError(f"paused before {effect.name} at {key}")


async def _act(
    session: Session[Any],
    key: EffectKey,
    effect: Effect,
    acting: Effect,
    mode: Mode,
    handler: Any,
    base: dict[str, JsonValue],
    attempt: int,
    hold: Hold | None,
    decision: bool,
) -> Outcome:
    """Execute, record, settle."""
    run = session.run
    began = run.clock.monotonic() if decision else 0.0
    child = session.child(key, effect, mode, base, attempt)
    child.hold = hold
    try:
        if effect.kind is EffectKind.SPAWN:
            return session.spawns.start(key, effect, handler, child)
        outcome = await executed(session, handler, acting, child)
    except SuspendedError:
        if hold is not None:
            hold.release()
        raise
    except (asyncio.CancelledError, ModelError, BudgetExhaustedError) as exc:
        if hold is not None:
            lost = isinstance(exc, asyncio.CancelledError) and mode is not Mode.PURE and not child.between_attempts
            hold.keep() if lost else hold.release()
        if mode is not Mode.PURE:
            # Queued synchronously: a cancelled task may not get to await anything any more.
            child.interrupted(exc)
        raise
    except BaseException:
        if hold is not None:
            hold.release()
        raise
    try:
        recorded = await record_outcome(session, key, effect, mode, outcome, child.attempt_number, child=child)
    finally:
        if hold is not None:
            hold.settle(outcome.usage, steps=1 if decision else 0)
    if decision:
        run.longest_decision_s = max(run.longest_decision_s, run.clock.monotonic() - began)
        run.steps += 1
    return recorded


async def _reenter(
    session: Session[Any],
    key: EffectKey,
    effect: Effect,
    mode: Mode,
    handler: Any,
    base: dict[str, JsonValue],
    attempt: int,
) -> Outcome:
    """Enter a composite again in a replay."""
    child = session.child(key, effect, mode, base, attempt)
    if effect.kind is EffectKind.SPAWN:
        return session.spawns.start(key, effect, handler, child)
    outcome: Outcome = await executed(session, handler, effect, child)
    return outcome.model_copy(update={"writes": {**handed_back(child, effect), **outcome.writes}})


async def executed(session: Session[Any], handler: Any, effect: Effect, child: Session[Any]) -> Outcome:
    """What became of an effect: errors are outcomes, but for those that concern the run.

    Args:
        session: the branch it stands on.
        handler: executes it.
        effect: to execute.
        child: its own session.
    """
    limit: asyncio.Timeout | None = None
    try:
        # Most effects have no limit of their own: their handlers have theirs.
        outcome: Outcome
        if effect.timeout_s is None:
            outcome = await handler.execute(effect, child)
        else:
            async with asyncio.timeout(effect.timeout_s) as limit:
                outcome = await handler.execute(effect, child)
        if child.raised is not None and not isinstance(child.raised, BudgetExhaustedError):
            # Code in between caught what was not meant for it: a run that waits or failed must say so.
            raise child.raised
    except TimeoutError as exc:
        if limit is None or not limit.expired():
            if _is_top(session, effect):
                raise
            return failed("error", f"{effect.name} failed: {type(exc).__name__}: {exc}", trust=effect.lowest_trust)
        return failed("timeout", f"{effect.name} was stopped after its time limit of {effect.timeout_s:g} s")
    except SuspendedError:
        if child.has_spawned:
            await child.spawns.let_finish()
        raise
    except (AgentOrchestraError, ReplayEnd) as exc:
        if isinstance(exc, CONTROL) or _is_top(session, effect):
            raise
        return failed("error", str(exc), error_type=type(exc).__name__)
    except Exception as exc:  # a handler's bug is the effect's failure, never the run's
        if _is_top(session, effect):
            raise
        return failed("error", f"{effect.name} failed: {type(exc).__name__}: {exc}", error_type=type(exc).__name__)
    finally:
        if session.parent is None:
            session.partial = child.partial  # how far the top agent came is how far the run came
        if child.has_spawned:
            await child.spawns.end()
    return outcome


def _is_top(session: Session[Any], effect: Effect) -> bool:
    """Whether an effect is the run's top agent: its failure is the run's, and a resume enters it again."""
    return session.parent is None and effect.kind is EffectKind.INVOKE_AGENT


async def _hit(
    session: Session[Any], key: EffectKey, effect: Effect, record: Record, mode: Mode, base: dict[str, JsonValue]
) -> Outcome:
    """A recorded outcome: not asked, not paid, not executed again."""
    run = session.run
    outcome = record.outcome
    assert outcome is not None
    composite = run.replaying and Mode.COMPOSITE in (mode, record.mode)
    sealed = effect.kind in run.sealed
    entered = composite and mode is Mode.COMPOSITE and not sealed and outcome.status in ("ok", "error")
    if not entered:
        if composite and (sealed or mode is Mode.COMPOSITE):
            run.visited.update(k for k in run.ledger.records if within(k.branch, key.path))
        if effect.kind is EffectKind.SPAWN and record.started:  # one that was refused was never started
            return session.spawns.known(key, effect, outcome)
        if effect.kind is EffectKind.JOIN and outcome.ok:
            session.spawns.known_join(outcome)
        return outcome
    handler = run.services.handlers[effect.kind]
    again = await _reenter(session, key, effect, mode, handler, base, 1)
    if effect.kind is EffectKind.SPAWN:
        return again
    if (again.status, again.value) != (outcome.status, outcome.value):
        raise DivergedError(
            f"the replay diverged at {key}: {effect.name} gave another result than recorded; "
            "its code changed since the recording",
            branch=key.branch,
            n=key.n,
        )
    return outcome


async def record_outcome(
    session: Session[Any],
    key: EffectKey,
    effect: Effect,
    mode: Mode,
    outcome: Outcome,
    attempt: int,
    *,
    child: Session[Any] | None = None,
) -> Outcome:
    """Write exactly what the agent sees, and take it into the ledger."""
    run = session.run
    written = handed_back(child, effect) if child is not None else None
    writes = {**written, **outcome.writes} if written else outcome.writes
    now = run.clock.now()
    ended = {**outcome.__dict__, "ended_at": now, "writes": writes}
    outcome = run.redactor.outcome(constructed(Outcome, ended))
    encoded = None
    record = run.ledger.records.get(key)
    if record is None or not record.started:
        encoded = run.ledger.codec.encode(effect)
    body = EffectCompleted.written(
        outcome.stored(),
        effect.fingerprint,
        encoded,
        session.batch if encoded is not None else 0,
    )
    event = {"branch": key.branch, "n": key.n, "attempt": attempt, "type": EffectCompleted.type}
    event |= {"v": EffectCompleted.v, "ts": now, "span": str(key), "parent_span": session.span}
    event |= {"actor": session.actor, "body": body}
    future = run.append(constructed(NewEvent, event))
    if effect.kind in _LAZY:
        observe(future)
        seq = 0
    else:
        (seq,) = await wait_for(future)
    if encoded is not None:
        stored = run.ledger.codec.kept(encoded, effect)
    else:
        stored = record.effect if record is not None else {}
    if session.apart and effect.kind is EffectKind.INVOKE_TOOL and outcome.ok and not (outcome.artifacts or writes):
        # Only a replay comes back to it, which reads the log: any number of calls costs no memory.
        if record is not None:
            run.ledger.forget(key)
    else:
        run.ledger.records[key] = Record(
            fingerprint=effect.fingerprint, effect=stored, attempt=attempt, outcome=outcome, seq=seq
        )
        run.ledger.attempts[key] = attempt
    if mode is not Mode.COMPOSITE:
        model = str(outcome.value.get("model", "")) if isinstance(outcome.value, dict) else ""
        run.account(model if effect.kind in OF_MODELS else "", outcome.usage)
    if effect.tags:
        run.note_links(stored, outcome)
    if effect.kind is EffectKind.SEND_MESSAGE and outcome.ok:
        run.mail.deliver(key, seq, dict(effect.arguments), outcome.trust)
    return outcome


@cache
def source_hash(component: type[Any]) -> str:
    """Hex SHA-256 of a class's source, of its name where the source is not at hand."""
    try:
        return sha256_text(inspect.getsource(component))
    except (OSError, TypeError):
        return sha256_text(f"{component.__module__}.{component.__qualname__}")


def handed_back(child: Session[Any], effect: Effect) -> dict[str, JsonValue]:
    """What a child wrote, as far as its caller gets it: an agent's own notes (its plan) stay its own."""
    writes = child.vars.writes
    if writes and effect.kind in (EffectKind.INVOKE_AGENT, EffectKind.SPAWN):
        return {name: value for name, value in writes.items() if not name.startswith(PRIVATE)}
    return writes


__all__ = ["executed", "handed_back", "record_outcome", "source_hash", "through"]
