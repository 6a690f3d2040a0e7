"""`wait_until`: an agent waits for a time, seconds or days away; a long wait ends the job and costs nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from agentorchestra.core.errors import ToolError
from agentorchestra.core.protocols import RunContext
from agentorchestra.tea.calling.tool import tool


@tool(effect="composite")
async def wait_until(ctx: RunContext[Any], time: str = "", seconds: float = 0) -> str:
    """Wait where the task asks for it, or ask what time it is (`seconds=0`).

    Args:
        time: Until when, with its zone: 2027-01-31T09:00:00+01:00.
        seconds: In place of `time`: how long, at most 366 days.
    """
    if time and seconds:
        raise ToolError("give `time` or `seconds`, one of the two")
    if not time:
        now = await ctx.sleep(seconds)
    else:
        try:
            moment = datetime.fromisoformat(time)
        except ValueError:
            raise ToolError(f"{time!r} is no time; write it like 2027-01-31T09:00:00+01:00") from None
        if moment.tzinfo is None:
            raise ToolError(f"the time {time} has no zone; write it like 2027-01-31T09:00:00+01:00, or with Z for UTC")
        now = await ctx.sleep_until(moment)
    return f"It is {now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ} now, {now.astimezone(UTC):%A}."
