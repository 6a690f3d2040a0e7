"""An orchestrator killed with SIGKILL while three sub-agents work: nobody is asked again, nothing is paid twice."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentorchestra.core.events import Event
from tests.chaos.aorchestra_program import ANSWER, PRICES, TASK, workspace
from tests.chaos.killing import MARK_POINTS, RUN_EVENTS
from tests.chaos.support import effect_keys, kill_points, only_run, python, read_log

pytestmark = pytest.mark.timeout(600)  # many processes, on a machine that may be busy

PROGRAM = Path(__file__).with_name("aorchestra_program.py")
CHILDREN, REQUESTS = 3, 11

SHORT = ("in_record:/1.aorchestra/5.delegate_task#1",)
"""One of the three ends, and that is not recorded; the others are under way."""
LAST = "/1.aorchestra#7"
"""The orchestrator decides on what came back."""

AROUND = [(f"{point}:{event}",) for event in RUN_EVENTS for point in MARK_POINTS]


def asked(folder: Path) -> list[tuple[str, str, int, int]]:
    """What the models wrote down: model, request, and the tokens of the answer."""
    path = folder.with_suffix(".asked")
    words = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return [(model, mark, int(read), int(written)) for model, mark, read, written in words]


def answered(events: Sequence[Event]) -> set[str]:
    """The requests whose answers the log holds."""
    requests = {one.span for one in events if (one.body.get("effect") or {}).get("kind") == "RequestModel"}
    texts = [one.body["outcome"]["value"]["text"] for one in events if one.type == "completed" and one.span in requests]
    return {mark for text in texts for mark in re.findall(r"\b[0-9a-f]{12}\b", text)}


async def clean(folder: Path) -> list[Event]:
    """The log of an undisturbed run."""
    async with workspace(folder) as ws:
        whole = await ws.run(TASK)
        assert (whole.status, whole.answer) == ("completed", ANSWER)
        assert len(asked(folder)) == REQUESTS
        return await ws.log.events(whole.run_id)


async def check(folder: Path, points: Sequence[str], keys: set[str]) -> None:
    """Run it, killed at each point in turn, then resumed to the end."""
    run = ""
    for point in points:
        before, known = len(asked(folder)), answered(await read_log(folder, run)) if run else set()
        await asyncio.to_thread(python, [PROGRAM, folder, run], kill_at=point)
        run = await only_run(folder)
        assert not {mark for _, mark, *_ in asked(folder)[before:]} & known, (point, "asked again, though answered")
    events = await read_log(folder, run)
    before, known = len(asked(folder)), answered(events)
    async with workspace(folder) as ws:
        result = await ws.resume(run)
        assert (result.status, result.answer) == ("completed", ANSWER), points
        events = await ws.log.events(run)
        assert (await ws.replay(run)).answer == ANSWER
    lines = asked(folder)
    assert not {mark for _, mark, *_ in lines[before:]} & known, f"{points}: asked again, though the log has the answer"
    again = Counter(mark for _, mark, *_ in lines)
    assert len(again) == REQUESTS, points
    assert again.total() - REQUESTS <= CHILDREN * len(points), f"{points}: more than was under way is asked again"
    assert effect_keys(events) == keys, points
    assert Counter(one.span for one in events if one.type == "completed") == dict.fromkeys(keys, 1), points

    # What is paid is what the answers in the log cost; what was lost on the way is no part of it.
    tokens = ((PRICES[name], read, written) for name, _, read, written in dict.fromkeys(lines))
    paid = sum((price.input * read + price.output * written) / 1e6 for price, read, written in tokens)
    assert result.usage.requests == REQUESTS, points
    assert result.cost_usd == pytest.approx(paid), points


async def grid(folder: Path, cases: Sequence[Sequence[str]], keys: set[str]) -> None:
    """Two at a time."""
    gate = asyncio.Semaphore(2)

    async def one(number: int, points: Sequence[str]) -> None:
        async with gate:
            await check(folder / f"case-{number}", points, keys)

    async with asyncio.TaskGroup() as group:
        for number, points in enumerate(cases):
            group.create_task(one(number, points))


async def test_three_at_once_survive_being_killed(tmp_path: Path) -> None:
    keys = effect_keys(await clean(tmp_path / "clean"))
    await check(tmp_path / "killed", SHORT, keys)


@pytest.mark.long
@pytest.mark.timeout(3600)
async def test_three_at_once_survive_being_killed_at_every_point(tmp_path: Path) -> None:
    events = await clean(tmp_path / "clean")
    points = kill_points(events)
    print(f"{len(effect_keys(events))} effects, {len(points)} points")
    await grid(tmp_path, [*AROUND, *((point,) for point in points)], effect_keys(events))


@pytest.mark.long
@pytest.mark.timeout(3600)
async def test_three_at_once_survive_being_killed_twice(tmp_path: Path) -> None:
    """The second kill hits the resume: at the same request, and when all three have come back."""
    events = await clean(tmp_path / "clean")
    points = [point for point in kill_points(events) if ".delegate_task" in point]
    pairs = [(point, f"after:{LAST}") for point in points[::5]]
    pairs += [(point, point) for point in points if point.startswith("after_mark") and ".sub_agent#" in point]
    await grid(tmp_path, pairs, effect_keys(events))
