"""The composition root: a folder with its log, its settings, its components - and the runs in it."""

from __future__ import annotations

import asyncio
import difflib
import json
import os
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Self

from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError
from typing_extensions import TypeVar

from agentorchestra.core.budget import Budget
from agentorchestra.core.clock import Clock, SystemClock
from agentorchestra.core.effects import EffectKind
from agentorchestra.core.errors import (
    AgentFailedError,
    BudgetError,
    EmptyTaskError,
    OutputError,
    ReplayError,
    SettingsError,
    UnknownComponentError,
    WorkspaceStateError,
)
from agentorchestra.core.events import (
    BudgetRaised,
    Event,
    RunCreated,
    RunEnded,
    new_event,
)
from agentorchestra.core.ids import new_run_id, sha256_text
from agentorchestra.core.policy import Policy
from agentorchestra.core.protocols import Environment, Handler, RunRecord, Store
from agentorchestra.core.query import LogQuery
from agentorchestra.core.settings import RoleSettings, Settings
from agentorchestra.core.spec import (
    FINAL,
    SOURCE_MEDIA_TYPE,
    AgentResult,
    AgentSpec,
    Exchange,
    Question,
    RunManifest,
    RunResult,
    RunStatus,
)
from agentorchestra.runtime.bus import Bus, Notice
from agentorchestra.runtime.calls import SYSTEM as CALLS
from agentorchestra.runtime.calls import TASK as CALLS_TASK
from agentorchestra.runtime.calls import repeated
from agentorchestra.runtime.collect import GRACE_S, Collected, Retention, collect
from agentorchestra.runtime.compare import Comparison, compare_runs
from agentorchestra.runtime.engine import LocalEngine
from agentorchestra.runtime.forking import fork_point, forked_events, link_files, refuse_lost_environments, replaceable
from agentorchestra.runtime.ledger import Ledger
from agentorchestra.runtime.live import MAIN, world_folder
from agentorchestra.runtime.run import Asker, Run, current_budget, make_result, wait_for
from agentorchestra.runtime.sandbox import Sandbox
from agentorchestra.runtime.session import Session
from agentorchestra.runtime.store.pages import selected_events
from agentorchestra.runtime.tokens import SourceTokens, tokens_by_source
from agentorchestra.runtime.vars import KEPT
from agentorchestra.runtime.waiting import due_runs, end_undriven, not_yet, requested, waiting_until
from agentorchestra.workspace.calling import Calling
from agentorchestra.workspace.choices import DEFAULT_COST_USD, Choices
from agentorchestra.workspace.equipping import Equipping
from agentorchestra.workspace.parts import (
    Equipment,
    check_arguments,
    check_finish,
    check_options,
    distribution,
    is_toolkit,
    packaged_prompts,
    prompt_text,
    run_anywhere,
    schema_of,
    tools_by_name,
)
from agentorchestra.workspace.place import Place
from agentorchestra.workspace.presets import with_preset
from agentorchestra.workspace.settings import load_settings, settings_path
from agentorchestra.workspace.steering import Steering
from agentorchestra.workspace.stock import stock_of
from agentorchestra.workspace.supply import Supply

if TYPE_CHECKING:
    from agentorchestra.agents.components import Components
    from agentorchestra.runtime.bundle.format import Exported, Imported
    from agentorchestra.tea.memory.base import Entry, EntryKind, MemoryFactory
    from agentorchestra.tea.prompts import Prompt, PromptLibrary
    from agentorchestra.tea.servers import ACPServer, ECPServer, Server, TCPServer
    from agentorchestra.tools.files.carry import CarriedFiles
    from agentorchestra.tools.files.keep import Kept

Deps = TypeVar("Deps", default=Any)

DEFAULT_FOLDER = ".agentorchestra"
EARLIER_MOST = 10
"""Earlier tasks of a session that the top agent is told."""


class ReplayReport(BaseModel):
    """How a replay ended.

    Attributes:
        run_id: the run.
        keys: effects visited, all of them recorded.
        status: of the recorded run.
        answer: the answer the replay came to, "" when the recording ends before one.
    """

    run_id: str
    keys: int
    status: RunStatus
    answer: str = ""


class Workspace(Generic[Deps]):
    """A folder in which agents run: `async with Workspace(dir) as ws: result = await ws.run("...")`.

    Args:
        folder: where log, blobs and files are kept; made when the workspace is opened.
        tools: the user's tools (`@tool`), usable by every run, and toolkits (`mcp("mcp.json")`).
        deps: what tools find as `ctx.deps`.
        environments: factories by name.
        agents: the user's agents (`agentorchestra.agents.agent.Agent`), which planners may delegate to.
        systems: the user's paradigms by name: `async def system(spec, session, kit) -> AgentResult`.
        memories: the user's memory systems by name, besides the packaged ones: classes with the members of
            `tea.memory.base.MemorySystem`.
        search_engines: engines of the user's own that `search` asks (`tools.web.search.types.SearchEngine`).
        prompts: folders with prompts of the user's agents and systems (`NAME.md`), beside their code; files in the
            workspace's own folder `prompts/` replace these too.
        models: clients by name, besides those of the settings (scripted models in tests).
        policy: replaces the default policy.
        settings: replaces what `agentorchestra.toml` says.
        preset: what lies under the settings: `paper-000`, `paper-001` (docs/presets.md), `none`; None for the one that
            they name.
        store: replaces the store of the settings, SQLite by default (`MemoryStore()` for runs that need not survive).
        handlers: replaces or wraps handlers, by kind.
        asker: answers questions in place.
        sandbox: where code that a model wrote runs, in place of what the settings name.
        environ: replaces the process's environment (keys and secrets).
    """

    def __init__(
        self,
        folder: str | Path = DEFAULT_FOLDER,
        *,
        tools: Sequence[Any] = (),
        deps: Deps = None,  # type: ignore[assignment]
        environments: Mapping[str, Callable[[], Environment]] | None = None,
        agents: Sequence[Any] = (),
        systems: Mapping[str, Any] | None = None,
        memories: Mapping[str, Any] | None = None,
        search_engines: Sequence[Any] = (),
        prompts: Sequence[str | Path] = (),
        models: Mapping[str, Any] | None = None,
        policy: Policy | None = None,
        settings: Settings | None = None,
        preset: str | None = None,
        store: Store | None = None,
        handlers: Callable[[dict[EffectKind, Handler]], dict[EffectKind, Handler]] | None = None,
        asker: Asker | None = None,
        sandbox: Sandbox | None = None,
        clock: Clock | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.deps = deps
        self.app: str | None = None
        self.app_folder: str | None = None
        self.asker = asker
        self.unsafe_local = False
        self.preset = preset
        self.mcp_files: tuple[Path, ...] = ()
        self._given_sandbox = sandbox
        self._given_tools = tuple(tools)
        self._given_environments = dict(environments or {})
        self._given_agents = tuple(agents)
        self._given_systems = dict(systems or {})
        self._given_memories = dict(memories or {})
        self._given_engines = tuple(search_engines)
        self.prompt_folders = tuple(Path(one) for one in prompts)
        self._models = dict(models or {})
        self._policy = policy
        self._given_settings = settings
        self._given_store = store
        self._wrap_handlers = handlers
        self._clock = clock or SystemClock()
        self._environ = os.environ if environ is None else environ
        self._open = False
        self._buses: dict[str, Bus] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._equipment: dict[str, Equipment] = {}
        self._scripts: list[Any] = []
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    # -- life ------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(verify=error is None)

    async def open(self) -> None:
        """Read the settings, open the store, register the components.

        Raises:
            SettingsError, WorkspaceNotWritableError, WorkspaceNewerError, WorkspaceCorruptError.
        """
        if self._open:
            return
        from agentorchestra.runtime.store.choose import store_for

        given = self._given_settings
        self.settings = load_settings(self.folder, self.preset) if given is None else with_preset(given, self.preset)
        if self.app is None and self.settings.app is not None:
            self.app = self.settings.app
        self.store: Store = self._given_store or store_for(self.settings, self.folder)
        await self.store.open()
        try:
            await self._assemble()
        except BaseException:  # a prompt that is none, an agent that names what is not there: nothing stays open
            await self.store.close()
            self._remove_temporary()
            raise
        self._open = True

    async def _assemble(self) -> None:
        """Make everything that an open workspace has, around its open store."""
        from agentorchestra.environments.registry import packaged_environments
        from agentorchestra.models.manager import ModelManager
        from agentorchestra.tea.finding import Finding
        from agentorchestra.tea.interpreter import MontyInterpreter
        from agentorchestra.tea.prompts import PromptLibrary
        from agentorchestra.tools.registry import builtin_tools
        from agentorchestra.tools.workbench import SandboxInterpreter
        from agentorchestra.workspace.searching import search_engines

        self.engine = LocalEngine(self.store, lease_s=self.settings.lease_s, clock=self._clock)
        if self._given_store is not None and not self.folder.exists():
            # A workspace without a folder of its own still needs a place for the files of its runs.
            self._temporary = tempfile.TemporaryDirectory(prefix="agentorchestra-")
        self._place = Place(
            folder=self.folder,
            base=self.folder if self._temporary is None else Path(self._temporary.name),
            store=self.store,
            engine=self.engine,
            clock=self._clock,
            secrets=self._secrets,
            need_open=self._need_open,
        )
        self._steering = Steering(self._place)
        self.models = ModelManager(self.settings, self._environ, extra=self._models)
        prompts = PromptLibrary(packaged_prompts(), self.folder / "prompts", given=self.prompt_folders)
        given = self.settings.sandbox
        if self.unsafe_local:
            given = given.model_copy(update={"backend": "unsafe-local"})
        self._engines = search_engines(self.settings, self.folder, self._environ, self._given_engines)
        self._builtin = builtin_tools(
            self.folder, given, sandbox=self._given_sandbox, web=self.settings.web, engines=self._engines
        )
        self._stock = stock_of(
            self.settings,
            builtin=self._builtin.tools,
            sandbox=self._builtin.sandbox,
            packaged=packaged_environments(self._environment_parts()),
            prompts=prompts,
            models=self.models,
            tools=self._given_tools,
            environments=self._given_environments,
            agents=self._given_agents,
            given_systems=self._given_systems,
            memories=self._given_memories,
        )
        closed = not self._mcp_toolkits() and not any(is_toolkit(one) for one in self._given_tools)
        await self._stock.check_agents(self._given_agents, self.store, closed=closed)
        self._calling = Calling(
            self._place, self._stock, self._create_calls, lambda called: self._supply.for_calls(called)
        )
        self._choices = Choices(self.settings, self._engines)
        self._components = self._make_components()
        self._equipping = Equipping(
            self._stock,
            self._components,
            self.store,
            self.settings.preset,
            held=self._equipment,
            clients=self._scripts,
        )
        vectors = self.folder / "vectors" if self._given_store is None or self.folder.exists() else None
        self._finding = Finding(self.store, self._calling.perform, model=self.settings.embedding_model, folder=vectors)
        self._components.find_with(self._finding)
        self._supply = Supply(
            settings=self.settings,
            place=self._place,
            stock=self._stock,
            builtin=self._builtin,
            finder=self._finding.finder,
            tcp=lambda: self.tcp,
            environ=self._environ,
            policy=self._policy,
            wrap=self._wrap_handlers,
            asker=lambda: self.asker,
            deps=lambda: self.deps,
            programs=(MontyInterpreter(), SandboxInterpreter(self._builtin.workbench)),
        )

    def _remove_temporary(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def _environment_parts(self) -> Any:
        from agentorchestra.environments.registry import EnvironmentParts

        bench = self._builtin.workbench
        reports = self.folder / "reports" if self._given_store is None or self.folder.exists() else None
        return EnvironmentParts(self.settings, bench.sandbox, bench.limits, bench.network, self._environ, reports)

    async def close(self, *, verify: bool = True) -> None:
        """Stop what is driven here, drain the log, release everything; idempotent.

        Args:
            verify: let scripted models complain about unused steps.
        """
        if not self._open:
            return
        await self._calling.close()
        self._open = False
        await self.engine.close()
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._supply.aclose()
        await self._components.close()
        await self._builtin.aclose()
        await self.models.aclose()
        await self.store.close()
        self._remove_temporary()
        if verify:
            for client in [*self._models.values(), *self._scripts]:
                finish = getattr(client, "finish", None)
                if finish is not None:
                    finish()

    @property
    def is_open(self) -> bool:
        """Whether it can be used now."""
        return self._open

    @property
    def tools(self) -> dict[str, Any]:
        """The tools by name: the packaged ones, the user's, and what others registered."""
        return self._stock.tools

    @property
    def agents(self) -> dict[str, Any]:
        """The agents by name."""
        return self._stock.agents

    @property
    def systems(self) -> dict[str, Any]:
        """The paradigms by name."""
        return self._stock.systems

    @property
    def memories(self) -> dict[str, Any]:
        """The memory systems by name."""
        return self._stock.memories

    @property
    def prompts(self) -> PromptLibrary:
        """The prompts."""
        return self._stock.prompts

    @property
    def given(self) -> dict[str, tuple[str, ...]]:
        """The names of the user's own tools, agents and systems, by kind, open or not."""
        return {
            "tool": (*tools_by_name(self._given_tools), *self._given_environments),
            "agent": tuple(str(getattr(one, "name", one)) for one in self._given_agents),
            "system": tuple(self._given_systems),
        }

    @property
    def tcp(self) -> TCPServer:
        """The Tool Context Protocol: tools, their versions and life, which fit a task, calls (000, app. C.2.1)."""
        self._need_open()
        return self._components.tcp

    @property
    def ecp(self) -> ECPServer:
        """The Environment Context Protocol (000, app. C.2.2)."""
        self._need_open()
        return self._components.ecp

    @property
    def acp(self) -> ACPServer:
        """The Agent Context Protocol (000, app. C.2.3)."""
        self._need_open()
        return self._components.acp

    @property
    def prompt_components(self) -> Server[Prompt]:
        """The prompts, under the same operations."""
        self._need_open()
        return self._components.prompt_components

    @property
    def memory_components(self) -> Server[MemoryFactory]:
        """The memory systems, under the same operations (docs/memory.md)."""
        self._need_open()
        return self._components.memory_components

    def _make_components(self) -> Components:
        from agentorchestra.agents.components import Components
        from agentorchestra.tea.servers import Access

        access = Access(
            self._ready,
            invoke_tool=self._calling.invoke_tool,
            invoke_action=self._calling.invoke_action,
            state_of=self._calling.state_of,
            invoke_agent=self._invoke_agent,
            environments=lambda: self._stock.every_environment,
        )
        own = set(tools_by_name(self._given_tools))
        return Components(
            store=self.store,
            clock=self._clock,
            programs=self._builtin.workbench,
            tools={name: one for name, one in self.tools.items() if name not in self._stock.behind},
            builtin_tools=set(self.tools) - own,
            toolkits=[*(one for one in self._given_tools if is_toolkit(one)), *self._mcp_toolkits()],
            environments={**self._stock.packaged, **self._given_environments},
            builtin_environments={*self._stock.packaged},
            agents={name: one for name, one in self.agents.items() if name not in self._stock.agents_behind},
            prompts=self.prompts,
            memories=self.memories,
            distribution=distribution(),
            access=access,
            redact=self._place.redact_json,
            may_call=self.settings.generator.tools,
            may_import=self.settings.generator.libraries,
        )

    def _mcp_toolkits(self) -> list[Any]:
        """Those of the files of MCP servers that the command line or the settings name."""
        files = self.mcp_files
        if not files and self.settings.mcp:
            beside = settings_path(self.folder)
            files = ((beside.parent if beside is not None else Path()) / self.settings.mcp,)
        if not files:
            return []
        from agentorchestra.tools.mcp import mcp

        return [mcp(one, environ=self._environ) for one in files]

    async def _ready(self, *, toolkits: bool = True) -> None:
        """Take into use what is registered: what is at hand has its versions then, and what others registered is there.

        A run that was created before keeps what it had.
        """
        await self._components.ready(toolkits=toolkits)
        self._stock.renew(self._components)

    async def _invoke_agent(self, name: str, task: str, options: dict[str, Any]) -> RunResult:
        return await self.run(task, system=name, **options)

    async def _create_calls(self) -> tuple[str, RunManifest]:
        """The run that holds the calls made outside of runs."""
        from agentorchestra.tea.kept import pin_of

        run_id = new_run_id()
        roles = dict(self.settings.roles)
        asked = [self.settings.model, *(one.model for one in roles.values() if one.model)]
        names = [one for first in asked for one in self.models.chain(first)]
        manifest = RunManifest(
            task=CALLS_TASK,
            system=CALLS,
            model=self.settings.model,
            tools={name: pin_of(one) for name, one in sorted(self.tools.items())}
            | {name: pin_of(make()) for name, make in sorted(self._stock.every_environment.items())},
            seed=sha256_text(run_id)[:16],
            budget=self._choices.budget(names, None, self.models),
            roles=roles,
            context_windows=self._choices.windows({*names, *self.settings.models}, self.models),
            choices=tuple(sorted(self.settings.models)),
            action=self.settings.action,
            preset=self.settings.preset,
            prompt_tool_chars=self.settings.prompt_tool_chars,
            on_ask="wait" if self.asker is not None else "deny",
            app=self.app,
            app_folder=self.app_folder,
            distribution=distribution(),
            created=self._clock.now(),
            embedding_model=self.settings.embedding_model,
            transcription_model=self.settings.transcription_model,
            media_models=self._choices.media_models(self.models, self.settings.model, self.settings.roles),
            sandbox=self._builtin.sandbox,
            environments=tuple(sorted(self._stock.packaged)),
        )
        created = new_event(RunCreated(manifest=manifest), ts=manifest.created)
        await self.store.create_run(run_id, manifest, [created])
        return run_id, manifest

    @property
    def notes(self) -> tuple[str, ...]:
        """What of its toolkits was left out or passed over, a sentence each; servers may have chosen the words."""
        self._need_open()
        return self._components.notes

    @property
    def calls_run(self) -> str | None:
        """The run that holds the calls made outside of runs (`tcp.invoke`, `ecp.invoke`); None before the first."""
        self._need_open()
        return self._calling.run_id

    def run_folder(self, run_id: str) -> Path:
        """The folder that the environments of a run work on (`files`, `terminal`, `git`); the user's to look into.

        It need not exist: for a run without environments there is none. Copy what is to be changed: a resume of the
        run puts it back to where its log says.
        """
        return world_folder(self.runs_folder / run_id, MAIN) / "folder"

    @property
    def runs_folder(self) -> Path:
        """Where the runs keep their files."""
        return self._place.runs_folder

    # -- runs ------------------------------------------------------------------------------------------------------

    async def run(
        self,
        task: str,
        *,
        files: Sequence[str | Path] = (),
        tools: Sequence[Any] = (),
        deps: Any = None,
        output_type: type[Any] | None = None,
        system: str | None = None,
        model: Any = None,
        policy: Policy | None = None,
        budget: Budget | None = None,
        max_steps: int | None = None,
        on_ask: Literal["wait", "deny"] | None = None,
        on_uncertain: Literal["report", "ask", "retry"] | None = None,
        labels: Mapping[str, str] | None = None,
        seed: str | None = None,
        session: str | None = None,
        roles: Mapping[str, str] | None = None,
        finish: Literal["done", "text"] | None = None,
        action: Literal["tools", "code"] | None = None,
        memory: str | None = None,
        environments: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
    ) -> RunResult:
        """Run a task to its end, or to where it waits.

        Args:
            task: what is asked, in the user's words.
            files: files that belong to it, and folders for what lies below them; their bytes are kept with the run.
            tools: further tools for this run. A resume in another process finds them again only through
                `app = "module:workspace"`, or when they are given to `resume`.
            deps: dependencies for this run instead of the workspace's.
            output_type: the type of `result.output` (a pydantic model, dataclass, or anything pydantic can check).
            system: the paradigm; the settings' one by default.
            model: a profile's name, `provider:model`, or a ModelClient.
            policy: replaces the workspace's policy for this run.
            budget: limits over the whole tree.
            max_steps: decisions of the top agent.
            on_ask: what happens to questions nobody can answer now.
            on_uncertain: what happens to effects that may have happened before a crash.
            labels: for `runs` and statistics.
            seed: derived ids and randomness repeat for equal seeds; random by default.
            session: the name of a session: the top agent is told the session's earlier tasks and answers.
            roles: models by role (`planner`, `analyzer`, ...). A `model` that is given holds for every role that is
                not named here, whatever the settings say; without one the settings' roles hold.
            finish: `text` takes a reply in plain words without a call for the answer, as chat models finish by
                themselves; `done` (the default) asks for a call, which also gives status and sources.
            action: `code` lets agents act by writing a program in each step, in which their tools are functions;
                `tools` (the default) by calling them.
            memory: the memory system of the top agent: `none` (the default), `window`, `summary`, `insights`, or one of
                `memories`, which remember within the session; or `workflow`, of which insights serve the workspace.
            environments: names of packaged environments (`files`, `terminal`, ...) that the top agent works in, besides
                the workspace's own; `run_folder` says where their files are.
            options: what the system is told besides the task; `debate` takes `experts` and `rounds` (docs/debate.md).

        Raises:
            UsageError: for input that is refused before anything is spent.
        """
        run_id = await self.create(
            task,
            files=files,
            tools=tools,
            output_type=output_type,
            system=system,
            model=model,
            budget=budget,
            max_steps=max_steps,
            on_ask=on_ask,
            on_uncertain=on_uncertain,
            labels=labels,
            seed=seed,
            session=session,
            roles=roles,
            finish=finish,
            action=action,
            memory=memory,
            environments=environments,
            options=options,
        )
        return await self._drive(run_id, deps=deps, policy=policy, output_type=output_type)

    async def create(
        self,
        task: str,
        *,
        files: Sequence[str | Path] = (),
        tools: Sequence[Any] = (),
        output_type: type[Any] | None = None,
        system: str | None = None,
        model: Any = None,
        budget: Budget | None = None,
        max_steps: int | None = None,
        on_ask: Literal["wait", "deny"] | None = None,
        on_uncertain: Literal["report", "ask", "retry"] | None = None,
        labels: Mapping[str, str] | None = None,
        seed: str | None = None,
        session: str | None = None,
        roles: Mapping[str, str] | None = None,
        finish: Literal["done", "text"] | None = None,
        action: Literal["tools", "code"] | None = None,
        memory: str | None = None,
        environments: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        temporary_files: bool = False,
    ) -> str:
        """Check everything, then write the run into the log; nothing is spent yet. `resume` drives it.

        Args: as for `run`, and
            temporary_files: the files lie where they will not stay: sources name the run's own copies.

        Returns:
            The run's id.
        """
        from agentorchestra.agents.kit import find_system
        from agentorchestra.tea.kept import pin_of

        self._need_open()
        finish = finish or self.settings.finish
        action = action or self.settings.action
        if action not in ("tools", "code"):
            raise SettingsError(f"action is {action!r}; it is 'tools' or 'code'")
        check_arguments(files, budget, on_ask, on_uncertain, labels)
        task = task.strip()
        if not task:
            raise EmptyTaskError('the task is empty; say what is to be done, e.g. agentorchestra run "What is ...?"')
        system = system or self.settings.system
        if system not in self.agents:
            find_system(system, self.systems)
        name = self._choices.name(model)
        await self._ready()
        equipment = await self._equipping.with_given(self._equipping.base(), tools, model)
        asked = self.agents.get(system)
        if asked is not None and asked.on_request:  # who names the agent wants where it works
            environments = [*environments, *asked.environments]
        named = self._stock.environments_named(environments, equipment)
        equipment = replace(equipment, environments=named, system=system)
        for one in equipment.environments:  # what it needs of this machine is missed now, not in the middle of the work
            check = getattr(self._stock.packaged[one](), "check", None)
            if check is not None:
                check()
        equipment.models.check(name)
        drive = self.systems.get(system) if asked is None else asked.drive
        told = check_options(system, drive, options or {}, {*self._stock.team(equipment)}, name)
        worded = finish != "text" or action == "code" or equipment.models.client(name).native_tools
        check_finish(finish, output_type, native=worded)
        remembering = self._memory_name(memory)
        chosen_roles = self._choices.roles(roles, explicit=model is not None, models=equipment.models)
        history = await self._earlier(session)
        remembered = await self._remembered(session)
        steps = self.settings.max_steps if max_steps is None else max_steps
        if asked is not None and max_steps is None and "max_steps" not in self.settings.model_fields_set:
            steps = max(steps, asked.max_steps)  # nobody chose another number than its maker
        if steps < 1:
            raise BudgetError(f"max_steps is {steps}; an agent needs at least 1")
        seeing = self._choices.media_models(equipment.models, name, chosen_roles)
        names = [name, *(role.model for role in chosen_roles.values() if role.model)]
        names = [one for first in names for one in equipment.models.chain(first)]
        perhaps = {one for each in seeing.values() for one in each}
        limits = self._choices.budget(names, budget, equipment.models, perhaps=perhaps)
        run_id = new_run_id()
        kept = await self._keep_files(run_id, files, temporary=temporary_files)
        schema = schema_of(output_type)
        schemas = await self._equipping.keep_texts(equipment)
        manifest = RunManifest(
            task=self._place.redact(task),
            system=system,
            model=name,
            files=kept.refs,
            left_out=kept.left_out,
            tools={name: pin_of(one) for name, one in sorted(equipment.tools.items())}
            | {name: pin_of(make()) for name, make in sorted(self._stock.environments_for(equipment).items())},
            prompts=equipment.prompts.pins(),
            seed=seed or sha256_text(run_id)[:16],
            budget=limits,
            max_steps=steps,
            on_ask=on_ask or self.settings.on_ask,
            on_uncertain=on_uncertain or self.settings.on_uncertain,
            labels={self._place.redact(key): self._place.redact(value) for key, value in (labels or {}).items()},
            app=self.app,
            app_folder=self.app_folder,
            output_schema=schema,
            distribution=distribution(),
            created=self._clock.now(),
            session=session,
            earlier=history,
            roles=chosen_roles,
            agents={name: pin_of(one) for name, one in sorted(self._stock.team(equipment).items())},
            embedding_model=self.settings.embedding_model,
            transcription_model=self.settings.transcription_model,
            context_windows=self._choices.windows({*names, *self.settings.models}, equipment.models),
            media_models=seeing,
            finish=finish,
            action=action,
            sandbox=self._builtin.sandbox,
            kept=remembered,
            schemas=schemas,
            choices=tuple(sorted(self.settings.models)),
            memory=remembering,
            memory_session=session,
            prompt_tool_chars=self.settings.prompt_tool_chars,
            environments=equipment.environments,
            options=self._place.redact_json(told),
            preset=self.settings.preset,
        )
        created = new_event(RunCreated(manifest=manifest), ts=manifest.created)
        await self.store.create_run(run_id, manifest, [created])
        self._equipping.hold(run_id, equipment)
        return run_id

    async def resume(
        self,
        run_id: str,
        *,
        tools: Sequence[Any] = (),
        deps: Any = None,
        policy: Policy | None = None,
        model: Any = None,
        output_type: type[Any] | None = None,
        budget: Budget | None = None,
        pin: bool = False,
    ) -> RunResult:
        """Go on with a run that was interrupted, waits, failed, or ran out of budget.

        What is recorded is not asked, paid or executed again. A run that ended returns its result, and so does one
        that only waits for a time that has not come (`result.until`).

        Args:
            run_id: the run.
            tools, deps, policy, output_type: what was given to `run`, for a process that does not have it.
            model: the client the manifest names, where it is not found by name.
            budget: other limits from here on.
            pin: use the prompts and tools as the run was started with (their texts are kept with it) where they have
                changed since. The kept text of a changed tool's module is executed, as its file once was.

        Raises:
            UnknownRunError, UnknownComponentError, FencedError (another process drives it), DivergedError, PinError.
        """
        self._need_open()
        record = await self._place.record(run_id)
        if record.status in FINAL:
            return self._typed(await self.result(run_id), output_type)
        waits = record.status is RunStatus.WAITING and budget in (None, Budget())
        if waits and not_yet(await self.store.load(run_id), self._clock.now()):
            return self._typed(await self.result(run_id), output_type)
        await self._ready()
        given = await self._equipping.with_given(self._equipping.of(record), tools, model)
        equipment = await self._equipping.as_started(record, given, pin=pin)
        self._equipping.check(record.manifest, equipment)
        equipment.models.check(record.manifest.model)
        self._equipping.hold(run_id, given)  # what is pinned is so for this time
        return await self._drive(
            run_id, deps=deps, policy=policy, output_type=output_type, budget=budget, equipment=equipment
        )

    async def _drive(
        self,
        run_id: str,
        *,
        deps: Any = None,
        policy: Policy | None = None,
        output_type: type[Any] | None = None,
        budget: Budget | None = None,
        equipment: Equipment | None = None,
    ) -> RunResult:
        record = await self._place.record(run_id)
        if record.status in FINAL:
            return self._typed(await self.result(run_id), output_type)
        equipment = equipment or self._equipping.of(record)
        services = self._supply.for_run(equipment, policy)
        top = partial(self._top, record.manifest, self._stock.hidden(equipment))

        async def drive(epoch: int) -> RunResult:
            while True:
                events = await self.store.load(run_id)
                if budget is not None:
                    events = await self._raise_budget(run_id, epoch, record.manifest, events, budget)
                run = Run(
                    services,
                    run_id,
                    record.manifest,
                    events,
                    epoch=epoch,
                    bus=self._buses.get(run_id),
                    deps=self.deps if deps is None else deps,
                )
                self.engine.attach(run)
                # What came while the log was read: nobody else looks for it, and a request to stop may be the last.
                await self.engine.poke(run_id)
                since = {e.type for e in events if e.seq >= record.next_seq}
                if "pause_requested" in since:
                    run.pause()
                if "cancel_requested" in since:
                    driving = asyncio.current_task()
                    assert driving is not None
                    driving.cancel()
                for change in await self._equipping.changed_since(record.manifest, equipment):
                    run.note(change, level="warning")
                for failure in self._components.failures():
                    run.note(failure, level="warning")
                result = await run.drive(top, owner=self.engine.owner)
                # The answer or the time may have come while the siblings of what waits were still at work.
                if result.status is not RunStatus.WAITING:
                    return result
                if (result.until is None or result.until > self._clock.now()) and not await self._answered_since(run):
                    return result

        result = await self.engine.submit(run_id, drive)
        if result.status in FINAL:
            self._finding.ended(run_id)
        if result.status is RunStatus.WAITING:
            # What came while the job ended found nobody who would hear it.
            asked = await requested(self.store, run_id)
            if asked is not None:
                await end_undriven(self.store, self.engine, self._clock, run_id, asked)
            if (await self._place.record(run_id)).status in (RunStatus.PAUSED, RunStatus.CANCELLED):
                result = await self.result(run_id)
        return self._typed(result, output_type)

    async def _answered_since(self, run: Run) -> bool:
        # From the log alone: the run's own ledger may have taken the answer in while siblings were at work.
        ledger = Ledger.of(await self.store.load(run.id))
        return any(
            record.outcome is None and record.kind is EffectKind.ASK_HUMAN and str(key) in ledger.answers
            for key, record in ledger.records.items()
        )

    async def _raise_budget(
        self, run_id: str, epoch: int, manifest: RunManifest, events: list[Event], budget: Budget
    ) -> list[Event]:
        if (
            current_budget(manifest, events).model_dump() | budget.model_dump(exclude_none=True)
            == current_budget(manifest, events).model_dump()
        ):
            return events
        body = BudgetRaised(budget=budget.model_dump(mode="json", exclude_none=True))
        await wait_for(self.store.append(run_id, epoch, [new_event(body, ts=self._clock.now())]))
        return await self.store.load(run_id)

    async def _top(self, manifest: RunManifest, hidden: frozenset[str], root: Session[Any]) -> AgentResult:
        """Perform the top agent on the root session."""
        from agentorchestra.agents.kit import agent_effect

        if manifest.system == CALLS:
            return await repeated(root)
        tools = tuple(sorted(name for name in manifest.tools if name not in self._stock.behind | hidden))
        role, agent = "agent", self.agents.get(manifest.system) if manifest.system not in self.systems else None
        if agent is not None:
            role = agent.role
            wanted = agent.reach(tuple({*manifest.tools} - self._stock.builtin - hidden))
            tools = tuple(sorted({*wanted, *manifest.environments} & {*manifest.tools}))
        spec = AgentSpec(
            name=manifest.system,
            instruction=manifest.task,
            tools=tools,
            role=role,
            system=manifest.system,
            max_steps=manifest.max_steps,
            output_schema=manifest.output_schema,
            finish=manifest.finish,
        )
        outcome = await root.perform(agent_effect(spec, root))
        if outcome.value is None:
            raise AgentFailedError(outcome.error or f"{manifest.system} gave no result")
        return AgentResult.model_validate(outcome.value)

    async def fork(
        self,
        run_id: str,
        *,
        at: int | str | None = None,
        model: Any = None,
        roles: Mapping[str, str] | None = None,
        prompts: Mapping[str, str | Path] | None = None,
        outcomes: Mapping[str, JsonValue] | None = None,
        budget: Budget | None = None,
        labels: Mapping[str, str] | None = None,
        tools: Sequence[Any] = (),
    ) -> str:
        """Make a new run with the log of another one up to an event; `resume` drives it on from there, live.

        What differs holds from that event on: what was recorded before is neither asked nor paid again. The fork has
        a budget of its own, of which its parent has spent nothing.

        Args:
            run_id: the parent, which is only read.
            at: its last event that both have: a sequence, the key of an effect for its outcome, None for the end.
            model: another model, for every role that is not named in `roles`.
            roles: models by role.
            prompts: files with other prompts, by name.
            outcomes: other values for recorded outcomes, by key; nothing may have followed from those.
            budget: other limits than the parent's.
            labels: besides the parent's.
            tools: as for `run`.

        Returns:
            The new run's id.

        Raises:
            ForkError: for an event or a change that does not fit, and for environments that cannot be carried over.
        """
        self._need_open()
        check_arguments((), budget, None, None, labels)
        parent = await self._place.record(run_id)
        events = await self.store.load(run_id)
        seq = fork_point(run_id, events, at)
        copied = [event for event in events if event.seq <= seq]
        ledger = Ledger.of(copied)
        refuse_lost_environments(run_id, ledger, self._stock.every_environment)
        for key, value in (outcomes or {}).items():
            replaceable(ledger, key, value)
        await self._ready()
        equipment = await self._equipping.with_given(self._equipping.of(parent), tools, model)
        self._equipping.check(parent.manifest, equipment)
        changes, overrides = await self._changes(parent.manifest, equipment, model, roles, prompts)
        limits = current_budget(parent.manifest, copied).model_dump() | (budget or Budget()).model_dump(
            exclude_none=True
        )
        names = [one for name in changes.pop("asked") for one in equipment.models.chain(name)]
        new_id = new_run_id()
        manifest = parent.manifest.model_copy(
            update={
                **changes,
                "parent_run": run_id,
                "fork_seq": seq,
                "overrides": overrides | {f"outcome:{key}": value for key, value in (outcomes or {}).items()},
                "began": parent.manifest.began or parent.manifest.created,
                "created": self._clock.now(),
                "budget": self._choices.budget(names, Budget(**limits), equipment.models),
                "labels": parent.manifest.labels
                | {self._place.redact(k): self._place.redact(v) for k, v in (labels or {}).items()},
                "session": None,  # the session has the parent's answer already
                "distribution": distribution(),
            }
        )
        if parent.imported is not None:
            manifest = await self._made_own(manifest, equipment, given=tuple(prompts or ()))
        new = forked_events(
            run_id, copied, seq, manifest, outcomes=self._place.redact_json(dict(outcomes or {})), now=manifest.created
        )
        await asyncio.to_thread(link_files, self.runs_folder / run_id / "files", self.runs_folder / new_id / "files")
        await self.store.create_run(new_id, manifest, new)
        self._equipping.hold(new_id, equipment)
        return new_id

    async def _made_own(self, manifest: RunManifest, equipment: Equipment, *, given: tuple[str, ...]) -> RunManifest:
        """The manifest of a fork of an imported run: with this machine's application, tools and prompts.

        The fork is a run of this machine, so nothing of what came in may stand for this machine's own.

        Args:
            manifest: made of the parent's.
            equipment: what the fork is driven with.
            given: names of the prompts that were given to the fork.
        """
        from agentorchestra.tea.kept import pin_of

        made = {name: make() for name, make in self._stock.environments_for(equipment).items()}
        foreign = {f"prompt:{name}" for name in manifest.prompts if name not in given}
        return manifest.model_copy(
            update={
                "app": self.app,
                "app_folder": self.app_folder,
                "tools": {name: pin_of(equipment.tools.get(name) or made[name]) for name in manifest.tools},
                "agents": {name: pin_of(self.agents[name]) for name in manifest.agents},
                "prompts": equipment.prompts.pins() | {name: manifest.prompts[name] for name in given},
                "overrides": {name: value for name, value in manifest.overrides.items() if name not in foreign},
                "schemas": await self._equipping.keep_texts(equipment),
            }
        )

    async def _changes(
        self,
        manifest: RunManifest,
        equipment: Equipment,
        model: Any,
        roles: Mapping[str, str] | None,
        prompts: Mapping[str, str | Path] | None,
    ) -> tuple[dict[str, Any], dict[str, JsonValue]]:
        """What a fork's manifest has otherwise than its parent's, and the same as it is written down."""
        changes: dict[str, Any] = {"asked": [manifest.model]}
        overrides: dict[str, JsonValue] = {k: v for k, v in manifest.overrides.items() if not k.startswith("outcome:")}
        if model is not None or roles:
            name = self._choices.name(model) if model is not None else manifest.model
            equipment.models.check(name)
            chosen = {
                role: one.model_copy(update={"model": ""}) if model is not None else one
                for role, one in manifest.roles.items()
            }
            for role, other in (roles or {}).items():
                equipment.models.check(other)
                chosen[role] = chosen.get(role, RoleSettings()).model_copy(update={"model": other})
                overrides[f"role:{role}"] = other
            asked = [name, *(one.model for one in chosen.values() if one.model)]
            windows = manifest.context_windows | self._choices.windows(set(asked), equipment.models)
            changes |= {
                "model": name,
                "roles": dict(sorted(chosen.items())),
                "context_windows": windows,
                "media_models": self._choices.media_models(equipment.models, name, chosen),
                "asked": asked,
            }
            if model is not None:
                overrides["model"] = name
        if prompts:
            texts = {name: prompt_text(name, Path(path), equipment.prompts) for name, path in prompts.items()}
            pins = equipment.prompts.with_texts(texts).pins()
            for name, text in texts.items():
                await self.store.put_blob(text.encode(), SOURCE_MEDIA_TYPE)
                overrides[f"prompt:{name}"] = pins[name].content_hash
            changes["prompts"] = manifest.prompts | {name: pins[name] for name in texts}
        return changes, overrides

    async def compare(self, run_id: str, other_id: str) -> Comparison:
        """Where two runs first differ, and how each goes on from there."""
        await self._place.record(run_id)
        await self._place.record(other_id)
        return compare_runs(await self.store.load(run_id), await self.store.load(other_id))

    async def stream(self, task: str, **options: Any) -> AsyncIterator[Notice]:
        """Run a task and yield what happens: events, streamed text, progress, at last the end with the result.

        Args:
            task: as in `run`.
            options: as in `run`.
        """
        drive_options = {key: options.pop(key, None) for key in ("deps", "policy")}
        run_id = await self.create(task, **options)
        async with self._watched(run_id) as queue:
            work = asyncio.create_task(self._drive(run_id, output_type=options.get("output_type"), **drive_options))
            self._tasks.add(work)
            try:
                while True:
                    getter = asyncio.ensure_future(queue.get())
                    await asyncio.wait({getter, work}, return_when=asyncio.FIRST_COMPLETED)
                    if getter.done():
                        notice = getter.result()
                        if notice.kind == "end":
                            break
                        yield notice
                        continue
                    getter.cancel()
                    while not queue.empty():
                        notice = queue.get_nowait()
                        if notice.kind != "end":
                            yield notice
                    break
                yield Notice(kind="end", run=run_id, result=await work)
            finally:
                # A reader that stops reading stops the run; what is recorded can be resumed.
                if not work.done():
                    work.cancel()
                    await asyncio.gather(work, return_exceptions=True)
                self._tasks.discard(work)

    @asynccontextmanager
    async def _watched(self, run_id: str) -> AsyncIterator[asyncio.Queue[Notice]]:
        bus = self._buses.setdefault(run_id, Bus())
        try:
            with bus.subscribe() as queue:
                yield queue
        finally:
            self._buses.pop(run_id, None)

    @asynccontextmanager
    async def watch(self, run_id: str) -> AsyncIterator[asyncio.Queue[Notice]]:
        """A queue of notices of a run that is about to be driven here."""
        async with self._watched(run_id) as queue:
            yield queue

    # -- questions -------------------------------------------------------------------------------------------------

    async def answer(self, run_id: str, answer: str, *, question: str | None = None, by: str = "") -> Question:
        """Answer an open question; `resume` (here or anywhere) goes on.

        Args:
            run_id: the run.
            answer: the text.
            question: its key; without it, the oldest open question.
            by: who answers.

        Raises:
            AnswerError: if there is no such open question, or it asks for an approval.
        """
        self._need_open()
        return await self._steering.answer(run_id, answer, question=question, by=by, kind="question")

    async def approve(self, run_id: str, *, question: str | None = None, by: str = "") -> Question:
        """Approve the oldest (or the named) open approval."""
        self._need_open()
        return await self._steering.answer(run_id, True, question=question, by=by, kind="approval")

    async def deny(self, run_id: str, *, reason: str = "", question: str | None = None, by: str = "") -> Question:
        """Deny the oldest (or the named) open approval."""
        self._need_open()
        # Only True approves: no reason, however it is worded, can be read as a yes.
        said = reason.strip() or False
        return await self._steering.answer(run_id, said, question=question, by=by, kind="approval")

    async def tell(self, run_id: str, text: str, *, to: str = "", by: str = "") -> None:
        """Add to a running task; the top agent reads it at its next step.

        Args:
            run_id: the run.
            text: counts as the user's own words.
            to: mail for this agent in place of that, for which it waits (`ctx.wait_for_mail`); a run that waits for
                nothing else goes on with the next `resume`.
            by: who tells it.

        Raises:
            UnknownComponentError: if the run has no agent of this name.
        """
        self._need_open()
        await self._steering.tell(run_id, text, to=to, by=by)

    async def cancel(self, run_id: str, *, reason: str = "", by: str = "") -> None:
        """Stop a run, wherever it is driven. A run nobody drives is marked as cancelled at once."""
        self._need_open()
        await self._steering.cancel(run_id, reason=reason, by=by)

    async def pause(self, run_id: str, *, reason: str = "", by: str = "") -> RunStatus:
        """Stop a run before its next effect, wherever it is driven; `resume` goes on.

        What is under way ends and is recorded: nothing is interrupted or paid twice. A run nobody drives is paused at
        once. A run that is over, paused or was stopped otherwise stays as it is.

        Returns:
            Its status now: `running` where its driver was asked and what is under way has not ended yet.
        """
        self._need_open()
        return await self._steering.pause(run_id, reason=reason, by=by)

    async def questions(self, run_id: str) -> tuple[Question, ...]:
        """The open questions of a run, oldest first."""
        self._need_open()
        return await self._steering.questions(run_id)

    # -- reading ---------------------------------------------------------------------------------------------------

    async def events(self, run_id: str, *, after: int = 0) -> list[Event]:
        """The run's log."""
        await self._place.record(run_id)
        return await self.store.load(run_id, after=after)

    async def due(self) -> list[str]:
        """The waiting runs that can go on: their time has come, or their answer or mail is there; `resume` does it."""
        self._need_open()
        return await due_runs(self.store, self._clock.now())

    async def waiting_until(self) -> dict[str, datetime]:
        """When the first timer of each run that waits for a time is due."""
        self._need_open()
        return await waiting_until(self.store)

    async def runs(self, *, limit: int | None = None) -> list[RunRecord]:
        """The workspace's runs, newest first."""
        self._need_open()
        return await self.store.list_runs(limit=limit)

    async def gc(
        self, retention: Retention | None = None, *, grace_s: float = GRACE_S, dry_run: bool = False
    ) -> Collected:
        """Delete runs that are no longer wanted, and folders, files and blobs that no run refers to.

        Args:
            retention: which runs go, if nobody needs them; none by default.
            grace_s: blobs, files and folders that are younger stay, in seconds.
            dry_run: only say what would go.
        """
        self._need_open()
        now, base = self._clock.now(), self.runs_folder.parent
        return await collect(self.store, base, retention or Retention(), now=now, grace_s=grace_s, dry_run=dry_run)

    async def result(self, run_id: str) -> RunResult:
        """The result as the log has it; a run that is not over gives its present status."""
        record = await self._place.record(run_id)
        events = await self.store.load(run_id)
        run = Run(
            self._supply.for_run(self._equipping.base()), run_id, record.manifest, events, epoch=None, mode="replay"
        )
        ended = next((e.data for e in reversed(events) if e.type == "run_ended"), None)
        if not isinstance(ended, RunEnded) or ended.status != record.status:
            ended = RunEnded(status=record.status, active_s=round(run.active_s(), 3))
        return make_result(run_id, record.manifest, ended, run)

    async def artifact(self, run_id: str, name: str) -> bytes:
        """The bytes of a file a run produced, or of a result that was cut.

        Raises:
            UnknownComponentError: with the names of the run's artifacts.
        """
        artifacts = (await self.result(run_id)).artifacts
        for ref in artifacts:
            if ref.name == name:
                return await self.store.get_blob(ref.sha256)
        known = ", ".join(ref.name for ref in artifacts) or "none"
        raise UnknownComponentError(f"run {run_id} has no artifact {name!r}; its artifacts: {known}")

    async def tokens(self, run_id: str) -> tuple[SourceTokens, ...]:
        """Where a run's input tokens went: by the source of what stood in its prompts, the largest first."""
        await self._place.record(run_id)
        return tokens_by_source(Ledger.of(await self.store.load(run_id)))

    async def replay(
        self, run_id: str, *, tools: Sequence[Any] = (), deps: Any = None, model: Any = None, pin: bool = False
    ) -> ReplayReport:
        """Run today's code and prompts against the recording, with no handler called.

        Args:
            run_id: the run.
            tools, deps, model: as for `resume`.
            pin: with the prompts and tools as the run was started with.

        Raises:
            DivergedError: at the first effect that differs.
            ReplayError: if the replay asks for other keys than were recorded.
        """
        self._need_open()
        record = await self._place.record(run_id)
        await self._ready(toolkits=False)  # what is recorded is not called
        equipment = await self._equipping.with_given(self._equipping.of(record), tools, model)
        events = await self.store.load(run_id)
        equipment = await self._equipping.as_replayed(record, equipment, events, pin=pin)
        self._equipping.check(record.manifest, equipment)
        run = Run(
            self._supply.for_run(equipment),
            run_id,
            record.manifest,
            events,
            epoch=None,
            mode="replay",
            deps=self.deps if deps is None else deps,
        )
        if record.imported is not None:
            run.sealed = frozenset({EffectKind.INVOKE_TOOL, EffectKind.INVOKE_ACTION, EffectKind.RUN_CODE})
        try:
            result = await run.replay(partial(self._top, record.manifest, self._stock.hidden(equipment)))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as exc:
            if record.imported is None:
                raise
            raise ReplayError(
                f"the log of the imported run {run_id} says something that no run says ({type(exc).__name__}: "
                f"{(str(exc).splitlines() or [''])[0][:200]}); import it again from where it was made"
            ) from None
        return ReplayReport(
            run_id=run_id, keys=len(run.visited), status=record.status, answer=result.answer if result else ""
        )

    # -- to and from elsewhere -------------------------------------------------------------------------------------

    async def export(self, run_id: str, out: str | Path | None = None, *, files: bool = True) -> Exported:
        """Write a run with everything that a replay on another machine needs into one file (docs/bundles.md).

        Args:
            run_id: the run; of one that is being driven, what is recorded by now.
            out: the file; RUN.zip in the current folder by default.
            files: take the files given with its task along.

        Raises:
            BundleError: if the file cannot be written, or would hold a secret.
        """
        from agentorchestra.runtime.bundle.origin import packages, revision, shown_settings
        from agentorchestra.runtime.bundle.secrets import secret_variables
        from agentorchestra.runtime.bundle.writing import export_run

        record = await self._place.record(run_id)
        return await export_run(
            self.store,
            record,
            Path(out if out is not None else f"{run_id}.zip"),
            kept=self._carried() if files else None,
            secrets=secret_variables(self._environ) | self._secrets(),
            settings=shown_settings(self.settings),
            packages=packages(),
            distribution=distribution(),
            git=await asyncio.to_thread(revision, Path(self.app_folder or self.folder.absolute().parent)),
        )

    async def import_file(self, path: str | Path) -> list[Imported]:
        """Take the run of a bundle, or whole logs as `agentorchestra log --jsonl` writes them, into this workspace.

        Everything is checked before anything is written, and nothing that comes in is executed, then or by `replay`.

        Raises:
            BundleError: for a file that does not fit, and for a run that is here already and is another.
        """
        from agentorchestra.runtime.bundle.reading import import_file

        self._need_open()
        return await import_file(
            self.store, Path(path), kept=self._carried(), folder=self.runs_folder.parent, now=self._clock.now()
        )

    def _carried(self) -> CarriedFiles:
        from agentorchestra.tools.files.carry import CarriedFiles

        return CarriedFiles(self.runs_folder.parent / "files", self.runs_folder)

    async def log(
        self, wanted: LogQuery | None = None, *, task: str | None = None, limit: int | None = None
    ) -> AsyncIterator[Event]:
        """Events of any runs, oldest run first: the paper's tracer, by session, task, record and index (000, C.1.1).

        Args:
            wanted: which ones; all by default.
            task: only of runs whose task has this text in it, whatever the case.
            limit: only the last ones, so many.
        """
        wanted = wanted or LogQuery()
        if task is not None:
            runs = [one.id for one in await self.runs() if task.casefold() in one.manifest.task.casefold()]
            held = runs if wanted.runs is None else [one for one in runs if one in wanted.runs]
            wanted = wanted.model_copy(update={"runs": tuple(held)})
        async for event in selected_events(self.store, wanted, limit):
            yield event

    async def remembered(
        self,
        query: str = "",
        *,
        kinds: Sequence[EntryKind] = ("summary", "insight"),
        agent: str = "",
        limit: int | None = None,
    ) -> list[Entry]:
        """What the workspace's runs remember, newest first; of insights those that hold now.

        Args:
            query: only what fits it, best first.
            kinds: `event`, `summary`, `insight`.
            agent: only what this agent wrote.
            limit: at most so many.
        """
        from agentorchestra.tea.memory.handler import fitting
        from agentorchestra.tea.memory.reading import remembered

        self._need_open()
        found = [one for one, _ in await remembered(self.store, kinds) if agent in ("", one.agent)][::-1]
        return fitting(found, query, limit or len(found)) if query else found[:limit]

    async def forget(self, names: Sequence[str], *, by: str = "") -> list[str]:
        """Have entries never be told again, by their `ref`; the log keeps them.

        Returns:
            The references of all that is forgotten now: an insight that was found several times is several entries.

        Raises:
            UsageError: for a name that there is not; nothing is forgotten then.
        """
        from agentorchestra.tea.memory.reading import forget

        self._need_open()
        return await forget(self.store, names, clock=self._clock, by=by)

    # -- without async ---------------------------------------------------------------------------------------------

    def run_sync(self, task: str, **options: Any) -> RunResult:
        """`run` without async, in a notebook too: opens and closes the workspace if it is not open."""

        async def work() -> RunResult:
            async with self:
                return await self.run(task, **options)

        if self._open:
            raise WorkspaceStateError(
                "run_sync opens the workspace itself; inside `async with` use `await ws.run(...)`"
            )
        result: RunResult = run_anywhere(work)
        return result

    # -- parts -----------------------------------------------------------------------------------------------------

    def _need_open(self) -> None:
        if not self._open:
            raise WorkspaceStateError("the workspace is not open; use `async with Workspace(dir) as ws:`")

    def _memory_name(self, given: str | None) -> str:
        from agentorchestra.tea.memory.base import NONE

        name = self.settings.memory if given is None else given
        if name not in ("", NONE, *self.memories):
            failure = self._components.memories.failures().get(name)
            if failure is not None:
                raise UnknownComponentError(failure)
            near = difflib.get_close_matches(name, [NONE, *self.memories], n=1)
            guess = f"did you mean {near[0]}?" if near else f"there are: {', '.join([NONE, *sorted(self.memories)])}"
            raise UnknownComponentError(f"no memory system {name!r}; {guess}")
        self._check_agents_memories()
        return "" if name == NONE else name

    def _check_agents_memories(self) -> None:
        from agentorchestra.tea.memory.base import NONE

        known = ("", NONE, *sorted(self.memories))
        for name, one in self.settings.agents.items():
            if one.memory is not None and one.memory not in known:
                raise SettingsError(
                    f"the settings give the agent {name!r} the memory system {one.memory!r} (agents.{name}.memory), "
                    f"which is not there; the memory systems: {', '.join(known[1:])}"
                )

    async def _earlier(self, session: str | None) -> tuple[Exchange, ...]:
        """The session's earlier tasks and answers, oldest first: what the log has of runs that gave an answer."""
        if session is None:
            return ()
        if not session.strip():
            raise SettingsError("the session has no name; give one, e.g. --session contract")
        found = []
        for record in await self.store.list_runs():
            if record.manifest.session != session or record.status in (RunStatus.CREATED, RunStatus.RUNNING):
                continue
            ended = next((e.data for e in reversed(await self.store.load(record.id)) if e.type == "run_ended"), None)
            answer = str(ended.result.get("answer") or "") if isinstance(ended, RunEnded) else ""
            if answer:
                found.append(Exchange(run_id=record.id, task=record.manifest.task, answer=answer, status=record.status))
            if len(found) == EARLIER_MOST:
                break
        return tuple(reversed(found))

    async def _remembered(self, session: str | None) -> dict[str, JsonValue]:
        """What agents remember at the end of the session's latest run: what it began with, and what it left."""
        for record in await self.store.list_runs() if session is not None else ():
            if record.manifest.session != session or record.status not in FINAL:
                continue
            kept = dict(record.manifest.kept)
            records = Ledger.of(await self.store.load(record.id)).records
            for key in sorted(key for key in records if key.branch == "/"):
                outcome = records[key].outcome
                writes = outcome.writes if outcome is not None else {}
                kept |= {name: value for name, value in writes.items() if name.startswith(KEPT)}
            return {name: value for name, value in kept.items() if value is not None}
        return {}

    async def _keep_files(self, run_id: str, files: Sequence[str | Path], *, temporary: bool) -> Kept:
        """Check all files and keep their bytes, so that a resume reads the same ones."""
        from agentorchestra.tools.files.keep import keep_files

        stop = threading.Event()
        try:
            return await asyncio.to_thread(
                keep_files,
                [Path(one) for one in files],
                self.runs_folder.parent / "files",
                self.runs_folder / run_id / "files",
                temporary=temporary,
                apart=self.folder,
                stop=stop,
            )
        finally:
            stop.set()  # nobody awaits a cancelled call's thread: it stops between two pieces

    def _secrets(self) -> dict[str, str]:
        from agentorchestra.workspace.searching import key_variables

        given = self.settings
        names = [*given.secrets, *key_variables(given.search), *given.git.tokens.values(), given.github.token_env]
        names += [name for several in given.browser.logins.values() for name in several]
        named = {name: self._environ[name] for name in names if name in self._environ}
        # A tool that prints its environment would show the database's password.
        return {**self.models.secrets(), **named, **getattr(self.store, "secrets", {}), **self._components.secrets}

    def _typed(self, result: RunResult, output_type: type[Any] | None) -> RunResult:
        if output_type is None or result.output is None:
            return result
        try:
            return result.model_copy(
                update={"output": TypeAdapter(output_type).validate_json(json.dumps(result.output))}
            )
        except ValidationError as exc:
            if result.status is not RunStatus.COMPLETED:
                return result.model_copy(update={"output": None})  # the best there is, in words
            first = exc.errors()[0]
            raise OutputError(
                f"the answer of {result.run_id} does not fit {output_type.__name__}: {first['msg']} at {first['loc']}"
            ) from None


__all__ = ["DEFAULT_COST_USD", "DEFAULT_FOLDER", "ReplayReport", "Workspace"]
