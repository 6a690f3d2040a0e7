"""A worker that starts while its database is away waits for it; where it is refused for good, it ends at once."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from agentorchestra.cluster import until_reached
from agentorchestra.core.errors import StoreRefusedError, StoreUnavailableError
from agentorchestra.core.spec import RunStatus
from tests.cluster.support import Model, Site, stopped
from tests.cluster.test_commands import ended
from tests.postgres import NAME, Postgres, postgres

pytestmark = pytest.mark.timeout(400)  # several processes, on a machine that may be busy


async def test_what_is_away_is_waited_for_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    away = 3

    async def attempt() -> str:
        nonlocal away
        away -= 1
        if away >= 0:
            raise StoreUnavailableError("cannot connect to the database")
        return "reached"

    with caplog.at_level(logging.WARNING, "agentorchestra.cluster"):
        assert await until_reached(attempt, lambda: 600.0) == "reached"
    assert [one.getMessage() for one in caplog.records] == [
        "cannot connect to the database; trying again for 600 s",
        "the database answers",
    ]


async def test_what_stays_away_for_too_long_or_refuses_is_an_error() -> None:
    for error, retry_s in ((StoreUnavailableError, 0.0), (StoreUnavailableError, 0.1), (StoreRefusedError, 600.0)):

        async def attempt(error: type[StoreUnavailableError] = error) -> None:
            raise error("cannot be used")

        with pytest.raises(error, match=r"^cannot be used$"):
            await until_reached(attempt, lambda retry_s=retry_s: retry_s)  # type: ignore[misc]


@pytest.mark.long
async def test_a_worker_starts_when_its_database_is_back(tmp_path: Path, model: Model) -> None:
    with postgres() as own:
        async with Site(tmp_path / "site", model, own.url, "starting") as site:
            (run_id,) = await site.submit([101])
            await asyncio.to_thread(own.stop)
            worker = site.process("worker")
            assert worker.stderr is not None and worker.stdout is not None
            said = await asyncio.to_thread(worker.stderr.readline)
            assert f"cannot connect to the database {own.url}" in said, said
            assert said.endswith("; trying again for 120 s\n"), said
            await asyncio.to_thread(own.start)
            assert (await asyncio.to_thread(worker.stdout.readline)).startswith("worker ")
            await site.reached(RunStatus.COMPLETED, [run_id])
            code, rest = await stopped(worker)
            assert code == 0 and "the database answers" in rest and "Traceback" not in rest, rest
            assert "trying again" not in rest, "once"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("wrong", ["password", "role", "database", "host"])
async def test_whoever_is_refused_ends_at_once(tmp_path: Path, database_server: Postgres, wrong: str) -> None:
    port = database_server.port
    url, sentence = {
        "password": (database_server.tcp(password="staple"), "does not let this user in"),
        "role": (database_server.url.replace("agentorchestra@", "nobody@"), "does not know this user"),
        "database": (database_server.tcp(name="songs"), "there is no database 'songs'"),
        "host": (f"postgresql://me@nowhere.invalid:{port}/{NAME}", "the host of the database postgresql://me@nowhere"),
    }[wrong]
    code, _, err = await asyncio.to_thread(ended, "worker", "--database", url, "--workspace", tmp_path / "ws")
    assert code == 1 and sentence in err, err
    assert "trying again" not in err
