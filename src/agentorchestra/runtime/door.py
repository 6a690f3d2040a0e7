"""The door: six stages that every effect of a run goes through (docs/door.md).

ledger -> policy -> reserve -> mark -> execute -> record (and settle)
"""

from __future__ import annotations

import asyncio
import inspect
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.budget import NO_COST, Bound, Budget
from agentorchestra.core.content import Trust, lowest
from agentorchestra.core.effects import (
    BESIDE,
    OF_AGENTS,
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
from agentorchestra.core.frozen import construct
from agentorchestra.core.ids import EffectKey, sha256_text
from agentorchestra.core.policy import PLAN
from agentorchestra.core.protocols import Handler, Sizing
from agentorchestra.core.resources import refuse_shortage
from agentorchestra.core.spec import AgentSpec
from agentorchestra.log.folders import MAIN
from agentorchestra.log.ledger import Record, within
from agentorchestra.runtime.branch import Branch, Turn, segment
from agentorchestra.runtime.budget import BudgetNode, BudgetShort, Hold, budget_error
from agentorchestra.runtime.parallel import CONTROL, ReplayEnd
from agentorchestra.runtime.permission import ask, capabilities_of_agent, capabilities_of_effect, denial, judge
from agentorchestra.runtime.run import LOOKED_AT, Run, observe, wait_for
from agentorchestra.runtime.state import PRIVATE
from agentorchestra.runtime.worlds import may_be_tried, obvious_mistake, world_of
from agentorchestra.trust.received import UNDONE
from agentorchestra.trust.review import review_key

_DECISIONS = ("decision", "final")
_LAZY = frozenset({EffectKind.RECEIVE})
"""Kinds whose record need not be awaited: it is committed before any row that comes after it."""


@dataclass(slots=True, eq=False)
class Passage:
    """One effect on its way through the door."""

    run: Run
    branch: Branch
    key: EffectKey  # its place on the branch
    effect: Effect  # as it is compared and logged
    base: dict[str, JsonValue]  # the run's state as it finds it
    skipped: bool  # it must not be started, for the reason in `effect.invalid`
    handler: Handler
    mode: Mode  # what a crash means for it
    beside: bool  # whether it goes on beside the branch, which joins it later
    earlier: Record | None  # what the log has of it before this passage
    attempt: int  # the number of this one
    decision: bool  # whether it is a decision of an agent, which costs one step
    final: bool  # whether it is an agent's last answer
    let_through: bool = False  # whether policy or a human was asked for it and said yes
    acting: Effect = field(init=False)  # the effect to execute, fitted to what the budgets leave
    bound: Bound = NO_COST  # the most it can cost
    hold: Hold | None = None  # what is held for it
    began: float = 0.0  # when its execution began, in seconds of the run's clock; only of a decision
    marked: Future[tuple[int, ...]] | None = None  # its mark, while that is written
    child: Branch = field(init=False)  # its own branch
    outcome: Outcome = field(init=False)  # what executing it gave

    @property
    def is_top(self) -> bool:
        """Return True for the run's top agent: its failure is the run's, and a resume enters it again."""
        return self.branch.parent is None and self.effect.kind is EffectKind.INVOKE_AGENT

    def open_branch(self, attempt: int) -> Branch:
        """Make the effect's own branch: what executes it acts on that one."""
        branch, effect = self.branch, self.effect
        spec = AgentSpec.model_validate(effect.arguments) if effect.kind in OF_AGENTS else None
        base = self.base
        if spec is not None and branch.parent is not None:  # what the run begins with is its top agent's
            base = {name: value for name, value in base.items() if not name.startswith(PRIVATE)}
        child = self.child = type(branch)(
            branch.run,
            self.key,
            dict(base),
            parent=branch,
            branch="" if spec is None else f"{self.key.path}.{segment(spec.name)}",
            name=effect.name,
            provenance=effect.provenance,
        )
        child.world = effect.world
        child.composite = self.mode is Mode.COMPOSITE
        child.attempt_number = attempt
        child.capabilities = capabilities_of_effect(branch, effect)
        if spec is not None:
            child.capabilities = capabilities_of_agent(child.capabilities, spec.tools)
            child.node = _carve(branch, child.branch, spec.budget or Budget())
            child.actor, child.role, child.asks = spec.name, spec.role, branch.asks and spec.asks
            child.home = child.branch
            child.turn = Turn(effect) if self.beside else None
            child.model = spec.model or branch.model
        return child


async def through(
    branch: Branch, key: EffectKey, effect: Effect, base: dict[str, JsonValue], *, skipped: bool = False
) -> Outcome:
    """Let an effect, as the branch's code asks for it, through the door; see Passage."""
    passage = _enter(branch, key, effect, base, skipped)
    early = await branch.run.division.begin(passage, await ledger(passage))
    early = early or await policy(passage) or await reserve(passage)
    if early is not None:
        return early
    await mark(passage)
    return await execute(passage) or await record(passage)


def _enter(branch: Branch, key: EffectKey, effect: Effect, base: dict[str, JsonValue], skipped: bool) -> Passage:
    """Bring an effect into the form in which it is compared, judged and logged."""
    run = branch.run
    handler = run.services.handlers.get(effect.kind)
    if handler is None:
        raise UnknownComponentError(f"no handler is registered for {effect.kind.value}; the workspace registers them")
    world = world_of(run, effect, branch.world)
    effect = effect.model_copy(update={"world": world}) if effect.world != world else effect
    if not effect.content_hash:
        # Every effect names the code that executes it; a component without a hash of its own is its handler.
        effect = effect.model_copy(update={"content_hash": source_hash(type(handler))})
    effect = branch.seen.merged_into(run.redactor.effect(effect))
    mode = handler.mode(effect)
    return Passage(
        run,
        branch,
        key,
        effect,
        base,
        skipped,
        handler,
        mode=Mode.COMPOSITE if mode is Mode.BESIDE else mode,
        beside=mode is Mode.BESIDE,
        earlier=run.ledger.records.get(key),
        attempt=run.ledger.attempts.get(key, 0) + 1,
        decision=effect.purpose in _DECISIONS and effect.kind is EffectKind.REQUEST_MODEL,
        final=effect.purpose == "final",
    )


# -- ledger ------------------------------------------------------------------------------------------------------------


async def ledger(passage: Passage) -> Outcome | None:
    """Return the recorded outcome: not asked, not paid, not executed again. ReplayEnd where the recording ends."""
    run, key, earlier = passage.run, passage.key, passage.earlier
    if run.replaying:
        run.visited.add(key)
        # The questions that the door put about this effect are not repeated by the code of an agent.
        keys = [EffectKey(f"{key.path}.approval", 1), review_key(key)]
        keys += [EffectKey(f"{key.path}.uncertain", n) for n in range(1, passage.attempt)]
        run.visited.update(row_key for row_key in keys if row_key in run.ledger.records)
    if earlier is not None:
        change = None if passage.skipped else run.ledger.compare(key, passage.effect, earlier)
        if change is not None:
            run.division.differs(key, change, earlier)
        if earlier.outcome is not None:
            return await _hit(passage, earlier, earlier.outcome)
    if not run.replaying:
        return None
    if passage.effect.kind in run.sealed:
        _visit_below(passage)
    elif passage.mode is Mode.COMPOSITE and earlier is not None:
        entry = await _enter_again(passage)
        if passage.beside:
            return entry
    raise ReplayEnd(str(key))


async def _hit(passage: Passage, earlier: Record, outcome: Outcome) -> Outcome:
    """Return a recorded outcome; a replay enters a composite again and compares."""
    run, branch, effect = passage.run, passage.branch, passage.effect
    composite, is_sealed = passage.mode is Mode.COMPOSITE, effect.kind in run.sealed
    is_outage = outcome.status == "error" and _reports_outage(effect)  # its failed requests are not recorded
    if run.replaying and composite and not is_sealed and outcome.status in ("ok", "error") and not is_outage:
        again = await _enter_again(passage)
        if passage.beside:
            return again
        if (again.status, again.value) != (outcome.status, outcome.value):
            raise _divergence(passage, "; its code changed since the recording")
        return outcome
    if run.replaying and (composite or (is_sealed and earlier.mode is Mode.COMPOSITE)):
        _visit_below(passage)
    if passage.beside and earlier.started:  # one that was refused was never started
        return branch.spawns.add_recorded(passage.key, effect, outcome)
    if effect.kind is EffectKind.JOIN and outcome.ok:
        branch.spawns.add_recorded_join(outcome)
    return outcome


def _visit_below(passage: Passage) -> None:
    run, path = passage.run, passage.key.path
    run.visited.update(k for k in run.ledger.records if within(k.branch, path))


async def _enter_again(passage: Passage) -> Outcome:
    child = passage.open_branch(1)
    if passage.beside:
        return passage.branch.spawns.start(passage.key, passage.effect, partial(_run_beside, passage))
    outcome = await _run_handler(passage, passage.effect)
    return outcome.model_copy(update={"writes": {**_handed_back(child, passage.effect), **outcome.writes}})


def _divergence(passage: Passage, reason: str = "") -> DivergedError:
    key = passage.key
    return DivergedError(
        f"the replay diverged at {key}: {passage.effect.name} gave another result than recorded{reason}",
        branch=key.branch,
        n=key.n,
    )


# -- policy ------------------------------------------------------------------------------------------------------------


async def policy(passage: Passage) -> Outcome | None:
    """Return the outcome of an effect that must not be executed: no fitting call, denied, or in doubt after a crash."""
    branch, effect, earlier = passage.branch, passage.effect, passage.earlier
    _pause_before(passage)
    if effect.invalid is not None:
        status: OutcomeStatus = "skipped" if passage.skipped else "mistake"
        # The sentence may name what a schema allows: that is somebody else's where the schema is.
        own = effect.declared is None or effect.declared.trust is not Trust.UNTRUSTED
        trust = lowest(Trust.AGENT, effect.lowest_trust)
        return await _write(passage, failed(status, effect.invalid, trust=trust, own_words=own))
    refusal = denial(branch, effect) or _tried_in_vain(branch, effect)
    if refusal is None and earlier is None and (mistake := obvious_mistake(passage.run, effect, branch)) is not None:
        return await _write(passage, failed("mistake", mistake))
    if refusal is None and (earlier is None or not earlier.started):
        refusal = await judge(branch, passage.key, effect, passage.base)
        if refusal is None:
            passage.let_through = True
            passage.run.received.acting(effect.called)
    if refusal is not None:
        return await _write(passage, failed("denied", refusal, trust=lowest(Trust.AGENT, effect.lowest_trust)))
    if earlier is not None and earlier.started and passage.mode is Mode.ONCE:
        return await _uncertain(passage, earlier.attempt)
    return None


def _tried_in_vain(branch: Branch, effect: Effect) -> str | None:
    """Return why a rival world may not do an effect, None if it may."""
    if branch.world == MAIN or may_be_tried(branch.run, effect):
        return None
    return (
        f"{effect.name} was not called: several rivals do this work at the same time and one of them is chosen, and "
        "this cannot be taken back in the others. Go on without it, and say in the answer what is left to do"
    )


async def _uncertain(passage: Passage, attempt: int) -> Outcome | None:
    """Return the outcome of a `once` effect that was started and never completed; None to execute it again.

    Leave to repeat it holds for the attempt in doubt only: one that is lost too is asked about anew.
    """
    effect = passage.effect
    choice = passage.run.manifest.on_uncertain
    if choice == "ask":
        question = f"{effect.name} may have happened before the crash. Do it again?"
        details: dict[str, JsonValue] = {"component": effect.component, "arguments": effect.arguments}
        answer = await ask(passage.branch, passage.key, question, details, passage.base, "uncertain", attempt)
        choice = "retry" if answer.ok and answer.value is True else "report"
    if choice == "retry":
        return None
    sentence = (
        f"{effect.name} was started before the run was interrupted and may have happened; check before doing it again"
    )
    return await _write(passage, failed("uncertain", sentence))


def _pause_before(passage: Passage) -> None:
    if passage.run.pausing:
        raise SuspendedError(f"paused before {passage.effect.name} at {passage.key}")


# -- reserve -----------------------------------------------------------------------------------------------------------


async def reserve(passage: Passage) -> Outcome | None:
    """Hold the most that an effect can cost; return its outcome over a limit, BudgetExhaustedError over the run's."""
    run, effect, node = passage.run, passage.effect, passage.branch.node
    decision, final = passage.decision, passage.final
    passage.acting, bound, keep = _size(passage)
    if decision:
        once = {"steps": 1, "active_s": run.longest_decision_s}
        bound, keep = bound.model_copy(update=once), keep.model_copy(update=once)
    passage.bound = bound
    if passage.mode is Mode.COMPOSITE:
        return None
    if bound is NO_COST and not final:
        passage.hold = Hold(node, bound)  # most calls cost nothing that could be held
        return None
    run.division.check_share(effect, bound, keep)
    try:
        passage.hold = await node.reserve(bound, final=final, decision=decision, keep=keep)
    except BudgetShort as short:
        run.division.check_share(effect, bound, keep, short.node.scope)
        # A rival that cannot be paid is one rival less, never the end of the run.
        rival = passage.branch.world != MAIN
        if rival or effect.purpose in BESIDE or (not final and (short.soft or short.node is not run.budget)):
            return await _write(passage, failed("limited", str(short)))
        raise budget_error(short) from None
    return None


def _size(passage: Passage) -> tuple[Effect, Bound, Bound]:
    """Return the effect to execute, the most it can cost, and what is kept for its agent's last answer.

    How much is left depends on what runs beside it, so it is neither compared nor logged as what was asked for.
    """
    effect, handler, node = passage.effect, passage.handler, passage.branch.node
    if effect.request is None or not isinstance(handler, Sizing):
        bound = handler.bound(effect)
        return effect, bound, bound
    decision, final = passage.decision, passage.final
    return handler.fit(effect, lambda usual: node.room(usual if decision else None, final=final))


def _carve(branch: Branch, scope: str, limits: Budget) -> BudgetNode:
    run = branch.run
    began = run.active_s()
    active = (lambda: run.active_s() - began) if limits.active_s is not None else None
    return BudgetNode(scope, limits, branch.node, costs=run.ledger.spent_under(scope), active=active)


# -- mark --------------------------------------------------------------------------------------------------------------


async def mark(passage: Passage) -> None:
    """Record durably that an effect is started, before it acts; a pure one needs no mark."""
    try:
        _pause_before(passage)  # it may have queued for the budget
        if passage.mode is not Mode.PURE:
            await _mark(passage)
    except BaseException:
        if passage.hold is not None:
            passage.hold.release()
        raise


async def _mark(passage: Passage) -> None:
    run, key, effect, earlier = passage.run, passage.key, passage.effect, passage.earlier
    encoded = run.ledger.codec.encode(effect)
    body = EffectStarted.json_of(encoded, effect.fingerprint, passage.bound, passage.branch.batch)
    row = run.event_of(EffectStarted, body, **passage.branch.about(key, passage.attempt))
    mark = passage.marked = run.append(row)
    started = run.ledger.records[key] = Record(
        fingerprint=effect.fingerprint,
        effect=run.ledger.codec.lean_body(encoded, effect),
        attempt=passage.attempt,
        started=True,
        bound=passage.bound,
        marked=row.ts if earlier is None else earlier.marked,
        began=0 if earlier is None else earlier.began,
    )
    run.ledger.attempts[key] = passage.attempt
    if passage.mode is Mode.COMPOSITE:
        observe(mark)  # its children's rows come after it in the same log
        return
    (seq,) = await wait_for(mark)
    if earlier is None:
        started.began = seq


# -- execute -----------------------------------------------------------------------------------------------------------


async def execute(passage: Passage) -> Outcome | None:
    """Have the handler do it; return what the branch has of a spawned agent, which goes on beside it."""
    child, hold = passage.open_branch(passage.attempt), passage.hold
    child.hold = hold
    if passage.beside:
        return passage.branch.spawns.start(passage.key, passage.effect, partial(_run_beside, passage))
    if passage.decision:
        passage.began = passage.run.clock.monotonic()
    try:
        if passage.effect.kind is EffectKind.INVOKE_AGENT:
            outcome = await passage.run.division.cover(passage)
            if outcome is not None:
                return outcome
        passage.outcome = await _run_handler(passage, passage.acting)
    except (asyncio.CancelledError, ModelError, BudgetExhaustedError) as exc:
        if hold is not None:
            cancelled = isinstance(exc, asyncio.CancelledError)
            uncertain = cancelled and passage.mode is not Mode.PURE and not child.between_attempts
            hold.keep() if uncertain else hold.release()
        if passage.mode is not Mode.PURE:
            # Queued synchronously: a cancelled task may not get to await anything any more.
            child.note_interruption(exc)
        raise
    except BaseException:
        if hold is not None:
            hold.release()
        raise
    return None


async def _run_handler(passage: Passage, effect: Effect) -> Outcome:
    """Return what became of an effect: errors are outcomes, but for those that concern the run."""
    branch, child = passage.branch, passage.child
    limit: asyncio.Timeout | None = None
    try:
        # Most effects have no limit of their own: their handlers have theirs.
        if effect.timeout_s is None:
            outcome = await passage.handler.execute(effect, child)
        else:
            async with asyncio.timeout(effect.timeout_s) as limit:
                outcome = await passage.handler.execute(effect, child)
        if child.raised is not None and not isinstance(child.raised, BudgetExhaustedError):
            # Code in between caught what was not meant for it: a run that waits or failed must say so.
            raise child.raised
    except TimeoutError as exc:
        if limit is not None and limit.expired():
            return failed("timeout", f"{effect.name} was stopped after its time limit of {effect.timeout_s:g} s")
        if passage.is_top:
            raise
        return failed("error", f"{effect.name} failed: {type(exc).__name__}: {exc}", trust=effect.lowest_trust)
    except SuspendedError:
        if child.has_spawned:
            await child.spawns.let_finish()
        raise
    except (AgentOrchestraError, ReplayEnd) as exc:
        if not isinstance(exc, CONTROL):
            refuse_shortage(exc)
        is_outage = isinstance(exc, ModelError) and _reports_outage(effect)
        if passage.is_top or (isinstance(exc, CONTROL) and not is_outage):
            raise
        return failed("error", str(exc), error_type=type(exc).__name__)
    except Exception as exc:  # a handler's bug is the effect's failure, never the run's
        if not isinstance(exc, MemoryError):  # its own program may have asked for too much
            refuse_shortage(exc)
        if passage.is_top:
            raise
        return failed("error", f"{effect.name} failed: {type(exc).__name__}: {exc}", error_type=type(exc).__name__)
    finally:
        if branch.parent is None:
            branch.partial = child.partial  # how far the top agent came is how far the run came
        if child.has_spawned:
            await child.spawns.end()
    return outcome


def _reports_outage(effect: Effect) -> bool:
    """Return True where a model that cannot be had is told to who asked: for a rival, and see `AgentSpec.on_demand`."""
    rival = effect.kind is EffectKind.REQUEST_MODEL and effect.world != MAIN
    return rival or (effect.kind in OF_AGENTS and effect.arguments.get("on_demand") is True)


async def _run_beside(passage: Passage) -> Outcome:
    """Execute a spawned agent and record it; in a replay, compare it with the recording."""
    run = passage.run
    try:
        outcome = await _run_handler(passage, passage.effect)
        if not run.replaying:
            return await _write(passage, outcome, passage.child)
    except asyncio.CancelledError as exc:
        if not run.replaying:
            passage.child.note_interruption(exc)
        raise
    recording = run.ledger.records[passage.key].outcome
    if recording is not None and recording.value != outcome.value:
        raise _divergence(passage)
    return recording or outcome


# -- record ------------------------------------------------------------------------------------------------------------


async def record(passage: Passage) -> Outcome:
    run, hold = passage.run, passage.hold
    try:
        result = await _write(passage, passage.outcome, passage.child)
    finally:
        if hold is not None:
            hold.settle(passage.outcome.usage, steps=1 if passage.decision else 0)
    if passage.decision:
        run.longest_decision_s = max(run.longest_decision_s, run.clock.monotonic() - passage.began)
        run.steps += 1
    return result


async def _write(passage: Passage, outcome: Outcome, child: Branch | None = None) -> Outcome:
    """Write exactly what the agent sees, and take it into the ledger; without `child` it was not executed."""
    run, key, effect, branch = passage.run, passage.key, passage.effect, passage.branch
    attempt = passage.attempt if child is None else child.attempt_number
    handback = None if child is None else _handed_back(child, effect)
    writes = {**handback, **outcome.writes} if handback else outcome.writes
    now = run.clock.now()
    outcome = run.redactor.outcome(construct(Outcome, {**outcome.__dict__, "ended_at": now, "writes": writes}))
    prior = run.ledger.records.get(key)
    encoded = run.ledger.codec.encode(effect) if prior is None or not prior.started else None
    batch = branch.batch if encoded is not None else 0
    body = EffectCompleted.json_of(outcome.log_json(), effect.fingerprint, encoded, batch)
    event = {"branch": key.branch, "n": key.n, "attempt": attempt, "type": EffectCompleted.type}
    event |= {"v": EffectCompleted.v, "ts": now, "span": str(key), "parent_span": branch.span}
    event |= {"actor": branch.actor, "body": body}
    future = run.append(construct(NewEvent, event))
    if effect.kind in _LAZY:
        observe(future)
        seq = 0
    elif effect.kind is EffectKind.SEND_MESSAGE:
        async with run.mail.in_order:  # nothing is awaited from here to its delivery
            (seq,) = await wait_for(future)
    else:
        (seq,) = await wait_for(future)
    encoded_effect = prior.effect if prior is not None else {}
    if encoded is not None:
        encoded_effect = run.ledger.codec.lean_body(encoded, effect)
    if branch.apart and effect.kind is EffectKind.INVOKE_TOOL and outcome.ok and not (outcome.artifacts or writes):
        # Only a replay comes back to it, which reads the log: any number of calls costs no memory.
        if prior is not None:
            run.ledger.forget(key)
    else:
        run.ledger.records[key] = Record(
            fingerprint=effect.fingerprint, effect=encoded_effect, attempt=attempt, outcome=outcome, seq=seq
        )
        run.ledger.attempts[key] = attempt
    if passage.mode is not Mode.COMPOSITE or effect.kind in OF_AGENTS:
        model = str(outcome.value.get("model", "")) if isinstance(outcome.value, dict) else ""
        run.account(model if effect.kind in OF_MODELS else "", outcome.usage)
    if effect.kind in LOOKED_AT or effect.purpose == PLAN:
        run.received.result(encoded_effect, outcome)
    if passage.let_through and outcome.status in UNDONE:
        run.received.undone(effect.called)
    if effect.kind is EffectKind.SEND_MESSAGE and outcome.ok:
        run.mail.deliver(key, seq, dict(effect.arguments), outcome.trust)
    return outcome


def _handed_back(child: Branch, effect: Effect) -> dict[str, JsonValue]:
    """Return what a child wrote, as far as its caller gets it: an agent's own notes (its plan) stay its own."""
    writes = child.vars.writes
    if writes and effect.kind in OF_AGENTS:
        return {name: value for name, value in writes.items() if not name.startswith(PRIVATE)}
    return writes


@cache
def source_hash(component: type[Any]) -> str:
    """Return the hex SHA-256 of a class's source, of its name where the source is not at hand."""
    try:
        return sha256_text(inspect.getsource(component))
    except (OSError, TypeError):
        return sha256_text(f"{component.__module__}.{component.__qualname__}")
