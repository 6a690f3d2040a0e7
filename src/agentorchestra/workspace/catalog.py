"""What an open workspace has, by name, and what of it belongs to a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentorchestra.core.errors import UnknownComponentError
from agentorchestra.core.protocols import Environment, Store
from agentorchestra.core.settings import Settings
from agentorchestra.workspace.parts import Equipment, agents_by_name, memories_by_name, systems, tools_by_name

if TYPE_CHECKING:
    from agentorchestra.agents.components import Components
    from agentorchestra.tea.prompts.catalog import PromptLibrary

Environments = dict[str, Callable[[], Environment]]


@dataclass
class Stock:
    """The components of a workspace: the packaged ones, the user's, what others registered, and what these brought.

    Attributes:
        tools, agents, systems, memories: by name.
        environments: factories of the user's and of what others registered.
        packaged: factories of the environments that come with the package.
        prompts: the library.
        models: the manager of the models.
        builtin: names of the packaged tools.
        sandbox: the name of the one where programs run, "none" for none.
        behind: names of tools and environments that stand behind other components; nobody is offered them.
        agents_behind: names of such agents.
    """

    tools: dict[str, Any]
    agents: dict[str, Any]
    systems: dict[str, Any]
    memories: dict[str, Any]
    environments: Environments
    packaged: Environments
    prompts: PromptLibrary
    models: Any
    builtin: frozenset[str]
    sandbox: str
    behind: frozenset[str] = frozenset()
    agents_behind: frozenset[str] = frozenset()
    _taken: int = field(default=-1, init=False)

    def __post_init__(self) -> None:
        self._take_brought()

    def _take_brought(self, *, refuse: bool = True) -> None:
        """Take in what stands behind the components that are here; nobody is offered it (tea/transformations)."""
        from agentorchestra.tea.transformations.dependencies import brought

        found = brought(self.tools, self.environments, self.agents, refuse=refuse)
        self.tools = {**self.tools, **found.tools}
        self.environments = {**self.environments, **found.environments}
        self.agents = {**self.agents, **found.agents}
        self.behind = frozenset({*found.tools, *found.environments})
        self.agents_behind = frozenset(found.agents)

    async def check_agents(self, given: Sequence[Any], store: Store, *, closed: bool) -> None:
        """Refuse agents that name what is not there.

        Args:
            given: the user's agents.
            store: knows the components that were registered before.
            closed: whether all tools are known by now; those of a toolkit are when it is opened only.
        """
        from agentorchestra.agents.registry import check_named

        if not given:
            return
        names: dict[str, set[str]] = {"tool": set(), "environment": set(), "agent": set()}
        for kind, name in await store.component_heads():
            names.setdefault(kind, set()).add(name)
        environments = {*self.every_environment, *names["environment"]}
        check_named(
            given,
            tools={*self.tools, *names["tool"], *environments} if closed else None,
            environments=environments,
            agents={*self.agents, *names["agent"]},
            systems=self.systems,
        )

    def renew(self, components: Components) -> None:
        """Take in what is registered by now. A run that was created before keeps what it had."""
        if self._taken == components.count:
            return
        self._taken = components.count
        self.tools = components.tools.live()
        self.agents = components.agents.live()
        environments = components.environments.live()
        self.packaged = {name: one for name, one in environments.items() if name in self.packaged}
        self.environments = {name: one for name, one in environments.items() if name not in self.packaged}
        self._take_brought(refuse=False)  # what is registered has its versions: it is another object by now
        self.prompts = components.library()
        self.memories = components.memories.live()

    @property
    def every_environment(self) -> Environments:
        """The user's and what others registered, and those that come with the package."""
        return {**self.packaged, **self.environments}

    def team(self, equipment: Equipment) -> dict[str, Any]:
        """The agents of a run: those that are there on request only where it names their environments."""
        from agentorchestra.agents.registry import team
        from agentorchestra.tea.transformations.base import carried_by

        behind = [carried_by(one).agents for one in (*equipment.tools.values(), *self.environments.values())]
        leaders = {equipment.system, *self.agents_behind, *(one.name for agents in behind for one in agents)}
        has = {*equipment.tools, *(() if self.sandbox == "none" else ("sandbox",))}
        return team(self.agents, equipment.environments, {*self.packaged}, has, leaders=leaders)

    def environments_for(self, equipment: Equipment) -> Environments:
        """The environments of a run: all but the packaged ones that neither it nor an agent names."""
        team = self.team(equipment)
        named = {name for one in team.values() for name in one.environments} - {*equipment.tools}
        chosen = {name: self.packaged[name] for name in sorted({*equipment.environments, *named} & {*self.packaged})}
        return {**chosen, **self.environments}

    def hidden(self, equipment: Equipment) -> frozenset[str]:
        """The packaged environments that agents of a run work in and its top agent does not."""
        return frozenset({*self.environments_for(equipment)} & {*self.packaged}) - {*equipment.environments}

    def environments_named(self, names: Sequence[str], equipment: Equipment) -> tuple[str, ...]:
        """The packaged environments that a run names.

        Raises:
            UnknownComponentError: for one that is not there, or that has the name of a tool.
        """
        known = self.every_environment
        for name in names:
            if name not in known:
                raise UnknownComponentError(
                    f"no environment {name!r} is registered; registered: {', '.join(sorted(known)) or 'none'}"
                )
            if name in equipment.tools:
                raise UnknownComponentError(
                    f"{name!r} is a tool here as well as an environment; give the tool another name"
                )
        return tuple(sorted({*names} & {*self.packaged}))


def stock_of(
    settings: Settings,
    *,
    builtin: Mapping[str, Any],
    sandbox: str,
    packaged: Mapping[str, Callable[[], Environment]],
    prompts: PromptLibrary,
    models: Any,
    tools: Sequence[Any],
    environments: Mapping[str, Callable[[], Environment]],
    agents: Sequence[Any],
    given_systems: Mapping[str, Any],
    memories: Mapping[str, Any],
) -> Stock:
    """What a workspace has when it is opened.

    Args:
        settings: of the workspace.
        builtin: the tools of `tools/`.
        sandbox: see Stock.
        packaged: the environments that come with the package; one of the user's takes the place of its namesake.
        prompts, models: see Stock.
        tools, environments, agents, given_systems, memories: what the user gave.

    Raises:
        UsageError: for a component that is none, or whose name is taken.
    """
    from agentorchestra.agents.analysis.tool import analyze_file_tool

    analyze_file = analyze_file_tool(settings.analysis)
    known: dict[str, Any] = {**builtin, analyze_file.name: analyze_file}
    if settings.transcription_model:
        from agentorchestra.tools.transcripts import transcribe_file

        known[transcribe_file.name] = transcribe_file
    known |= tools_by_name(tools)
    every_system = systems(settings) | dict(given_systems)
    return Stock(
        tools=known,
        systems=every_system,
        memories=memories_by_name(memories),
        agents=agents_by_name(agents, known, every_system, prompts, settings),
        environments=dict(environments),
        packaged={name: one for name, one in packaged.items() if name not in environments},
        prompts=prompts,
        models=models,
        builtin=frozenset({*builtin, analyze_file.name}),
        sandbox=sandbox,
    )


__all__ = ["Environments", "Stock", "stock_of"]
