"""Sub-agents as jobs of their own: parts of the runs that a worker drives, which any worker takes (runtime/part.py)."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from agentorchestra.cluster.jobs import MIDDLE, PRIORITY, Jobs, check_priority
from agentorchestra.core.budget import Budget
from agentorchestra.core.clock import SystemClock
from agentorchestra.core.errors import FencedError, StoreError, SuspendedError
from agentorchestra.core.events import CancelRequested, Event, PauseRequested, new_event
from agentorchestra.core.ids import EffectKey
from agentorchestra.core.protocols import RunRecord
from agentorchestra.core.spec import FINAL, PartOf, RunStatus
from agentorchestra.log.fork import forked_events
from agentorchestra.log.ledger import status_of
from agentorchestra.runtime.run import Run, wait_for
from agentorchestra.runtime.waits import GOES_ON, end_undriven, standing
from agentorchestra.workspace import Workspace

logger = logging.getLogger("agentorchestra.cluster")

BEGIN_S = 1.0  # a part that no worker has begun within this time is taken back: all may wait for parts themselves
_FULL_S = 5.0  # time for which a worker makes no parts after one that nobody began
_LOOK_S = 1.0  # time between looks at a part of which nothing is heard

_IDLE_LOOKS = 5
"""Looks at which a part that was begun has no driver, until it is taken back: another worker goes on with it sooner."""


class RunParts:
    """Has agents of the runs of this worker work on any worker: `ws` is open in a database, `jobs` are its queues."""

    def __init__(self, ws: Workspace[Any], jobs: Jobs) -> None:
        self.ws = ws
        self.jobs = jobs
        self.makes = ws.settings.cluster.sub_agents == "jobs"
        self._followed: Counter[str] = Counter()
        self._full_until = 0.0
        self._removing: set[asyncio.Task[None]] = set()

    async def __call__(
        self, run: Run, name: str, key: EffectKey, fork_seq: int, limits: Budget | None, *, anew: bool
    ) -> _Away | None:
        record = await self.ws.store.get_run(name)
        if not anew:
            if record is not None:
                self.remove(name)
            return None
        if record is None:
            if limits is None or asyncio.get_running_loop().time() < self._full_until:
                return None
            await self._make(name, run, key, fork_seq, limits)
            record = await self.jobs.record(name)
        if record.status in GOES_ON:
            with _log_refusal():  # nobody begins it then, and it is taken back
                await self.jobs.submit(name)
        return _Away(self, run, record)

    async def _make(self, name: str, run: Run, key: EffectKey, fork_seq: int, limits: Budget) -> None:
        store, manifest, now = self.ws.store, run.manifest, run.clock.now()
        # Before runs of the same kind that have not begun: somebody waits for it.
        first = max(1, check_priority(manifest.labels.get(PRIORITY, str(MIDDLE))) - 1)
        part = manifest.model_copy(
            update={
                "part_of": PartOf(run=run.id, key=str(key)),
                "parent_run": run.id,
                "fork_seq": fork_seq,
                "budget": limits,
                "labels": {**manifest.labels, PRIORITY: str(first)},
                "began": manifest.began or manifest.created,
                "created": now,
                "session": None,
            }
        )
        events = await store.load(run.id, upto=fork_seq)
        try:
            await store.create_run(name, part, forked_events(run.id, events, fork_seq, part, outcomes={}, now=now))
        except StoreError:
            if await store.get_run(name) is None:
                raise

    @contextmanager
    def following(self, run: str) -> Iterator[None]:
        self._followed[run] += 1
        try:
            yield
        finally:
            self._followed[run] -= 1

    def follows(self, run: str) -> bool:
        """Return True if a run waits for a part: what becomes of it is up to whoever drives that."""
        return self._followed[run] > 0

    def nobody_free(self) -> None:
        """Make no parts for a while: each costs the time until it is taken back."""
        self._full_until = asyncio.get_running_loop().time() + _FULL_S

    async def take_back(self, name: str) -> bool:
        """End a part that nobody drives; return whether it has ended."""
        if not await end_undriven(self.ws.store, self.ws.engine, SystemClock(), name, RunStatus.CANCELLED):
            return False
        with _log_refusal():  # whoever takes the job finds that there is nothing to do
            await self.jobs.drop(name)
        return True

    def remove(self, name: str) -> None:
        """Remove a part beside everything else: its driver may need a moment to let go of it."""
        task = asyncio.create_task(self._remove(name))
        self._removing.add(task)
        task.add_done_callback(self._removing.discard)

    async def _remove(self, name: str) -> None:
        for _ in range(50):
            if await self.ws.store.delete_runs([name]):
                return
            await asyncio.sleep(0.1)
            with suppress(FencedError):  # its driver died before it let go
                await self.ws.engine.release(name, await self.ws.engine.claim(name))

    async def end_orphans(self) -> None:
        """End the parts of runs that were stopped while nobody drove them; what they did is there for a resume.

        Remove what is left of parts of runs that have ended: who took their rows over died before it did.
        """
        store = self.ws.store
        for state in await store.run_states(parts=True):
            run = await store.get_run(str(state.parent_run))
            if state.status in GOES_ON and (run is None or run.status not in (RunStatus.CREATED, RunStatus.RUNNING)):
                await self.ws.engine.cancel(state.id, by="cluster")
                await self.take_back(state.id)
            if run is None or run.status in FINAL:
                self.remove(state.id)

    async def close(self) -> None:
        await asyncio.gather(*self._removing, return_exceptions=True)


class _Away:
    def __init__(self, parts: RunParts, run: Run, part: RunRecord) -> None:
        self.limits = part.manifest.budget
        self._parts = parts
        self._store = parts.ws.store
        self._run = run
        self._name = part.id
        self._made = (part.fork_seq or 0) + 1  # the copied events, and the one that says so
        self._events: list[Event] = []
        self._status = RunStatus.CREATED

    async def wait(self) -> None:
        run, loop, is_paused, idle = self._run, asyncio.get_running_loop(), False, 0
        begun_by = loop.time() + BEGIN_S
        with self._store.follow(self._name) as news, self._parts.following(run.id):
            while await self._look(news) in GOES_ON:
                if run.leaving and not run.ledger.pause_requested:
                    raise SuspendedError(f"the sub-agent of {run.id} goes on in {self._name}")
                if run.pausing and not is_paused:
                    is_paused = True
                    await self._ask(PauseRequested(reason=f"{run.id} is paused"))
                unbegun = self._status is RunStatus.CREATED and (is_paused or loop.time() >= begun_by)
                if unbegun or idle >= _IDLE_LOOKS:
                    if await self._parts.take_back(self._name):
                        if not is_paused:
                            self._parts.nobody_free()
                        continue
                    idle = 0
                quiet = not await _first_of(news, *([] if is_paused else [run.pause_asked]))
                idle = idle + 1 if quiet and await self._is_idle() else 0

    async def stop(self) -> bool:
        run = self._run
        job = await self._store.job(run.id)
        if job is None or job.epoch != run.epoch or (run.leaving and not run.ledger.cancel_requested):
            return False
        with self._store.follow(self._name) as news:
            if await self._look(news) in GOES_ON:
                await self._ask(CancelRequested(reason=f"{run.id} is stopped"))
            while await self._look(news) in GOES_ON:
                if not await self._parts.take_back(self._name):
                    await _first_of(news)
        return True

    async def _is_idle(self) -> bool:
        runs = await self._store.unfinished_runs(runs=[self._name], status=RunStatus.RUNNING, parts=True)
        return any(standing(run) != "driven" for run in runs)

    async def _ask(self, body: CancelRequested | PauseRequested) -> None:
        await wait_for(self._store.append(self._name, None, [new_event(body, ts=self._run.clock.now())]))
        await self._parts.ws.engine.poke(self._name)

    async def _look(self, news: asyncio.Event) -> RunStatus:
        news.clear()
        fresh = await self._store.load(self._name, after=self._made + len(self._events))
        self._events += fresh
        if any(event.type in ("driving_started", "run_ended") for event in fresh):
            self._status = status_of(fresh)
        return self._status

    def events(self) -> Sequence[Event]:
        return self._events

    async def remove(self) -> None:
        self._parts.remove(self._name)


@contextmanager
def _log_refusal() -> Iterator[None]:
    """Say what the queue refused, in place of failing: the run does without it."""
    try:
        yield
    except SQLAlchemyError as exc:
        logger.warning("the queue did not do what was asked: %s", exc)


async def _first_of(*events: asyncio.Event) -> bool:
    """Wait until one of the events is set, not for ever; return whether one is."""
    waiting = [asyncio.create_task(event.wait()) for event in events]
    try:
        done, _ = await asyncio.wait(waiting, timeout=_LOOK_S, return_when=asyncio.FIRST_COMPLETED)
        return bool(done)
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
