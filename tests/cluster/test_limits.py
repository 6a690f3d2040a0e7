"""The limits of a model hold over all workers, as its server sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentorchestra.core.spec import RunStatus
from tests.cluster.support import ALONE, Model, Site
from tests.postgres import Postgres

pytestmark = pytest.mark.timeout(300)  # several processes, on a machine that may be busy

RUNS = range(ALONE + 1, ALONE + 21)


async def driven(site: Site) -> set[str]:
    """Let two workers, two runs at a time each, drive the runs; who drove them."""
    for _ in range(2):
        await site.worker("--concurrency", "2")
    runs = await site.submit(RUNS)
    await site.reached(RunStatus.COMPLETED, runs)
    drivers = set()
    for number, run_id in zip(RUNS, runs, strict=True):
        assert (await site.ws.result(run_id)).answer == f"tide {number} described"
        (began,) = [one for one in await site.ws.events(run_id) if one.type == "driving_started"]
        drivers.add(str(began.body["owner"]))
    return drivers


@pytest.mark.long
async def test_so_many_runs_of_a_model_at_a_time(tmp_path: Path, database_server: Postgres) -> None:
    settings = ("[cluster.limits.team]", "concurrency = 3")
    async with (
        Model(delay_s=0.2) as model,
        Site(tmp_path / "site", model, database_server.url, "at_a_time", settings) as site,
    ):
        drivers = await driven(site)
        assert model.most == 3
        assert len(drivers) == 2, "both workers had a part"
        assert len(model.asked) == 2 * len(RUNS)


@pytest.mark.long
async def test_so_many_runs_of_a_model_in_a_minute(tmp_path: Path, database_server: Postgres) -> None:
    settings = ("[cluster.limits.team]", "per_minute = 12")
    async with Model() as model, Site(tmp_path / "site", model, database_server.url, "a_minute", settings) as site:
        await driven(site)
        began = sorted(model.first.values())
        # The queue counts from when a run was taken, which is a moment before its first request.
        assert [began[n + 12] - began[n] > 45 for n in range(8)] == [True] * 8
        assert began[11] - began[0] < 45, "a burst is as large as the limit"
