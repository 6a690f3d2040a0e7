"""A workspace in memory in which a function plays the top agent, so that effects are asked for directly."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from agentorchestra.core.spec import AgentResult, RunResult
from agentorchestra.log.store import MemoryStore
from agentorchestra.runtime.context import BranchContext
from agentorchestra.workspace import Workspace

Probe = Callable[[BranchContext[Any]], Awaitable[Any]]


def workspace(folder: Path, probe: Probe, **given: Any) -> Workspace[Any]:
    """A workspace whose system `probe` calls a function with the top agent's session."""

    async def system(spec: Any, ctx: BranchContext[Any], kit: Any) -> AgentResult:
        return AgentResult(answer=str(await probe(ctx)))

    return Workspace(folder, store=given.pop("store", MemoryStore()), systems={"probe": system}, **given)


async def probed(folder: Path, probe: Probe, **given: Any) -> RunResult:
    """One run of such a workspace, replayed too."""
    async with workspace(folder, probe, **given) as ws:
        result = await ws.run("probe", system="probe", model="offline")
        if result.status == "completed":
            await ws.replay(result.run_id)
        return result
