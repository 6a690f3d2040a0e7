"""The kit that the workspace hands to systems and agents."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agentorchestra.agents.agent import USER_TOOLS, Agent, Delegate, System
from agentorchestra.agents.workshop import Workshop
from agentorchestra.core.content import Trust, lowest
from agentorchestra.core.protocols import Environment
from agentorchestra.models.manager import ModelManager
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.direct_calls import SYSTEM as CALLS
from agentorchestra.runtime.permission import OF_EVERY_AGENT
from agentorchestra.tea.calling.tool import Tool
from agentorchestra.tea.memory.base import MemoryFactory
from agentorchestra.tea.prompts.catalog import PromptLibrary
from agentorchestra.tea.retrieval.discovery import Finder

TERMINAL, BASH = "terminal", "bash"
"""Two shells, each with a folder of its own: who has the one gets no other, or its files go into the wrong folder."""


@dataclass(frozen=True)
class Kit:
    """The kit of systems and agents.

    Attributes:
        tools: every registered tool by name.
        environments: factories by name.
        prompts: packaged prompts and the workspace's overrides.
        models: profiles and clients.
        systems: by name, for sub-agents.
        agents: by name, for planners and other agents that delegate.
        given: names of the tools and environments that the user gave, besides the packaged ones.
        choices: names of the models a delegation may choose from.
        max_calls: calls accepted in one decision.
        finder: where the tools of agents that have very many are looked for; None for one of each agent's own.
        behind: names of agents that stand behind a tool or an environment: nobody delegates to them.
        memories: makers of memory systems by name.
        apart: names of the packaged environments that only the agents have whose makers named them.
        workshop: where tools are made, None where they cannot be.
        packaged: names of the agents that come with the package, in their order.
        absent: names of the agents that are in other runs only, with what those have: environments they name, tools.
        max_depth: how deep agents may be nested below the run's top agent.
        team_systems: systems that a planner may delegate to, with what each is for.
    """

    tools: Mapping[str, Tool[..., Any]]
    environments: Mapping[str, Callable[[], Environment]]
    prompts: PromptLibrary
    models: ModelManager
    systems: Mapping[str, System]
    agents: Mapping[str, Agent] = field(default_factory=dict)
    given: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    max_calls: int = 16
    finder: Finder | None = None
    behind: frozenset[str] = frozenset()
    memories: Mapping[str, MemoryFactory] = field(default_factory=dict)
    apart: frozenset[str] = frozenset()
    absent: Mapping[str, Sequence[str]] = field(default_factory=dict)
    workshop: Workshop | None = None
    packaged: tuple[str, ...] = ()
    max_depth: int = 4
    team_systems: Mapping[str, str] = field(default_factory=dict)

    def delegates(
        self, ctx: BranchContext[Any], *, leader: str = "", members: Collection[str] = (), task: str = ""
    ) -> list[Delegate]:
        """Return the agents a caller may delegate to, with the tools each gets: never more than the caller has.

        Args:
            leader: the caller's name, for one that agents work for alone.
            members: names of agents that may be delegated to, whomever they work for.
            task: the caller's own, which is handed over where a call names none.
        """
        delegates = []
        manifest = ctx.manifest
        choices = self.choices if manifest.choices is None else manifest.choices
        # What was registered since the run was created is not in it, or no resume would ask as it did.
        is_pinned = manifest.system != CALLS
        user_tools = tuple(tool for tool in self.given if tool in manifest.tools or not is_pinned)
        for name, agent in sorted(self.agents.items()):
            if is_pinned and manifest.agents and name not in manifest.agents:
                continue
            reachable = agent.reach(user_tools)
            if name in self.behind or (agent.tools is None and not reachable):
                continue
            if agent.within and leader not in agent.within and name not in members:
                continue
            rights = ctx.capabilities
            own = agent.uses | (self.apart & {*agent.environments})
            tools = tuple(tool for tool in reachable if rights is None or tool in rights or tool in own)
            if USER_TOOLS in (agent.tools or ()) and TERMINAL in tools:
                tools = tuple(tool for tool in tools if tool != BASH)
            trust = Trust.SYSTEM
            shown_tools = tools if agent.tools is None else tuple(tool for tool in tools if tool in user_tools)
            if shown_tools and (agent.tools is None or USER_TOOLS in agent.tools):
                # What the user's tools are for nobody else can say: without it no planner would know when to ask.
                abilities, named_tools = self._abilities(shown_tools, ctx.manifest.prompt_tool_chars // 4)
                agent = replace(agent, description=f"{agent.description} It can: {abilities}.")
                trust = lowest(*(self.tools[name].schema.trust for name in named_tools if name in self.tools))
            # Where it works of its own accord is no more the caller's concern than the tools it holds.
            said_of = replace(agent, environments=tuple(name for name in agent.environments if name not in self.apart))
            if said_of.profile:
                agent = replace(agent, description=f"{agent.description}\n{said_of.profile}")
            delegates.append(Delegate(agent, tools, choices, trust, task))
        rights = ctx.capabilities
        every = tuple(sorted({*manifest.tools} if rights is None else rights - OF_EVERY_AGENT))
        for name, abilities in self.team_systems.items():
            delegates.append(Delegate(Agent(name, abilities), every, choices, task=task))
        return delegates

    def _abilities(self, tools: Sequence[str], room: int) -> tuple[str, Sequence[str]]:
        """Say what tools and environments are for, a phrase each, in at most `room` characters (0 for any number)."""
        phrases: list[str] = []
        left = room or math.inf
        for name in tools:
            text = self.tools[name].description if name in self.tools else f"act on {name}"
            first = text.strip().splitlines()[0].strip() if text.strip() else name.replace("_", " ")
            left -= len(first)
            if left < 0:
                phrases.append(f"and {len(tools) - len(phrases):,} further things, for which it finds the tool itself")
                return "; ".join(phrases), tools[: len(phrases) - 1]
            phrases.append(first.rstrip("."))
        return "; ".join(phrases), tools
