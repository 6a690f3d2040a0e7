"""The local engine: claims runs for this process, keeps the leases, watches for other processes' events."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

import psutil

from agentorchestra.core.clock import Clock, SystemClock
from agentorchestra.core.errors import FencedError, LeaseError, StoreError
from agentorchestra.core.events import CancelRequested, new_event
from agentorchestra.core.protocols import Owner, RunJob, Store
from agentorchestra.log.store.machine import place, since_boot, wall
from agentorchestra.runtime.part import Elsewhere
from agentorchestra.runtime.run import Run, wait_for

T = TypeVar("T")

_WATCH_S = 0.1
"""How often the store is asked whether another process committed (one cheap query per process, not per run)."""


SHORTEST_LEASE_S = 1.0
"""A lease is prolonged at a third of it, by a commit that waits for the disk, for other commits and for the loop."""


def check_lease(lease_s: float) -> float:
    """Return the length of a lease; raise LeaseError if a commit may take longer."""
    if lease_s < SHORTEST_LEASE_S:
        raise LeaseError(
            f"lease_s = {lease_s:g} is shorter than a commit may take: runs would be taken from drivers that live; "
            f"set it to {SHORTEST_LEASE_S:g} or more, or leave it out (30)"
        )
    return lease_s


def owner_of(pid: int) -> Owner:
    started = psutil.Process(pid).create_time()
    boot, space = place()
    return Owner(
        host=socket.gethostname(),
        pid=pid,
        started=started,
        boot=boot,
        space=space,
        ticks=_ticks(pid) if boot else None,
        booted=wall() - since_boot() if boot else None,
    )


@cache  # the start time is reckoned from the boot time, which moves when the clock is set
def _this_process(pid: int) -> Owner:
    return owner_of(pid)


def this_process() -> Owner:
    return _this_process(os.getpid())


def is_dead(owner: Owner) -> bool:
    """Return True if it is proved that a process is gone; False where it cannot be: then its lease decides.

    Only a process of the same boot and the same PID namespace can be looked for here.
    """
    here = (socket.gethostname(), *place())
    if not owner.boot or owner.ticks is None or (owner.host, owner.boot, owner.space) != here:
        return False
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # another user's; it is there
    # A pid that was given to another process has another start. /proc may hide what another user runs.
    ticks = _ticks(owner.pid)
    return ticks is not None and ticks != owner.ticks


def _ticks(pid: int) -> int | None:
    """Return when a process was started, in ticks since the boot, -1 for one that has ended; None if it is not told."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold anything
    return -1 if fields[0] in "ZX" else int(fields[19])


_DRIVEN_HERE: set[str] = set()
"""Runs driven by any engine of this process: the owner in the log is the process, so it cannot tell them apart."""


@dataclass
class _Driven:
    epoch: int
    task: asyncio.Task[object]
    run: Run | None = None
    seen: int = 0
    lost: bool = False
    leaving: bool = False


class LocalEngine:
    """Drives runs in this process over any store; with the memory store it is the memory engine.

    A claim holds `lease_s` seconds of the store's time without a heartbeat.
    """

    def __init__(self, store: Store, *, lease_s: float = 30.0, clock: Clock | None = None) -> None:
        self._store = store
        self._lease_s = lease_s
        self._clock = clock or SystemClock()
        self.owner = this_process()
        self.elsewhere: Elsewhere | None = None  # has sub-agents of its runs work in other processes
        self._driven: dict[str, _Driven] = {}
        self._keeper: asyncio.Task[None] | None = None

    @property
    def driving(self) -> tuple[str, ...]:
        return tuple(self._driven)

    async def claim(self, run: str) -> int:
        """Take a run over until `release`, or raise FencedError if a live process drives it. Return the new epoch."""
        if run in _DRIVEN_HERE:
            raise FencedError(f"run {run} is already being driven by this process; wait for it or cancel it")
        _DRIVEN_HERE.add(run)  # before anything is awaited: of two at the same time only one gets it
        try:
            return await self._claim(run)
        except BaseException:
            _DRIVEN_HERE.discard(run)
            raise

    async def release(self, run: str, epoch: int) -> None:
        """Give a claimed run back; nothing happens where another process has it by now."""
        _DRIVEN_HERE.discard(run)
        await asyncio.shield(self._store.release(run, epoch))

    async def _claim(self, run: str) -> int:
        job = await self._store.job(run)
        epoch = None
        # This process asking again, without driving it, means that an earlier attempt of its own ended.
        if job is not None and job.owner is not None and (is_dead(job.owner) or job.owner == self.owner):
            epoch = await self._store.claim(run, self.owner, lease_s=self._lease_s, expect_epoch=job.epoch)
        if epoch is None:
            epoch = await self._store.claim(run, self.owner, lease_s=self._lease_s)
        if epoch is None:
            raise FencedError(_driven_elsewhere(run, await self._store.job(run)))
        return epoch

    async def submit(self, run: str, drive: Callable[[int], Awaitable[T]]) -> T:
        epoch = await self.claim(run)
        task = asyncio.ensure_future(drive(epoch))
        job = _Driven(epoch, task)
        self._driven[run] = job
        if self._keeper is None or self._keeper.done():
            self._keeper = asyncio.create_task(self._keep())
        try:
            return await task
        except asyncio.CancelledError:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
            if job.lost:
                raise FencedError(_driven_elsewhere(run, await self._store.job(run))) from None
            raise
        finally:
            del self._driven[run]
            if job.lost:
                _DRIVEN_HERE.discard(run)
            else:
                await self.release(run, epoch)
            if not self._driven:
                await self._stop_keeper()

    def attach(self, run: Run) -> None:
        """Let the watcher hand external events to a driven run."""
        job = self._driven.get(run.id)
        if job is not None:
            job.run = run
            job.seen = run.ledger.last_seq
            if job.leaving:
                run.leave()

    def leave(self, run: str) -> None:
        """Have a run that is driven here begin no further effect, and stay `running` for who takes it up next."""
        job = self._driven.get(run)
        if job is not None:
            job.leaving = True
            if job.run is not None:
                job.run.leave()

    async def cancel(self, run: str, *, reason: str = "", by: str = "") -> None:
        event = new_event(CancelRequested(reason=reason, by=by), ts=self._clock.now(), actor=by)
        await wait_for(self._store.append(run, None, [event]))
        await self.poke(run)

    async def poke(self, run: str) -> None:
        """Look for external events of a run driven here at once."""
        job = self._driven.get(run)
        if job is not None:
            await self._look(run, job)

    async def close(self) -> None:
        tasks = [job.task for job in self._driven.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)
        await self._stop_keeper()

    async def _stop_keeper(self) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is not None and keeper is not asyncio.current_task():
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)

    async def _keep(self) -> None:
        """Prolong all leases and watch the store: one task per process."""
        last = self._clock.monotonic()
        while True:
            await asyncio.sleep(_WATCH_S)
            try:
                if await self._store.changed():
                    for run, job in list(self._driven.items()):
                        await self._look(run, job)
                if self._clock.monotonic() - last >= self._lease_s / 3:
                    last = self._clock.monotonic()
                    epochs = {run: job.epoch for run, job in self._driven.items()}
                    for run in await self._store.heartbeat(epochs, lease_s=self._lease_s):
                        dead = self._driven.get(run)
                        if dead is not None and dead.epoch == epochs[run]:
                            dead.lost = True
                            dead.task.cancel()
            except StoreError:
                # The writers of the runs meet the same failure and say it; the keeper only tries again.
                continue

    async def _look(self, run: str, job: _Driven) -> None:
        if job.run is None:
            return
        events = await self._store.load(run, after=job.seen)
        if not events:
            return
        job.seen = max(event.seq for event in events)
        if job.run.on_external([event for event in events if not event.branch]):
            job.task.cancel()


def _driven_elsewhere(run: str, job: RunJob | None) -> str:
    owner = f" ({job.owner.host}, pid {job.owner.pid})" if job is not None and job.owner is not None else ""
    return f"run {run} is being driven by another process{owner}; it goes on there: `agentorchestra show {run}`"
