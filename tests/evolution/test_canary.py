"""A candidate that a share of the live runs uses is taken back where it does worse, and into use where it lasts."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentorchestra import Workspace
from agentorchestra.core.errors import LifecycleError, UsageError
from agentorchestra.core.messages import ModelRequest, ToolCall
from agentorchestra.evolution import canary
from agentorchestra.evolution.canary import canaries, check_canaries
from agentorchestra.testing import ScriptedModel, call
from tests.support.runs import whole_runs

LOUD = "- Shout."


def worker(request: ModelRequest) -> ToolCall:
    """Answer as loudly as the rules say."""
    return call("done", answer="YES" if LOUD in request.messages[0].text else "yes")


def opened(folder: Path) -> Workspace:
    return Workspace(folder / "ws", models={"worker": ScriptedModel(worker, name="worker")})


async def louder(ws: Workspace) -> str:
    """Register a candidate of the prompt `react` that shouts; return its version."""
    parts = {one.name: one.value for one in await ws.components.prompts.vars("react")}
    rules = {"task_rules": f"{parts['task_rules']}{LOUD}\n"}
    return (await ws.components.prompts.setvars("react", rules, candidate=True)).version


async def asked(ws: Workspace, times: int, **fields: str) -> list[tuple[str, str]]:
    """Ask live runs; return their ids and answers."""
    found = []
    for number in range(times):
        result = await ws.run("Is it?", model="worker", system="react", labels={"n": str(number), **fields})
        found.append((result.run_id, result.answer))
    return found


async def test_a_share_of_the_runs_uses_a_candidate_and_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path) as ws:
        version = await louder(ws)
        await ws.components.prompts.share("react", version, 0.5, reason="to see")
        found = await asked(ws, 24)
        runs = {one.id: one.manifest for one in await whole_runs(ws)}
        for run, answer in found:
            named = {"prompt:react": version} if answer == "YES" else {}
            assert runs[run].components == named
            assert runs[run].labels["canary prompt:react"] == (version if named else "2.1.0")
        assert 4 <= sum(answer == "YES" for _, answer in found) <= 20
        assert {answer for _, answer in await asked(ws, 6, evaluation="e")} == {"yes"}  # others' comparisons
        (one,) = await canaries(ws)
        assert len(one.current) + len(one.candidate) == 24
        shouted = next(run for run, answer in found if answer == "YES")
        assert (await ws.replay(shouted)).answer == "YES"
    async with opened(tmp_path) as ws:  # another process goes on with the share
        assert len({answer for _, answer in await asked(ws, 12)}) == 2
        await ws.components.prompts.activate("react", version)
        assert (await canaries(ws), {answer for _, answer in await asked(ws, 3)}) == ([], {"YES"})


async def test_one_that_fails_live_is_taken_back(tmp_path: Path) -> None:
    async with opened(tmp_path) as ws:
        version = await louder(ws)
        await ws.components.prompts.share("react", version, 0.5)
        done: list[str] = []
        while not done:
            ((run, answer),) = await asked(ws, 1)
            await ws.runs.rate(run, 0.0 if answer == "YES" else 1.0, note="users complain", by="anna")
            done = await check_canaries(ws)
        assert done[0].startswith(f"prompt:react@{version} was taken back: it does worse live, known after ")
        held = (await ws.components.prompts.versions("react"))[-1]
        assert (held.version, held.state) == (version, "archived")
        assert "0.00 over" in held.why and "1.00 over" in held.why
        assert (await canaries(ws), {answer for _, answer in await asked(ws, 6)}) == ([], {"yes"})
        assert len(await ws.runs.list()) < 60


async def test_one_that_lasts_is_taken_into_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canary, "ENOUGH", 3)
    async with opened(tmp_path) as ws:
        version = await louder(ws)
        await ws.components.prompts.share("react", version, 0.5)
        done: list[str] = []
        while not done:
            await asked(ws, 1)
            done = await check_canaries(ws)
        assert done[0].startswith(f"prompt:react means {version} now: it did no worse in 3 pairs of live runs")
        assert (await ws.components.prompts.info("react")).version == version


async def test_shares_and_scores_that_are_refused(tmp_path: Path) -> None:
    async with opened(tmp_path) as ws:
        with pytest.raises(LifecycleError, match=r"react@2\.1\.0 is active, and only a candidate can have a share"):
            await ws.components.prompts.share("react", "2.1.0", 0.5)
        version = await louder(ws)
        with pytest.raises(LifecycleError, match="cannot have the share 1; give one from 0 to below 1"):
            await ws.components.prompts.share("react", version, 1)
        await ws.components.prompts.share("react", version, 0.5)
        await ws.components.prompts.share("react", version, 0)
        assert await canaries(ws) == []
        ((run, _),) = await asked(ws, 1)
        with pytest.raises(UsageError, match="the score 7 is outside 0 to 1"):
            await ws.runs.rate(run, 7)
