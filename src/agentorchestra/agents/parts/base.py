"""The surroundings of a part: the agent that it belongs to, and how it asks beside the agent's steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentorchestra.agents.forms import Inquiry, Questioner
from agentorchestra.agents.toolkit import actions_of
from agentorchestra.agents.types import Kit
from agentorchestra.core.content import Block, Source, TextBlock, Trust, lowest
from agentorchestra.core.spec import AgentSpec
from agentorchestra.loop import Seen, State
from agentorchestra.runtime.context import BranchContext
from agentorchestra.tea.calling.tool import Tool
from agentorchestra.tea.calling.toolset import Offered


@dataclass(frozen=True)
class PartWork:
    """The agent that a part belongs to: its spec, kit, offered agents and own tools, see `run_agent`."""

    spec: AgentSpec
    kit: Kit
    offers: Sequence[Offered] = ()
    own: Sequence[Tool[..., Any]] = ()

    @property
    def actions(self) -> list[dict[str, str]]:
        return actions_of(self.spec, self.kit, self.offers, self.own)

    async def ask(self, ctx: BranchContext[Any], question: Inquiry) -> dict[str, Any] | None:
        """Return the reply of the agent's own model; None where it cannot be had: no part is worth the run."""
        return (await self.ask_all(ctx, [question]))[0]

    async def ask_all(self, ctx: BranchContext[Any], questions: Sequence[Inquiry]) -> list[dict[str, Any] | None]:
        """Return the replies to several questions, asked at the same time; see `ask`."""
        asker = Questioner(ctx, self.kit, self.spec.role, self.spec.model)
        return await asker.all([replace(question, beside=True) for question in questions])

    def seen(self, prompt: str, text: str, trust: Trust, *, keep: bool = False) -> Seen:
        """Return what a part puts before the agent: a heading of ours, then words that may stem from anywhere."""
        head = TextBlock(text=self.kit.prompts.get(prompt).render(), source=Source(kind="prompt"), trust=Trust.SYSTEM)
        words = TextBlock(text=text, source=Source(kind="memory", ref=prompt), trust=trust)
        return Seen(blocks=(head, words), keep=keep)


def opening_blocks(state: State) -> tuple[Block, ...]:
    """Return what the agent was told at the beginning: its task, its files, what it remembers."""
    return tuple(block for message in state.task_messages for block in message.content)


def trust_of(ctx: BranchContext[Any]) -> Trust:
    """Return how far words are trusted that a model wrote from what the agent has seen."""
    return lowest(Trust.AGENT, ctx.seen_trust)


def texts(value: Any) -> tuple[str, ...]:
    """Return the texts of a reply's list that say something."""
    lines = (" ".join(str(entry).split()) for entry in (value if isinstance(value, list) else ()))
    return tuple(line for line in lines if line)


def bullets(title: str, lines: Sequence[str]) -> list[str]:
    return [f"{title}:", *(f"- {line}" for line in lines)] if lines else []
