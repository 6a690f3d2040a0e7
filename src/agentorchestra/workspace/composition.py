"""The composition root: what an open workspace has is put together here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentorchestra.core.effects import EffectKind
from agentorchestra.core.policy import Policy
from agentorchestra.core.protocols import Environment, Handler, Store
from agentorchestra.core.settings import Settings
from agentorchestra.core.spec import RunResult
from agentorchestra.runtime.run import Asker
from agentorchestra.sandbox import Sandbox
from agentorchestra.workspace.catalog import stock_of
from agentorchestra.workspace.control import Steering
from agentorchestra.workspace.creation import Creating, Origin
from agentorchestra.workspace.direct_calls import Calling
from agentorchestra.workspace.driver import Driving
from agentorchestra.workspace.equipment import Equipping
from agentorchestra.workspace.fork import Forking
from agentorchestra.workspace.handlers import Supply
from agentorchestra.workspace.model_choice import Choices
from agentorchestra.workspace.parts import Equipment, distribution, is_toolkit, packaged_prompts, tools_by_name
from agentorchestra.workspace.place import Place
from agentorchestra.workspace.settings import settings_path

if TYPE_CHECKING:
    from agentorchestra.agents.components import Components


@dataclass(frozen=True, kw_only=True)
class Own:
    """What the user gave to a workspace, see Workspace."""

    tools: tuple[Any, ...]
    environments: dict[str, Callable[[], Environment]]
    agents: tuple[Any, ...]
    systems: dict[str, Any]
    memories: dict[str, Any]
    search_engines: tuple[Any, ...]
    prompts: tuple[Path, ...]
    models: dict[str, Any]
    policy: Policy | None
    settings: Settings | None
    store: Store | None
    handlers: Callable[[dict[EffectKind, Handler]], dict[EffectKind, Handler]] | None
    sandbox: Sandbox | None
    environ: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Process:
    """What the process is that opens a workspace.

    Attributes:
        app, app_folder: see Origin.
        unsafe_local: programs run without a sandbox.
        mcp_files: files of MCP servers that the command line names.
        asker, deps: as they are now.
        run: runs a task.
        held: what runs were given in this process, by their ids.
        clients: the models that were given to runs as objects.
    """

    app: str | None
    app_folder: str | None
    unsafe_local: bool
    mcp_files: tuple[Path, ...]
    asker: Callable[[], Asker | None]
    deps: Callable[[], Any]
    run: Callable[[str, str, dict[str, Any]], Awaitable[RunResult]]
    held: dict[str, Equipment]
    clients: list[Any]


class Opened:
    """Everything that an open workspace has, around its open store.

    Args:
        settings: of the workspace.
        place: of its runs.
        own: what the user gave.
        process: that opens it.

    Raises:
        UsageError: for what the settings or the user name and is not there.
    """

    def __init__(self, settings: Settings, place: Place, own: Own, process: Process) -> None:
        from agentorchestra.environments.registry import packaged_environments
        from agentorchestra.models.manager import ModelManager
        from agentorchestra.tea.programs.interpreter import MontyInterpreter
        from agentorchestra.tea.prompts.catalog import PromptLibrary
        from agentorchestra.tea.retrieval.finder import Finding
        from agentorchestra.tools.registry import builtin_tools
        from agentorchestra.tools.workbench import SandboxInterpreter
        from agentorchestra.workspace.search import search_engines

        self._settings, self._own, self._process = settings, own, process
        self._kept_folder = place.folder if own.store is None or place.folder.exists() else None
        self.place = place
        self.steering = Steering(place)
        self.models = ModelManager(settings, own.environ, extra=own.models)
        prompts = PromptLibrary(packaged_prompts(), place.folder / "prompts", given=own.prompts)
        sandbox = settings.sandbox
        if process.unsafe_local:
            sandbox = sandbox.model_copy(update={"backend": "unsafe-local"})
        engines = search_engines(settings, place.folder, own.environ, own.search_engines)
        self._builtin = builtin_tools(place.folder, sandbox, sandbox=own.sandbox, web=settings.web, engines=engines)
        self.stock = stock_of(
            settings,
            builtin=self._builtin.tools,
            sandbox=self._builtin.sandbox,
            packaged=packaged_environments(self._environment_parts()),
            prompts=prompts,
            models=self.models,
            tools=own.tools,
            environments=own.environments,
            agents=own.agents,
            given_systems=own.systems,
            memories=own.memories,
        )
        self.calling = Calling(
            place,
            self.stock,
            create=lambda: self.creating.create_calls(),
            services=lambda called: self.supply.for_calls(called),
        )
        choices = Choices(settings, engines)
        self.components = self._make_components()
        self.equipping = Equipping(
            self.stock, self.components, place.store, settings.preset, held=process.held, clients=process.clients
        )
        vectors = self._kept_folder / "vectors" if self._kept_folder is not None else None
        finding = Finding(place.store, self.calling.perform, model=settings.embedding_model, folder=vectors)
        self.components.find_with(finding)
        self.supply = Supply(
            settings=settings,
            place=place,
            stock=self.stock,
            builtin=self._builtin,
            finder=finding.finder,
            tcp=lambda: self.components.tools,
            environ=own.environ,
            policy=own.policy,
            wrap=own.handlers,
            asker=process.asker,
            deps=process.deps,
            programs=(MontyInterpreter(), SandboxInterpreter(self._builtin.workbench)),
        )
        origin = Origin(app=process.app, app_folder=process.app_folder, answers=lambda: process.asker() is not None)
        stock, equipping = self.stock, self.equipping
        self.creating = Creating(settings, place, stock, self.components, equipping, choices, origin, self.ready)
        self.driving = Driving(place, stock, self.components, equipping, self.supply, finding, self.ready)
        self.forking = Forking(place, stock, equipping, choices, origin, self.ready)

    async def check(self) -> None:
        """Refuse agents that name what is not there."""
        closed = not self._mcp_toolkits() and not any(is_toolkit(one) for one in self._own.tools)
        await self.stock.check_agents(self._own.agents, self.place.store, closed=closed)

    async def ready(self, *, toolkits: bool = True) -> None:
        """Take into use what is registered: what is at hand has its versions then, and what others registered is there.

        A run that was created before keeps what it had.
        """
        await self.components.ready(toolkits=toolkits)
        self.stock.renew(self.components)

    def secrets(self) -> dict[str, str]:
        """The secrets that are known by now, name -> value."""
        from agentorchestra.workspace.search import key_variables

        given, environ = self._settings, self._own.environ
        names = [*given.secrets, *key_variables(given.search), *given.git.tokens.values(), given.github.token_env]
        names += [name for several in given.browser.logins.values() for name in several]
        named = {name: environ[name] for name in names if name in environ}
        # A tool that prints its environment would show the database's password.
        of_store = getattr(self.place.store, "secrets", {})
        return {**self.models.secrets(), **named, **of_store, **self.components.secrets}

    async def close(self) -> None:
        """Stop what is driven here, close the store."""
        await self.place.engine.close()
        await self.driving.close()
        await self.supply.aclose()
        await self.components.close()
        await self._builtin.aclose()
        await self.models.aclose()
        await self.place.store.close()

    def _environment_parts(self) -> Any:
        from agentorchestra.environments.registry import EnvironmentParts

        bench = self._builtin.workbench
        reports = self._kept_folder / "reports" if self._kept_folder is not None else None
        return EnvironmentParts(self._settings, bench.sandbox, bench.limits, bench.network, self._own.environ, reports)

    def _make_components(self) -> Components:
        from agentorchestra.agents.components import Components
        from agentorchestra.tea.registry.context import Access

        stock, own = self.stock, self._own
        access = Access(
            self.ready,
            invoke_tool=self.calling.invoke_tool,
            invoke_action=self.calling.invoke_action,
            state_of=self.calling.state_of,
            invoke_agent=self._process.run,
            environments=lambda: stock.every_environment,
        )
        return Components(
            store=self.place.store,
            clock=self.place.clock,
            programs=self._builtin.workbench,
            tools={name: one for name, one in stock.tools.items() if name not in stock.behind},
            builtin_tools=set(stock.tools) - set(tools_by_name(own.tools)),
            toolkits=[*(one for one in own.tools if is_toolkit(one)), *self._mcp_toolkits()],
            environments={**stock.packaged, **own.environments},
            builtin_environments={*stock.packaged},
            agents={name: one for name, one in stock.agents.items() if name not in stock.agents_behind},
            prompts=stock.prompts,
            memories=stock.memories,
            distribution=distribution(),
            access=access,
            redact=self.place.redact_json,
            may_call=self._settings.generator.tools,
            may_import=self._settings.generator.libraries,
        )

    def _mcp_toolkits(self) -> list[Any]:
        """Those of the files of MCP servers that the command line or the settings name."""
        files = self._process.mcp_files
        if not files and self._settings.mcp:
            beside = settings_path(self.place.folder)
            files = ((beside.parent if beside is not None else Path()) / self._settings.mcp,)
        if not files:
            return []
        from agentorchestra.tools.mcp import mcp

        return [mcp(one, environ=self._own.environ) for one in files]


__all__ = ["Opened", "Own", "Process"]
