"""The composition root: what an open workspace has is put together here."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import JsonValue

from agentorchestra.core.clock import Clock
from agentorchestra.core.content import Block, Source
from agentorchestra.core.effects import Effect, EffectKind, Mode, Outcome
from agentorchestra.core.errors import NotAllowedError, RequestKeyError, UnknownRunError
from agentorchestra.core.events import Body, new_event
from agentorchestra.core.protocols import Acceptance, RunRecord, Store, instance_of
from agentorchestra.core.settings import Settings
from agentorchestra.core.spec import FileRef, RunManifest, RunResult
from agentorchestra.log.store.references import TASK_FILE
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.direct_calls import DirectCalls
from agentorchestra.runtime.engine import LocalEngine
from agentorchestra.runtime.run import Asker, Services, wait_for
from agentorchestra.runtime.worlds import asked_environment
from agentorchestra.tea.calling.handler import effect_for
from agentorchestra.trust.redact import Redactor
from agentorchestra.workspace.catalog import Catalog, Own, distribution, is_toolkit, packaged_prompts, tools_by_name
from agentorchestra.workspace.settings import settings_folder
from agentorchestra.workspace.variables import values_of

if TYPE_CHECKING:
    from agentorchestra.tea.calling.tool import Tool
    from agentorchestra.tea.programs.interpreter import Interpreter
    from agentorchestra.tools.files.storage import CarriedFiles
    from agentorchestra.tools.web.search.tool import Engines
    from agentorchestra.workspace.components import Components
    from agentorchestra.workspace.task_folder import TaskFolder


class WorkspaceMembers(Protocol):
    """The members of Workspace that are read; asker and deps may be set while it is open.

    Attributes:
        app, app_folder: the user's application, `module:workspace`, and the folder where it was found.
        namespace: of its modules, "" where they have their own names (tea/programs/namespaces.py).
        unsafe_local: programs run without a sandbox.
        mcp_files: files of MCP servers that the command line names.
        task: that its runs work on.
    """

    folder: Path
    own: Own
    app: str | None
    app_folder: str | None
    namespace: str
    unsafe_local: bool
    mcp_files: tuple[Path, ...]
    asker: Asker | None
    deps: Any
    task: TaskFolder | None

    @property
    def run(self) -> Callable[..., Awaitable[RunResult]]:
        """Workspace.run."""

    @property
    def create(self) -> Callable[..., Awaitable[str]]:
        """Workspace.create."""


class Composition:
    """The parts of an open workspace, around its open store; UsageError for what is named and is not there."""

    def __init__(
        self,
        host: WorkspaceMembers,  # the workspace
        settings: Settings,  # of it
        store: Store,  # the log
        base: Path,  # below which its runs keep their files; a temporary folder for a workspace without one of its own
        clock: Clock,  # the time
        *,
        # writes the run that holds the calls outside of runs; its id and manifest
        create_calls: Callable[[], Awaitable[tuple[str, RunManifest]]],
        # what these calls are driven with, from their tools by `name@version`
        services: Callable[[Mapping[str, Any]], Services],
    ) -> None:
        from agentorchestra.environments.registry import EnvironmentParts, packaged_environments
        from agentorchestra.models.manager import ModelManager
        from agentorchestra.tea.programs.interpreter import MontyInterpreter
        from agentorchestra.tea.prompts.catalog import PromptLibrary
        from agentorchestra.tea.retrieval.finder import ComponentSearch
        from agentorchestra.tools.registry import builtin_tools
        from agentorchestra.tools.workbench import SandboxInterpreter

        self.host, self.settings, self.store, self.base, self.clock = host, settings, store, base, clock
        self.folder, own = host.folder, host.own
        folder = self.folder if own.store is None or self.folder.exists() else None
        self.engine = LocalEngine(store, lease_s=settings.lease_s, clock=clock)
        self.models = ModelManager(settings, own.environ, extra=own.models)
        sandbox = settings.sandbox
        if host.unsafe_local:
            sandbox = sandbox.model_copy(update={"backend": "unsafe-local"})
        self.engines = search_engines(settings, self.folder, own.environ, own.search_engines)
        self.builtin = builtin_tools(self.folder, sandbox, sandbox=own.sandbox, web=settings.web, engines=self.engines)
        bench = self.builtin.workbench
        reports = folder / "reports" if folder is not None else None
        environments = EnvironmentParts(
            settings,
            bench.sandbox,
            bench.limits,
            bench.network,
            own.environ,
            images=self.folder / "images",
            reports=reports,
            tested=host.task is not None,
        )
        self.catalog = Catalog(
            settings,
            own,
            builtin=self.builtin.tools,
            sandbox=self.builtin.sandbox,
            factories=packaged_environments(environments),
            prompts=PromptLibrary(packaged_prompts(), self.folder / "prompts", app_folders=own.prompts),
            models=self.models,
        )
        self.calls = Calls(self.engine, store, create_calls, services)
        self.components = self._components()
        vectors = folder / "vectors" if folder is not None else None
        self.finding = ComponentSearch(store, self.calls.perform, model=settings.embedding_model, folder=vectors)
        self.components.find_with(self.finding)
        self.programs: tuple[Interpreter, ...] = (MontyInterpreter(), SandboxInterpreter(bench))

    def _components(self) -> Components:
        from agentorchestra.tea.registry.context import Access
        from agentorchestra.workspace.components import Components

        catalog, own = self.catalog, self.host.own
        access = Access(
            self.ready,
            invoke_tool=self.calls.invoke_tool,
            invoke_action=self.calls.invoke_action,
            state_of=self.calls.state_of,
            invoke_agent=lambda name, task, options: self.host.run(task, system=name, **options),
            environments=lambda: catalog.every_environment,
            namespace=self.host.namespace,
        )
        return Components(
            store=self.store,
            clock=self.clock,
            programs=self.builtin.workbench,
            tools={name: tool for name, tool in catalog.tools.items() if name not in catalog.behind},
            builtin_tools=set(catalog.tools) - set(tools_by_name(own.tools)),
            toolkits=[*(tool for tool in own.tools if is_toolkit(tool)), *self._mcp_toolkits()],
            environments={**catalog.packaged, **own.environments},
            builtin_environments={*catalog.packaged},
            agents={name: agent for name, agent in catalog.agents.items() if name not in catalog.agents_behind},
            prompts=catalog.prompts,
            memories=catalog.memories,
            notes=catalog.notes,
            distribution=distribution(),
            access=access,
            redact=self.redact_json,
            warns=self.settings.policy.undeclared == "ask",
            may_call=self.settings.generator.tools,
            may_import=self.settings.generator.libraries,
        )

    def _mcp_toolkits(self) -> list[Any]:
        """Return the toolkits of the files of MCP servers that the command line or the settings name."""
        files = self.host.mcp_files
        if not files and self.settings.mcp:
            files = (settings_folder(self.folder) / self.settings.mcp,)
        if not files:
            return []
        from agentorchestra.tools.mcp import mcp

        return [mcp(file, environ=self.host.own.environ) for file in files]

    async def check(self) -> None:
        own = self.host.own
        closed = not self._mcp_toolkits() and not any(is_toolkit(tool) for tool in own.tools)
        await self.catalog.check_agents(own.agents, self.store, closed=closed)

    async def ready(self, *, toolkits: bool = True) -> None:
        """Take into use what is registered by now; without `toolkits`, servers are not asked what they have."""
        await self.components.ready(toolkits=toolkits)
        self.catalog.renew(self.components)

    async def close(self) -> None:
        """Stop what is driven here, close the parts but for the store."""
        await self.components.close()
        await self.builtin.aclose()
        await self.models.aclose()

    @property
    def task_place(self) -> str:
        """The folder whose task its runs work on; "" for none."""
        return str(self.host.task.path.absolute()) if self.host.task is not None else ""

    @property
    def runs_folder(self) -> Path:
        return self.base / "runs"

    @property
    def files_folder(self) -> Path:
        """The folder with the bytes of the files that were given with tasks, once for all runs."""
        return self.base / "files"

    def files_of(self, run_id: str) -> Path:
        """Return the folder with the files that were given with a run's task."""
        return self.runs_folder / run_id / "files"

    def carried_files(self) -> CarriedFiles:
        """Return the files of the runs as they go to other machines and come from there."""
        from agentorchestra.tools.files.storage import CarriedFiles

        return CarriedFiles(self.files_folder, self.runs_folder)

    async def share_files(self, refs: Sequence[FileRef]) -> None:
        """Put kept files among the artifacts, where the settings name a place for them that all machines reach."""
        if self.settings.artifacts is None:
            return
        from agentorchestra.environments.tree import batches

        by_digest = {ref.sha256: ref for ref in refs}

        async def share(ref: FileRef) -> None:
            with await asyncio.to_thread(self.carried_files().content, ref) as file:
                data = await asyncio.to_thread(file.read)
            await self.store.put_blob(data, TASK_FILE)

        for part in batches(range(len(by_digest)), [ref.size for ref in by_digest.values()]):
            await asyncio.gather(*(share([*by_digest.values()][index]) for index in part))

    async def fetch_files(self, run_id: str, refs: Sequence[FileRef]) -> None:
        """Fetch the files of a run that was made on another machine, where the settings name a place for them."""
        if self.settings.artifacts is None:
            return
        from agentorchestra.environments.tree import batches

        folder = self.files_of(run_id)
        missing = await asyncio.to_thread(lambda: [ref for ref in refs if not (folder / ref.name).exists()])
        for part in batches(range(len(missing)), [ref.size for ref in missing]):
            refs = tuple(missing[index] for index in part)
            blobs = await asyncio.gather(*(self.store.get_blob(ref.sha256) for ref in refs))
            await asyncio.to_thread(
                self.carried_files().put, run_id, refs, partial(_content, dict(zip(refs, blobs, strict=True)))
            )

    async def record(self, run_id: str) -> RunRecord:
        """Return a run's row; raise UnknownRunError if there is none with this id."""
        record = await self.store.get_run(run_id)
        if record is None:
            raise UnknownRunError(
                f"no run {run_id!r} in this workspace ({self.folder}); `agentorchestra runs` lists them"
            )
        return record

    async def accepted_run(self, request: Acceptance) -> str | None:
        """Return the run that was accepted under a request's key, if any; RequestKeyError if for another one."""
        key = request.key
        entry = None if key is None else await self.store.request(key)
        if entry is None:
            return None
        run_id, earlier = entry
        if earlier != request.digest:
            raise RequestKeyError(
                f"the key {key!r} was used for another request, which became run {run_id}; send this one under a new "
                "key, or the earlier one unchanged"
            )
        return run_id

    async def tell(self, run_id: str, body: Body, *, by: str) -> None:
        """Write from outside into a run's log, and have whoever drives it here look."""
        await wait_for(self.store.append(run_id, None, [new_event(body, ts=self.clock.now(), actor=by)]))
        await self.engine.poke(run_id)

    def secrets(self) -> dict[str, str]:
        """Return the values of the secrets that are known by now, by name."""
        from agentorchestra.tools.web.search.engines import key_variables

        config = self.settings
        names = [*config.secrets, *key_variables(config.search), *config.git.tokens.values(), config.github.token_env]
        names += [*config.keyring, *self.models.key_variables]
        names += [name for login in config.browser.logins.values() for name in login]
        values = values_of(self.host.own.environ, names)
        # A tool that prints its environment would show the database's password.
        of_store = getattr(self.store, "secrets", {})
        return {**values, **of_store, **self.components.secrets}

    def redact(self, text: str) -> str:
        return Redactor(self.secrets()).text(text)

    def redact_json(self, value: JsonValue | dict[str, str]) -> Any:
        return Redactor(self.secrets()).json(value)


def _content(blobs: Mapping[FileRef, bytes], ref: FileRef) -> io.BytesIO:
    return io.BytesIO(blobs[ref])


class Calls(DirectCalls):
    """The user's own calls of a tool, an action, an environment's state (runtime/direct_calls.py).

    Args:
        engine, store, create: see DirectCalls.
        services: what they are driven with, from the tools that are called, by `name@version`.
    """

    def __init__(
        self,
        engine: LocalEngine,
        store: Store,
        create: Callable[[], Awaitable[tuple[str, RunManifest]]],
        services: Callable[[Mapping[str, Any]], Services],
    ) -> None:
        self._called: dict[str, Any] = {}
        super().__init__(engine, store, create, lambda: services(self._called))

    async def invoke_tool(self, tool: Tool[..., Any], arguments: Mapping[str, JsonValue]) -> Outcome:
        """Call a tool; raise NotAllowedError if it is not for users."""
        allowed = tool.traits.invokers
        if allowed is not None and "user" not in allowed:
            raise NotAllowedError(
                f"the tool {tool.name!r} may be called by {', '.join(allowed) or 'nobody'} only; register it with "
                "invokers=[..., 'user'] to call it here"
            )
        self._called[tool.component] = tool
        return await self.perform(lambda root: effect_for(tool, dict(arguments), role="user"))

    async def invoke_action(self, name: str, action: str, arguments: Mapping[str, JsonValue]) -> Outcome:
        from agentorchestra.tea.calling.actions import action_effect
        from agentorchestra.tea.calling.environment import argument_problems
        from agentorchestra.tea.calling.signatures import mistake

        def effect(root: BranchContext[Any]) -> Effect:
            environment = asked_environment(root.run, name)
            schema = next(schema for schema in environment.actions() if schema.name == action)
            problems = argument_problems(environment, schema, dict(arguments))
            invalid = mistake(f"{name}: {action}", problems, schema.parameters) if problems else None
            return action_effect(environment, action, arguments, role="user", invalid=invalid, schema=schema)

        return await self.perform(effect)

    async def state_of(self, name: str) -> tuple[Block, ...]:
        def effect(root: BranchContext[Any]) -> Effect:
            environment = asked_environment(root.run, name)
            return Effect(
                kind=EffectKind.INVOKE_ACTION,
                component=f"{environment.name}@{environment.version}",
                arguments={"action": "state"},
                mode=Mode.REPEATABLE,
                instance=instance_of(environment),
                role="user",
            )

        outcome = await self.perform(effect)
        return tuple(outcome.blocks(Source(kind="environment", ref=name)))


def search_engines(settings: Settings, folder: Path, environ: Mapping[str, str], own_engines: Sequence[Any]) -> Engines:
    """Return the search engines that can be asked, and what the others lack.

    Args:
        settings: of the workspace; the folders that they name lie beside the settings file.
        environ: where keys are.
        own_engines: the user's own engines.

    Raises:
        SettingsError: they name an engine that there is not, or two have one name.
    """
    from agentorchestra.tools.web.http import WebClient
    from agentorchestra.tools.web.search.engines import engines_of

    web = WebClient(settings.web)
    near = settings_folder(folder)
    return engines_of(settings.search, folder=folder, near=near, web=web, environ=environ, engines=own_engines)
