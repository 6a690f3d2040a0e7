"""A run whose one agent acts on the report as a test says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from agentorchestra.agents.agent import Agent
from agentorchestra.agents.reporting.pieces import act_on_report
from agentorchestra.agents.types import Kit
from agentorchestra.core.content import text_of
from agentorchestra.core.spec import AgentResult, AgentSpec
from agentorchestra.log.store import MemoryStore
from agentorchestra.runtime.context import BranchContext
from agentorchestra.workspace import Workspace

Work = Callable[[BranchContext[Any]], Awaitable[str]]


def agent(work: Work, *, name: str = "digger", environments: tuple[str, ...] = ("report",)) -> Agent:
    """An agent whose work is a function."""

    async def drive(spec: AgentSpec, ctx: BranchContext[Any], kit: Kit) -> AgentResult:
        return AgentResult(answer=await work(ctx))

    return Agent(name=name, description="Digs.", tools=(), prompt="worker", environments=environments, drive=drive)


async def said(ctx: BranchContext[Any], action: str, **arguments: JsonValue) -> str:
    """What an action gives, as text; the sentence of one that failed."""
    outcome = await act_on_report(ctx, action, arguments)
    return text_of(outcome.blocks()) if outcome.ok else f"FAILED: {outcome.error}"


async def answered(folder: Path, work: Work, *, model: Any = "offline", replayed: bool = True, **given: Any) -> str:
    """The answer of a run of this agent, which its replay gives again."""
    named = given.pop("environments", ("report",))
    agents = [agent(work, environments=named)]
    if "store" not in given:  # in memory, with a folder for the files of the runs
        given["store"] = MemoryStore()
        (folder / "ws").mkdir(parents=True, exist_ok=True)
    task = {"files": given.pop("files", []), "environments": given.pop("in_run", [])}
    async with Workspace(folder / "ws", agents=agents, environ={}, **given) as ws:
        result = await ws.run("dig", system="digger", model=model, **task)
        assert result.status == "completed", (result.error, result.report)
        if replayed:
            assert (await ws.replay(result.run_id)).answer == result.answer_text
        return str(result.answer)


def in_folder(ws_folder: Path, name: str = "report.md") -> str:
    """A file of the one run's folder."""
    (found,) = ws_folder.glob(f"ws/runs/*/environments/main/folder/{name}")
    return found.read_text(encoding="utf-8")
