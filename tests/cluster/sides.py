"""A workspace whose team and society have three sides, each at work as a job of its own."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agentorchestra.core.ids import PART
from agentorchestra.core.messages import ModelResponse, ToolCall
from agentorchestra.core.spec import RunStatus
from agentorchestra.testing import call, decide
from tests.chaos.support import until
from tests.chaos.team_model import digest, steps_of
from tests.cluster.support import Model, Site, number_of
from tests.postgres import Postgres

_NUMBERS = itertools.count(1)
JOBS = ("lease_s = 86400", 'cluster.sub_agents = "jobs"')


SIDES = ("left_side", "right_side", "rear_side")
ROUNDS = 2
NOTED = tuple(f"{side}{turn}" for side in SIDES for turn in range(ROUNDS))
CIRCLE = ("[societies.circle]", 'agents = ["left_side", "right_side", "rear_side"]')
IMPATIENT = 81
"""In runs of this number the orchestrator submits when two have replied."""


def member_of(body: dict[str, Any]) -> str:
    """Whose request it is, "" for that of the orchestrator."""
    found = re.search(r"You are (left_side|right_side|rear_side)\.", str(body["messages"]))
    return "" if found is None or "submit_answer" in str(body.get("tools")) else found.group(1)


class Circle(Model):
    """The orchestrator asks three agents twice; each of their turns notes, looks up, and replies."""

    def __init__(self) -> None:
        super().__init__()
        self.last = asyncio.Event()

    async def __aexit__(self, *error: Any) -> None:
        self.last.set()
        await super().__aexit__(*error)

    def waits(self, body: dict[str, Any]) -> bool:
        """The second decision of the first turns."""
        return steps_of(body) == 1 and bool(member_of(body))

    def gate(self, body: dict[str, Any]) -> asyncio.Event:
        """In an impatient run one agent waits on when the others go on."""
        one = number_of(body) == IMPATIENT and member_of(body) == SIDES[2]
        return self.last if one else self.release

    def answer(self, body: dict[str, Any]) -> ModelResponse:
        """The next decision of whoever asks."""
        member, number, mark = member_of(body), number_of(body), digest(body)
        chosen = self.member(member, number, steps_of(body)) if member else self.leader(number, body)
        return decide(thinking=mark, calls=[chosen.model_copy(update={"id": f"call_{mark[:12]}"})])

    def member(self, name: str, number: int, steps: int) -> ToolCall:
        """What an agent does."""
        turn, step = divmod(steps, 3)
        ways = [
            call("note", x=f"{name}{turn}-{number}"),
            call("lookup", word="left"),
            call("wait_for_mention", answer=f"{name} has done turn {turn} of tide {number}"),
        ]
        return ways[step]

    def leader(self, number: int, body: dict[str, Any]) -> ToolCall:
        """What the orchestrator does."""
        said = str([one["content"] for one in body["messages"] if one["role"] == "tool"])
        asked = sum("send_message" in str(one.get("tool_calls")) for one in body["messages"])
        replies = len(set(re.findall(r"(\w+) has done turn (\d)", said)))
        if replies == 3 * ROUNDS or (number == IMPATIENT and replies == 2):
            return call("submit_answer", answer=f"tide {number} described")
        if asked * 3 == replies:
            words = f"What of tide {number}, question {asked}?"
            return call("send_message", thread="tides", content=words, mentions=[*SIDES])
        return call("wait_for_mention")


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

    async def two(self, model: Model, number: int) -> tuple[str, list[subprocess.Popen[str]]]:
        """A run, and two workers with two places each; the first one drives the run. All of its sides are held."""
        workers = [await self.worker("--concurrency", "2") for _ in range(2)]
        model.hold = {number}
        run = await self.begin(number) if isinstance(model, Circle) else (await self.submit([number]))[0]
        await until(lambda: model.held[number] == 3)
        drives = {one.pid: one.runs for one in (await self.standing()).workers}
        workers.sort(key=lambda one: run not in drives[one.pid])
        assert [len(drives[one.pid]) for one in workers] == [2, 2], drives
        return run, workers

    async def ends_without(self, model: Model, which: Sequence[int]) -> None:
        """Kill some of two workers while the sides of a run are at work; the run comes to its end."""
        run, workers = await self.two(model, 1)
        for one in which:
            workers[one].kill()
            await asyncio.to_thread(workers[one].wait)
        if len(which) == 2:
            await self.worker("--concurrency", "4")
        model.release.set()
        await self.reached(RunStatus.COMPLETED, [run])
        await self.whole({1: run})
        assert await self.begun(run) == (2 if 0 in which else 1)
        await self.no_parts()
        await self.ws.replay(run)


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
    async with Sides(
        tmp_path / f"s{number}", model, database.url, f"sides_{number}", (*settings, *CIRCLE), program
    ) as site:
        site.sides = names
        yield site
