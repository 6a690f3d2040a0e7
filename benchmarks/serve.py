"""How `agentorchestra serve` takes many tasks at once: how soon each is accepted, and whether every one ends right.

    python -m benchmarks.serve [--posts 200] [--latency-s 0.2] [--breaks term,kill] [--max-runs N]

All clients post at the same time, each with an Idempotency-Key, and send again what was refused or not answered. The
model is a server on the loopback address that answers after the latency; each run asks it twice, with a tool call
between. The server of the runs is stopped with SIGTERM when a quarter of them has ended, killed when half of them has,
and started again each time (`--breaks none` leaves it alone). At the end some are posted one after the other, each when
no run goes on. Exits with 1 if a run is missing, there twice, or wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from agentorchestra.core.spec import RunStatus
from agentorchestra.testing import LoopbackModelServer, ServerReply, call
from agentorchestra.workspace import open_workspace

TOKEN = "token-of-the-benchmark"
ALONE = 10  # posts that are sent one after the other at the end, each when no run goes on
SIGNALS = {"term": signal.SIGTERM, "kill": signal.SIGKILL}


@dataclass
class Measured:
    """What came of the posts.

    Attributes:
        accepted_s: of each post the time of the request that was accepted.
        alone_s: the time of each post that was sent when no run went on.
        waited_s: of each post the time until then, with what was sent before.
        sent: requests in all.
        wall_s: from the first post to the end of the last run.
        statuses: of the runs that there are at the end.
        wrong: sentences on what is not as it should be.
        driven: how often runs were begun, over all servers.
        most_open: requests that the model had at the same time.
    """

    accepted_s: list[float] = field(default_factory=list)
    alone_s: list[float] = field(default_factory=list)
    waited_s: list[float] = field(default_factory=list)
    sent: int = 0
    wall_s: float = 0.0
    statuses: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    driven: int = 0
    most_open: int = 0


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class Server:
    """`agentorchestra serve` on a port that stays the same."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.address = f"http://127.0.0.1:{port}"
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it, and return when it is ready: its address is there earlier."""
        words = ["-m", "agentorchestra", "serve", "--port", str(self.port)]
        with (self.folder / "serve.log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                *words,
                cwd=self.folder,
                env={**os.environ, "AGENTORCHESTRA_TOKEN": TOKEN},
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        assert self.process.stdout is not None
        async with asyncio.timeout(120):
            if not await self.process.stdout.readline():
                raise RuntimeError(f"the server did not start: {(self.folder / 'serve.log').read_text()}")
            async with _client() as http, http.get(f"{self.address}/health") as answer:
                answer.raise_for_status()

    async def end(self, number: signal.Signals) -> None:
        """Send it a signal, and wait for its end."""
        assert self.process is not None
        self.process.send_signal(number)
        async with asyncio.timeout(120):
            await self.process.wait()


async def measure(
    folder: Path, *, posts: int, latency_s: float, breaks: list[str], max_runs: int | None = None, alone: int = 0
) -> Measured:
    """Post tasks all at once to a server in a folder, break it off as asked, and look at what became of them."""

    def reply(body: dict[str, Any]) -> ServerReply:
        number = int(re.findall(r"What is (\d+) \+ 1\?", str(body["messages"]))[0])
        had = any(one["role"] == "tool" for one in body["messages"])
        step = call("done", answer=str(number + 1)) if had else call("python", code=f"print({number} + 1)")
        return ServerReply(answer=step, latency_s=latency_s)

    found = Measured()
    async with LoopbackModelServer(reply) as model:
        places = "" if max_runs is None else f"max_runs = {max_runs}\n"
        (folder / "agentorchestra.toml").write_text(
            f'model = "slow"\nsystem = "react"\n[models.slow]\nmodel = "openai:slow"\nbase_url = "{model.base_url}"\n'
            f"[serve]\nmax_connections = {posts + 50}\nstop_s = 5\n{places}",
            encoding="utf-8",
        )
        server = Server(folder, free_port())
        await server.start()
        try:
            began = time.perf_counter()
            async with _client() as http:
                sending = [asyncio.create_task(_post(http, server, n, found)) for n in range(posts)]
                marks = [(posts * (place + 1) // 4, SIGNALS[one]) for place, one in enumerate(breaks)]
                await _until_over(http, server, posts, marks, found)
                await asyncio.gather(*sending)
                found.wall_s = time.perf_counter() - began
                sent, found.sent = found.sent, 0
                for n in range(posts, posts + alone):
                    await _post(http, server, n, found)
                    await _until_over(http, server, n + 1, [], found)
                found.sent, found.alone_s = sent, found.accepted_s[posts:]
                del found.accepted_s[posts:], found.waited_s[posts:]
        finally:
            await server.end(signal.SIGTERM)
        found.most_open = model.most_at_once
    await _check(folder, posts + alone, found)
    return found


@asynccontextmanager
async def _client() -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(limit=0)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with aiohttp.ClientSession(headers=headers, connector=connector) as http:
        yield http


async def _post(http: aiohttp.ClientSession, server: Server, number: int, found: Measured) -> None:
    """Post one task until it is accepted, as a client does that loses nothing."""
    first = time.perf_counter()
    body = {"task": f"What is {number} + 1?"}
    while True:
        found.sent += 1
        began = time.perf_counter()
        try:
            async with http.post(
                f"{server.address}/runs", json=body, headers={"Idempotency-Key": f"post-{number}"}
            ) as answer:
                if answer.status == 202:
                    await answer.read()
                    now = time.perf_counter()
                    found.accepted_s.append(now - began)
                    found.waited_s.append(now - first)
                    return
                wait = float(answer.headers.get("Retry-After", "0.2"))
        except (aiohttp.ClientError, OSError):
            wait = 0.2  # it is stopped, or being started again
        await asyncio.sleep(wait)


async def _until_over(
    http: aiohttp.ClientSession, server: Server, posts: int, marks: list[tuple[int, signal.Signals]], found: Measured
) -> None:
    """Wait until all posts are accepted and no run goes on; break the server off when as many as the marks are over."""
    left = list(marks)
    while True:
        await asyncio.sleep(0.1)
        try:
            async with http.get(f"{server.address}/health") as answer:
                now = await answer.json()
        except aiohttp.ClientError:  # a kept connection ended at this moment
            continue
        accepted = len(found.accepted_s)
        over = accepted - now["queued"] - now["driven"]
        if left and over >= left[0][0]:
            await server.end(left.pop(0)[1])
            await server.start()
        elif accepted == over == posts:
            return


async def _check(folder: Path, posts: int, found: Measured) -> None:
    async with open_workspace(folder / ".agentorchestra", app=False) as ws:
        runs = await ws.runs.list()
        tasks = [one.manifest.task for one in runs]
        if len(tasks) != posts or len(set(tasks)) != posts:
            found.wrong.append(f"{len(tasks)} runs of {len(set(tasks))} tasks for {posts} posts")
        for record in runs:
            found.statuses[record.status.value] = found.statuses.get(record.status.value, 0) + 1
            result = await ws.runs.result(record.id)
            wanted = str(int(re.findall(r"\d+", record.manifest.task)[0]) + 1)
            if record.status is not RunStatus.COMPLETED or result.answer_text != wanted:
                found.wrong.append(f"{record.id}: {record.status.value}, {result.answer_text!r}, {result.error}")
            found.driven += sum(one.type == "driving_started" for one in await ws.log.events(record.id))


def _spread(seconds: list[float]) -> str:
    cut = statistics.quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else seconds * 99
    return f"median {cut[49] * 1000:6.0f} ms, p99 {cut[98] * 1000:6.0f} ms, most {max(seconds) * 1000:6.0f} ms"


def main() -> int:
    """Measure, and print what came of it."""
    reading = argparse.ArgumentParser(prog="python -m benchmarks.serve")
    reading.add_argument("--posts", type=int, default=200, metavar="N")
    reading.add_argument("--latency-s", type=float, default=0.2, metavar="S")
    reading.add_argument("--breaks", default="term,kill", help="signals of the server, or none")
    reading.add_argument("--max-runs", type=int, metavar="N")
    given = reading.parse_args()
    breaks = [] if given.breaks == "none" else given.breaks.split(",")
    unknown = [one for one in breaks if one not in SIGNALS]
    if unknown or given.posts < 1:
        reading.error(f"--breaks {given.breaks} --posts {given.posts}: give term, kill or none, and at least 1 post")
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(
            measure(
                Path(folder),
                posts=given.posts,
                latency_s=given.latency_s,
                breaks=breaks,
                max_runs=given.max_runs,
                alone=ALONE,
            )
        )
    print(f"accepted   {_spread(found.accepted_s)}: the request that was answered with 202")
    print(f"waited     {_spread(found.waited_s)}: with those before it, {found.sent} for {given.posts} posts")
    print(f"alone      {_spread(found.alone_s)}: each of {ALONE} posts when no run goes on")
    print(f"ended      {found.statuses} after {found.wall_s:.1f} s, begun {found.driven} times")
    print(f"model      at most {found.most_open} requests at the same time")
    for sentence in found.wrong[:10]:
        print(f"wrong      {sentence}")
    return 1 if found.wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
