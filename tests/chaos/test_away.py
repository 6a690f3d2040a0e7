"""The database is away in the middle of a run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.chaos import team_model
from tests.chaos.conftest import in_database
from tests.chaos.support import effect_keys
from tests.chaos.team_case import KEYS, Case, finished
from tests.postgres import Postgres, postgres

pytestmark = pytest.mark.timeout(600)  # many processes, on a machine that may be busy


@pytest.fixture
async def server() -> AsyncIterator[team_model.Served]:
    async with team_model.Served(holds=2) as made:
        yield made


@pytest.fixture(scope="module")
def own() -> Iterator[Postgres]:
    """One that can be stopped."""
    with postgres() as made:
        yield made


async def whole(case: Case, requests: int) -> None:
    """Nothing lost, nothing doubled; and a replay agrees."""
    events = await case.log()
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert effect_keys(events) == KEYS
    completed = [event.span for event in events if event.type == "completed"]
    assert len(completed) == len(set(completed)) == len(KEYS)
    assert len(case.asked()) == requests
    assert sorted(x for _, x in case.lines("notes.txt")) == ["left", "right", "top"]
    await case.cli("replay", case.run)


@pytest.mark.parametrize("seconds", [pytest.param(2, marks=pytest.mark.long), pytest.param(30, marks=pytest.mark.long)])
async def test_a_run_waits_for_its_database(
    tmp_path: Path, server: team_model.Served, own: Postgres, seconds: float
) -> None:
    """Longer than its lease, which nobody else asked for meanwhile."""
    case = Case(tmp_path / "case", server, settings=("lease_s = 1", *in_database(own)()))
    case.lay_out()
    async with case.held(2) as process:
        await asyncio.to_thread(own.stop)
        server.release.set()
        await asyncio.sleep(seconds)
        assert process.poll() is None
        await asyncio.to_thread(own.start)
        out, err = await finished(process)
    assert (process.returncode, json.loads(out)["answer"]) == (0, team_model.ANSWER), err
    assert f"port={own.port} does not answer (" in err and "answers again after" in err
    await whole(case, 9)


@pytest.mark.long
async def test_a_run_that_waited_too_long_says_so_and_can_be_resumed(
    tmp_path: Path, server: team_model.Served, own: Postgres
) -> None:
    case = Case(tmp_path / "case", server, settings=("database_retry_s = 0.5", "lease_s = 1", *in_database(own)()))
    case.lay_out()
    async with case.held(2) as process:
        await asyncio.to_thread(own.stop)
        try:
            server.release.set()
            out, err = await finished(process)
        finally:
            await asyncio.to_thread(own.start)
    failed = json.loads(out)
    assert (process.returncode, failed["error_type"]) == (1, "StoreUnavailableError"), err
    assert "has been away for 0.5 s" in failed["error"] and failed["error"].endswith("resume the run")
    assert "Traceback" not in err
    before = len(case.asked())
    printed, seen = await case.cli("resume", case.run)
    assert json.loads(printed)["answer"] == team_model.ANSWER
    await whole(case, before + len(seen))
