"""What an agent with very many tools is shown of them before its first step (tea/discovery.py)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentorchestra.core.content import Block, Source, TextBlock, Trust
from agentorchestra.core.effects import Provenance, provenance_of
from agentorchestra.core.spec import AgentSpec
from agentorchestra.environments.registry import PACKAGED
from agentorchestra.loop import opened_by
from agentorchestra.runtime.session import Session
from agentorchestra.tea.discovery import Discovery, Finder
from agentorchestra.tea.retriever import Retriever
from agentorchestra.tea.toolset import AgentToolset

if TYPE_CHECKING:
    from agentorchestra.agents.kit import Kit


@dataclass(frozen=True)
class Shown:
    """What there is beside the core.

    Attributes:
        discovery: the agent's toolset.
        opened: what is open from the first step on.
        blocks: what the agent is told of the others, for its first message.
    """

    discovery: Discovery
    opened: tuple[str, ...]
    blocks: tuple[Block, ...]

    @property
    def provenance(self) -> tuple[Provenance, ...]:
        """Where those words came from."""
        return provenance_of(self.blocks)


async def shown_first(
    spec: AgentSpec,
    session: Session[Any],
    kit: Kit,
    tools: AgentToolset,
    *,
    offered: Sequence[str],
    code: bool,
    provenance: tuple[Provenance, ...],
) -> Shown | None:
    """Look for what fits the task, through the door; None where everything has room in the prompt.

    Args:
        spec, session, kit: of the agent.
        tools: what it may call; what finds and opens the others is added.
        offered: the names of those that are agents.
        code: whether it acts by programs.
        provenance: of what it is told.
    """
    from agentorchestra.agents.registry import builtin_agents

    room = session.manifest.prompt_tool_chars
    if not room or sum(one.chars for one in tools.schemas()) <= room:
        return None
    given = set(kit.given)
    packaged = [name for name in spec.tools if name in kit.tools and name not in given]
    agents = [name for name in builtin_agents() if name in offered]
    actions = [name for name in tools.names if tools.path(name).startswith("environments/")]
    # What somebody chose for this agent comes before what every agent has, small environments before large ones.
    chosen = [name for name in actions if tools.path(name).removeprefix("environments/") in PACKAGED]
    sizes = Counter[str]()
    for name in chosen:
        sizes[tools.path(name)] += tools.schema(name).chars
    chosen.sort(key=lambda name: (sizes[tools.path(name)], name))
    discovery = Discovery(
        tools,
        kit.finder or Finder(Retriever()),
        core=("done", *chosen, *packaged, *agents, *actions),
        room=room,
        offered=offered,
        functions=code,
    )
    session.own_tools = {**session.own_tools, **{one.name: one for one in discovery.own}}
    effects = discovery.first(spec.instruction, role=spec.role, provenance=provenance)
    outcomes = await session.perform_all(effects)
    opened: list[str] = []
    found: list[Block] = []
    for effect, outcome in zip(effects, outcomes, strict=True):
        if outcome.ok:
            opened += [name for name in opened_by(effect, outcome) if name not in opened]
            found += outcome.blocks(Source(kind="tool", ref=effect.name))
    told = kit.prompts.get("discovery").render(**discovery.counts, code=code)
    return Shown(discovery, tuple(opened), (TextBlock(text=told, trust=Trust.SYSTEM), *found))


__all__ = ["Shown", "shown_first"]
