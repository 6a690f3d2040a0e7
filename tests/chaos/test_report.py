"""A report killed with SIGKILL while it is put together: it goes on, and nothing stands in it twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agentorchestra.core.events import Event
from tests.chaos.support import only_run, python, read_log

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


def keys_of(events: list[Event]) -> dict[str, list[str]]:
    """The keys of the actions on the report by their names, and of the questions to the model."""
    found: dict[str, list[str]] = {}
    for event in events:
        if event.type == "started" and event.span is not None:
            effect = event.body["effect"]
            name = str(effect["arguments"].get("action") if effect["kind"] == "InvokeAction" else effect["kind"])
            found.setdefault(name, []).append(event.span)
    return found


async def test_a_killed_report_goes_on_and_has_nothing_twice(tmp_path: Path) -> None:
    async def tried(name: str, point: str) -> tuple[str, dict[str, str], list[str], list[Event]]:
        folder = tmp_path / name
        folder.mkdir()
        words: list[str | Path] = ["-m", "tests.chaos.report_program", folder]
        out = await asyncio.to_thread(python, [*words, "run"], kill_at=point)
        run = await only_run(folder / "ws")
        if point:
            assert not any(event.type == "run_ended" for event in await read_log(folder / "ws", run)), point
            out = await asyncio.to_thread(python, [*words, "resume"])
        files = {
            "report": (folder / "ws/runs" / run / "environments/main/folder/report.md").read_text(),
            "shared": (folder / "ws/reports/bay/report.md").read_text(),
        }
        files = {what: text.replace(run, "RUN").replace(str(folder), "FOLDER") for what, text in files.items()}
        lines = (folder / "ws/reports/bay/items.jsonl").read_text().splitlines()
        assert len(lines) == 2, point
        asked = (folder / "asked.txt").read_text().splitlines()
        events = await read_log(folder / "ws", run)
        completed = [event.span for event in events if event.type == "completed"]
        assert len(completed) == len(set(completed)), point
        return out.replace(str(folder), "FOLDER"), files, asked, events

    out, files, asked, events = await tried("clean", "")
    assert "There are 42 beds [1](https://e.org/beds)." in files["report"]
    assert "see [2](https://e.org/depth)." in files["report"] and "[2](https://e.org/depth)" in files["shared"]
    assert files["shared"].startswith("# The bay") and len(asked) == 3
    keys = keys_of(events)
    points = [
        f"after:{keys['add'][1]}",  # it stands in the shared report, and nothing says so
        f"after_record:{keys['RequestModel'][0]}",  # in the middle of extract: the model has answered
        f"in_record:{keys['write'][0]}",  # the reporter's file is written
        f"after:{keys['write'][1]}",  # the shared one is
    ]
    for number, point in enumerate(points):
        again = await tried(f"killed-{number}", point)
        assert again[:3] == (out, files, asked), point
