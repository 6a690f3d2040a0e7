"""Two hundred runs at once in one workspace: bounded threads, separate logs, nothing left behind."""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Literal

import psutil
import pytest

from agentorchestra import Workspace, tool
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.settings import ModelProfile, Settings
from agentorchestra.core.spec import RunResult
from agentorchestra.log.store.database import READERS
from agentorchestra.testing import LoopbackModelServer, ScriptedModel, call, decide

pytestmark = pytest.mark.timeout(600)  # many processes, on a machine that may be busy

RUNS = 200
LATENCY_S = 0.2
MARK = re.compile(r"mark-(\d+)-")

TOOL_THREADS = 32
LIBRARY_THREADS = min(32, (os.cpu_count() or 1) + 4)  # asyncio's own pool
LIMIT = TOOL_THREADS + LIBRARY_THREADS + READERS + 4  # and the writer, the opener, the closer, the sampler


@tool(effect="read")
def slowly(word: str) -> str:
    """Spell a word, in a thread.

    Args:
        word: the word.
    """
    time.sleep(0.3)
    return f"{word} spelt"


def _decision(texts: list[str], said: list[str]) -> ModelResponse:
    number = next(int(found.group(1)) for text in texts if (found := MARK.search(text)))
    if len(said) < 2:
        return decide(calls=[call("slowly", word=f"mark-{number}-{len(said)}")])
    return decide(calls=[call("done", answer=" and ".join(said))])


def _scripted(request: ModelRequest) -> ModelResponse:
    return _decision([m.text for m in request.messages], [m.text for m in request.messages if m.role == "tool"])


async def _served(body: dict[str, Any]) -> ModelResponse:
    await asyncio.sleep(LATENCY_S)
    texts = [(m["role"], str(m.get("content") or "")) for m in body["messages"]]
    said = [re.sub(r"</?content[^>]*>", "", text).strip() for role, text in texts if role == "tool"]
    return _decision([text for _, text in texts], said)


class Sampler:
    """The greatest number of threads there were at the same time."""

    def __init__(self) -> None:
        self.peak = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="sampler")

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.005):
            self.peak = max(self.peak, threading.active_count())


async def _work(folder: Path, kind: Literal["scripted", "loopback"]) -> None:
    async with AsyncExitStack() as stack:
        if kind == "scripted":
            settings, models = Settings(model="scripted"), {"scripted": ScriptedModel(_scripted, latency_s=LATENCY_S)}
        else:
            server = await stack.enter_async_context(LoopbackModelServer(_served))
            profile = ModelProfile(model="loopback", base_url=server.base_url, api_key_env="")
            settings, models = Settings(model="served", models={"served": profile}), {}
        ws: Workspace[None] = Workspace(folder, tools=[slowly], settings=settings, models=models)
        async with ws:
            results = await asyncio.gather(*(ws.run(f"spell mark-{n}-x", system="react") for n in range(RUNS)))
            for number, result in enumerate(results):
                await _check(ws, number, result)
            assert len({result.run_id for result in results}) == RUNS
            assert len(await ws.runs.list()) == RUNS
            assert ws.engine.driving == ()
    # The server's connections end with it; the workspace's tasks ended before.
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def _check(ws: Workspace[None], number: int, result: RunResult) -> None:
    assert (result.status, result.error) == ("completed", None)
    assert result.answer == f"mark-{number}-0 spelt and mark-{number}-1 spelt"
    events = await ws.log.events(result.run_id)
    assert {event.run for event in events} == {result.run_id}
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert set(MARK.findall(str([event.body for event in events]))) == {str(number)}


@pytest.mark.long
@pytest.mark.parametrize("kind", ["scripted", "loopback"])
def test_two_hundred_runs_at_once(tmp_path: Path, kind: Literal["scripted", "loopback"]) -> None:
    before = threading.active_count()
    process = psutil.Process()
    others = process.children()  # of other tests: who watches over a database's server
    with Sampler() as sampler:
        asyncio.run(_work(tmp_path / "ws", kind))
    peak = sampler.peak - before
    print(f"{kind}: {RUNS} runs, at most {peak} threads at the same time (limit {LIMIT})")
    assert peak <= LIMIT
    assert threading.active_count() == before
    assert process.children() == others
    assert [file.path for file in process.open_files() if file.path.startswith(str(tmp_path))] == []
