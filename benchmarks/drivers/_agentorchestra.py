"""What our two drivers share: the workspace that a user would write, from public names only."""

import asyncio
import tempfile

from agentorchestra import Budget, ModelProfile, Settings, Workspace, tool
from agentorchestra.core.settings import Price


def build(ctx, model, store):
    """`run_task` over one workspace.

    Args:
        ctx: the benchmark's context.
        model: the model's name at the server.
        store: makes the workspace's store; None for SQLite in the workspace's folder.
    """
    profile = ModelProfile(
        model=f"openai:{model}", base_url=ctx.base_url, api_key_env="", price=Price(input=1.0, output=1.0)
    )
    settings = Settings(models={"bench": profile}, model="bench", max_steps=ctx.steps + 5)
    # Every limit is set, and none is reached: what is measured is the bookkeeping.
    budget = Budget(steps=10 * (ctx.steps + 5), tokens=10**9, cost_usd=10_000.0, active_s=3_600.0)
    workspace = Workspace(
        tempfile.mkdtemp(prefix="agentorchestra-bench-"),
        settings=settings,
        store=store(),
        tools=[tool(effect="write")(function) for function in ctx.functions()],
    )
    opening = asyncio.Lock()

    async def run_task(task):
        async with opening:
            await workspace.open()
        result = await workspace.run(task, system="react", finish="text", budget=budget)
        return result.answer

    return run_task
