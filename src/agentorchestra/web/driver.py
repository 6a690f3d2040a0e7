"""Runs that are driven in the background, as long as the application lives."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from agentorchestra.core.budget import Budget
from agentorchestra.core.errors import AgentOrchestraError, FencedError, StoreError
from agentorchestra.core.events import Answered, RunEnded
from agentorchestra.core.spec import Question, RunStatus
from agentorchestra.workspace import Workspace

logger = logging.getLogger("agentorchestra.web")

HAND_OVER_S = 5.0
"""Time for another process that drives a run to take an answer up."""

DUE_S = 1.0
"""Time between looks for waiting runs whose time has come: one query for all of them."""

_POLL_S = 0.02


class Driver:
    """One task for each run that is driven here, while the workspace is open."""

    def __init__(self, ws: Workspace[Any]) -> None:
        self._ws = ws
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._handing_over: set[asyncio.Task[None]] = set()
        self._answered: set[str] = set()

    async def begin(self, run_id: str, *, budget: Budget | None = None) -> None:
        """Drive a run from here on; returns once that has begun, or the run turns out to be over.

        Raises:
            AgentOrchestraError: what keeps it from being driven: another driver (FencedError), a missing tool.
        """
        before = await self._last_seq(run_id)
        while (last := self._tasks.get(run_id)) is not None:
            if (await self._ws.result(run_id)).status is RunStatus.RUNNING:
                raise FencedError(f"run {run_id} is already being driven here; wait for it or cancel it")
            # Its end is in the log and it is being put away, or it has just begun and its status is about to say so.
            await asyncio.wait({last}, timeout=_POLL_S)
            before = await self._last_seq(run_id)
        # No await between the look at the tasks and the new one: an answer and its time may come in one moment.
        task = asyncio.create_task(self._drive(run_id, budget), name=f"web:{run_id}")
        self._tasks[run_id] = task
        task.add_done_callback(lambda done: self._over(run_id, done))
        while not task.done():
            if any(one.type == "driving_started" for one in await self._ws.store.load(run_id, after=before)):
                return
            await asyncio.wait({task}, timeout=_POLL_S)
        await task

    async def go_on(self, run_id: str, question: Question) -> None:
        """Take up the answer to a question that was just recorded, unless the run's driver does it by itself."""
        if run_id in self._tasks:
            self._answered.add(run_id)
        elif await self._stopped(run_id):
            return
        elif run_id not in self._ws.engine.driving:
            try:
                await self.begin(run_id)
            except FencedError:
                # Another process drives it, but may be just about to stop and wait for this very answer.
                task = asyncio.create_task(self._hand_over(run_id, question))
                self._handing_over.add(task)
                task.add_done_callback(self._handing_over.discard)

    async def take_up_due(self) -> None:
        """Begin the waiting runs whose time has come, or whose answer or mail came from elsewhere; until cancelled."""
        refused: set[str] = set()
        while True:
            await asyncio.sleep(DUE_S)
            try:
                due = await self._ws.due()
            except StoreError as exc:
                logger.warning("which runs are due cannot be seen: %s", exc)
                continue
            for run_id in due:
                if run_id in self._tasks or run_id in refused:
                    continue
                try:
                    await self.begin(run_id)
                except FencedError:
                    continue  # it was faster
                except AgentOrchestraError as exc:
                    refused.add(run_id)  # once is enough: what is missing here is missing the next time
                    logger.warning("run %s is due and cannot go on here: %s", run_id, exc)

    async def close(self) -> None:
        """Cancel what is driven here, and wait until it has been put away; it can be resumed."""
        tasks = [*self._handing_over, *self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _drive(self, run_id: str, budget: Budget | None) -> None:
        await self._ws.resume(run_id, budget=budget)
        while True:
            self._answered.discard(run_id)
            if await self._has_its_answer(run_id):
                await self._ws.resume(run_id)
            elif run_id not in self._answered:
                # No await from here to the end of the task: an answer that comes later finds no driver.
                self._tasks.pop(run_id, None)
                return

    async def _has_its_answer(self, run_id: str) -> bool:
        """Return True if a run waits for an answer that came while it was being put away."""
        waiting: set[str] = set()
        found = False
        for event in await self._ws.events(run_id):
            data = event.data if event.type in ("run_ended", "answered") else None
            if event.type == "driving_started":
                waiting, found = set(), False  # a job that began later has taken the answer up
            elif isinstance(data, RunEnded):
                waiting, found = set(data.waiting_for) if data.status == RunStatus.WAITING else set(), False
            elif isinstance(data, Answered) and data.question in waiting:
                found = True
        return found

    async def _hand_over(self, run_id: str, question: Question) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + HAND_OVER_S
        branch, _, number = question.key.rpartition("#")
        while loop.time() < deadline:
            await asyncio.sleep(0.2)
            events = await self._ws.events(run_id)
            if any(one.type == "completed" and (one.branch, str(one.n)) == (branch, number) for one in events):
                return
            if await self._stopped(run_id):
                return
            try:
                return await self.begin(run_id)
            except FencedError:
                continue

    async def _last_seq(self, run_id: str) -> int:
        record = await self._ws.store.get_run(run_id)
        return 0 if record is None else record.next_seq - 1

    async def _stopped(self, run_id: str) -> bool:
        """Return True if somebody stopped the run: no answer starts it again, only a resume does."""
        return (await self._ws.result(run_id)).status in (RunStatus.PAUSED, RunStatus.CANCELLED)

    def _over(self, run_id: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(run_id) is task:
            del self._tasks[run_id]
        self._answered.discard(run_id)
        if task.cancelled() or (exc := task.exception()) is None:
            return
        if isinstance(exc, AgentOrchestraError):
            logger.warning("run %s stopped: %s", run_id, exc)
        else:
            logger.error("run %s stopped: %s: %s", run_id, type(exc).__name__, exc, exc_info=exc)
