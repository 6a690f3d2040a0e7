"""Tips: what earlier tasks of the workspace taught, as soft constraints of the plan (004, sec. 3.2.1, Plan Tips)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from agentorchestra.agents.agent import order_trust
from agentorchestra.agents.memory import SessionMemory, shown_entries
from agentorchestra.agents.parts.base import PartWork
from agentorchestra.core.content import Block, Source, TextBlock, Trust
from agentorchestra.loop import Seen, State
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.state import PRIVATE
from agentorchestra.tea.memory.base import Happening, describe_memory
from agentorchestra.tea.memory.workflow import WorkflowMemory

MOST_TIPS = 8

_KEY = f"{PRIVATE}tips"
_BLOCKS: TypeAdapter[tuple[Block, ...]] = TypeAdapter(tuple[Block, ...])


@dataclass(frozen=True)
class Tips:
    """A `perceive` part: before the first step, the insights of the workspace that fit the task best.

    The insights are those that the memory systems `workflow` and `insights` wrote in earlier runs, of all agents. They
    stay in the agent's history, and whoever plans for it is shown them too.
    """

    work: PartWork
    only: str = ""  # the name of one insight that is told whatever the task, and no other

    async def perceive(self, state: State, ctx: BranchContext[Any]) -> Seen | None:
        if state.step or state.must_answer:
            return None
        task = Happening(self.work.spec.instruction, order_trust(ctx))
        system = describe_memory("workflow", WorkflowMemory)
        memory = SessionMemory(ctx, self.work.kit, self.work.spec.name, task, system)
        query = "" if self.only else task.text
        entries = await memory.read(query, kinds=("insight",), scope="workspace", limit=MOST_TIPS, only=self.only)
        if not entries:
            return None
        text = self.work.kit.prompts.get("parts_tips_view").render()
        head = TextBlock(text=text, source=Source(kind="prompt"), trust=Trust.SYSTEM)
        blocks = (head, *shown_entries(entries))
        ctx.vars[_KEY] = _BLOCKS.dump_python(blocks, mode="json")
        return Seen(blocks=blocks, keep=True)


def tips_of(ctx: BranchContext[Any]) -> tuple[Block, ...]:
    return _BLOCKS.validate_python(ctx.vars.get(_KEY) or ())
