"""A team killed with SIGKILL at every point of every effect, and resumed by the command line in a fresh process."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.events import Event
from tests.chaos import team_model
from tests.chaos.conftest import Log, in_database
from tests.chaos.killing import MARK_POINTS, RUN_EVENTS
from tests.chaos.support import effect_keys, kill_points
from tests.chaos.team_case import KEYS, Case
from tests.postgres import Postgres

pytestmark = pytest.mark.timeout(600)  # many processes, on a machine that may be busy

NOTES = {"/1.react/3.team/1.left#2": "left", "/1.react/3.team/2.right#2": "right", "/1.react#6": "top"}
LOOKUPS = {"/1.react/3.team/1.left#4", "/1.react/3.team/2.right#4", "/1.react#7"}


@pytest.fixture
async def server() -> AsyncIterator[team_model.Served]:
    async with team_model.Served() as made:
        yield made


def _effects(events: Sequence[Event]) -> dict[str, dict[str, Any]]:
    return {e.span: e.body["effect"] for e in events if e.span and e.body.get("effect")}


def _outcomes(events: Sequence[Event]) -> dict[str, dict[str, Any]]:
    return {e.span: e.body["outcome"] for e in events if e.span and e.type == "completed"}


def _answered(events: Sequence[Event]) -> set[str]:
    """The requests whose answers the log holds."""
    kinds = {key: effect["kind"] for key, effect in _effects(events).items()}
    return {
        team_model.answered(outcome["value"])
        for key, outcome in _outcomes(events).items()
        if kinds[key] == "RequestModel"
    }


@dataclass
class Later:
    """A point that a run is still to reach, as far on as `part` of those that are left.

    Attributes:
        points: all of them.
        part: from 0 to below 1.
    """

    points: Sequence[str]
    part: float

    def after(self, events: Sequence[Event]) -> str:
        """The point, for a run that was killed with this log."""
        started = {event.span for event in events if event.type == "started"}
        over = {event.span for event in events if event.type == "completed"} | (started & NOTES.keys())
        left = [point for point in self.points if point.partition(":")[2] not in over]
        return left[int(len(left) * self.part)] if left else ""


Point = str | Later


async def check(case: Case, points: Sequence[Point], *, replay: bool = False) -> None:
    """Run, killed at each point in turn, then resumed to the end: nothing is lost, done, asked or paid twice."""
    case.lay_out()
    asked: list[dict[str, Any]] = []
    known: set[str] = set()
    events: list[Event] = []
    for phase in range(len(points) + 1):
        words = ("run", team_model.TASK) if phase == 0 else ("resume", case.run)
        wanted = points[phase] if phase < len(points) else ""
        point = wanted.after(events) if isinstance(wanted, Later) else wanted
        printed, seen = await case.cli(*words, kill_at=point)
        now = {team_model.digest(body) for body in seen}
        assert len(now) == len(seen), f"{points}: asked twice by one process"
        assert not now & known, f"{points}: a request was asked although its answer is recorded"
        again = Counter(team_model.actor_of(body) for body in seen if body in asked)
        assert max(again.values(), default=0) <= 1, f"{points}: {again} requests repeated"
        asked += seen
        events = await case.log()
        known = _answered(events)
    result = json.loads(printed)
    assert result["status"] == "completed", (points, result)
    assert effect_keys(events) == KEYS, points
    completed = Counter(event.span for event in events if event.type == "completed")
    assert completed == dict.fromkeys(KEYS, 1), points
    expected = team_model.ANSWER
    notes = case.lines("notes.txt")
    assert max(Counter(key for key, _ in notes).values()) == 1, (points, notes)
    outcomes = _outcomes(events)
    for key, x in NOTES.items():
        if outcomes[key].get("status") == "uncertain":
            expected = expected.replace(f"noted {x}", team_model.UNCERTAIN)
        else:
            assert [key, x] in notes, points  # what is said to be done was done
    assert result["answer"] == expected, points
    lookups = Counter(key for key, _ in case.lines("lookups.txt"))
    assert set(lookups) == LOOKUPS and max(lookups.values()) <= len(points) + 1, (points, lookups)
    if replay:
        await case.cli("replay", case.run)
    shutil.rmtree(case.folder)


async def grid(
    folder: Path, server: team_model.Served, cases: Sequence[Sequence[Point]], *, replay: bool, log: Log = tuple
) -> None:
    """Two at a time; every fourth one is replayed as well, if asked for."""
    gate = asyncio.Semaphore(2)

    async def one(number: int, points: Sequence[Point]) -> None:
        async with gate:
            case = Case(folder / f"case-{number}", server, settings=log())
            await check(case, points, replay=replay and number % 4 == 0)

    async with asyncio.TaskGroup() as group:
        for number, points in enumerate(cases):
            group.create_task(one(number, points))


SLICE = [
    ("after_mark:/#1",),
    ("in_record:/1.react#2",),
    ("before:/1.react/3.team#1",),
    ("after:/1.react/3.team/1.left#1",),
    ("after:/1.react/3.team/2.right#2",),
    ("in_record:/1.react/3.team/1.left#4",),
    ("after_record:/1.react/3.team/2.right#6",),
    ("in_record:/1.react#3", "after:/1.react#6"),
    ("after_mark:/1.react/3.team/2.right#3", "after_mark:/1.react/3.team/2.right#3"),
    ("in_mark:/1.react#9",),
    ("in_record:/#1",),
]
SHORT = [SLICE[0], SLICE[4], SLICE[5], SLICE[7], SLICE[8]]
"""What `make test` has time for."""
AROUND = [(f"{point}:{event}",) for event in RUN_EVENTS for point in MARK_POINTS]
"""Before there is anything but the question, and after all is done but said."""


@pytest.mark.long
async def test_a_team_survives_being_killed(tmp_path: Path, server: team_model.Served) -> None:
    await grid(tmp_path, server, SHORT, replay=True)


@pytest.mark.long
@pytest.mark.parametrize("points", [SLICE[7], SLICE], ids=["twice", "slice"])
async def test_a_team_in_a_database_survives_being_killed(
    tmp_path: Path, server: team_model.Served, database_server: Postgres, points: Sequence[Any]
) -> None:
    cases = [points] if isinstance(points[0], str) else points
    await grid(tmp_path, server, cases, replay=True, log=in_database(database_server))


async def _clean(folder: Path, server: team_model.Served) -> list[str]:
    case = Case(folder / "clean", server)
    case.lay_out()
    printed, seen = await case.cli("run", team_model.TASK)
    assert json.loads(printed)["answer"] == team_model.ANSWER
    assert len(seen) == 9
    events = await case.log()
    assert effect_keys(events) == KEYS
    return kill_points(events)


@pytest.mark.long
@pytest.mark.timeout(3600)
async def test_a_team_survives_being_killed_at_every_point(tmp_path: Path, server: team_model.Served, log: Log) -> None:
    points = await _clean(tmp_path, server)
    print(f"{len(KEYS)} effects, {len(points)} points")
    await grid(tmp_path, server, [*AROUND, *((point,) for point in points)], replay=True, log=log)


@pytest.mark.long
@pytest.mark.timeout(3600)
async def test_a_team_survives_being_killed_twice(tmp_path: Path, server: team_model.Served) -> None:
    """The second kill hits the resume: at the same effect, and further on."""
    points = await _clean(tmp_path, server)
    pairs: list[tuple[str, Point]] = [
        (point, Later(points, (index % 5) / 5)) for index, point in enumerate(points[::4])
    ]
    marks = [point for point in points if point.startswith("after_mark") and point.partition(":")[2] not in NOTES]
    pairs += [(point, point) for point in marks]
    print(f"{len(pairs)} pairs of points")
    await grid(tmp_path, server, pairs, replay=True)
