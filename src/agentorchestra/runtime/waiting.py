"""Runs that nobody drives: ended as paused or cancelled on request, found when what they wait for is there."""

from __future__ import annotations

from agentorchestra.core.clock import Clock
from agentorchestra.core.errors import FencedError
from agentorchestra.core.events import Event, RunEnded, new_event
from agentorchestra.core.protocols import Store
from agentorchestra.core.spec import FINAL, RunStatus
from agentorchestra.runtime.engine import LocalEngine
from agentorchestra.runtime.ledger import Ledger
from agentorchestra.runtime.run import PAUSED, active_seconds, wait_for

GOES_ON = frozenset({RunStatus.CREATED, RunStatus.RUNNING, RunStatus.WAITING})
"""Statuses of runs that go on by themselves, now or later: only those can be paused."""

_SENTENCES = {RunStatus.PAUSED: PAUSED, RunStatus.CANCELLED: "cancelled on request"}


def last_end(events: list[Event]) -> RunEnded | None:
    """How the last job of a run ended; None where none has, or one goes on."""
    for event in reversed(events):
        if event.type in ("driving_started", "forked"):
            return None
        data = event.data if event.type == "run_ended" else None
        if isinstance(data, RunEnded):
            return data
    return None


async def end_undriven(store: Store, engine: LocalEngine, clock: Clock, run: str, status: RunStatus) -> bool:
    """Give a run that nobody drives the status that was asked for, at once.

    Args:
        store: the log.
        engine: of this process, which claims the run for the moment.
        clock: stamps the event.
        run: the run.
        status: `paused` or `cancelled`.

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
        ended = before.model_copy(
            update={
                "status": status,
                "active_s": round(active_seconds(events), 3),
                "error": _SENTENCES[status],
                "error_type": None,
            }
        )
        await wait_for(store.append(run, epoch, [new_event(ended, ts=clock.now())], status=status))
    except FencedError:
        return False
    finally:
        await store.release(run, epoch)
    return True


async def requested(store: Store, run: str) -> RunStatus | None:
    """What was asked of a run after its last job ended or while it ended: `cancelled`, `paused`, or nothing."""
    ledger = Ledger.of(await store.load(run))
    if ledger.cancel_requested:
        return RunStatus.CANCELLED
    return RunStatus.PAUSED if ledger.pause_requested else None


__all__ = ["GOES_ON", "end_undriven", "last_end", "requested"]
