"""The components of an open workspace by name: the packaged, the user's, and those that others registered."""

from __future__ import annotations

import importlib.resources
import inspect
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib import metadata
from operator import is_
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentorchestra.core.effects import EffectKind
from agentorchestra.core.errors import (
    EnvironmentAsToolError,
    SystemDefinitionError,
    UnknownComponentError,
    UnknownSystemError,
)
from agentorchestra.core.ids import sha256_json, sha256_text
from agentorchestra.core.names import did_you_mean
from agentorchestra.core.policy import Policy
from agentorchestra.core.protocols import Environment, Handler, Store
from agentorchestra.core.settings import Settings, SocietySettings
from agentorchestra.core.spec import RunManifest
from agentorchestra.runtime.hooks import OnModel, OnStep, OnTool
from agentorchestra.sandbox import Sandbox

if TYPE_CHECKING:
    from agentorchestra.agents.agent import Agent
    from agentorchestra.tea.prompts.catalog import PromptLibrary
    from agentorchestra.workspace.components import Components

Environments = dict[str, Callable[[], Environment]]
HandlerWrapper = Callable[[dict[EffectKind, Handler]], dict[EffectKind, Handler]]


@dataclass(frozen=True, kw_only=True)
class Own:
    """The arguments that the user gave to a workspace, see Workspace."""

    tools: tuple[Any, ...]
    environments: Environments
    agents: tuple[Any, ...]
    systems: dict[str, Any]
    memories: dict[str, Any]
    search_engines: tuple[Any, ...]
    prompts: tuple[Path, ...]
    models: dict[str, Any]
    policy: Policy | None
    settings: Settings | None
    store: Store | None
    handlers: HandlerWrapper | None
    sandbox: Sandbox | None
    environ: Mapping[str, str]
    on_step: OnStep | None = None
    on_tool: OnTool | None = None
    on_model: OnModel | None = None

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """The names of the user's own tools, agents and systems, by kind."""
        return {
            "tool": (*tools_by_name(self.tools), *self.environments),
            "agent": tuple(str(getattr(agent, "name", agent)) for agent in self.agents),
            "system": tuple(self.systems),
        }


@dataclass(frozen=True)
class Equipment:
    """The tools, models and prompts of one run: the workspace's, and what was given to the run."""

    tools: Mapping[str, Any]
    models: Any
    prompts: PromptLibrary
    # the manifest of a run that is replayed with nothing else than what it had, None for today's
    manifest: RunManifest | None = None
    environments: tuple[str, ...] = ()  # names of the packaged environments that its top agent works in
    system: str = ""  # that drives it, "" for calls outside of runs
    society: SocietySettings | None = None  # of a run whose system is one
    components: Mapping[str, str] = field(default_factory=dict)  # the versions that it names, by `KIND:NAME`
    # the agents, environments and memory systems of these versions, by kind and name; such tools and prompts stand
    # among `tools` and `prompts`
    versions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def has_team_of(self, other: Equipment) -> bool:
        """Return True if the agents and environments of both runs are the same in one catalog."""
        chosen, others = (self.system, self.environments), (other.system, other.environments)
        return chosen == others and self.society == other.society and same_objects(self.tools, other.tools)


def same_objects(components: Mapping[str, Any], others: Mapping[str, Any]) -> bool:
    """Return True if both have the same objects under the same names."""
    return components.keys() == others.keys() and all(
        map(is_, map(others.__getitem__, components), components.values())
    )


class Catalog:
    """The components of an open workspace.

    Attributes:
        tools, agents, systems, memories: by name.
        environments: factories of the user's and of what others registered.
        packaged, prompts, models, sandbox: see Args.
        builtin: names of the packaged tools.
        behind: names of tools and environments that stand behind other components; nobody is offered them.
        agents_behind: names of such agents.

    Raises:
        UsageError: for a component that is none, or whose name is taken.
    """

    def __init__(
        self,
        settings: Settings,  # of the workspace
        own: Own,  # what the user gave; an environment takes the place of a packaged namesake
        *,
        builtin: Mapping[str, Any],  # the tools of `tools/`
        sandbox: str,  # the name of the one where programs run, "none" for none
        factories: Mapping[str, Callable[[], Environment]],  # factories of the environments that come with the package
        prompts: PromptLibrary,  # the library
        models: Any,  # the manager of the models
    ) -> None:
        from agentorchestra.agents.analysis.tool import analyze_file_tool
        from agentorchestra.tea.memory.base import check_memories
        from agentorchestra.tea.memory.systems import builtin_memories

        analyze_file = analyze_file_tool()
        self.builtin = frozenset({*builtin, analyze_file.name})
        self.tools: dict[str, Any] = {**builtin, analyze_file.name: analyze_file}
        if settings.transcription_model:
            from agentorchestra.tools.transcripts import transcribe_file

            self.tools[transcribe_file.name] = transcribe_file
        self.environments = own.environments
        self.packaged: Environments = {name: make for name, make in factories.items() if name not in own.environments}
        if settings.aorchestra.toolset == "swe":
            from agentorchestra.systems.aorchestra import swe_tools

            packaged_tools = {tool.name: tool for tool in swe_tools(self.every_environment)}
            self.tools |= packaged_tools
            self.builtin |= {*packaged_tools}
        own_tools = tools_by_name(own.tools, self.every_environment)
        self.replaced = sorted(self.builtin & {*own_tools})  # names of packaged tools that tools of the user's took
        self.notes = tuple(
            f"your tool {name!r} takes the place of the packaged tool {name!r}" for name in self.replaced
        )
        self.tools |= own_tools
        self.systems = systems(settings) | _programs(settings, own) | _societies(settings, own) | _callables(own)
        for name in settings.team.systems:
            system_purpose(name, self.systems)
        self._beneath = (*settings.team.systems, settings.aorchestra.executor)
        self._roster = settings.team.agents
        check_memories(own.memories)
        self.memories: dict[str, Any] = {**builtin_memories(), **own.memories}
        self.agents = agents_by_name(own.agents, self.tools, self.systems, prompts, settings)
        self.prompts, self.models, self.sandbox = prompts, models, sandbox
        self._count = -1
        self._last: tuple[Equipment, tuple[dict[str, Any], Environments]] | None = None
        self._add_carried()

    def _add_carried(self, *, refuse: bool = True) -> None:
        """Add what stands behind the components that are here (tea/transformations)."""
        from agentorchestra.tea.transformations.dependencies import dependencies_of

        needs = dependencies_of(self.tools, self.every_environment, self.agents, refuse=refuse)
        self.tools = {**self.tools, **needs.tools}
        self.environments = {**self.environments, **needs.environments}
        self.agents = {**self.agents, **needs.agents}
        self.behind = frozenset({*needs.tools, *needs.environments})
        self.agents_behind = frozenset(needs.agents)

    async def check_agents(self, agents: Sequence[Any], store: Store, *, closed: bool) -> None:
        """Refuse agents that name what is not there.

        Args:
            agents: the user's agents.
            store: knows the components that were registered before.
            closed: whether all tools are known by now; those of a toolkit are when it is opened only.
        """
        from agentorchestra.workspace.agents import check_named

        if not agents:
            return
        names: dict[str, set[str]] = {"tool": set(), "environment": set(), "agent": set()}
        for kind, name in await store.component_heads():
            names.setdefault(kind, set()).add(name)
        environments = {*self.every_environment, *names["environment"]}
        check_named(
            agents,
            tools={*self.tools, *names["tool"], *environments} if closed else None,
            environments=environments,
            agents={*self.agents, *names["agent"]},
            systems=self.systems,
        )

    def renew(self, components: Components) -> None:
        """Take in what is registered by now. A run that was created before keeps what it had."""
        if self._count == components.count:
            return
        self._count, self._last = components.count, None
        self.tools = components.tools.stock.live()
        self.agents = components.agents.stock.live()
        environments = components.environments.stock.live()
        self.packaged = {name: factory for name, factory in environments.items() if name in self.packaged}
        self.environments = {name: factory for name, factory in environments.items() if name not in self.packaged}
        self._add_carried(refuse=False)  # what is registered has its versions: it is another object by now
        self.prompts = components.library()
        self.memories = components.memories.stock.live()

    def of(self, equipment: Equipment) -> Catalog:
        """Return the components as a run has them: the versions that it names in the place of their namesakes."""
        if not equipment.versions:
            return self

        def with_named(kind: str, components: Mapping[str, Any]) -> dict[str, Any]:
            versions = equipment.versions.get(kind, {})
            return {name: versions.get(name, component) for name, component in components.items()}

        other = copy(self)
        other._last = None
        other.agents, other.memories = with_named("agent", self.agents), with_named("memory", self.memories)
        other.packaged = with_named("environment", self.packaged)
        other.environments = with_named("environment", self.environments)
        return other

    @property
    def every_environment(self) -> Environments:
        """The packaged environments, the user's and those that others registered."""
        return {**self.packaged, **self.environments}

    def team(self, equipment: Equipment) -> dict[str, Any]:
        """Return the agents of a run: those that are there on request only where it names their environments.

        Those that work for certain systems are there where one of these drives the run or may be delegated to.
        """
        return self._team_and_environments(equipment)[0]

    def environments_for(self, equipment: Equipment) -> Environments:
        """Return the environments of a run: all but the packaged ones that neither it nor an agent nor a tool names."""
        return self._team_and_environments(equipment)[1]

    def _team_and_environments(self, equipment: Equipment) -> tuple[dict[str, Any], Environments]:
        """Return both, worked out once for a run: its creation and its driver ask for them a dozen times."""
        if self._last is None or not equipment.has_team_of(self._last[0]):
            from agentorchestra.tea.transformations.base import carried_by
            from agentorchestra.workspace.agents import team

            tools = equipment.tools
            of_tools = [carried_by(tool) for tool in tools.values()]
            behind = [*of_tools, *(carried_by(environment) for environment in self.environments.values())]
            leaders = {*self._led_by(equipment), *self.agents_behind, *(a.name for own in behind for a in own.agents)}
            has = {*tools, *(() if self.sandbox == "none" else ("sandbox",))}
            run_names = equipment.environments
            agents = team(self.agents, run_names, {*self.packaged}, has, leaders=leaders, roster=self._roster)
            names = {name for agent in agents.values() for name in agent.environments} - {*tools}
            names |= {*run_names, *(name for own in of_tools for name in own.environments)}
            factories = {name: self.packaged[name] for name in sorted(names & {*self.packaged})}
            self._last = equipment, (agents, {**factories, **self.environments})
        return self._last[1]

    def _led_by(self, equipment: Equipment) -> set[str]:
        """Return the systems that drive a run or that it may delegate to, and who takes part in their societies."""
        from agentorchestra.systems.coral import Coral

        drives = (self.systems.get(name) for name in self._beneath)
        societies = [equipment.society, *(group.limits for group in drives if isinstance(group, Coral))]
        return {equipment.system, *self._beneath, *(name for group in societies if group for name in group.agents)}

    def hidden(self, equipment: Equipment) -> frozenset[str]:
        """Return the packaged environments that agents of a run work in and its top agent does not."""
        return frozenset({*self.environments_for(equipment)} & {*self.packaged}) - {*equipment.environments}

    def environments_named(self, names: Sequence[str], equipment: Equipment) -> tuple[str, ...]:
        """Return the packaged environments that a run names; UnknownComponentError for a tool's or no one's name."""
        environments = self.every_environment
        for name in names:
            if name not in environments:
                guess = did_you_mean(name, environments, f"there are: {', '.join(sorted(environments)) or 'none'}")
                raise UnknownComponentError(f"no environment {name!r}; {guess}")
            if name in equipment.tools:
                raise UnknownComponentError(
                    f"{name!r} is a tool here as well as an environment; give the tool another name"
                )
        return tuple(sorted({*names} & {*self.packaged}))


def tools_by_name(parts: Sequence[Any], environments: Container[str] = ()) -> dict[str, Any]:
    """Return tools by name, from tools, functions, and classes and objects with tools; toolkits give theirs later."""
    from agentorchestra.tea.registry.registration import tools_in

    by_name: dict[str, Any] = {}
    for part in parts:
        if is_toolkit(part):
            continue
        if isinstance(part, str) and part in environments:
            raise EnvironmentAsToolError(f"{part!r} is an environment and no tool; give a run environments=[{part!r}]")
        for tool in tools_in(part):
            if tool.name == "done":
                raise UnknownComponentError(
                    "a tool cannot be named 'done': that is how agents finish; choose another name"
                )
            by_name[tool.name] = tool
    return by_name


def is_toolkit(part: Any) -> bool:
    """Return True if tools come from it once it is open."""
    from agentorchestra.tea.calling.tool import Tool
    from agentorchestra.tea.calling.toolkit import Toolkit

    return not isinstance(part, Tool) and not isinstance(part, type) and isinstance(part, Toolkit)


def agents_by_name(
    own_agents: Sequence[Any], tools: Mapping[str, Any], systems: Mapping[str, Any], prompts: Any, settings: Settings
) -> dict[str, Any]:
    from agentorchestra.agents.agent import Agent
    from agentorchestra.workspace.agents import agents_with_settings, builtin_agents

    agents: dict[str, Agent] = builtin_agents(settings)
    for agent in own_agents:
        if not isinstance(agent, Agent):
            raise UnknownComponentError(f"{agent!r} is not an agent; make one with agentorchestra.agents.agent.Agent")
        kind = "a tool" if agent.name in tools else "a system" if agent.name in systems else ""
        if kind or agent.name == "done":
            raise UnknownComponentError(
                f"an agent is named {agent.name!r} like {kind or 'a tool'}; give it another name"
            )
        agents[agent.name] = agent
        if agent.drive is None:
            prompts.get(agent.prompt)
    return agents_with_settings(agents, settings.agents)


def packaged_prompts() -> list[Any]:
    return [importlib.resources.files(f"agentorchestra.{room}") / "prompts" for room in ("tools", "agents", "systems")]


def systems(settings: Settings | None = None) -> dict[str, Any]:
    from agentorchestra.agents.debate.agent import DebateDriver
    from agentorchestra.systems.agentorchestra import AgentOrchestra
    from agentorchestra.systems.aorchestra import AOrchestra
    from agentorchestra.systems.coral import coral
    from agentorchestra.systems.direct import direct
    from agentorchestra.systems.mini_swe import mini_swe
    from agentorchestra.systems.oagents import oagents
    from agentorchestra.systems.owl import Owl
    from agentorchestra.systems.react import react
    from agentorchestra.systems.reflection import Reflection
    from agentorchestra.systems.static import static
    from agentorchestra.systems.textgrad import TextGrad

    base = settings or Settings()
    return {
        "agentorchestra": AgentOrchestra(base.team),
        "aorchestra": AOrchestra(base.aorchestra),
        "coral": coral(base.coral),
        "debate": DebateDriver(base.debate),
        "direct": direct,
        "mini_swe": mini_swe,
        "oagents": oagents,
        "owl": Owl(base.owl),
        "react": react,
        "reflection": Reflection(),
        "static": static,
        "textgrad": TextGrad(),
    }


def system_purpose(name: str, systems: Mapping[str, Any]) -> str:
    """Return what a system is for, in its own words, for planners; UnknownSystemError for an unknown name."""
    if name not in systems:
        guess = did_you_mean(name, systems, f"the systems: {', '.join(sorted(systems))}")
        raise UnknownSystemError(f"the settings name the system {name!r} (team.systems), which is not there; {guess}")
    text = getattr(systems[name], "description", "") or (inspect.getdoc(systems[name]) or "").partition("\n")[0]
    return str(text) or f"The system {name}, which does a part of the task by itself."


def _programs(settings: Settings, own: Own) -> dict[str, Any]:
    from agentorchestra.systems.program import ProgramSystem

    _check_names(settings.programs, "programs", settings, own.systems)
    return {name: ProgramSystem(name, program) for name, program in settings.programs.items()}


def _societies(settings: Settings, own: Own) -> dict[str, Any]:
    from agentorchestra.systems.coral import Coral

    _check_names(settings.societies, "societies", settings, {*own.systems, *settings.programs})
    return {name: Coral(society, name) for name, society in settings.societies.items()}


def _check_names(names: Iterable[str], table: str, settings: Settings, own: Iterable[str]) -> None:
    """Refuse names in the settings that no further system can have; `own` are those of the user's."""
    from agentorchestra.workspace.agents import builtin_agents

    used = {*systems(settings), *builtin_agents(settings), *own}
    for name in names:
        if name in used or not re.fullmatch(r"[a-z0-9_-]{1,40}", name):
            rule = "a system or agent has that name" if name in used else "it has lower case letters, digits, _ and -"
            raise SystemDefinitionError(f"the settings name a system {name!r} ({table}.{name}): {rule}; rename it")


def _callables(own: Own) -> dict[str, Any]:
    from agentorchestra.systems.callables import systems_of

    return systems_of(own.systems)


@cache
def distribution() -> str:
    """Return the version of the installed package, "" where it is not installed."""
    try:
        return metadata.version("agentorchestra")
    except metadata.PackageNotFoundError:
        return ""


@cache
def code_digest() -> str:
    """Return the first 12 digits of a SHA-256 over the package's code and prompts: which code drives a run."""
    try:
        record = metadata.distribution("agentorchestra").read_text("RECORD") or ""
    except metadata.PackageNotFoundError:
        record = ""
    lines = [line for line in record.splitlines() if line.startswith("agentorchestra/") and ",sha256=" in line]
    if lines:  # an installed package knows the hashes of its files
        return sha256_text("\n".join(sorted(lines)))[:12]
    root = Path(__file__).parents[1]
    files = sorted(path for path in root.rglob("*") if path.suffix in (".py", ".md"))
    return sha256_json([[str(path.relative_to(root)), sha256(path.read_bytes()).hexdigest()] for path in files])[:12]
