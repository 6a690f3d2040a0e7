"""Many runs while workers die and the database is restarted; a worker that is cut off."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agentorchestra.cluster.jobs import connection_errors
from agentorchestra.core.spec import RunStatus
from tests.chaos.support import until
from tests.cluster.support import Model, Site, ask, stopped
from tests.postgres import Postgres, postgres

pytestmark = pytest.mark.timeout(600)  # many processes, on a machine that may be busy


class Proxy:
    """Between a worker and its database; it can be cut, so that the server sees an end and the worker nothing."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._to = port
        self._host = host
        self._pairs: list[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = []
        self._cut = False
        self.port = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Listen."""
        server = await asyncio.start_server(self._accept, self._host, 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            self.cut()
            for down, _ in self._pairs:
                down.close()
            server.close()

    def cut(self) -> None:
        """Close what leads to the server, and be silent to the worker."""
        self._cut = True
        for _, up in self._pairs:
            up.close()

    def heal(self) -> None:
        """Let it connect again."""
        self._cut = False
        for down, _ in self._pairs:
            down.close()
        self._pairs.clear()

    async def _accept(self, reader: asyncio.StreamReader, down: asyncio.StreamWriter) -> None:
        if self._cut:
            self._pairs.append((down, down))
            return
        upward, up = await asyncio.open_connection("127.0.0.1", self._to)
        self._pairs.append((down, up))
        await asyncio.gather(self._pump(reader, up), self._pump(upward, down))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        if not self._cut:
            writer.close()


@pytest.mark.long
async def test_a_worker_that_is_cut_off_writes_nothing_more(
    tmp_path: Path, model: Model, database_server: Postgres
) -> None:
    model.hold = {1}
    proxy = Proxy(database_server.port)
    settings = ("lease_s = 3", "database_retry_s = 60")
    async with proxy.running(), Site(tmp_path / "site", model, database_server.url, "cut", settings) as site:
        through = database_server.tcp().replace(f":{database_server.port}/", f":{proxy.port}/")
        first = await site.worker(environ={"AGENTORCHESTRA_DATABASE": through})
        runs = dict(enumerate(await site.submit([1]), start=1))
        await until(lambda: model.held[1] == 2, first)
        second = await site.worker()
        model.hold = set()
        proxy.cut()
        await site.reached(RunStatus.COMPLETED, [runs[1]])  # on the second worker, when the lease is over
        before = await site.ws.log.events(runs[1])
        model.release.set()  # now the first one has its answers too
        proxy.heal()
        _, said = await asyncio.to_thread(first.communicate)
        assert first.returncode == 1, said
        assert "cut off from the database and its runs were taken over by others" in said
        assert await site.ws.log.events(runs[1]) == before
        assert second.poll() is None
        assert site.notes() == {"left-1": 1, "right-1": 1, "top-1": 1}


async def completed(site: Site, runs: dict[int, str], count: int) -> None:
    """Wait until so many have their answer."""
    done: set[str] = set()
    while len(done) < count:
        await asyncio.sleep(0.1)
        done |= {one for one in runs.values() if one not in done and await site.status(one) is RunStatus.COMPLETED}


@pytest.mark.long
@pytest.mark.parametrize(("count", "sub_agents"), [(6, "here"), (60, "here"), (24, "jobs")])
async def test_nothing_is_lost_or_doubled(tmp_path: Path, count: int, sub_agents: str) -> None:
    rng = random.Random(count)
    settings = (f'cluster.sub_agents = "{sub_agents}"', "[serve]", "max_runs = 0")
    with postgres() as own:
        async with Model(delay_s=0.2) as model, Site(tmp_path / "site", model, own.url, "many", settings) as site:
            servers = [await site.server(), await site.server()]
            workers = [await site.worker("--concurrency", "8") for _ in range(2)]
            runs = {}
            for number in range(1, count + 1):
                task = {"task": f"Describe tide {number}."}
                _, answered = await asyncio.to_thread(ask, servers[number % 2], "/runs", task)
                runs[number] = answered["run_id"]

            await completed(site, runs, count // 5)
            workers.pop(rng.randrange(2)).kill()
            workers.append(await site.worker("--concurrency", "8"))
            await completed(site, runs, count // 2)
            await asyncio.to_thread(own.stop)
            await asyncio.sleep(2)
            await asyncio.to_thread(own.start)
            await site.reached(RunStatus.COMPLETED, [*runs.values()])
            assert [one.poll() for one in workers] == [None, None]
            standing = await site.standing()
            assert (standing.queues, standing.statuses) == ({}, {"completed": count})
            await site.whole(runs, uncertain=True)


@pytest.mark.long
async def test_the_database_is_away_for_a_minute(tmp_path: Path) -> None:
    """Runs under way wait and go on; whoever asks meanwhile is told in a sentence."""
    settings = ("[serve]", "max_runs = 0", "[cluster.limits.team]", "requests = 6")
    with postgres() as own:
        async with Model(delay_s=0.2) as model, Site(tmp_path / "site", model, own.url, "minute", settings) as site:
            address = await site.server()
            workers = [await site.worker("--concurrency", "4") for _ in range(2)]
            runs = dict(enumerate(await site.submit(range(1, 13)), start=1))
            await completed(site, runs, 2)
            await asyncio.to_thread(own.stop)
            over = asyncio.get_running_loop().time() + 60

            said = {}
            for method, path, body in (
                ("GET", "/health", None),
                ("GET", f"/runs/{runs[1]}", None),
                ("POST", "/runs", {"task": "Describe tide 50."}),
                ("POST", f"/runs/{runs[12]}/tell", {"text": "Go on."}),
            ):
                status, answered = await asyncio.to_thread(ask, address, path, body)
                said[method, path] = answered["error"]
                assert (status, answered["error_type"]) == (503, "StoreUnavailableError"), answered
            assert set(said.values()) == {
                "the store did not answer within 5 s; nothing was done: send the request again"
            }
            for words in (
                ("show", runs[1]),
                ("tell", runs[12], "Go on."),
                ("submit", "Describe tide 50."),
                ("status",),
            ):
                process = site.process(*words)
                out, err = await asyncio.to_thread(process.communicate)
                assert (process.returncode, out) == (1, ""), (words, out, err)
                assert f"cannot connect to the database {own.url}" in err and "Traceback" not in err, err
            await asyncio.sleep(max(0.0, over - asyncio.get_running_loop().time()))

            assert [one.poll() for one in workers] == [None, None]
            await asyncio.to_thread(own.start)
            status, answered = await asyncio.to_thread(ask, address, "/runs", {"task": "Describe tide 13."})
            assert status == 202, answered
            runs[13] = answered["run_id"]
            await site.reached(RunStatus.COMPLETED, [*runs.values()])
            assert [one.poll() for one in workers] == [None, None]
            status, health = await asyncio.to_thread(ask, address, "/health")
            assert (status, health["ready"], health["queued"], health["abandoned"]) == (200, True, 0, 0)
            standing = await site.standing()
            assert (standing.queues, standing.statuses, standing.refused) == ({}, {"completed": 13}, ())
            await site.whole(runs)
            # Nobody was taken over, and no run was begun twice for it.
            assert {await site.begun(run_id) for run_id in runs.values()} == {1}
            for worker in workers:
                code, log = await stopped(worker)
                assert code == 0, log
                assert "the queue's database does not answer" in log
                assert "the queue's database answers again" in log
                # A reader that is slow would stop a worker that says it again and again.
                assert len(log.splitlines()) < 60 and "Traceback" not in log, log


async def test_a_database_that_is_away_is_a_connection_error_to_the_loops_of_a_worker(tmp_path: Path) -> None:
    """What asks the queue passes on the errors of the driver; one of them ended a worker that met a restart."""
    with postgres() as own:
        async with Model() as model, Site(tmp_path / "site", model, own.url, "away") as site:
            await asyncio.to_thread(own.stop)
            for ask_queue in (lambda: site.jobs.hand_over(["1"]), lambda: site.jobs.put_back("worker")):
                with pytest.raises(ConnectionError), connection_errors():
                    await ask_queue()
            await asyncio.to_thread(own.start)
