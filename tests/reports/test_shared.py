"""Reports that several runs and processes share: nothing is lost, nothing doubled, one numbering."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.errors import ToolError
from agentorchestra.core.ids import sha256_text
from agentorchestra.environments.report.items import ReportItem
from agentorchestra.environments.report.references import finish
from agentorchestra.environments.report.shared import SharedReport
from agentorchestra.log.store import MemoryStore
from agentorchestra.runtime.context import BranchContext
from tests.chaos.support import start, until
from tests.reports.support import answered, said
from tests.support.patience import LONGEST_S

EACH = 25


def item(number: int) -> ReportItem:
    return ReportItem(id=sha256_text(str(number)), title=f"Item {number}", content="Words.")


def test_an_item_is_added_once_and_a_half_written_line_is_taken_away(tmp_path: Path) -> None:
    shared = SharedReport(tmp_path, "bay")
    assert shared.items() == [] and shared.add([item(1), item(2)]) == 2
    assert shared.add([item(2), item(3)]) == 3
    lines = shared.place / "items.jsonl"
    whole = lines.read_bytes()
    lines.write_bytes(whole + item(4).model_dump_json().encode()[:90])  # as a killed process leaves it
    assert [one.title for one in SharedReport(tmp_path, "bay").items()] == ["Item 1", "Item 2", "Item 3"]
    assert lines.read_bytes() == whole
    lines.write_bytes(whole + b'{"id":"')
    assert shared.add([item(4)]) == 4
    assert [one.title for one in shared.items()][-1] == "Item 4"


@pytest.mark.parametrize("busy", [1, 99], ids=["once", "again and again"])
async def test_a_report_does_not_take_the_place_of_one_that_has_more(
    tmp_path: Path, monkeypatch: Any, busy: int
) -> None:
    """Another process adds an item, and completes the report with it, while this one is at it."""
    shared = SharedReport(tmp_path / "ws" / "reports", "bay")
    added: list[int] = []

    def interrupted(body: str, references: Any, *, every: bool) -> Any:
        done = finish(body, references, every=every)
        if len(added) < busy:
            added.append(100 + len(added))
            shared.add([item(added[-1])])
            shared.write(b"theirs")
        return done

    async def work(ctx: BranchContext[Any]) -> str:
        await said(ctx, "add", content="Mine.", report="bay")
        return await said(ctx, "write", report="bay")

    monkeypatch.setattr("agentorchestra.environments.report.environment.finish", interrupted)
    assert "The report is complete" in await answered(tmp_path, work, replayed=False)
    text = shared.report.read_text()
    assert "Mine." in text and "Item 100" in text, "of the last one it is made whatever happens"
    assert len(added) == (1 if busy == 1 else 5)


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "x" * 81, "a\n"])
def test_a_name_leads_nowhere_else(tmp_path: Path, name: str) -> None:
    with pytest.raises(ToolError, match="is no name of a report; take letters"):
        SharedReport(tmp_path, name)


@pytest.mark.long
async def test_two_processes_add_to_one_report_at_the_same_time(tmp_path: Path) -> None:
    sides = ("left", "right")
    words: list[str | Path] = ["-m", "tests.reports.shared_program", tmp_path, "bay"]
    running = [start([*words, side, str(EACH)]) for side in sides]
    await until(lambda: all((tmp_path / f"ready-{side}").exists() for side in sides), running[0])
    (tmp_path / "go").touch()
    for process in running:
        _, err = await asyncio.to_thread(process.communicate, timeout=LONGEST_S)
        assert process.returncode == 0, err

    items = SharedReport(tmp_path / "ws" / "reports", "bay").items()
    assert sorted(one.title for one in items) == sorted(f"{side} {n}" for side in sides for n in range(EACH))
    assert len({one.id for one in items}) == 2 * EACH
    for side in sides:  # in the order of the process that added them
        mine = [one.title for one in items if one.title.startswith(side)]
        assert mine == [f"{side} {n}" for n in range(EACH)]

    async def completing(ctx: BranchContext[Any]) -> str:
        return await said(ctx, "write", report="bay", path="copy.md")

    told = await answered(tmp_path, completing)
    assert f"with {2 * EACH + 1} references" in told
    text = (tmp_path / "ws" / "reports" / "bay" / "report.md").read_text()
    (copy,) = tmp_path.glob("ws/runs/*/environments/main/folder/copy.md")
    assert copy.read_text() == text
    listed = dict(re.findall(r"^(\d+)\. \[[^\]]+\]\(([^)]+)\)$", text, re.MULTILINE))
    assert list(listed) == [str(n) for n in range(1, 2 * EACH + 2)] and len(set(listed.values())) == len(listed)
    said_by = re.findall(
        r"^(\w+) (\d+) says so \[(\d+)\]\(([^)]+)\), as all do \[(\d+)\]\(([^)]+)\)\.$", text, re.MULTILINE
    )
    assert len(said_by) == 2 * EACH
    for side, number, own, address, common, everyone in said_by:
        assert address == f"https://{side}.org/{number}" == listed[own]
        assert everyone == "https://all.org/x" == listed[common]


async def test_without_a_workspace_nothing_is_shared(tmp_path: Path) -> None:
    async def adding(ctx: BranchContext[Any]) -> str:
        return await said(ctx, "add", content="x", report="bay")

    told = await answered(tmp_path / "none", adding, store=MemoryStore())
    assert told == ("FAILED: the report 'bay' cannot be shared: there is no workspace here; leave the name out")
