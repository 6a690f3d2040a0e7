"""The memory of an agent under one identity: its earlier tasks and answers (000, app. C.2.3, "state across tasks").

It lies in the run's state under `kept:AGENT/INSTANCE`, so that the log has it, a resume or replay repeats it, and the
next run of the same session goes on from it.
"""

from __future__ import annotations

from typing import Any

from pydantic import JsonValue

from agentorchestra.agents.agent import System
from agentorchestra.agents.types import Kit
from agentorchestra.core.content import Source, TextBlock, Trust, lowest
from agentorchestra.core.errors import ToolError
from agentorchestra.core.spec import AgentResult, AgentSpec
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.state import KEPT

MOST_EXCHANGES = 20  # earlier tasks that an agent is told; older ones are forgotten
LONGEST_TEXT = 2_000  # characters of a task or an answer that are kept
MOST_INSTANCES = 100  # identities of one agent, over all runs of a session: a caller may make up names


def kept_name(agent: str, instance: str) -> str:
    return f"{KEPT}{agent}/{instance}"


async def run_with_identity(
    spec: AgentSpec, ctx: BranchContext[Any], kit: Kit, drive: System, *, agent: str, instance: str
) -> AgentResult:
    """Drive an agent that is told what it was asked under this identity; ToolError for one identity too many."""
    name = kept_name(agent, instance)
    keys = [key for key in ctx.vars if key.startswith(kept_name(agent, "")) and key != name]
    if len(keys) >= MOST_INSTANCES and name not in ctx.vars:
        raise ToolError(f"{agent} works under {len(keys)} names already; ask one of those, e.g. {_last(keys[0])!r}")
    value = ctx.vars.get(name)
    earlier: list[JsonValue] = [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
    full_spec = spec
    if earlier:
        trust = lowest(*(_trust(exchange) for exchange in earlier))
        text = kit.prompts.get("earlier").render(earlier=earlier, session=instance)
        block = TextBlock(text=text, source=Source(kind="memory", ref=f"{agent}/{instance}"), trust=trust)
        full_spec = spec.model_copy(update={"context": (block, *spec.context)})
    result = await drive(full_spec, ctx, kit)
    exchange: dict[str, JsonValue] = {
        "task": spec.instruction[:LONGEST_TEXT],
        "answer": (result.answer or result.report)[:LONGEST_TEXT],
        "status": result.status.value,
        "trust": lowest(Trust.AGENT, ctx.seen_trust).value,
    }
    ctx.vars[name] = [*earlier, exchange][-MOST_EXCHANGES:]
    return result


def _last(name: str) -> str:
    return name.rpartition("/")[2]


def _trust(exchange: JsonValue) -> Trust:
    value = exchange.get("trust") if isinstance(exchange, dict) else None
    return next((trust for trust in Trust if trust.value == value), Trust.UNTRUSTED)
