"""Runs that nobody drives: ended as paused or cancelled on request, found when what they wait for is there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from agentorchestra.core.clock import Clock
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.errors import FencedError
from agentorchestra.core.events import Event, RunEnded, new_event
from agentorchestra.core.protocols import Store, UnfinishedRun
from agentorchestra.core.spec import FINAL, RunStatus
from agentorchestra.log.ledger import Ledger
from agentorchestra.runtime.engine import LocalEngine, is_dead
from agentorchestra.runtime.run import PAUSE_HINT, active_seconds, open_questions, wait_for

GOES_ON = frozenset({RunStatus.CREATED, RunStatus.RUNNING, RunStatus.WAITING})
"""Statuses of runs that go on by themselves, now or later: only those can be paused."""

MOST_LOST = 3
"""Jobs in a row that may end with their process and without progress, until nobody takes the run up any more."""

Standing = Literal["driven", "queued", "abandoned", "created"]
"""How a run stands that is created or running.

`driven`: a process holds it. `queued`: a server took it on, and it waits for a place at a server. `abandoned`: whoever
drove it, or was about to, is gone, and it goes on when somebody resumes it. `created`: whoever made it has not begun.
"""

_AGENTS = (EffectKind.INVOKE_AGENT, EffectKind.SPAWN)
_SENTENCES = {RunStatus.PAUSED: PAUSE_HINT, RunStatus.CANCELLED: "cancelled on request"}


def last_end(events: list[Event]) -> RunEnded | None:
    for event in reversed(events):
        if event.type in ("driving_started", "forked"):
            return None
        data = event.data if event.type == "run_ended" else None
        if isinstance(data, RunEnded):
            return data
    return None


def standing(run: UnfinishedRun) -> Standing:
    """Return how a created or running run stands: whether somebody drives it, will, or does not any more."""
    if run.owner is not None and run.is_held and not is_dead(run.owner):
        return "driven"
    if run.is_accepted:
        return "queued"
    # The process that was about to begin has no lease: what tells that it is gone, tells it of this machine only.
    is_gone = run.status is not RunStatus.CREATED or (run.owner is not None and is_dead(run.owner))
    return "abandoned" if is_gone else "created"


async def end_undriven(
    store: Store, engine: LocalEngine, clock: Clock, run: str, status: RunStatus, *, error: str = ""
) -> bool:
    """Give a run that nobody drives the status that was asked for (`paused`, `cancelled`) or it deserves, at once.

    The engine of this process claims the run for the moment. `error` is why, for another status than those two.

    Returns:
        Whether it has that status now; not where another process drives it, which finds the request in its log.
    """
    try:
        epoch = await engine.claim(run)
    except FencedError:
        return False
    try:
        record = await store.get_run(run)
        assert record is not None
        if record.status in FINAL or (status is RunStatus.PAUSED and record.status not in GOES_ON):
            return record.status is status  # it ended before this process had it
        events = await store.load(run)
        before = last_end(events) or RunEnded(status=status, active_s=0.0)
        failure = {"error": error or _SENTENCES[status], "error_type": None}
        end = before.model_copy(update={"status": status, "active_s": round(active_seconds(events), 3), **failure})
        await wait_for(store.append(run, epoch, [new_event(end, ts=clock.now())], status=status))
    except FencedError:
        return False
    finally:
        await engine.release(run, epoch)
    return True


def lost_drivers(events: list[Event]) -> int:
    """Return how many jobs in a row came to no end and recorded no outcome: their processes ended."""
    count = 0
    for event in reversed(events):
        if event.type in ("completed", "run_ended", "forked"):
            break
        count += event.type == "driving_started"
    return count


def news(events: list[Event]) -> bool:
    """Return True if an answer or mail came after a run's last job; what is told to the task waits for a step."""
    last = max((e.seq for e in events if e.type == "run_ended"), default=0)
    return any(e.type == "answered" or (e.type == "told" and e.body.get("to")) for e in events if e.seq > last)


def not_yet(events: list[Event], now: datetime) -> bool:
    """Return True if a run only waits for a time that is not there: driving it would change nothing."""
    end = last_end(events)
    if end is None or end.until is None or end.until <= now:
        return False
    return not news(events) and not open_questions(Ledger.of(events))


async def due_runs(store: Store, now: datetime) -> list[str]:
    """Return the waiting runs that can go on: their time has come, or something was said to them.

    One query over all of them; the logs of those to which something happened since are looked at one by one.
    """
    runs = []
    for event, later in await store.waiting():
        data = event.data
        assert isinstance(data, RunEnded)
        is_due = data.until is not None and data.until <= now
        if is_due or (later and news(await store.load(event.run, after=event.seq - 1))):
            runs.append(event.run)
    return runs


async def waiting_until(store: Store, runs: Sequence[str] | None = None) -> dict[str, datetime]:
    """Return when the first timer of each waiting run that has one is due; one query."""
    ends = [(event.run, event.data) for event, _ in await store.waiting(runs)]
    return {run: data.until for run, data in ends if isinstance(data, RunEnded) and data.until is not None}


def actors(events: list[Event]) -> list[str]:
    effects = [record.effect for record in Ledger.of(events).records.values()]
    names = [call["arguments"].get("name") for call in effects if call.get("kind") in _AGENTS and call.get("arguments")]
    return list(dict.fromkeys(str(name) for name in names if name))


async def request_of(store: Store, run: str) -> RunStatus | None:
    """Return what was asked of a run since its last job ended or while it ended: `cancelled`, `paused`, or None."""
    ledger = Ledger.of(await store.load(run))
    if ledger.cancel_requested:
        return RunStatus.CANCELLED
    return RunStatus.PAUSED if ledger.pause_requested else None
