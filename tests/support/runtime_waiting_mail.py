"""What `tests/runtime/test_waiting_mail.py` and other tests share."""

from __future__ import annotations

from typing import Any

from agentorchestra.core.protocols import RunContext
from agentorchestra.core.spec import AgentSpec
from agentorchestra.tea.calling.tool import tool


@tool(effect="composite")
async def await_mail(ctx: RunContext[Any], days: float = 0) -> str:
    """Wait for mail."""
    letters = await ctx.wait_for_mail(days * 86_400 if days else None)
    return "; ".join(f"{one.sender or 'somebody'}: {one.content}" for one in letters) or "nothing came"


@tool(effect="composite")
async def two_clerks(ctx: RunContext[Any]) -> str:
    """Let two wait."""
    specs = [AgentSpec(name=name, instruction="Wait.", tools=("await_mail",)) for name in ("ann", "bob")]
    return " | ".join(one.answer for one in await ctx.call_agents(specs))
