"""A worker: it takes jobs from the queues and drives their runs, and takes over the jobs of workers that died."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer

from agentorchestra.cluster.jobs import (
    DRIVE,
    NAME,
    Jobs,
    check_tags,
    connection_errors,
    database_of,
    dbos_schema,
    engine_of,
    queues_of,
    run_of,
    version_of,
)
from agentorchestra.cluster.members import LOOK_S, Members, beat_s, digests
from agentorchestra.cluster.parts import RunParts
from agentorchestra.cluster.requests import RequestLimits
from agentorchestra.cluster.startup import until_reached
from agentorchestra.core.clock import SystemClock
from agentorchestra.core.errors import (
    AgentOrchestraError,
    FencedError,
    LostLockError,
    StoreError,
    StoreUnavailableError,
    UnknownRunError,
    UsageError,
)
from agentorchestra.core.ids import PART
from agentorchestra.core.spec import RunStatus
from agentorchestra.models.openai import PydanticAIClient
from agentorchestra.runtime.waits import end_undriven, lost_drivers, request_of, standing
from agentorchestra.workspace import Workspace
from agentorchestra.workspace.catalog import code_digest, distribution

logger = logging.getLogger("agentorchestra.cluster")

CONCURRENCY = 8  # runs that a worker drives at the same time, of each queue
_AGAIN_S = 0.3  # time between attempts to claim a run whose last driver may still be alive
_DUE_S = 1.0  # time between looks for waiting runs that can go on
_ORPHANS_S = 5.0  # time between looks for parts whose run was stopped
_TIDY_S = 600.0  # time between looks for jobs that can be forgotten
_KEEP = timedelta(days=7)  # after which the queue forgets a job that ended; the run itself stays


class Suspects:
    """Runs whose last driver ended without progress, until they make some: one of them may have ended it.

    After one such end they begin together, so that a worker that only stopped is followed at once. After two each
    begins alone: a run that ends its workers is not to have others counted as guilty with it.
    """

    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self._begun = 0
        self._alone = False
        self._waiting = 0  # to begin alone: nobody passes them

    @asynccontextmanager
    async def begin(self, *, alone: bool) -> AsyncIterator[None]:
        """Wait until a run may begin; the block lasts until it has made progress."""
        async with self._changed:
            if alone:
                self._waiting += 1
                try:
                    await self._changed.wait_for(lambda: not self._begun)
                finally:
                    self._waiting -= 1
                    self._changed.notify_all()
            else:
                await self._changed.wait_for(lambda: not (self._alone or self._waiting))
            self._begun += 1
            self._alone = alone
        try:
            yield
        finally:
            self._begun -= 1
            self._alone = self._alone and not alone
            async with self._changed:
                self._changed.notify_all()


class Worker:
    """Drives runs of a workspace that lies in a database; one in a process.

    Args:
        ws: open.
        concurrency: runs at the same time, of each queue.
        tags: what this machine has (`gpu`, `browser`): it drives runs that need nothing else.
        version: of the package.
    """

    def __init__(
        self,
        ws: Workspace[Any],
        *,
        concurrency: int = CONCURRENCY,
        tags: Sequence[str] = (),
        version: str | None = None,
    ) -> None:
        self._ws = ws
        self._store = database_of(ws)
        self._concurrency = concurrency
        self.tags = check_tags(tags)
        self._version = version_of(code_digest())
        self._jobs = Jobs(ws)
        self._parts = RunParts(ws, self._jobs)
        about = {
            "kind": "worker",
            "version": distribution() if version is None else version,
            "code": self._version,
            "concurrency": concurrency,
            "tags": list(self.tags),
            "settings": digests(ws.settings),
        }
        schema = dbos_schema(self._store)
        self._members = Members(self._store, schema, about, lease_s=ws.settings.lease_s)
        self._requests = RequestLimits(self._store, schema, self._members.id, ws.settings.cluster.limits)
        self._suspects = {False: Suspects(), True: Suspects()}  # runs wait for their parts: True is for those
        self._seen: set[str] = set()  # unfinished runs that are known to have a job
        self._stopping = asyncio.Event()
        self._beating: asyncio.Task[None] | None = None  # until what is under way has ended
        self._taken = False  # others have its runs
        self._present = asyncio.Event()  # the database answers

    @property
    def id(self) -> str:
        return self._members.id

    def stop(self) -> None:
        """Begin no further run, hand on those that are under way, then end `run`."""
        self._stopping.set()

    async def run(self, started: asyncio.Event | None = None) -> None:
        """Drive runs until `stop`.

        Args:
            started: is set when this worker takes jobs.

        Raises:
            OtherWorkerError: if the workers that are there have other settings.
            StoreUnavailableError: if the database stays away while it starts.
            LostLockError: if it was stopped or cut off from the database, and others have taken its runs over.
        """
        await until_reached(self._jobs.open, lambda: self._ws.settings.database_retry_s)
        engine = engine_of(self._store)
        # While the database is away DBOS says so five times in a second; `_watch` says it once.
        dbos_logger = logging.getLogger("dbos")
        dbos_logger.addFilter(self._worth_saying)
        self._present.set()
        try:
            await self._warm()  # what it imports keeps the loop from beating: nobody knows this worker yet
            await until_reached(self._join, lambda: self._ws.settings.database_retry_s)
            self._beating = asyncio.create_task(self._beat(), name="cluster:beat")
            self._ws.models.everywhere = self._requests.place
            self._ws.engine.elsewhere = self._parts
            queues = queues_of(self.tags, self._ws.settings)
            await self._jobs.register(queues, concurrency=self._concurrency)
            config: DBOSConfig = {
                "name": NAME,
                "system_database_url": "postgresql://given/by-engine",
                "system_database_engine": engine,
                "dbos_system_schema": dbos_schema(self._store),
                "executor_id": self.id,
                "application_version": self._version,
                "serializer": DBOSPortableJSONSerializer(),
                "run_migrations": False,
                "enable_otlp": False,
                "log_level": "WARNING",
            }
            DBOS(config=config)

            @DBOS.workflow(name=DRIVE, max_recovery_attempts=None)
            async def drive(run_id: str) -> dict[str, str]:
                return await self._job(run_id)

            DBOS.listen_queues(list(queues))
            DBOS.launch()  # inside this loop: jobs are coroutines of it
            if started is not None:
                started.set()
            await self._work(self._beating)
        finally:
            await self._end()
            dbos_logger.removeFilter(self._worth_saying)
            engine.dispose()

    def _worth_saying(self, record: logging.LogRecord) -> bool:
        text, _, trace = record.getMessage().partition("Traceback (most recent call last):")
        if trace:  # in the text itself: the error alone is for whoever reads it
            error = next((line for line in trace.splitlines() if line and not line.startswith(" ")), "")
            record.msg, record.args = text + error, ()
        return self._present.is_set()

    async def _join(self) -> None:
        try:
            await self._members.join()
        except ConnectionError as exc:
            raise StoreUnavailableError(f"cannot connect to the database {self._store.address.shown} ({exc})") from None

    async def _warm(self) -> None:
        """Import now what the first run would import: whoever takes runs over has no time for it."""
        with contextlib.suppress(AgentOrchestraError):  # what is wrong with the settings, the first run is told
            await self._ws.runs.foresee("What does a first task need?")
            if isinstance(self._ws.models.client(self._ws.settings.model), PydanticAIClient):
                await asyncio.to_thread(importlib.import_module, "agentorchestra.models.wire")

    async def _work(self, beating: asyncio.Task[None]) -> None:
        loops = [
            asyncio.create_task(work, name=f"cluster:{name}")
            for name, work in (
                ("members", self._watch()),
                ("due", self._take_up_due()),
                ("stop", self._stopping.wait()),
            )
        ]
        try:
            done, _ = await asyncio.wait([*loops, beating], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except LostLockError:
            self._taken = True
            raise
        finally:
            for task in loops:
                task.cancel()
            await asyncio.gather(*loops, return_exceptions=True)

    async def _end(self) -> None:
        # Whoever was cut off has nothing to hand on: others drive its runs.
        cut_off = not self._stopping.is_set()
        self._stopping.set()
        await self._hand_on(0.0 if cut_off else self._ws.settings.cluster.hand_on_s)
        await asyncio.to_thread(partial(DBOS.destroy, destroy_registry=True))
        try:
            await self._give_up()
        finally:
            await self._stop_beating()
            self._ws.models.everywhere = self._ws.engine.elsewhere = None
            await self._parts.close()
            await self._requests.close()
            await self._members.leave()
            await self._jobs.close()

    async def _stop_beating(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)

    async def _give_up(self, job: str | None = None) -> None:
        """Queue the jobs of this worker again, or one of them; what others took over is theirs to queue."""
        if not self._taken:
            await self._jobs.put_back(self.id, job=job)

    async def _hand_on(self, within_s: float) -> None:
        """Let effects under way end, for so many seconds; their runs stay `running`, for the next driver."""
        engine, loop = self._ws.engine, asyncio.get_running_loop()
        deadline = loop.time() + within_s
        while engine.driving and loop.time() < deadline:
            for run_id in engine.driving:
                engine.leave(run_id)
            await asyncio.sleep(0.05)
        for run_id in engine.driving:
            engine.leave(run_id)
        await engine.close()

    # -- one job ---------------------------------------------------------------------------------------------------

    async def _job(self, run_id: str) -> dict[str, str]:
        """Drive a run to its end or to where it waits: the body of the workflow. It has no steps."""
        job = DBOS.workflow_id
        assert job is not None
        while not self._stopping.is_set():
            try:
                status = await self._drive(run_id)
                if status is not RunStatus.RUNNING:
                    return {"status": status.value}
                break  # handed on: this worker stops
            except FencedError:
                # Its last driver is not provably dead: the lease decides. Or somebody drives it by hand.
                await self._pause(_AGAIN_S)
            except StoreUnavailableError as exc:
                logger.warning("run %s waits for its database: %s", run_id, exc)
                await self._pause(_AGAIN_S)
                await self._present.wait()
            except UnknownRunError as exc:
                if not run_id.startswith(PART):
                    logger.warning("run %s cannot go on here: %s", run_id, exc)
                return {"status": "removed"}  # a part that its run took back
            except AgentOrchestraError as exc:
                logger.warning("run %s cannot go on here: %s", run_id, exc)
                return {"error": str(exc), "error_type": type(exc).__name__}
        await self._give_up(job)
        await asyncio.Event().wait()  # it is another worker's now; this body ends with the process
        raise AssertionError("unreachable")

    async def _drive(self, run_id: str) -> RunStatus:
        ws = self._ws
        status, part = (await self._jobs.record(run_id)).status, run_id.startswith(PART)
        if status is RunStatus.RUNNING:
            # Asked while nobody drove it: its driver is dead, or handed it on.
            order = await request_of(ws.store, run_id)
            if order is not None:
                order = RunStatus.CANCELLED if part else order  # its run goes on with it, whoever stopped it how
                if not await end_undriven(ws.store, ws.engine, SystemClock(), run_id, order):
                    raise FencedError(f"run {run_id} is driven by somebody else")
                return order
        # One that is over, or was stopped by somebody, stays as it is.
        drivers = lost_drivers(await ws.store.load(run_id))
        if not drivers:
            return (await ws.runs.take_up(run_id)).status
        async with self._suspects[part].begin(alone=drivers > 1):
            driving = asyncio.create_task(ws.runs.take_up(run_id), name=f"cluster:{run_id}")
            while not (driving.done() or self._parts.follows(run_id)) and lost_drivers(await ws.store.load(run_id)):
                await asyncio.wait({driving}, timeout=_AGAIN_S)
        return (await driving).status

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass

    # -- the others ------------------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        """Tell the others that this loop goes on, for ever; `_watch` may wait for what a dead one holds."""
        while True:
            try:
                await self._members.beat()
            except ConnectionError:
                pass  # `_watch` meets it too, and says it
            except LostLockError:
                self._taken = True
                raise
            await asyncio.sleep(beat_s(self._ws.settings.lease_s))

    async def _watch(self) -> None:
        """Take over the jobs of dead workers, for ever."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                with connection_errors():
                    for member in await self._members.dead():
                        runs = await self._jobs.put_back(member.id)
                        await self._members.bury(member)
                        reason = "is gone"
                        if member.holds_lock:
                            reason = f"has not answered for {member.silent_s or 0.0:.1f} s"
                        logger.warning("%s %s; %d of its runs are queued again", member.name, reason, len(runs))
            except ConnectionError as exc:
                if self._present.is_set():
                    self._present.clear()
                    logger.warning("the queue's database does not answer (%s); trying again", exc)
            else:
                if not self._present.is_set():
                    self._present.set()
                    logger.warning("the queue's database answers again")

    async def _take_up_due(self) -> None:
        """Queue waiting runs that can go on, and what was accepted and not queued; one worker does it for all."""
        tidy_at = look_at = 0.0
        refusals: set[str] = set()
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_DUE_S)
            if not self._present.is_set() or not await self._members.leads():
                continue
            try:
                with connection_errors():
                    await self._put_back_orphans()
                    for version, count in (await self._jobs.hand_over(await self._members.codes())).items():
                        logger.warning("no worker has the code %s; %d of its runs are for others now", version, count)
                    for run_id in [*await self._ws.runs.due(), *await self._not_in_queue()]:
                        if run_id not in refusals:
                            await self._queue(run_id, refusals)
                    if loop.time() - look_at > _ORPHANS_S:
                        look_at = loop.time()
                        await self._parts.end_orphans()
                    if loop.time() - tidy_at > _TIDY_S:
                        tidy_at = loop.time()
                        await self._jobs.forget((datetime.now(UTC) - _KEEP).isoformat())
            except (StoreError, ConnectionError) as exc:
                logger.warning("which runs are due cannot be seen: %s", exc)

    async def _put_back_orphans(self) -> None:
        """Queue what workers took after they counted as dead: where only the loop hangs, the queue is still asked."""
        takers = await self._jobs.takers()
        for executor in takers - await self._members.ids() if takers else ():  # in this order: who takes has joined
            runs = await self._jobs.put_back(executor)
            logger.warning("a worker that does not answer took %d runs; they are queued again", len(runs))

    async def _queue(self, run_id: str, refusals: set[str]) -> None:
        try:
            await self._jobs.submit(run_id)
            self._seen.add(run_id)
        except UsageError as exc:
            refusals.add(run_id)  # once is enough
            logger.warning("run %s is due and cannot be queued: %s", run_id, exc)

    async def _not_in_queue(self) -> list[str]:
        """Return the runs that a server in front took on: it leaves them to the workers."""
        runs = await self._ws.store.unfinished_runs(is_accepted=True)
        taken_on = [run.id for run in runs if run.id not in self._seen and standing(run) == "queued"]
        self._seen &= {run.id for run in runs}
        if not taken_on:
            return []
        self._seen |= {run_of(job.workflow_id) for job in await self._jobs.under_way()}
        return [run_id for run_id in taken_on if run_id not in self._seen]


__all__ = ["CONCURRENCY", "Worker"]
