"""Items belong to the run: they follow candidates, resumes and forks; what is shared gets the winner's only, once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.content import text_of
from agentorchestra.environments.files.environment import FilesEnvironment
from agentorchestra.environments.report.environment import Report
from agentorchestra.environments.report.shared import SharedReport
from agentorchestra.log.store import MemoryStore
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.actions import action_effect
from agentorchestra.workspace import Workspace
from tests.reports.support import agent, said
from tests.runtime.support import Bench


async def acted(ctx: BranchContext[Any], action: str, **arguments: Any) -> str:
    outcome = await ctx.perform(action_effect(Report(), action, arguments))
    return text_of(outcome.blocks()) if outcome.ok else f"FAILED: {outcome.error}"


@pytest.mark.parametrize("crash", [False, True])
async def test_of_candidates_the_winners_items_stay(tmp_path: Path, crash: bool) -> None:
    store = MemoryStore()
    await store.open()
    reports = tmp_path / "reports"
    one = Bench(
        store, {}, environments={"report": lambda: Report(reports), "files": FilesEnvironment}, folder=tmp_path / "runs"
    )
    await one.create()

    async def main(root: BranchContext[Any]) -> str:
        await acted(root, "add", content="Before https://e.org/0.", report="bay")
        left, right = root.candidates(2)

        async def go(ctx: BranchContext[Any], text: str) -> str:
            added = await acted(ctx, "add", content=f"{text} https://e.org/{text}.", report="bay")
            refused = await acted(ctx, "write", text="x", report="bay")
            return f"{added}|{refused}"

        told = await root.rivals([lambda: go(left, "left"), lambda: go(right, "right")])
        assert all("as soon as this candidate is chosen" in one for one in told)
        assert all("a candidate of a step cannot complete a shared report" in one for one in told)
        if crash:
            raise RuntimeError("the process ends here")
        await root.adopt(right)
        return await acted(root, "collect") + "\n" + await acted(root, "collect", report="bay")

    if crash:
        await one.drive(main)
        assert len(SharedReport(reports, "bay").items()) == 1
        crash = False
    listed = "2 references in 2 items\n[1] https://e.org/0\n[2] https://e.org/right"
    assert (await one.drive(main)).answer == f"{listed}\n{listed}"
    assert [item.content[:5] for item in SharedReport(reports, "bay").items()] == ["Befor", "right"]
    assert (await one.replay(main)) is not None
    await store.close()


async def test_a_fork_goes_on_with_the_items_and_shares_none_twice(tmp_path: Path) -> None:
    async def work(ctx: BranchContext[Any]) -> str:
        for number in range(3):
            await said(ctx, "add", content=f"Fact {number} https://e.org/{number}.", report="bay")
        return await said(ctx, "collect") + "\n" + await said(ctx, "collect", report="bay")

    (tmp_path / "ws").mkdir()
    async with Workspace(tmp_path / "ws", agents=[agent(work)], environ={}, store=MemoryStore()) as ws:
        first = await ws.run("dig", system="digger", model="offline")
        own, shared = first.answer.split("\n", 4)[:4], first.answer.splitlines()[4:]
        assert own == shared == ["3 references in 3 items", *(f"[{n + 1}] https://e.org/{n}" for n in range(3))]
        adds = [event for event in await ws.log.events(first.run_id) if event.type == "completed" and event.n == 2]
        forked = await ws.fork(first.run_id, at=max(event.seq for event in adds))
        result = await ws.resume(forked)
        # Its third add is its own; the first two are those of the run that it was forked from.
        assert result.answer.splitlines()[:4] == own
        assert result.answer.splitlines()[4] == "3 references in 4 items"
