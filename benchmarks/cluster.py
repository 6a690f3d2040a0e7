"""What workers on one PostgreSQL do: runs and effects in a second, how soon a dead one is followed, how runs queue.

    python -m benchmarks.cluster [--parts rate,takeover,stopped,queue,sub_agents,turns] [--runs 60] [--queued 100,1000]

The model is a server on the loopback address that answers at once; a run is a team of three agents (9 requests, about
26 effects). PostgreSQL, the model and the workers share this machine: with two cores the figures say what all of them
need together. `takeover` kills a worker that drives four runs, and counts from the signal to the moment another one
begins each of them. `stopped` stops a worker (SIGSTOP) that drives six runs, with a lease of `--lease-s` seconds, and
prints when `status` said so, when another worker began each of its runs, and how long it took to end itself when it
went on. `queue` submits a run of priority 1 while so many jobs wait, and a worker empties the queue.
`sub_agents` has two workers drive runs of a team of four agents, one after the other: in one process, and with the
sub-agents as jobs of their own. A tool of each agent needs so many seconds of CPU (`--burn-s`). `turns` does the same
with a society of three agents beside its orchestrator, each with two turns.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from dbos import DBOSClient, EnqueueOptions, WorkflowSerializationFormat
from tests.chaos.support import until
from tests.cluster.sides import CIRCLE, Circle
from tests.cluster.support import Model, Site
from tests.postgres import Postgres, postgres

from agentorchestra.cluster.jobs import DRIVE, FORMAT, NAME, dbos_schema, engine_of
from agentorchestra.core.spec import RunStatus
from agentorchestra.log.store import PostgresStore

_NUMBERS = iter(range(1, 1_000_000))


def cpu_of(processes: list[psutil.Process]) -> float:
    """Return the CPU seconds of processes and of those they started, as far as they live."""
    total = 0.0
    for one in processes:
        for process in (one, *one.children(recursive=True)):
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += times.user + times.system + times.children_user + times.children_system
    return total


def site(folder: str, model: Model, server: Postgres, *settings: str) -> Site:
    """Return a workspace with a schema of its own."""
    number = next(_NUMBERS)
    return Site(Path(folder) / str(number), model, server.url, f"bench_{number}", settings)


async def began(there: Site, run_id: str, times: int = 1) -> float:
    """Return when a run was begun for so many times, by the clock of the workers."""
    while True:
        found = [one for one in await there.ws.store.load(run_id) if one.type == "driving_started"]
        if len(found) >= times:
            return found[times - 1].ts.timestamp()
        await asyncio.sleep(0.05)


async def rate(folder: str, server: Postgres, workers: int, count: int) -> dict[str, float]:
    """Return what so many workers do with so many runs."""
    async with Model() as model, site(folder, model, server) as there:
        started = [await there.worker("--concurrency", "16") for _ in range(workers)]
        await there.reached(RunStatus.COMPLETED, await there.submit(range(1, 2 * workers + 1)))  # they are warm then
        assert server.pid is not None
        database = [psutil.Process(server.pid)]
        own = [psutil.Process(one.pid) for one in started]
        before, before_own, begin = cpu_of(database), cpu_of(own), time.perf_counter()
        runs = await there.submit(range(1001, 1001 + count))
        await there.reached(RunStatus.COMPLETED, runs)
        wall = time.perf_counter() - begin
        effects = 0
        for run_id in runs:
            effects += sum(one.type == "completed" for one in await there.ws.log.events(run_id))
        return {
            "runs/s": count / wall,
            "effects/s": effects / wall,
            "database CPU ms/effect": (cpu_of(database) - before) / effects * 1000,
            "worker CPU ms/effect": (cpu_of(own) - before_own) / effects * 1000,
        }


async def takeover(folder: str, server: Postgres) -> list[float]:
    """Return the seconds after which another worker began each run of a killed one."""
    async with Model() as model, site(folder, model, server) as there:
        model.hold = {1, 2, 3, 4}
        first = await there.worker()
        runs = await there.submit([1, 2, 3, 4])
        await until(lambda: sum(model.held.values()) == 8, first)
        await there.worker()
        await there.reached(RunStatus.COMPLETED, await there.submit([10]))  # with the first one, or warm
        model.hold = set()
        killed = time.time()
        first.kill()
        found = [await began(there, run_id, 2) - killed for run_id in runs]
        model.release.set()
        await there.reached(RunStatus.COMPLETED, runs)
        return found


async def stopped(folder: str, server: Postgres, lease_s: float) -> dict[str, list[float]]:
    """Return after how many seconds what happened to a stopped worker that drove six runs."""
    numbers = range(1, 7)
    async with Model() as model, site(folder, model, server, f"lease_s = {lease_s}") as there:
        model.hold = {*numbers}
        first = await there.worker()
        runs = await there.submit(numbers)
        await until(lambda: sum(model.held.values()) == 2 * len(runs), first)
        await there.worker()
        await there.reached(RunStatus.COMPLETED, await there.submit([10]))  # with the first one, or warm
        model.hold = set()
        began_at = time.time()
        first.send_signal(signal.SIGSTOP)

        async def seen_by_status() -> float:
            while True:
                found = [one for one in (await there.standing()).workers if one.pid == first.pid]
                if not found or found[0].silent_s is not None:
                    return time.time() - began_at
                await asyncio.sleep(0.1)

        seen = asyncio.create_task(seen_by_status())
        found = [await began(there, run_id, 2) - began_at for run_id in runs]
        told = await seen
        model.release.set()
        await there.reached(RunStatus.COMPLETED, runs)
        first.send_signal(signal.SIGCONT)
        goes_on = time.time()
        await asyncio.to_thread(first.communicate)
        assert first.returncode == 1, first.returncode
        return {
            "status says that it does not answer": [told],
            "its runs begun by another worker": found,
            "after SIGCONT it ends itself": [time.time() - goes_on],
        }


async def queue(folder: str, server: Postgres, queued: int, times: int) -> list[float]:
    """Return the seconds from submitting a run to its beginning, while others wait."""
    async with Model() as model, site(folder, model, server) as there:
        worker = await there.worker("--concurrency", "4")
        (over,) = await there.submit([1])
        await there.reached(RunStatus.COMPLETED, [over])
        worker.terminate()
        await asyncio.to_thread(worker.communicate)
        store = there.ws.store
        assert isinstance(store, PostgresStore)
        engine = engine_of(store)
        client = DBOSClient(system_database_engine=engine, dbos_system_schema=dbos_schema(store), application_name=NAME)
        for _ in range(queued):  # jobs whose run is over: a worker takes each, looks, and is done
            options: EnqueueOptions = {
                "workflow_name": DRIVE,
                "queue_name": "runs",
                "priority": 9,
                "app_version": FORMAT,
                "serialization_type": WorkflowSerializationFormat.PORTABLE,
            }
            client.enqueue(options, over)
        client.destroy()
        engine.dispose()
        await there.worker("--concurrency", "4")
        warm = await there.submit([900], **{"queue.priority": "1"})
        await there.reached(RunStatus.COMPLETED, warm)
        found = []
        for number in range(2, 2 + times):
            (run_id,) = await there.submit([number], **{"queue.priority": "1"})
            submitted = time.time()
            found.append(max(0.0, await began(there, run_id) - submitted))
            await there.reached(RunStatus.COMPLETED, [run_id])
        return found


async def sub_agents(folder: str, server: Postgres, what: str, where: str, burn_s: float, times: int) -> list[float]:
    """Return the seconds that runs with three agents at work took from their first event to their last."""
    environ = {"BURN_S": str(burn_s)}
    number, settings = next(_NUMBERS), (f'cluster.sub_agents = "{where}"', *CIRCLE)
    place, program = Path(folder) / str(number), "sub_agents_program.py"
    kind, system = (Circle, "circle") if what == "turns" else (Model, "react")
    async with kind() as model, Site(place, model, server.url, f"bench_{number}", settings, program) as there:

        async def ended(one: int) -> str:
            run_id = await there.ws.create(f"Describe tide {one}.", system=system)
            await there.jobs.submit(run_id)
            await there.reached(RunStatus.COMPLETED, [run_id])
            return run_id

        for _ in range(2):
            await there.worker("--concurrency", "4", environ=environ)
        for one in range(1, 5):  # both are warm then
            await ended(one)
        found = []
        for one in range(5, 5 + times):
            run_id = await ended(one)
            driven = [
                event for event in await there.ws.log.events(run_id) if event.type in ("driving_started", "run_ended")
            ]
            found.append((driven[-1].ts - driven[0].ts).total_seconds())
        return found


def shown(values: list[float]) -> str:
    """Return the median and the worst."""
    return f"{statistics.median(values):.2f} s, at most {max(values):.2f} s"


async def main(given: Any) -> None:
    """Measure, and print a line for each figure."""
    parts = given.parts.split(",")
    with tempfile.TemporaryDirectory(prefix="cluster-") as folder, postgres(settings=("fsync=on",)) as server:
        if "rate" in parts:
            for workers in (1, 2):
                found = await rate(folder, server, workers, given.runs)
                told = ", ".join(f"{value:.2f} {name}" for name, value in found.items())
                print(f"{workers} worker(s), {given.runs} runs: {told}", flush=True)
        if "takeover" in parts:
            print(f"taken over after kill -9: {shown(await takeover(folder, server))}", flush=True)
        if "stopped" in parts:
            print(f"SIGSTOP, lease {given.lease_s:g} s:", flush=True)
            for what, seconds in (await stopped(folder, server, given.lease_s)).items():
                print(f"  {what}: {shown(seconds)}", flush=True)
        if "queue" in parts:
            for queued in map(int, given.queued.split(",")):
                print(f"{queued} queued: {shown(await queue(folder, server, queued, given.times))}", flush=True)
        for what in ("sub_agents", "turns"):
            for burn_s in map(float, given.burn_s.split(",")) if what in parts else ():
                for where in ("here", "jobs"):
                    took = shown(await sub_agents(folder, server, what, where, burn_s, given.times))
                    print(f"{what} {where}, {burn_s:g} s of CPU each: {took}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="benchmarks.cluster", description=__doc__)
    parser.add_argument("--parts", default="rate,takeover,stopped,queue,sub_agents,turns")
    parser.add_argument("--lease-s", type=float, default=6.0)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--queued", default="100,1000,10000")
    parser.add_argument("--burn-s", default="0")
    parser.add_argument("--times", type=int, default=3)
    asyncio.run(main(parser.parse_args()))
