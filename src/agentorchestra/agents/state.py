from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from pydantic import JsonValue

from agentorchestra.agents.memory import AgentMemory
from agentorchestra.core.budget import NO_USAGE, Usage
from agentorchestra.core.effects import Effect, Outcome, Provenance
from agentorchestra.core.ids import EffectKey
from agentorchestra.log.ledger import Record
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.handler import effect_for
from agentorchestra.tea.calling.tool import Tool
from agentorchestra.tea.calling.toolset import AgentToolset
from agentorchestra.tea.programs.functions import Functions


@dataclass
class AgentState:
    """What an agent keeps on its branch; `core.protocols.AgentSlot` is what other rooms see of it."""

    # tools made for this agent alone (`done` with its answer's schema), by name
    own_tools: dict[str, Tool[..., Any]] = field(default_factory=dict)
    toolset: AgentToolset | None = None  # whatever it may call; None for an agent whose workflow is code
    functions: Functions | None = None  # what its programs may call; None where it writes none
    result_chars: int | None = None  # the longest result that its window has room for
    memory: AgentMemory | None = None  # of an agent whose workflow is code
    # what it cost besides its effects; of unknown cost for a program that asks models elsewhere
    usage: Usage = NO_USAGE

    def for_rival(self) -> AgentState:
        return replace(self, usage=NO_USAGE)

    def may_call(self, ctx: BranchContext[Any]) -> Sequence[Effect]:
        return self.toolset.effects(ctx) if self.toolset is not None else ()


def agent_state(ctx: BranchContext[Any]) -> AgentState:
    if not isinstance(ctx.agent, AgentState):
        ctx.agent = AgentState()
    return ctx.agent


def settled_record(ctx: BranchContext[Any]) -> Record | None:
    """Return the next effect of a branch where its recorded outcome holds whatever is asked today; else None."""
    ledger = ctx.run.ledger
    before = ledger.forked_at or ledger.upgraded_at
    record = ledger.records.get(EffectKey(ctx.branch, ctx.last_n + 1)) if before else None
    return record if record is not None and record.outcome is not None and ledger.is_settled(record) else None


def add_tools(ctx: BranchContext[Any], *tools: Tool[..., Any]) -> None:
    """Let an agent call tools that were made for it alone."""
    state = agent_state(ctx)
    state.own_tools = {**state.own_tools, **{tool.name: tool for tool in tools}}


async def call_own(
    ctx: BranchContext[Any],
    own_tool: Tool[..., Any],
    arguments: Mapping[str, JsonValue] = MappingProxyType({}),
    provenance: tuple[Provenance, ...] = (),
) -> Outcome:
    add_tools(ctx, own_tool)
    return await ctx.perform(effect_for(own_tool, dict(arguments), role=ctx.role, provenance=provenance))
