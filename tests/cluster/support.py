"""Many runs of the team (tests/chaos/team_program.py) in one database, driven by workers in processes of their own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self, cast

from agentorchestra.cluster import Jobs, Standing, standing
from agentorchestra.cluster.jobs import dbos_schema
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.messages import ModelResponse
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.ledger import Ledger
from agentorchestra.log.store import PostgresStore
from agentorchestra.testing import LoopbackModelServer, call, decide
from agentorchestra.workspace import Workspace, open_workspace
from tests.chaos.support import start
from tests.chaos.team_case import CLI
from tests.chaos.team_model import actor_of, answered, digest, steps_of

ASKING, POISONOUS, SLOW, HANGING = 91, 92, 93, 94
FIRST = {ASKING: "confirm", POISONOUS: "poison", SLOW: "slow", HANGING: "hang"}
"""Runs of these numbers begin with this tool, and then are done."""

ALONE = 100
"""Runs of larger numbers are one agent each: one request at a time."""

TOLD = "Mention the moon."
"""The top agent ends with "..., and the moon" when it is told so."""

TOKEN = "a-token-of-the-tests-000"
"""Of the servers."""

_NUMBER = re.compile(r"tide (\d+)")


def answer(body: dict[str, Any]) -> ModelResponse:
    """The next decision of whoever asks; what it says names the run's number and the request that it answers."""
    steps, actor = steps_of(body), actor_of(body)
    number = number_of(body)
    if number in FIRST and steps == 0:
        ways = [[call(FIRST[number])]]
    elif number in FIRST:
        ways = [[call("done", answer=f"tide {number} described")]] * 3
    elif number > ALONE:
        ways = [[call("lookup", word="top")], [call("done", answer=f"tide {number} described")]] * 2
    elif actor == "top":
        said = f"tide {number} described" + (", and the moon" if TOLD in str(body["messages"]) else "")
        ways = [
            [call("team", topic=f"tide {number}")],
            [call("note", x=f"top-{number}"), call("lookup", word="top")],
            [call("done", answer=said)],
        ]
    else:
        ways = [
            [call("note", x=f"{actor}-{number}")],
            [call("lookup", word=actor)],
            [call("done", answer=f"{actor} of {number}")],
        ]
    mark = digest(body)
    calls = [one.model_copy(update={"id": f"call_{mark[:12]}_{n}"}) for n, one in enumerate(ways[min(steps, 2)])]
    return decide(thinking=mark, calls=calls)


def number_of(body: dict[str, Any]) -> int:
    """The number of the run that asks."""
    found = _NUMBER.search(str([one.get("content") for one in body["messages"] if one["role"] == "user"]))
    assert found is not None, body["messages"]
    return int(found.group(1))


class Model:
    """The model's server: when each request came, and which it keeps waiting.

    Args:
        delay_s: how long each answer takes.
    """

    def __init__(self, *, delay_s: float = 0.0) -> None:
        self.asked: list[tuple[float, str]] = []
        self.first: dict[int, float] = {}  # when the first request of a run came
        self.under_way = 0
        self.most = 0  # requests that were under way at the same time
        self.held: Counter[int] = Counter()
        self.hold: set[int] = set()  # numbers of the runs of which requests wait for `release`
        self.release = asyncio.Event()
        self._delay_s = delay_s
        self._server = LoopbackModelServer(self._script)

    async def _script(self, body: dict[str, Any]) -> ModelResponse:
        self.asked.append((time.time(), digest(body)))
        number = number_of(body)
        self.first.setdefault(number, self.asked[-1][0])
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            if number in self.hold and self.waits(body):
                self.held[number] += 1
                await self.gate(body).wait()
            await asyncio.sleep(self._delay_s)
            return self.answer(body)
        finally:
            self.under_way -= 1

    def waits(self, body: dict[str, Any]) -> bool:
        """Whether a request of a run that is held waits for `release`."""
        return steps_of(body) == 1 and actor_of(body) != "top"

    def gate(self, body: dict[str, Any]) -> asyncio.Event:
        """What such a request waits for."""
        return self.release

    def answer(self, body: dict[str, Any]) -> ModelResponse:
        """The next decision of whoever asks."""
        return answer(body)

    @property
    def base_url(self) -> str:
        """The address for a profile."""
        return self._server.base_url

    async def __aenter__(self) -> Self:
        await self._server.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        self.release.set()
        await self._server.__aexit__(*error)


class Site:
    """A workspace in a database, and the processes that work on it; they end with it.

    Args:
        folder: its own.
        model: of its runs.
        database, schema: where it lies.
        settings: more lines of its settings file.
        program: the app, a file beside this one.

    Attributes:
        python: what the next processes are started with, by default as warm ones.
    """

    python: Sequence[str] = ()
    sides: tuple[str, ...] = ("left", "right", "top")

    def __init__(
        self,
        folder: Path,
        model: Model,
        database: str,
        schema: str,
        settings: Sequence[str] = (),
        program: str = "program.py",
    ) -> None:
        self.folder = folder
        self.model = model
        self.ws: Workspace[Any]
        self.jobs: Jobs
        self._processes = ExitStack()
        folder.mkdir(parents=True)
        shutil.copy(Path(__file__).with_name(program), folder / "app.py")
        lines = [
            'app = "app:workspace"',
            'model = "team"',
            'system = "react"',
            f'database = "{database}"',
            f'database_schema = "{schema}"',
            *settings,
            "[models.team]",
            'model = "team"',
            f'base_url = "{model.base_url}"',
            'api_key_env = ""',
        ]
        (folder / "agentorchestra.toml").write_text("\n".join(lines))

    async def __aenter__(self) -> Self:
        self.ws = open_workspace(self.folder / "ws")
        assert self.ws.folder == self.folder / "ws"
        await self.ws.open()
        self.jobs = Jobs(self.ws)
        await self.jobs.open()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await asyncio.to_thread(self._processes.close)
        await self.jobs.close()
        await self.ws.close(verify=False)

    async def submit(self, numbers: Sequence[int], **labels: str) -> list[str]:
        """Queue runs."""
        made = []
        for number in numbers:
            run_id = await self.ws.create(f"Describe tide {number}.", labels=labels)
            await self.jobs.submit(run_id)
            made.append(run_id)
        return made

    def process(self, *words: str, environ: dict[str, str] | None = None) -> subprocess.Popen[str]:
        """A command in a process of its own."""
        started = start([*CLI, *words, "--workspace", self.folder / "ws"], environ=environ, python=self.python)
        self._processes.callback(_end, started)
        return started

    async def worker(self, *words: str, environ: dict[str, str] | None = None) -> subprocess.Popen[str]:
        """A worker that takes jobs."""
        process = self.process("worker", *words, environ=environ)
        assert process.stdout is not None
        line = await asyncio.to_thread(process.stdout.readline)
        assert line.startswith("worker "), await asyncio.to_thread(process.communicate)
        return process

    async def server(self) -> str:
        """A server in front; its address."""
        process = self.process("serve", "--port", "0", environ={**os.environ, "AGENTORCHESTRA_TOKEN": TOKEN})
        assert process.stdout is not None
        return (await asyncio.to_thread(process.stdout.readline)).strip()

    async def standing(self) -> Standing:
        """How it stands."""
        return await standing(self.ws, self.jobs)

    async def silent(self, process: subprocess.Popen[str], seconds: float) -> None:
        """Let a stopped worker have been silent for so long, for the others and for the leases of its runs.

        The rows are moved, as if the database's clock had gone on: how busy the machine is decides nothing.
        """
        store = self.ws.store
        assert isinstance(store, PostgresStore)

        def move() -> None:
            with store.connect() as connection:
                members = f"UPDATE {dbos_schema(store)}.members SET beat = beat - make_interval(secs => %s) "
                moved = connection.execute(members + "WHERE (about ->> 'pid')::int = %s", (seconds, process.pid))
                assert moved.rowcount == 1
                leases = "UPDATE jobs SET lease_until = lease_until - %s WHERE (owner::jsonb ->> 'pid')::int = %s"
                connection.execute(leases, (seconds, process.pid))

        await asyncio.to_thread(move)

    async def status(self, run_id: str) -> RunStatus:
        """How a run stands."""
        record = await self.ws.store.get_run(run_id)
        assert record is not None
        return record.status

    async def reached(self, status: RunStatus, runs: Sequence[str]) -> None:
        """Wait until runs have a status; the time limit of the test is the only one."""
        left = [*runs]
        while left:
            found = {run_id: await self.status(run_id) for run_id in left}
            for run_id, one in found.items():
                assert one is not RunStatus.FAILED or one is status, (await self.ws.runs.result(run_id)).error
            left = [run_id for run_id, one in found.items() if one is not status]
            await asyncio.sleep(0.1)

    async def begun(self, run_id: str) -> int:
        """How often a run was begun to be driven."""
        return sum(event.type == "driving_started" for event in await self.ws.log.events(run_id))

    def notes(self) -> Counter[str]:
        """How often what was noted: the tool may act once."""
        path = self.folder / "notes.txt"
        return Counter(line.split()[1] for line in path.read_text().splitlines()) if path.exists() else Counter()

    async def whole(self, runs: dict[int, str], *, uncertain: bool = False) -> None:
        """Each run came to its answer; nothing was lost or doubled, nothing recorded was asked again.

        With `uncertain` a worker may have died between a note and its record: the agent was told so.
        """
        asked: dict[str, list[float]] = {}
        for at, mark in self.model.asked:
            asked.setdefault(mark, []).append(at)
        for number, run_id in runs.items():
            result = await self.ws.runs.result(run_id)
            assert (result.status, result.answer) == (RunStatus.COMPLETED, f"tide {number} described"), result
            events = await self.ws.log.events(run_id)
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            completed = [event.span for event in events if event.type == "completed"]
            assert len(completed) == len(set(completed))
            ends = {event.span: event.ts.timestamp() for event in events if event.type == "completed"}
            for key, record in Ledger.of(events).records.items():
                if record.kind is EffectKind.REQUEST_MODEL and record.outcome is not None:
                    mark = answered(cast("dict[str, Any]", record.outcome.value))
                    assert [at for at in asked[mark] if at > ends[str(key)]] == [], (run_id, key)
        wanted = {f"{side}-{number}" for number in runs for side in self.sides}
        noted = self.notes()
        assert set(noted.values()) <= {1}, noted
        missing = wanted - set(noted)
        assert not missing or uncertain, missing
        assert len(missing) <= 8 and not set(noted) - wanted, missing


def ask(address: str, path: str, body: Any = None) -> tuple[int, Any]:
    """What a server answers: status and JSON."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(address + path, data, headers), timeout=60) as answered:
            return answered.status, json.load(answered)
    except urllib.error.HTTPError as exc:
        return exc.code, json.load(exc)


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


async def stopped(process: subprocess.Popen[str], number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
    """Send a signal, wait for the end; the exit code and what was said."""
    process.send_signal(number)
    _, said = await asyncio.to_thread(process.communicate)
    return process.returncode, said
