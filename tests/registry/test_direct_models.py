"""Calls outside of runs ask the models that the settings name for a role."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentorchestra import Workspace, tool
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.settings import ModelProfile, RoleSettings, Settings
from agentorchestra.log.store import MemoryStore
from agentorchestra.testing import LoopbackModelServer

PROMPT = """---
name: grade
version: 1.0.0
description: How an essay is graded.
---
Give a grade.
"""


@tool(effect="composite")
async def grade(ctx: RunContext[Any]) -> str:
    """Grade an essay."""
    outcome = await ctx.ask_model("grade", role="judge")
    return outcome.response.text if outcome.ok else f"{outcome.error_type}: {outcome.error}"


async def test_a_tool_that_is_called_directly_asks_the_roles_model(tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "grade.md").write_text(PROMPT)
    async with LoopbackModelServer("Four.") as server:
        strict = ModelProfile(model="openai:strict", base_url=server.base_url, price={"input": 1, "output": 1})  # type: ignore[arg-type]
        settings = Settings(models={"strict": strict}, roles={"judge": RoleSettings(model="strict", temperature=0.25)})
        async with Workspace(
            tmp_path / "ws", settings=settings, tools=[grade], prompts=[tmp_path / "prompts"], store=MemoryStore()
        ) as ws:
            assert (await ws.tcp.invoke("grade")).result() == "Four."
            (asked,) = server.requests
            assert (asked["model"], asked["temperature"]) == ("strict", 0.25)
            record = await ws.store.get_run(str(ws.runs.calls))
            assert record is not None
            assert record.manifest.budget.cost_usd == 1.0, "a priced model may be asked: the default budget holds"
