"""What the command line and a server say to a run reaches it on the worker that drives it."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agentorchestra.core.spec import RunStatus
from tests.chaos.support import until
from tests.cluster.support import ASKING, TOLD, Model, Site, ask
from tests.postgres import Postgres

pytestmark = pytest.mark.timeout(240)  # several processes, on a machine that may be busy

Order = Callable[[str, str, str], Awaitable[None]]


async def orders(site: Site, way: str) -> Order:
    """How `tell`, `cancel` and `answer` are given: order, run, words."""
    if way == "http":
        address = await site.server()
        names = {"tell": "text", "cancel": "reason", "answer": "answer"}

        async def over_http(order: str, run_id: str, words: str) -> None:
            body = {names[order]: words}
            status, said = await asyncio.to_thread(ask, address, f"/runs/{run_id}/{order}", body)
            assert status == 202, said

        return over_http

    async def in_a_process(order: str, run_id: str, words: str) -> None:
        further = {"tell": [words], "cancel": ["--reason", words], "answer": [words, "--no-resume"]}[order]
        process: subprocess.Popen[str] = site.process(order, run_id, *further)
        _, said = await asyncio.to_thread(process.communicate)
        assert process.returncode == 0, said

    return in_a_process


@pytest.mark.long
@pytest.mark.parametrize("way", ["cli", "http"])
async def test_a_run_on_a_worker_hears_what_others_say(
    tmp_path: Path, model: Model, database_server: Postgres, way: str
) -> None:
    model.hold = {1, 2}
    settings = ("lease_s = 86400", "[serve]", "max_runs = 0")
    async with Site(tmp_path / "site", model, database_server.url, f"orders_{way}", settings) as site:
        give = await orders(site, way)
        worker = await site.worker()
        told, unwanted, asking = await site.submit([1, 2, ASKING])
        await until(lambda: model.held == {1: 2, 2: 2}, worker)
        await give("tell", told, TOLD)
        await give("cancel", unwanted, "not wanted")
        await site.reached(RunStatus.CANCELLED, [unwanted])
        model.release.set()
        await site.reached(RunStatus.WAITING, [asking])
        await give("answer", asking, "Yes.")
        await site.reached(RunStatus.COMPLETED, [told, asking])
        assert (await site.ws.runs.result(told)).answer == "tide 1 described, and the moon"
        # Each was driven by the worker alone: nobody took it up to say something to it.
        assert [await site.begun(run_id) for run_id in (told, unwanted, asking)] == [1, 1, 2]
        (said,) = [one.body["answer"] for one in await site.ws.log.events(asking) if one.type == "answered"]
        assert said == "Yes."
        assert site.notes()["top-2"] == 0, "a cancelled run does nothing more"
