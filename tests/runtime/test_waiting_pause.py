"""Paused runs: what is under way ends, nothing begins, a resume goes on as if nothing had happened."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.spec import AgentSpec, Question, RunStatus
from agentorchestra.tea.calling.tool import tool
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace


class Bakery:
    """Tools that note what they did, the first of which ends when it may."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.kneading = 0
        self.busy = asyncio.Event()
        self.both_busy = asyncio.Event()
        self.may_end = asyncio.Event()

    def tools(self) -> list[Any]:
        @tool(effect="write")
        async def knead(dough: str) -> str:
            """Knead a dough."""
            self.kneading += 1
            self.busy.set()
            if self.kneading == 2:
                self.both_busy.set()
            await self.may_end.wait()
            self.done.append(f"kneaded {dough}")
            return f"{dough} is kneaded"

        @tool(effect="write")
        async def bake(dough: str) -> str:
            """Bake a dough."""
            self.done.append(f"baked {dough}")
            return f"{dough} is baked"

        @tool(effect="composite")
        async def both(ctx: RunContext[Any]) -> str:
            """Let two bakers work."""
            spec = AgentSpec(instruction="Bake.", tools=("knead", "bake"))
            specs = [spec.model_copy(update={"name": name}) for name in ("rye", "spelt")]
            return " and ".join(one.answer for one in await ctx.call_agents(specs))

        @tool(effect="composite")
        async def ask(ctx: RunContext[Any]) -> str:
            """Ask the user."""
            return await ctx.ask("Which dough?")

        return [knead, bake, both, ask]


def _baker(request: ModelRequest) -> ModelResponse:
    said = [m.text for m in request.messages if m.role == "tool"]
    if not said:
        return decide(calls=[call("knead", dough="rye")])
    if len(said) == 1:
        return decide(calls=[call("bake", dough="rye")])
    return decide(calls=[call("done", answer=said[-1])])


async def _recorded(ws: Workspace[Any], run: str) -> list[str]:
    return [e.span for e in await ws.log.events(run) if e.type == "completed" and e.span is not None]


async def test_what_is_under_way_ends_and_nothing_is_done_twice(tmp_path: Path) -> None:
    bakery = Bakery()
    model = ScriptedModel(_baker)
    async with Workspace(tmp_path, tools=bakery.tools()) as ws, Workspace(tmp_path) as other:
        run = await ws.create("Bake.", model=model, system="react")
        work = asyncio.create_task(ws.resume(run))
        await bakery.busy.wait()
        assert await other.pause(run, reason="lunch", by="me") is RunStatus.RUNNING
        await ws.engine.poke(run)
        assert not work.done()  # what is under way is not interrupted
        bakery.may_end.set()
        paused = await work
        assert (paused.status, bakery.done) == (RunStatus.PAUSED, ["kneaded rye"])
        assert "`agentorchestra resume` goes on" in str(paused.error)
        asked = len(model.requests)
        assert (await _recorded(ws, run))[-1] == "/1.react#3"  # the result is in the log
        result = await ws.resume(run)
        assert (result.answer, bakery.done) == ("rye is baked", ["kneaded rye", "baked rye"])
        assert len(model.requests) == asked + 2
        spans = await _recorded(ws, run)
        assert len(spans) == len(set(spans))
        assert not {"interrupted"} & {e.type for e in await ws.log.events(run)}
        assert (await ws.replay(run)).answer == "rye is baked"


async def test_agents_at_work_at_the_same_time_all_stop(tmp_path: Path) -> None:
    bakery = Bakery()

    def model(request: ModelRequest) -> ModelResponse:
        if "both" in [one.name for one in request.tools]:
            said = [m.text for m in request.messages if m.role == "tool"]
            return decide(calls=[call("done", answer=said[-1])] if said else [call("both")])
        return _baker(request)

    async with Workspace(tmp_path, tools=bakery.tools()) as ws:
        run = await ws.create("Bake.", model=ScriptedModel(model), system="react")
        work = asyncio.create_task(ws.resume(run))
        await bakery.both_busy.wait()
        await ws.pause(run)
        bakery.may_end.set()
        assert (await work).status is RunStatus.PAUSED
        assert bakery.done == ["kneaded rye"] * 2
        result = await ws.resume(run)
        assert result.answer == "rye is baked and rye is baked"
        assert sorted(bakery.done) == ["baked rye"] * 2 + ["kneaded rye"] * 2
        await ws.replay(run)


def _asks(request: ModelRequest) -> ModelResponse:
    said = [m.text for m in request.messages if m.role == "tool"]
    return decide(calls=[call("done", answer=said[-1])] if said else [call("ask")])


async def test_a_paused_run_stays_paused_when_its_question_is_answered(tmp_path: Path) -> None:
    async with Workspace(tmp_path, tools=Bakery().tools()) as ws:
        waiting = await ws.run("Ask.", model=ScriptedModel(_asks), system="react")
        assert waiting.status is RunStatus.WAITING
        assert await ws.pause(waiting.run_id) is RunStatus.PAUSED  # nobody drives it
        assert await ws.pause(waiting.run_id) is RunStatus.PAUSED
        paused = await ws.runs.result(waiting.run_id)
        assert (paused.status, paused.questions) == (RunStatus.PAUSED, waiting.questions)
        await ws.answer(waiting.run_id, "rye")
        (record,) = await ws.runs.list()
        assert record.status is RunStatus.PAUSED
        assert (await ws.resume(waiting.run_id)).answer == "rye"
        assert await ws.pause(waiting.run_id) is RunStatus.COMPLETED
        types = [e.type for e in await ws.log.events(waiting.run_id)]
        assert types.count("pause_requested") == 1
        await ws.replay(waiting.run_id)


async def test_a_question_in_place_stays_open(tmp_path: Path) -> None:
    asked: list[str] = []
    reached = asyncio.Event()

    async def nobody(question: Question) -> str:
        asked.append(question.question)
        reached.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with Workspace(tmp_path, tools=Bakery().tools(), asker=nobody) as ws:
        run = await ws.create("Ask.", model=ScriptedModel(_asks), system="react", on_ask="deny")
        work = asyncio.create_task(ws.resume(run))
        await reached.wait()
        await ws.pause(run)
        paused = await work
        assert (paused.status, [one.question for one in paused.questions]) == (RunStatus.PAUSED, ["Which dough?"])
        await ws.answer(run, "spelt")
        assert ((await ws.resume(run)).answer, asked) == ("spelt", ["Which dough?"])
        await ws.replay(run)


async def test_a_request_while_the_job_ends_is_heard(tmp_path: Path) -> None:
    """Pause and cancel come from elsewhere between the last look of the driver and its release."""
    for request in ("pause", "cancel"):
        folder = tmp_path / request
        async with Workspace(folder, tools=Bakery().tools()) as ws, Workspace(folder) as other:
            release = ws.store.release

            async def late(run: str, epoch: int, ask: str = request, let: Any = release, by: Any = other) -> None:
                await getattr(by, ask)(run)
                await let(run, epoch)

            ws.store.release = late  # type: ignore[method-assign]
            result = await ws.run("Ask.", model=ScriptedModel(_asks), system="react")
            ws.store.release = release  # type: ignore[method-assign]
            assert result.status == {"pause": "paused", "cancel": "cancelled"}[request]
            assert len(result.questions) == (request == "pause")
            assert (await other.runs.result(result.run_id)).status is result.status


async def test_a_run_that_was_not_begun_is_paused(tmp_path: Path) -> None:
    async with Workspace(tmp_path) as ws:
        run = await ws.create("What is 2 + 3?", model="offline", system="react")
        assert await ws.pause(run) is RunStatus.PAUSED
        assert "5" in (await ws.resume(run)).answer
