"""A workspace whose team and society have three sides, each at work as a job of its own."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from agentorchestra.core.ids import PART
from agentorchestra.core.spec import RunStatus
from tests.chaos.support import until
from tests.cluster.support import Model, Site
from tests.postgres import Postgres

_NUMBERS = itertools.count(1)
JOBS = ("lease_s = 86400", 'cluster.sub_agents = "jobs"')


class Sides(Site):
    """A workspace whose team has three sides, and its society too."""

    async def begin(self, number: int) -> str:
        """Queue a run of the society."""
        run = await self.ws.create(f"Describe tide {number}.", system="circle")
        await self.jobs.submit(run)
        return run

    def places(self) -> dict[str, int]:
        """The processes that noted what."""
        lines = [line.split() for line in (self.folder / "notes.txt").read_text().splitlines()]
        return {what: int(process) for _, what, process in lines}

    async def jobs_of_parts(self) -> Counter[str]:
        """How the jobs of parts ended: by the status of the part, or `CANCELLED` for one that was taken back.

        One that a worker had just taken when it was taken back says `cancelled` or `removed`.
        """
        found = await self.jobs._open_client.list_workflows_async(status=["SUCCESS", "ERROR", "CANCELLED"])
        ended = [one for one in found if one.workflow_id.startswith(PART)]
        return Counter(str((one.output or {}).get("status", one.status)) for one in ended)

    async def parts(self) -> list[str]:
        """The parts that are there."""
        return [one.id for one in await self.ws.store.run_states() if one.id.startswith(PART)]

    async def no_parts(self) -> None:
        """Wait until no part is there any more."""
        while True:
            if not await self.parts():
                return
            await asyncio.sleep(0.05)

    async def over(self, run: str) -> None:
        """Wait until a run has ended, however it did."""
        while True:
            if await self.status(run) not in (RunStatus.CREATED, RunStatus.RUNNING):
                return
            await asyncio.sleep(0.05)

    async def worker(self, *words: str, environ: dict[str, str] | None = None) -> subprocess.Popen[str]:
        """A worker for whose places parts wait long, unless `environ` says otherwise: time decides nothing."""
        return await super().worker(*words, environ={**os.environ, "BEGIN_S": "100", **(environ or {})})

    async def two(self, model: Model, run: int) -> list[subprocess.Popen[str]]:
        """Two workers, each with a part of a run; the first one drives the run too. All parts wait for the model."""
        workers = [await self.worker("--concurrency", "2") for _ in range(2)]
        model.hold = {run}
        await self.submit([run])
        await until(lambda: model.held[run] == 3)
        (parent,) = [one.id for one in await self.ws.runs()]
        drives = {one.pid: one.runs for one in (await self.standing()).workers}
        workers.sort(key=lambda one: parent not in drives[one.pid])
        assert [len(drives[one.pid]) for one in workers] == [2, 2], drives
        return workers


def asked_once(model: Model) -> bool:
    """Whether no request was made twice."""
    return len({mark for _, mark in model.asked}) == len(model.asked)


@asynccontextmanager
async def sides(
    tmp_path: Path,
    model: Model,
    database: Postgres,
    settings: Sequence[str] = JOBS,
    names: tuple[str, ...] = ("left", "right", "rear", "top"),
) -> AsyncIterator[Sides]:
    """A workspace without a worker yet; `names` are those of the sides, as they note them."""
    number = next(_NUMBERS)
    program = "sub_agents_program.py"
    async with Sides(tmp_path / f"s{number}", model, database.url, f"sides_{number}", settings, program) as site:
        site.sides = names
        yield site
