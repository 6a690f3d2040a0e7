"""Mail between two actors, whatever moment the process is killed at."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.chaos.mail_program import ROUNDS
from tests.chaos.support import effect_keys, kill_points, python, read_log

pytestmark = pytest.mark.timeout(600)  # many processes, on a machine that may be busy

PROGRAM = ("-m", "tests.chaos.mail_program")
EXPECTED = {
    "/#1": [word for n in range(1, ROUNDS + 1) for word in ("mail", f"echo of ping {n}")] + ["all_waiting"],
    "/#2": [f"ping {n}" for n in range(1, ROUNDS + 1)] + ["first of two", "second of two", "all_waiting"],
}
SENDS = {"/1.ping#1", "/1.ping#3", "/1.ping#5", "/1.ping#7", "/1.ping#8", "/2.pong#2", "/2.pong#4", "/2.pong#6"}


def _answer(printed: str) -> object:
    result = json.loads(printed)
    assert result["status"] == "completed", result
    return json.loads(result["answer"])


def _clean(folder: Path) -> list[str]:
    assert _answer(python((*PROGRAM, folder, "run"))) == EXPECTED
    return kill_points(asyncio.run(read_log(folder, "run_test")))


def _killed(folder: Path, *points: str) -> None:
    """Killed at each of these points in turn, then resumed to the end."""
    for index, point in enumerate(points):
        assert python((*PROGRAM, folder, "run" if index == 0 else "resume"), kill_at=point) == ""
    assert _answer(python((*PROGRAM, folder, "resume"))) == EXPECTED, points
    events = asyncio.run(read_log(folder, "run_test"))
    sent = [event.span for event in events if event.type == "completed" and event.span in SENDS]
    assert sorted(sent) == sorted(SENDS), points  # each of them recorded, each of them once
    assert effect_keys(events) >= SENDS | {"/#1", "/#2", "/#3"}


def _grid(folder: Path, cases: Sequence[tuple[str, ...]]) -> None:
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda case: _killed(folder / str(case[0]), *case[1]), enumerate(cases)))


SLICE = [
    ("in_mark:/#1",),
    ("after_mark:/#2",),
    ("after:/1.ping#1",),
    ("after_record:/1.ping#1",),
    ("in_record:/2.pong#1",),
    ("after_record:/2.pong#1",),
    ("before:/1.ping#4",),
    ("after_record:/2.pong#4", "after_record:/1.ping#7"),
    ("after_record:/1.ping#7",),
    ("after:/1.ping#9",),
    ("before:/#3",),
    ("in_record:/#1",),
]


@pytest.mark.long
def test_mail_survives_being_killed(tmp_path: Path) -> None:
    _grid(tmp_path, SLICE[1::2])


@pytest.mark.long
@pytest.mark.timeout(900)
def test_mail_survives_being_killed_at_every_point(tmp_path: Path) -> None:
    points = _clean(tmp_path / "clean")
    # The two letters of the end may come together or apart: whether there is a further wait is not certain.
    last = {"/2.pong#9", "/2.pong#10"}
    cases = [(point,) for point in points if point.partition(":")[2] not in last]
    print(f"{len(cases)} points")
    _grid(tmp_path, cases)
