"""Who drives a run: a dead process is followed at once, a live one is not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from agentorchestra.core.events import DrivingStarted
from tests.chaos import team_model
from tests.chaos.conftest import Log
from tests.chaos.support import KILLED, until
from tests.chaos.team_case import Case, finished

pytestmark = pytest.mark.timeout(600)  # many processes, on a machine that may be busy


@pytest.fixture
async def server() -> AsyncIterator[team_model.Served]:
    async with team_model.Served(holds=2) as made:
        yield made


@pytest.mark.parametrize("reaped", [True, False])
@pytest.mark.long
async def test_a_dead_process_is_followed_at_once(
    tmp_path: Path, server: team_model.Served, reaped: bool, log: Log
) -> None:
    # The lease would hold for a day: only the proof that its holder is dead lets the next one in.
    case = Case(tmp_path / "case", server, settings=("lease_s = 86400", *log()))
    case.lay_out()
    async with case.held(2) as process:
        printed, seen = await case.cli("resume", case.run, code=1)
        refused = json.loads(printed)
        assert refused["error_type"] == "FencedError"
        assert f"run {case.run} is being driven by another process" in refused["error"]
        assert f"pid {process.pid}" in refused["error"]
        assert seen == []
        assert process.poll() is None
        process.kill()
        if reaped:
            await finished(process)
            assert process.returncode == KILLED
        else:
            await until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE)
        server.release.set()
        printed, seen = await case.cli("resume", case.run)
    assert json.loads(printed)["answer"] == team_model.ANSWER
    assert sorted(map(team_model.actor_of, seen)) == ["left", "left", "right", "right", "top", "top"]
    drivers = [event.data for event in await case.log() if event.type == "driving_started"]
    assert [one.epoch for one in drivers if isinstance(one, DrivingStarted)] == [1, 2]


@pytest.mark.long
async def test_a_live_process_goes_on_undisturbed(tmp_path: Path, server: team_model.Served, log: Log) -> None:
    case = Case(tmp_path / "case", server, settings=log())
    case.lay_out()
    async with case.held(2) as process:
        for _ in range(2):
            await case.cli("resume", case.run, code=1)
        server.release.set()
        out, err = await finished(process)
    assert (process.returncode, json.loads(out)["answer"]) == (0, team_model.ANSWER), err
    assert len(case.asked()) == 9
    events = await case.log()
    assert [event.type for event in events].count("driving_started") == 1
