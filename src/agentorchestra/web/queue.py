"""The queue: runs that are driven in the background, so many at a time, in the order in which they came.

The queue is the runs themselves, in the store: those that a server accepted and nobody drives, and those that wait and
can go on. This process only holds the tasks of what it drives, so nothing is lost with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

from agentorchestra.core.errors import AgentOrchestraError, FencedError, StoreError
from agentorchestra.runtime.waits import standing
from agentorchestra.workspace import Workspace

logger = logging.getLogger("agentorchestra.web")

POLL_S = 1.0  # time between looks for runs that became ready elsewhere: two queries for all of them

HOLD_S = 1.0
"""How long the beginning of runs waits for requests that are being accepted: they come first, but not for ever."""

QUIET_S = 0.02

RUNS_PER_CORE = 8
"""Runs that are driven at the same time for each core, unless the settings say: most of the time they wait."""

RETRY_AFTER_S = 5  # what a client is told to wait at least before it sends a request again
_LONGEST_RETRY_S = 600

_LEAVE_S = 0.1
_MORE = 100


class RunQueue:
    """One task for each run that is driven here, while the workspace is open.

    Attributes:
        refused: why runs that are in the queue cannot go on here, by their ids: they stay for a server that can.
        ended: how many runs came to an end or a stop here, by status.
    """

    def __init__(self, ws: Workspace[Any]) -> None:
        self._ws = ws
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._woken = asyncio.Event()
        self._accepting = 0
        self._accepted_at = -math.inf
        self._stopped_at: float | None = None
        self._complaint = ""
        self.refused: dict[str, str] = {}
        self.ended: Counter[str] = Counter()
        self._ends: deque[float] = deque(maxlen=_MORE)  # the loop's times of the last ones
        self._promised = 0.0  # the loop's time for which the last client was told to come again

    @property
    def places(self) -> int:
        """How many runs may be driven here at the same time."""
        most = self._ws.settings.serve.max_runs
        return RUNS_PER_CORE * (os.cpu_count() or 1) if most is None else most

    @property
    def driving(self) -> int:
        return len(self._tasks)

    def retry_after(self) -> int:
        """Return the seconds after which a client that found no place may come again: each a turn later.

        The turns are as far apart as the last runs ended here, so that clients come as places become free.
        """
        now = asyncio.get_running_loop().time()
        apart = (now - self._ends[0]) / len(self._ends) if self._ends else 1 / max(self.places, 1)
        wait_s = min(max(self._promised + apart - now, RETRY_AFTER_S), _LONGEST_RETRY_S)
        self._promised = now + wait_s
        return math.ceil(wait_s)

    @property
    def stopping(self) -> bool:
        return self._stopped_at is not None

    def wake(self, run_id: str | None = None) -> None:
        """Look for runs that are ready at once; `run_id` is tried again where it was refused."""
        if run_id is not None:
            self.refused.pop(run_id, None)
        self._woken.set()

    @contextlib.contextmanager
    def accepting(self) -> Iterator[None]:
        """Begin no run while a request is being accepted: one of many at once would wait for the runs of the others."""
        self._accepting += 1
        try:
            yield
        finally:
            self._accepting -= 1
            self._accepted_at = asyncio.get_running_loop().time()

    async def _quiet(self) -> None:
        """Wait until no request is being accepted, and none was just before: the next of many may be on its way."""
        loop = asyncio.get_running_loop()
        for _ in range(round(HOLD_S / QUIET_S)):
            if not self._accepting and loop.time() - self._accepted_at >= QUIET_S:
                return
            await asyncio.sleep(QUIET_S)

    async def work(self) -> None:
        """Begin runs as there are places, until cancelled."""
        self._stopped_at = None
        while True:
            self._woken.clear()
            await self._quiet()
            try:
                await self._fill()
                self._complaint = ""
            except StoreError as exc:
                if str(exc) != self._complaint:  # once for each outage
                    self._complaint = str(exc)
                    logger.warning("which runs are to be driven cannot be seen: %s", exc)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self._woken.wait()

    def stop(self, *, now: bool = False) -> None:
        """Begin no further run, and no further effect of those that are driven; `now` ends what is under way too."""
        if self._stopped_at is None:
            self._stopped_at = asyncio.get_running_loop().time()
        for run_id, task in self._tasks.items():
            self._ws.engine.leave(run_id)
            if now:
                task.cancel()

    async def close(self) -> None:
        """Hand on what is driven here: effects under way have `stop_s` seconds since the stop to end."""
        loop = asyncio.get_running_loop()
        self.stop()
        assert self._stopped_at is not None
        deadline = self._stopped_at + self._ws.settings.serve.stop_s
        while self._tasks and (left := deadline - loop.time()) > 0:
            self.stop()  # a run that had only just begun may hear it now
            await asyncio.wait(self._tasks.values(), timeout=min(left, _LEAVE_S))
        tasks = list(self._tasks.values())
        self.stop(now=True)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _fill(self) -> None:
        free = self.places - len(self._tasks)
        if free <= 0:
            return
        ready = [run_id for run_id in await self._ws.runs.due() if self._is_free(run_id)]
        if len(ready) < free:
            ready += [run_id for run_id in await self._ready_runs(free) if run_id not in ready]
        if self.stopping:
            return
        for run_id in ready[:free]:
            task = asyncio.create_task(self._drive(run_id), name=f"web:{run_id}")
            self._tasks[run_id] = task
            task.add_done_callback(lambda done, run_id=run_id: self._over(run_id, done))  # type: ignore[misc]

    def _is_free(self, run_id: str) -> bool:
        return run_id not in self._tasks and run_id not in self.refused

    async def _ready_runs(self, count: int) -> list[str]:
        takes_all = self._ws.settings.serve.take_up == "all"
        wanted_standings = {"queued", "abandoned"} if takes_all else {"queued"}
        own = self._ws.engine.owner
        limit: int | None = count + len(self._tasks) + len(self.refused) + _MORE
        while True:
            runs = await self._ws.store.unfinished_runs(is_accepted=None if takes_all else True, limit=limit)
            ready = [
                run.id
                for run in runs
                # What this process claimed and does not drive is what an earlier attempt of its own left.
                if self._is_free(run.id)
                and (
                    standing(run) in wanted_standings
                    or (run.owner == own and run.is_held and run.id not in self._ws.engine.driving)
                )
            ]
            if len(ready) >= count or limit is None or len(runs) < limit:
                return ready
            limit = None  # all that came first are other servers' or refused

    async def _drive(self, run_id: str) -> None:
        result = await self._ws.runs.take_up(run_id, accept=True)
        self.ended[result.status.value] += 1
        self._ends.append(asyncio.get_running_loop().time())

    def _over(self, run_id: str, task: asyncio.Task[None]) -> None:
        del self._tasks[run_id]
        exc = None if task.cancelled() else task.exception()
        if isinstance(exc, FencedError):
            return  # another process was faster
        if isinstance(exc, StoreError):
            logger.warning("run %s stopped, and is tried again: %s", run_id, exc)
            return
        if exc is not None:
            self.refused[run_id] = str(exc) if isinstance(exc, AgentOrchestraError) else f"{type(exc).__name__}: {exc}"
            if isinstance(exc, AgentOrchestraError):
                logger.warning("run %s cannot go on here: %s", run_id, exc)
            else:
                logger.error("run %s cannot go on here: %s: %s", run_id, type(exc).__name__, exc, exc_info=exc)
        self._woken.set()
