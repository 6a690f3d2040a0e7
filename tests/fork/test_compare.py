"""Comparing runs: the first difference, and how both go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fork.support import CAPITALS, TASK, model, workspace


async def test_equal_runs(tmp_path: Path) -> None:
    async with workspace(tmp_path) as ws:
        one = await ws.run(TASK, system="react", model="one", seed="s")
        other = await ws.run(TASK, system="react", model="one", seed="s")
        found = await ws.log.compare(one.run_id, other.run_id)
        assert found.difference is None
        assert found.common > 20
        assert found.relation == ""
        fork = await ws.fork(one.run_id, at=30)
        await ws.resume(fork)
        found = await ws.log.compare(one.run_id, fork)
        assert found.difference is None
        assert found.relation == f"{fork} was forked from {one.run_id} at event 30 (changed: nothing)"


@pytest.mark.long
async def test_the_first_difference_and_both_continuations(tmp_path: Path) -> None:
    async with workspace(tmp_path, model("one"), model("two")) as ws:
        one = await ws.run(TASK, system="react", model="one")
        log = await ws.log.events(one.run_id)
        at = next(e.seq for e in log if e.type == "completed" and (e.branch, e.n) == ("/1.react", 12))
        fork = await ws.fork(one.run_id, at=at, model="two")
        result = await ws.resume(fork)
        found = await ws.log.compare(one.run_id, fork)
        assert found.common >= sum(e.type == "completed" for e in log[:at])
        assert found.difference is not None
        assert found.difference.kind == "asked"
        assert found.difference.what.startswith("RequestModel one in the one, RequestModel two in the other")
        assert "-model: one" in found.difference.lines
        assert "+model: two" in found.difference.lines
        assert found.first.continuation[0].key == found.second.continuation[0].key == found.difference.key
        assert found.first.answer == one.answer_text
        assert found.second.answer == result.answer_text != one.answer
        last = [
            step.result for side in (found.first, found.second) for step in side.continuation if "done" in step.what
        ]
        assert len(last) == 2
        assert found.second.usage.requests == result.usage.requests < found.first.usage.requests
        # From the other side it is the same place.
        turned = await ws.log.compare(fork, one.run_id)
        assert turned.difference is not None
        assert (turned.difference.key, turned.common) == (found.difference.key, found.common)


async def test_another_prompt_shows_its_lines(tmp_path: Path) -> None:
    loud = tmp_path / "react.md"
    async with workspace(tmp_path) as ws:
        one = await ws.run(TASK, system="react", model="one")
        loud.write_text(f"{ws.catalog.prompts.get('react').text}\n{CAPITALS}\n", encoding="utf-8")
        fork = await ws.fork(one.run_id, at=20, prompts={"react": loud})
        await ws.resume(fork)
        found = await ws.log.compare(one.run_id, fork)
        assert found.difference is not None
        assert found.difference.kind == "asked"
        assert "message 0 (system) changed" in found.difference.what
        assert f"+{CAPITALS}" in found.difference.lines


@pytest.mark.long
async def test_the_same_question_with_another_answer_and_a_run_that_stops_earlier(tmp_path: Path) -> None:
    async with workspace(tmp_path) as ws:
        one = await ws.run(TASK, system="react", model="one")
        log = await ws.log.events(one.run_id)
        first = next(
            e for e in log if e.type == "completed" and e.branch == "/1.react" and "wrote begin" in str(e.body)
        )
        key = f"{first.branch}#{first.n}"
        fork = await ws.fork(one.run_id, at=key, outcomes={key: "wrote nothing"})
        await ws.resume(fork)
        found = await ws.log.compare(one.run_id, fork)
        assert found.difference is not None
        assert (found.difference.kind, found.difference.key) == ("answered", key)
        assert found.difference.lines == ("@@ -1 +1 @@", "-wrote begin", "+wrote nothing")
        undriven = await ws.fork(one.run_id, at=20)
        found = await ws.log.compare(one.run_id, undriven)
        assert found.difference is not None
        assert found.difference.kind == "missing"
        assert found.second.continuation == ()
        assert found.second.answer == ""
        assert len(found.first.continuation) > 5
