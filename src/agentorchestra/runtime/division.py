"""How a run is divided among processes: it is whole, or hands its agents out, or is a part of another."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

from pydantic import JsonValue

from agentorchestra.core.budget import Bound, Budget
from agentorchestra.core.effects import Effect, EffectKind, Mode, Outcome
from agentorchestra.core.errors import HandedBackError, PartElsewhereError
from agentorchestra.core.events import Event
from agentorchestra.core.ids import EffectKey, part_id
from agentorchestra.core.policy import Separable
from agentorchestra.core.spec import PartOf, RunStatus
from agentorchestra.log.folders import MAIN
from agentorchestra.log.ledger import Record, within
from agentorchestra.runtime.branch import Branch
from agentorchestra.runtime.door import Passage, through
from agentorchestra.runtime.part import Away, Division, rows_of
from agentorchestra.runtime.run import Run, wait_for
from agentorchestra.runtime.worlds import asked_environment


def division_of(run: Run) -> Division:
    """Return how a run is divided: a replay and a run whose agents all work here are whole."""
    if run.manifest.part_of is not None:
        return Part(run, run.manifest.part_of)
    elsewhere = run.services.elsewhere
    later = run.epoch is not None and run.epoch > 1  # an earlier driver may have made parts
    return Divided(run) if later or (elsewhere is not None and elsewhere.makes and not run.replaying) else Whole(run)


class Whole:
    """A run that one process drives."""

    through = staticmethod(through)

    def __init__(self, run: Run) -> None:
        self.run = run

    def differs(self, key: EffectKey, change: str, record: Record) -> None:
        self.run.note_change(key, change, record)

    async def begin(self, passage: Passage, outcome: Outcome | None) -> Outcome | None:
        return outcome

    async def cover(self, passage: Passage) -> Outcome | None:
        return None

    def check_share(self, effect: Effect, bound: Bound, usual: Bound, scope: str = "") -> None:
        return None

    def halt_status(self) -> RunStatus | None:
        return None


class Divided(Whole):
    """A run whose agents may work in other processes: it hands them out, and takes their rows over."""

    async def begin(self, passage: Passage, outcome: Outcome | None) -> Outcome | None:
        """Have another process do what a spawned agent does from a decision on; return the decision then."""
        branch, key, turn = passage.branch, passage.key, passage.branch.turn
        if turn is None or not (turn.begins and passage.decision and branch.branch == branch.home):
            return outcome
        run, founder, turn.begins = self.run, branch.parent, False
        assert founder is not None and run.last_append is not None
        # Whatever the agent knows is in the log with the last rows. Where the decision is recorded, this removes what
        # is left of a part.
        ways = len(founder.spawns.at_work())
        await _leave(branch, turn.spawn, key, run.last_append, ways=ways, again=run.epoch is not None and run.epoch > 1)
        passage.earlier, passage.attempt = run.ledger.records.get(key), run.ledger.attempts.get(key, 0) + 1
        return outcome if passage.earlier is None else passage.earlier.outcome or outcome

    async def cover(self, passage: Passage) -> Outcome | None:
        """Have a delegation done in another process; return its outcome once the run has recorded it.

        None where it is to be done here, from its beginning or from where its part handed it back.
        """
        child, effect, branch, key, mark = passage.child, passage.effect, passage.branch, passage.key, passage.marked
        if branch.parent is None or mark is None or effect.timeout_s is not None:
            return None
        ways = branch.last_n - key.n + 1 if branch.batch else 1
        is_covered = await _leave(child, effect, key, mark, ways=ways, again=child.attempt_number > 1)
        return self.run.ledger.records[key].outcome if is_covered else None


async def _leave(
    child: Branch, effect: Effect, first: EffectKey, mark: Future[tuple[int, ...]], *, ways: int, again: bool
) -> bool:
    """Have a part do what an agent does; return whether one did, and the run has its rows.

    Args:
        effect: with which it was called or spawned.
        first: the key that tells this part from others of the same agent.
        mark: whose last event is the last one that the part needs to know.
        ways: how many agents share what is free.
        again: another process may have made the part.
    """
    run, have = child.run, child.run.services.elsewhere
    if child.world != MAIN or not (again or (have is not None and have.makes)):
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
        seqs = await wait_for(mark)
        away = await have(run, name, child.key, seqs[-1], limits, anew=anew)
        if away is None:
            return False
        hold.release()
        hold = child.node.hold(away.limits)
        try:
            await away.wait()
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


class Part(Whole):
    """A part of a run: it does what lies at or below the key of its agent, and hands everything else back."""

    def __init__(self, run: Run, of: PartOf) -> None:
        super().__init__(run)
        self.key = EffectKey.parse(of.key)
        self.over = asyncio.Event()  # set when its agent, or what that stands in, has ended
        self._reason = ""

    async def through(
        self, branch: Branch, key: EffectKey, effect: Effect, base: dict[str, JsonValue], *, skipped: bool = False
    ) -> Outcome:
        """Let an effect through the door; HandedBackError behind the agent: what follows is the run's."""
        if not self._leads(key):
            return await through(branch, key, effect, base, skipped=skipped)
        try:
            outcome = await through(branch, key, effect, base, skipped=skipped)
        except BaseException:
            self.over.set()
            raise
        spawn = branch.spawns.by_key.get(key) if branch.has_spawned else None
        if spawn is not None:  # it goes on beside the branch
            branch.spawns.joiners.append(lambda: self.over.set() if spawn.ended.is_set() else None)
            return outcome
        self.over.set()
        if key == self.key:
            raise self._handed_back()
        return outcome

    def differs(self, key: EffectKey, change: str, record: Record) -> None:
        raise self._handed_back(f"it asks otherwise than its run: {change}")

    async def begin(self, passage: Passage, outcome: Outcome | None) -> Outcome | None:
        """Let an effect without an outcome begin at or below the agent; one beside it waits for the agent's end.

        Raises:
            HandedBackError: it may not, or the part has ended.
        """
        if outcome is not None:
            return outcome
        branch, key, effect = passage.branch, passage.key, passage.effect
        is_started, leads = passage.earlier is not None and passage.earlier.started, self._leads(key)
        if passage.beside and is_started and not leads:  # another process has it
            return branch.spawns.add_absent(key, effect)
        if self.over.is_set():
            raise self._handed_back()
        if leads and is_started and passage.mode is Mode.COMPOSITE:
            return None
        if within(key.branch, self.key.path):
            if not is_started and effect.invalid is None and (reason := _beyond(self.run, effect)):
                raise self._handed_back(reason)
            return None
        number = self._number_on(key.branch)
        if key.n <= number and not (branch.batch and branch.batch <= number <= branch.last_n):
            # Whatever leads there was recorded when the part was made.
            raise self._handed_back(f"{effect.name} at {key} is not recorded")
        await self.over.wait()
        raise self._handed_back()

    def check_share(self, effect: Effect, bound: Bound, usual: Bound, scope: str = "") -> None:
        if scope and not within(scope, self.key.path):  # what its agents have of their own is their matter
            raise self._handed_back("its share of the budget is spent")
        if not scope and (bound.tokens < usual.tokens or bound.cost_usd < usual.cost_usd):
            raise self._handed_back(f"its share of the budget leaves {effect.name} no answer of a usual length")

    def halt_status(self) -> RunStatus:
        """Return COMPLETED where its agent has an outcome, else BLOCKED: a part never waits, its run does."""
        record = self.run.ledger.records.get(self.key)
        has_outcome = record is not None and record.outcome is not None
        return RunStatus.COMPLETED if has_outcome else RunStatus.BLOCKED

    def _leads(self, key: EffectKey) -> bool:
        """Return True for the key of its agent, and for what that stands in."""
        return key == self.key or within(self.key.branch, key.path)

    def _handed_back(self, reason: str = "") -> HandedBackError:
        """Return the error with which all branches of the part end; the first reason holds."""
        self._reason = self._reason or reason
        return HandedBackError(f"handed back: {self._reason}" if self._reason else "its agent has ended")

    def _number_on(self, branch: str) -> int:
        """Return the number of what leads to its agent on a branch, 0 if nothing does."""
        if branch == self.key.branch:
            return self.key.n
        if not within(self.key.branch, branch):
            return 0
        head = self.key.branch[len(branch.rstrip("/")) + 1 :].partition("/")[0].partition(".")[0]
        return int(head) if head.isdecimal() else 0


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
