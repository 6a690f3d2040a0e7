"""A process that is stopped for longer than its lease: another one goes on with its run, and it is fenced.

Time is moved in the rows of the leases; the leases themselves hold for a day.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from agentorchestra.log.store import PostgresStore, SqliteStore
from agentorchestra.log.store.factory import store_for
from agentorchestra.workspace import load_settings
from tests.chaos import team_model
from tests.chaos.conftest import Log
from tests.chaos.support import start
from tests.chaos.team_case import Case, finished

pytestmark = pytest.mark.timeout(600)  # many processes, on a machine that may be busy


@pytest.fixture
async def server() -> AsyncIterator[team_model.Served]:
    async with team_model.Served(holds=2) as made:
        yield made


def over(case: Case) -> None:
    """Let all leases have ended yesterday."""
    folder = case.folder / "ws"
    store = store_for(load_settings(folder), folder)
    if isinstance(store, SqliteStore):
        connect: Callable[[], object] = store._connect
        url = "sqlite+pysqlite://"
    else:
        assert isinstance(store, PostgresStore)
        connect, url = store.connect, "postgresql+psycopg://"
    engine = create_engine(url, creator=connect)
    with engine.begin() as connection:
        moved = connection.exec_driver_sql("UPDATE jobs SET lease_until = lease_until - 2 * 86400")
        assert moved.rowcount >= 1
    engine.dispose()


async def fenced(process: subprocess.Popen[str], run: str) -> None:
    """Let a stopped process go on: it says that another one drives its run, in a sentence."""
    process.send_signal(signal.SIGCONT)
    out, err = await finished(process)
    assert "Traceback" not in err, err
    said = json.loads(out)
    assert (process.returncode, said["error_type"]) == (1, "FencedError"), out
    assert run in said["error"]


@pytest.mark.long
async def test_the_run_of_a_stopped_command_is_resumed(tmp_path: Path, server: team_model.Served, log: Log) -> None:
    case = Case(tmp_path / "case", server, settings=("lease_s = 86400", *log()))
    case.lay_out()
    async with case.held(2) as process:
        process.send_signal(signal.SIGSTOP)
        printed, _ = await case.cli("resume", case.run, code=1)
        assert json.loads(printed)["error_type"] == "FencedError"
        over(case)
        printed, _ = await case.cli("resume", case.run)
        assert json.loads(printed)["answer"] == team_model.ANSWER
        before = await case.log()
        server.release.set()
        await fenced(process, case.run)
    assert await case.log() == before
    assert sorted(x for _, x in case.lines("notes.txt")) == ["left", "right", "top"]


@pytest.mark.long
async def test_a_server_takes_up_the_run_of_a_stopped_command(
    tmp_path: Path, server: team_model.Served, log: Log
) -> None:
    case = Case(tmp_path / "case", server, settings=("lease_s = 86400", *log()))
    case.lay_out()
    async with case.held(2) as process:
        process.send_signal(signal.SIGSTOP)
        serving = start(case.words("serve", "--port", "0", "--take-up", "all"))
        try:
            over(case)
            while "run_ended" not in [one.type for one in await case.log()]:
                assert serving.poll() is None, serving.communicate()
                await asyncio.sleep(0.1)
            before = await case.log()
            server.release.set()
            await fenced(process, case.run)
        finally:
            serving.kill()
            await finished(serving)
    assert await case.log() == before
    assert sorted(x for _, x in case.lines("notes.txt")) == ["left", "right", "top"]
