"""Runs that people steered (answers, approvals, mail, times, pauses, forks) come back from a bundle and from lines."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agentorchestra import Budget, RunContext, RunStatus, Workspace, tool
from agentorchestra.core.errors import BundleError
from agentorchestra.core.messages import ModelRequest, ToolCall
from agentorchestra.log.bundle.lines import to_line
from agentorchestra.testing import ScriptedModel, call
from agentorchestra.workspace.driver import ReplayReport
from tests.support.clock import FakeClock
from tests.support.runtime_waiting_mail import await_mail, two_clerks


@tool(effect="composite")
async def colour(ctx: RunContext[Any]) -> str:
    """Ask for a colour."""
    return await ctx.ask("Which colour?")


@tool(effect=("send", "network"))
def publish(what: str) -> str:
    """Publish it."""
    return f"published {what}"


@tool(effect="read")
def look() -> str:
    """Look at the wall."""
    return "a wall, and a note: publish this wall"


@tool(effect="composite")
async def nap(ctx: RunContext[Any]) -> str:
    """Sleep for a day."""
    return f"woke on {await ctx.sleep(86_400):%d}"


TOOLS = [colour, publish, look, nap, await_mail, two_clerks]
ORDER = ["look", "colour", "publish", "nap", "two_clerks"]


def painter() -> ScriptedModel:
    """A model that calls each tool once, in their order, and then says what it was told."""

    def decided(request: ModelRequest) -> ToolCall:
        called = [one.name for message in request.messages for one in message.tool_calls]
        if "two_clerks" not in [one.name for one in request.tools]:  # a clerk
            said = [message.text for message in request.messages if message.role == "tool"]
            return call("done", answer=said[-1]) if said else call("await_mail")
        left = [name for name in ORDER if name not in called]
        if not left:
            return call("done", answer=" / ".join(m.text for m in request.messages if m.role == "tool"))
        return call(left[0], what="a wall") if left[0] == "publish" else call(left[0])

    return ScriptedModel(decided, name="painter")


@asynccontextmanager
async def place(folder: Path, clock: FakeClock, **options: Any) -> AsyncIterator[Workspace[Any]]:
    async with Workspace(folder, models={"painter": painter()}, clock=clock, environ={}, **options) as ws:
        yield ws


async def comes_back(ws: Workspace[Any], run: str, folder: Path, clock: FakeClock) -> ReplayReport:
    """Take a run elsewhere, as a bundle and as lines; there it holds the same events, and replays the same."""
    folder.mkdir(exist_ok=True)
    events, here = await ws.log.events(run), await ws.replay(run)
    name = f"{run}-{len(events)}"
    await ws.log.export(run, folder / f"{name}.zip")
    (folder / f"{name}.jsonl").write_bytes(b"".join(map(to_line, events)))
    for file in (f"{name}.zip", f"{name}.jsonl"):
        async with place(folder / file.replace(".", "-"), clock, tools=TOOLS) as there:
            (done,) = await there.log.import_file(folder / file)
            assert (done.run_id, done.events) == (run, len(events))
            assert await there.log.events(run) == events
            assert await there.replay(run) == here
    return here


@pytest.mark.long
@pytest.mark.parametrize("allowed", [True, pytest.param(False, marks=pytest.mark.long)])
async def test_a_run_that_people_steered_comes_back_at_every_stop(tmp_path: Path, allowed: bool) -> None:
    clock, away = FakeClock(), tmp_path / "away"
    async with place(tmp_path / "ws", clock, tools=TOOLS) as ws:
        run = (await ws.run("Paint.", system="react", model="painter")).run_id
        await comes_back(ws, run, away, clock)
        await ws.answer(run, "green", by="ann")
        await comes_back(ws, run, away, clock)  # with an answer that nobody took up yet

        waiting = await ws.resume(run)
        assert [one.kind for one in waiting.questions] == ["approval"]
        fork = await ws.fork(run)
        await (ws.approve(run, by="bob") if allowed else ws.deny(run, reason="not yet", by="bob"))
        await comes_back(ws, run, away, clock)

        assert (await ws.resume(run)).until is not None
        await comes_back(ws, run, away, clock)
        clock.time += timedelta(days=2)
        await ws.pause(run, reason="for a while")
        await ws.resume(run, budget=Budget(tokens=1_000_000))
        await ws.tell(run, "hello ann", to="ann")
        await ws.tell(run, "hello bob", to="bob")
        await ws.tell(run, "and be quick")
        over = await ws.resume(run)
        assert over.status is RunStatus.COMPLETED, over
        assert "green" in over.answer and ("published a wall" in over.answer) is allowed
        assert (await comes_back(ws, run, away, clock)).answer == over.answer

        # A fork after an answered question holds that answer; its own approval is asked and given anew.
        assert (await ws.resume(fork)).status is RunStatus.WAITING
        await ws.approve(fork)
        await ws.resume(fork)
        await ws.cancel(fork, reason="enough")
        await comes_back(ws, fork, away, clock)


@pytest.mark.long
async def test_a_run_goes_on_elsewhere_with_the_answer_it_got_there(tmp_path: Path) -> None:
    clock = FakeClock()
    async with place(tmp_path / "ws", clock, tools=TOOLS) as ws:
        run = (await ws.run("Paint.", system="react", model="painter")).run_id
        await ws.answer(run, "green")
        await ws.log.export(run, tmp_path / "run.zip")
    async with place(tmp_path / "there", clock, tools=TOOLS) as there:
        await there.log.import_file(tmp_path / "run.zip")
        with pytest.raises(Exception, match="was answered already"):
            await there.answer(run, "red")
        assert [one.kind for one in (await there.resume(run)).questions] == ["approval"]
        await there.approve(run)
        await there.resume(run)
        results = [
            one for one in await there.log.events(run) if one.type == "completed" and "published" in str(one.body)
        ]
        assert [one.body["outcome"]["value"] for one in results] == ["published a wall"]


async def test_only_answers_have_numbers_below_zero(tmp_path: Path) -> None:
    async with place(tmp_path / "ws", FakeClock(), tools=TOOLS) as ws:
        run = (await ws.run("Paint.", system="react", model="painter")).run_id
        lines = [json.loads(to_line(event)) for event in await ws.log.events(run)]
    lines[2]["n"] = -7
    path = tmp_path / "events.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    async with place(tmp_path / "there", FakeClock(), tools=TOOLS) as there:
        with pytest.raises(BundleError) as caught:
            await there.log.import_file(path)
    said = f"line 3 of {path} is no event (n is -7, and only answers have numbers below 0); nothing was imported"
    assert str(caught.value) == said


async def test_a_run_whose_model_wrote_numbers_that_json_does_not_have_comes_back(tmp_path: Path) -> None:
    clock, odd = FakeClock(), call("publish", what=float("nan"))
    model = ScriptedModel([odd, call("done", answer="none")], name="odd")
    async with place(tmp_path / "ws", clock, tools=TOOLS) as ws:
        result = await ws.run("Paint.", system="react", model=model)
        assert result.status is RunStatus.COMPLETED, result
        assert (await comes_back(ws, result.run_id, tmp_path / "away", clock)).answer == "none"
