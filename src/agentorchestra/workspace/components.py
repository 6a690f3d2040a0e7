"""The components of a workspace: what is at hand and what is registered, of every kind (000, app. C.1, C.2)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from agentorchestra.agents.agent import Agent
from agentorchestra.core.clock import Clock
from agentorchestra.core.errors import ToolDefinitionError
from agentorchestra.core.protocols import Store
from agentorchestra.tea.calling.tool import Tool
from agentorchestra.tea.calling.toolkit import Toolkit
from agentorchestra.tea.memory.base import MemoryFactory
from agentorchestra.tea.memory.kind import MEMORY
from agentorchestra.tea.memory.systems import builtin_memories
from agentorchestra.tea.programs.foreign import Programs
from agentorchestra.tea.prompts.catalog import PromptLibrary
from agentorchestra.tea.prompts.prompt import Prompt
from agentorchestra.tea.registry.context import Access, ContextManager
from agentorchestra.tea.registry.kinds import ENVIRONMENT, PROMPT, EnvironmentFactory, tool_kind
from agentorchestra.tea.registry.registration import entry_points, warn_undeclared
from agentorchestra.tea.registry.registry import Registry
from agentorchestra.tea.registry.servers import ACPServer, ECPServer, TCPServer
from agentorchestra.tea.registry.stock import settle
from agentorchestra.tea.retrieval.finder import ComponentSearch
from agentorchestra.workspace.agents import AGENT, builtin_agents

# The paper's context managers: each is one object with the server of its protocol.
ToolContextManager = TCPServer
EnvironmentContextManager = ECPServer
AgentContextManager = ACPServer
PromptManager = ContextManager[Prompt]
MemoryManager = ContextManager[MemoryFactory]


class Components:
    """The managers and servers of one open workspace."""

    def __init__(
        self,
        *,
        store: Store,  # keeps the histories
        clock: Clock,  # dates them
        programs: Programs,  # where code runs that the workspace's user did not write
        tools: Mapping[str, Tool[..., Any]],  # those at hand, by name
        # `builtin_tools`, `builtin_environments`: names of those that come with the package
        builtin_tools: Iterable[str],
        toolkits: Sequence[Toolkit],  # opened before they are first needed
        # `environments`, `agents`: at hand, by name
        environments: Mapping[str, EnvironmentFactory],
        builtin_environments: Iterable[str] = (),
        agents: Mapping[str, Agent],
        prompts: PromptLibrary,  # packaged, the application's and the workspace's own
        memories: Mapping[str, MemoryFactory],  # packaged and the application's own, by name
        distribution: str,  # the package's version
        notes: Sequence[str] = (),  # warnings about those at hand
        access: Access,  # how components are called outside of a run
        redact: Callable[[Any], Any] = lambda value: value,  # a JSON value without the values of secrets
        warns: bool = True,  # whether a tool is warned of that does not say what it touches
        # `may_call`, `may_import`: the tools and further modules that code may use which the workspace's user did not
        # write
        may_call: Iterable[str] = (),
        may_import: Iterable[str] = (),
    ) -> None:
        self.registry = Registry(store, clock, redact)
        self._toolkits, self._notes = tuple(toolkits), tuple(notes)
        self._opened: list[Toolkit] = []
        self._offered: dict[str, tuple[str, ...]] = {}
        self._taken: dict[str, tuple[str, ...]] = {}
        self._takes = 0
        self._stale: set[str] = set()
        self._owners: list[Any] = []
        self._started = False
        self._lock = asyncio.Lock()
        self._library = prompts
        registry, dist = self.registry, distribution
        kind = tool_kind(programs, may_call=tuple(may_call), may_import=tuple(may_import))
        self.tools = ToolContextManager(kind, registry, tools, access, builtin=builtin_tools, distribution=dist)
        if warns:
            self.tools.stock.notice = warn_undeclared
        self.environments = EnvironmentContextManager(
            ENVIRONMENT, registry, environments, access, builtin=builtin_environments, distribution=dist
        )
        self.agents = AgentContextManager(AGENT, registry, agents, access, builtin=builtin_agents(), distribution=dist)
        library = {name: prompts.get(name) for name in prompts.names}
        self.prompts = PromptManager(PROMPT, registry, library, access, builtin=prompts.builtin, distribution=dist)
        self.memories = MemoryManager(MEMORY, registry, memories, access, builtin=builtin_memories(), distribution=dist)
        managers = (self.tools, self.environments, self.agents, self.prompts, self.memories)
        self.managers: tuple[ContextManager[Any], ...] = managers

    def of_kind(self, kind: str) -> ContextManager[Any]:
        return next(manager for manager in self.managers if manager.kind.name == kind)

    def find_with(self, finding: ComponentSearch) -> None:
        """Retrieve with the workspace's embedder, and with what was of use before."""
        for manager in self.managers:
            manager.retriever = finding.retriever()

    @property
    def count(self) -> int:
        """A number that grows when there may be other components than before."""
        return self.registry.count + self._takes

    @property
    def secrets(self) -> dict[str, str]:
        return {name: value for toolkit in self._toolkits for name, value in toolkit.secrets().items()}

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings: packaged tools that the user's replace, tools of open toolkits that were left out."""
        left_out = (note for toolkit in self._opened for note in (*toolkit.notes, *self._taken.get(toolkit.name, ())))
        return (*self._notes, *left_out)

    async def ready(self, *, toolkits: bool = True) -> None:
        """Open what is not open yet, read what was registered since, register what is at hand and unknown.

        Args:
            toolkits: whether they are needed: a replay calls nothing.

        Raises:
            VersionError: for an explicit version that is known with other content.
            SourceError, McpError: for an entry point or a toolkit that cannot be used.
        """
        await self.registry.refresh()
        closed = [toolkit for toolkit in self._toolkits if toolkit not in self._opened] if toolkits else []
        started = self._started and not closed and not self._stale
        if started and all(manager.stock.is_settled for manager in self.managers):
            return
        async with self._lock:
            if not self._started:
                for manager in self.managers:
                    extensions = {entry.name: entry.component for entry in entry_points(manager.kind)}
                    manager.stock.give(
                        {name: component for name, component in extensions.items() if not manager.stock.has(name)},
                        origin="installed",
                    )
                self._started = True
            for toolkit in closed:
                if toolkit not in self._opened:
                    tools = await toolkit.open(self._changed(toolkit.name))
                    self._opened.append(toolkit)
                    self._take(toolkit, tools)
            for toolkit in [toolkit for toolkit in self._opened if toolkit.name in self._stale]:
                self._stale.discard(toolkit.name)
                self._take(toolkit, toolkit.tools())
            await self._open_owners()
            await self.registry.refresh()
            await settle(self.registry, [manager.stock for manager in self.managers])

    async def _open_owners(self) -> None:
        """Open the objects whose methods are tools, where they have something to open."""
        for tool in self.tools.stock.at_hand():
            owner = tool.owner
            if owner is None or any(owner is opened_owner for opened_owner in self._owners):
                continue
            self._owners.append(owner)
            await _call(owner, "open")

    def _changed(self, name: str) -> Callable[[], None]:
        return lambda: self._stale.add(name)

    def _take(self, toolkit: Toolkit, tools: Sequence[Tool[..., Any]]) -> None:
        """Take in what a toolkit offers now; never in place of a tool that is there without it."""
        self._takes += 1
        self.tools.stock.take(self._offered.pop(toolkit.name, ()))
        by_name = {tool.name: tool for tool in tools}
        doubles = sorted(name for name in by_name if self.tools.stock.has(name))
        self._taken[toolkit.name] = tuple(
            f"the tool {name!r} of {toolkit.name} is left out: there is another tool of this name" for name in doubles
        )
        for name, tool in by_name.items():
            if name not in doubles:
                self.tools.stock.give({name: tool}, origin=tool.traits.origin or toolkit.name)
        self._offered[toolkit.name] = tuple(name for name in by_name if name not in doubles)

    def failures(self) -> list[str]:
        """Return why what is registered and cannot be used here cannot, a sentence each."""
        return [reason for manager in self.managers for _, reason in sorted(manager.stock.failures().items())]

    def library(self) -> PromptLibrary:
        return self._library.with_prompts(self.prompts.stock.live())

    async def close(self) -> None:
        toolkits, self._opened = self._opened, []
        for toolkit in reversed(toolkits):
            await toolkit.close()
        owners, self._owners = self._owners, []
        for owner in reversed(owners):
            await _call(owner, "close")
        self._started = False


async def _call(owner: Any, hook: str) -> None:
    method = getattr(type(owner), hook, None)
    if not inspect.iscoroutinefunction(method):
        return
    try:
        await method(owner)
    except Exception as exc:
        raise ToolDefinitionError(
            f"{type(owner).__name__}.{hook}() failed: {type(exc).__name__}: {exc}; its tools cannot be used"
        ) from exc
