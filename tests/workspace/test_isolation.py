"""What is given to one run stays with it: tools, models, secrets; what is cancelled early says so."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from agentorchestra.core.effects import Effect, EffectKind, Outcome
from agentorchestra.core.errors import UsageError
from agentorchestra.core.messages import ModelRequest, ModelResponse
from agentorchestra.core.protocols import BaseHandler, Handler, RunContext
from agentorchestra.core.spec import RunStatus
from agentorchestra.tea.calling.tool import Tool, tool
from agentorchestra.testing import ScriptedModel, call, decide
from agentorchestra.workspace import Workspace


def _who(name: str) -> Tool:
    @tool(effect="pure", name="who")
    def who() -> str:
        """Who."""
        return name

    return who


def _asks_who(request: ModelRequest) -> ModelResponse:
    if request.messages[-2].role == "tool":
        return decide(calls=[call("done", answer=request.messages[-2].text)])
    return decide(calls=[call("who")])


async def test_parallel_runs_have_their_own_tools_and_models(tmp_path: Path) -> None:
    async with Workspace(tmp_path / "ws") as ws:
        results = await asyncio.gather(
            *(ws.run("Who?", tools=[_who(name)], model=ScriptedModel(_asks_who), system="react") for name in "ABC")
        )
        assert [result.answer for result in results] == ["A", "B", "C"]
        for result, name in zip(results, "ABC", strict=True):
            assert (await ws.resume(result.run_id)).answer == name
            assert (await ws.replay(result.run_id)).answer == name

        def plain(request: ModelRequest) -> ModelResponse:
            assert "who" not in [schema.name for schema in request.tools]
            return decide(calls=[call("done", answer="nobody")])

        later = await ws.run("Who?", model=ScriptedModel([plain]), system="react")
        assert later.answer == "nobody"
        assert "who" not in ws.catalog.tools


async def test_a_secret_is_redacted_wherever_it_comes_from(tmp_path: Path) -> None:
    @tool(effect="pure")
    def leak(ctx: RunContext[Any]) -> str:
        """Leak."""
        return f"token {ctx.secret('MYTOK')}"

    def model(request: ModelRequest) -> ModelResponse:
        if request.messages[-2].role == "tool":
            return decide(calls=[call("done", answer=request.messages[-2].text)])
        return decide(calls=[call("leak")])

    async with Workspace(tmp_path / "ws", tools=[leak], environ={"MYTOK": "very-secret-42"}) as ws:
        result = await ws.run("Leak.", model=ScriptedModel(model), system="react")
        assert result.answer == "token secret:MYTOK"
        assert "very-secret-42" not in str([event.body for event in await ws.log.events(result.run_id)])


class _Redacts(BaseHandler):
    def redact(self, effect: Effect) -> Effect:
        return effect

    async def execute(self, effect: Effect, ctx: Any) -> Outcome:
        return Outcome(value="sent")


async def test_a_handler_that_redacts_by_itself_is_refused_by_name(tmp_path: Path) -> None:
    def wrap(handlers: dict[EffectKind, Handler]) -> dict[EffectKind, Handler]:
        return {**handlers, EffectKind.SEND_MESSAGE: _Redacts()}

    async with Workspace(tmp_path / "ws", handlers=wrap) as ws:
        with pytest.raises(UsageError, match=r"the handler _Redacts has a method `redact`.*the setting `secrets`"):
            await ws.run("Who?", model=ScriptedModel(_asks_who), system="react")


async def test_a_run_cancelled_early_says_so(tmp_path: Path) -> None:
    model = ScriptedModel(_asks_who, latency_s=5)
    async with Workspace(tmp_path / "ws") as ws:
        stream = ws.stream("Who?", tools=[_who("A")], model=model, system="react")
        async for _ in stream:
            break
        await stream.aclose()  # type: ignore[attr-defined]
        (record,) = await ws.runs.list()
        assert record.status is RunStatus.CANCELLED


@pytest.mark.long
async def test_an_ended_run_is_shown_and_replayed_without_its_model(tmp_path: Path) -> None:
    model = ScriptedModel(_asks_who, name="gone")
    async with Workspace(tmp_path / "ws", tools=[_who("A")]) as ws:
        result = await ws.run("Who?", model=model, system="react")
    async with Workspace(tmp_path / "ws", tools=[_who("A")]) as ws:
        assert (await ws.resume(result.run_id)).answer == "A"
        assert (await ws.replay(result.run_id)).answer == "A"


def test_ctrl_c_in_run_sync_leaves_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = threading.Event()

    @tool(effect="write")
    async def work() -> str:
        """Work."""
        started.set()
        await asyncio.sleep(60)
        return "never"

    joins: list[str] = []
    join = threading.Thread.join

    def interrupted(self: threading.Thread, timeout: float | None = None) -> None:
        if self.name == "agentorchestra-run-sync" and not joins:
            joins.append("interrupted")
            started.wait()
            raise KeyboardInterrupt
        join(self, timeout)

    monkeypatch.setattr(threading.Thread, "join", interrupted)

    async def in_a_notebook() -> None:
        model = ScriptedModel(lambda request: decide(calls=[call("work")]))
        Workspace(tmp_path / "ws", tools=[work]).run_sync("Work.", model=model, system="react")

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(in_a_notebook())
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if "agentorchestra" in name or "store" in name]
