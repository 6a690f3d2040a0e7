"""The displays alone, without a command around them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.cli.view.live import PlainDisplay
from agentorchestra.core.events import Event
from agentorchestra.runtime.bus import Notice
from agentorchestra.workspace import Workspace

GUARD_S = 120.0
"""A display that does not end makes the test fail after this time; nothing else depends on it."""


async def turns(number: int) -> None:
    """Let the event loop turn."""
    for _ in range(number):
        await asyncio.sleep(0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("waited", [0, 1, 2, 3, 4, 6])
async def test_a_display_ends_however_soon_after_a_notice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], waited: int
) -> None:
    """The cancellation of the display meets it at each step between the notice and what the display does with it."""
    async with Workspace(tmp_path) as ws:
        run_id = await ws.create("What?", system="react")
        display = PlainDisplay(ws, run_id, steps=0, before=await ws.log.events(run_id))
        queue: asyncio.Queue[Notice] = asyncio.Queue()
        async with asyncio.timeout(GUARD_S), display.following(queue):
            await turns(5)  # the display waits for a notice now
            queue.put_nowait(Notice(kind="progress", run=run_id, text="half of it"))
            await turns(waited)
    assert capsys.readouterr().err == "  half of it\n"


async def test_what_a_tool_prints_keeps_its_indentation_and_is_folded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = ["def f():", "", "\treturn 1", "x" * 200, *(f"    line {n}" for n in range(40)), "1 failed"]
    async with Workspace(tmp_path) as ws:
        run_id = await ws.create("What?", system="react")
        display = PlainDisplay(ws, run_id, steps=0, before=await ws.log.events(run_id))
        display._show_text([Notice(kind="progress", run=run_id, key="/1.react#2", text=line) for line in shown])
        before = capsys.readouterr().err
        at: dict[str, Any] = {"branch": "/1.react", "n": 2, "span": "/1.react#2"}
        body: dict[str, Any] = {
            "type": "completed",
            "v": 1,
            "body": {"outcome": {}},
            "ts": datetime(2027, 1, 31, tzinfo=UTC),
        }
        display._event(Event(seq=9, run=run_id, **at, **body))
        display._show_text([])
    assert before.splitlines() == [
        *("  def f():", "", "          return 1", f"  {'x' * 157}..."),
        *(f"      line {n}" for n in range(4)),
    ]
    assert capsys.readouterr().err == "  [36 further lines]\n  1 failed\n"
