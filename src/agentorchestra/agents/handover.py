"""A tool goes to the agent that asked for it: from its next step on it calls the tool itself.

What was given, and to whom, is a part of the state that comes back with the call. So a resume, a replay and a fork
show the same tools in the same steps, whatever is registered by then. Nobody else at work gets anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from agentorchestra.agents.state import add_tools, agent_state
from agentorchestra.agents.workshop import Workshop
from agentorchestra.core.content import Block, Source, TextBlock, Trust
from agentorchestra.core.messages import Message
from agentorchestra.loop import Seen, State, descriptions
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.tool import Tool
from agentorchestra.tea.calling.toolset import AgentToolset
from agentorchestra.tea.programs.functions import Functions, python_name
from agentorchestra.tea.prompts.catalog import PromptLibrary
from agentorchestra.tea.retrieval.discovery import Discovery

DELIVERY = "given:"  # names of the run's state that hold the tools which were given: version, source, and to whom
ROOM_SHARE = 4  # what was given may take this part of the room that a prompt has for schemas


def give(ctx: BranchContext[Any], name: str, version: str, source: str, symbol: str = "") -> None:
    """Give a tool to the agent that asked for it; `symbol` is the function's name, where it is another."""
    if ctx.parent is not None:
        to = ctx.parent.node.scope  # whether it asked by a call, through a tool or in a program
        ctx.vars[DELIVERY + name] = {"version": version, "source": source, "symbol": symbol, "to": to}


@dataclass
class ToolReceiver:
    """The parts of an agent's loop by which it gets the tools that it asked for."""

    shop: Workshop
    tools: AgentToolset
    discovery: Discovery | None  # where it has more tools than its prompt has room for
    prompts: PromptLibrary
    room: int  # characters of schemas that a prompt may hold, 0 for any number
    code: bool  # whether it acts by programs
    new_tools: dict[str, Tool[..., Any]] = field(default_factory=dict, init=False)  # what was given, by name
    prompt_chars: dict[str, int] = field(default_factory=dict, init=False)  # of what the prompt has room for
    known_names: set[str] = field(default_factory=set, init=False)  # what the agent has heard of

    async def perceive(self, state: State, ctx: BranchContext[Any]) -> Seen | None:
        """Show nothing; let rivals, which have sessions of their own, call it too."""
        self._allow(ctx, [name for name in self._deliveries(ctx) if name in self.new_tools])
        return None

    async def observe(self, state: State, ctx: BranchContext[Any]) -> State:
        """Return the state, with what came of the last calls open."""
        new = [name for name in self._deliveries(ctx) if name not in state.open_tools and name not in self.known_names]
        if state.is_over or not new:
            return state
        self.known_names.update(new)
        self._allow(ctx, [name for name in new if self._take(name, ctx)])
        fitting = [name for name in new if self._fits(name)]
        ctx.seen.add(descriptions([self.tools.schema(name) for name in fitting]))
        left_out = [name for name in new if name not in fitting]
        note = self.prompts.get("tool_given").render(names=fitting, left_out=left_out, code=self.code)
        blocks: list[Block] = [TextBlock(text=note, trust=Trust.SYSTEM)]
        if self.code:
            agent_state(ctx).functions = functions = Functions(self.tools, only=self.tools.names)
            for name in fitting:
                source = Source(kind="tool", ref=name)
                blocks.append(TextBlock(text=functions.text(python_name(name)), source=source, trust=Trust.UNTRUSTED))
        messages = (*state.messages, Message(role="user", content=tuple(blocks)))
        return state.model_copy(update={"messages": messages, "open_tools": (*state.open_tools, *fitting)})

    def _deliveries(self, ctx: BranchContext[Any]) -> Iterator[str]:
        for key in sorted(name for name in ctx.vars if name.startswith(DELIVERY)):
            delivery = ctx.vars[key]
            if isinstance(delivery, dict) and delivery.get("to") == ctx.node.scope:
                yield key.removeprefix(DELIVERY)

    def _take(self, name: str, ctx: BranchContext[Any]) -> bool:
        """Return True if it is another one than the agent has already."""
        if name in self.tools.names or python_name(name) in map(python_name, self.tools.names):
            return name in self.new_tools
        delivery: Any = ctx.vars[DELIVERY + name]
        new_tool = self.shop.tool(delivery["source"], name, str(delivery["version"]), symbol=str(delivery["symbol"]))
        self.new_tools[name] = new_tool
        (self.discovery or self.tools).add_later(new_tool)
        return True

    def _allow(self, ctx: BranchContext[Any], names: list[str]) -> None:
        add_tools(ctx, *(self.new_tools[name] for name in names))

    def _fits(self, name: str) -> bool:
        if name not in self.tools.names:
            return False
        chars = self.tools.schema(name).chars
        if self.room and sum(self.prompt_chars.values()) + chars > self.room // ROOM_SHARE:
            return False
        self.prompt_chars[name] = chars
        return True
