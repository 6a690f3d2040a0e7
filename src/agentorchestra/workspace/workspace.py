"""A folder with its log, its settings, its components - and the runs in it: what users call."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from copy import copy
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self

from pydantic import JsonValue
from typing_extensions import TypeVar, Unpack

from agentorchestra.core.budget import Budget
from agentorchestra.core.clock import Clock, SystemClock
from agentorchestra.core.errors import (
    AgentOrchestraError,
    AppError,
    BackupError,
    EmptyTaskError,
    FencedError,
    ProjectError,
    RequestKeyError,
    RunOverError,
    ScheduleError,
    UnknownComponentError,
    UsageError,
    WorkspaceStateError,
)
from agentorchestra.core.events import Event, PauseRequested, Rated, Told
from agentorchestra.core.policy import Policy
from agentorchestra.core.protocols import Acceptance, Environment, RunHead, RunRecord, Store
from agentorchestra.core.query import LogQuery
from agentorchestra.core.settings import Settings
from agentorchestra.core.spec import (
    FINAL,
    TESTLESS,
    Out,
    Question,
    RunFields,
    RunFile,
    RunResult,
    RunSpec,
    RunStatus,
    TestsRan,
)
from agentorchestra.log.comparison import Comparison, compare_runs
from agentorchestra.log.folders import MAIN, WORKED_ON, world_folder
from agentorchestra.log.ledger import Ledger
from agentorchestra.log.retention import GRACE_S, Collected, Retention, collect
from agentorchestra.log.store.pages import selected_events
from agentorchestra.models.function import as_client
from agentorchestra.models.token_sources import SourceTokens, tokens_by_source
from agentorchestra.runtime.bus import Notice
from agentorchestra.runtime.hooks import OnModel, OnStep, OnTool
from agentorchestra.runtime.run import Asker, Run, open_questions
from agentorchestra.runtime.waits import GOES_ON, Standing, actors, due_runs, end_undriven, standing, waiting_until
from agentorchestra.sandbox import Sandbox, Shell
from agentorchestra.tea.programs.namespaces import import_below, namespace_of
from agentorchestra.workspace.catalog import HandlerWrapper, Own, distribution, tools_by_name
from agentorchestra.workspace.composition import Composition
from agentorchestra.workspace.creation import RunCreator
from agentorchestra.workspace.delivery import UNDER_WAY, FilesSaved, check_out, save
from agentorchestra.workspace.driver import FolderWritten, ReplayReport, RunDriver
from agentorchestra.workspace.equipment import Equipper, GivenEquipment, RunObjects, RunOptions, run_request
from agentorchestra.workspace.handlers import Handlers
from agentorchestra.workspace.presets import with_preset
from agentorchestra.workspace.schedules import SYSTEM as SCHEDULE
from agentorchestra.workspace.schedules import Schedule, ScheduleState, machine_zone, state_of, time_points
from agentorchestra.workspace.sessions import Session
from agentorchestra.workspace.settings import load_settings, settings_folder, settings_path
from agentorchestra.workspace.variables import Variables, variables_of

if TYPE_CHECKING:
    from agentorchestra.agents.parts.foresight import Foresight
    from agentorchestra.log.bundle.format import Exported, Imported
    from agentorchestra.tea.memory.base import Entry, EntryKind, MemoryFactory
    from agentorchestra.tea.prompts.catalog import PromptLibrary
    from agentorchestra.tea.prompts.prompt import Prompt
    from agentorchestra.tea.registry.context import ContextManager
    from agentorchestra.tea.registry.reach import Affected
    from agentorchestra.tea.registry.servers import ACPServer, ECPServer, TCPServer
    from agentorchestra.trust.trial import RunTrial
    from agentorchestra.workspace.changes import Applied, Changes
    from agentorchestra.workspace.probe import Probe
    from agentorchestra.workspace.task_folder import TaskFolder, TaskVerdict

Deps = TypeVar("Deps", default=Any)

DEFAULT_FOLDER = ".agentorchestra"


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
        models: clients by name, besides those of the settings: scripted models in tests, and functions
            `async def model(messages, tools)` that return a text, a call, a list of calls, or a ModelResponse.
        policy: replaces the default policy.
        settings: replaces what `agentorchestra.toml` says.
        preset: what lies under the settings: `paper-000`, `paper-002-gaia`, ... (docs/presets.md), `none`; None for
            the one that they name.
        store: replaces the store of the settings, SQLite by default (`MemoryStore()` for runs that need not survive).
        handlers: replaces or wraps handlers, by kind.
        asker: answers questions in place.
        on_step, on_tool, on_model: hooks, async or not, that are told of each step of an agent (`StepTaken`), call of a
            tool (`ToolCalled`) and request (`ModelAsked`) of a run that is driven here, in the order of the log and
            soon after; one that raises is warned of once (HookWarning), and its run goes on.
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
        handlers: HandlerWrapper | None = None,
        asker: Asker | None = None,
        on_step: OnStep | None = None,
        on_tool: OnTool | None = None,
        on_model: OnModel | None = None,
        sandbox: Sandbox | None = None,
        clock: Clock | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.deps = deps
        self.app: str | None = None
        self.app_folder: str | None = None
        self.namespace = ""  # of the application's modules, if another one of this process has their names
        self.asker = asker
        self.unsafe_local = False
        self.preset = preset
        self.mcp_files: tuple[Path, ...] = ()
        self.env_file: str | None = None  # that is read where the settings name none
        self.task_folder: Path | None = None  # a task whose machine its runs have; set before it is opened
        self.task: TaskFolder | None = None
        self._verdicts: dict[str, TaskVerdict | Exception] = {}  # of runs whose tests were run at their end here
        self.own = Own(
            tools=tuple(tools),
            environments=dict(environments or {}),
            agents=tuple(agents),
            systems=dict(systems or {}),
            memories=dict(memories or {}),
            search_engines=tuple(search_engines),
            prompts=tuple(Path(prompt) for prompt in prompts),
            models={name: as_client(model, name) for name, model in (models or {}).items()},
            policy=policy,
            settings=settings,
            store=store,
            handlers=handlers,
            sandbox=sandbox,
            environ=os.environ if environ is None else environ,
            on_step=on_step,
            on_tool=on_tool,
            on_model=on_model,
        )
        self._clock = clock or SystemClock()
        self._open = False
        self._equipment = GivenEquipment()
        self._clients: list[Any] = []
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    def another(self) -> Self:
        """Return a workspace that is given the same, not open: an application has one, and its arms several."""
        other = copy(self)
        other._open, other._equipment, other._clients, other._temporary = False, GivenEquipment(), [], None
        return other

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
            SettingsError, LeaseError, WorkspaceNotWritableError, WorkspaceNewerError, WorkspaceCorruptError.
        """
        if self._open:
            return
        from agentorchestra.log.store.factory import store_for
        from agentorchestra.runtime.engine import check_lease

        given = self.own.settings
        self.settings = load_settings(self.folder, self.preset) if given is None else with_preset(given, self.preset)
        self.read_variables(self.settings)
        check_lease(self.settings.lease_s)
        if self.task_folder is not None:
            from agentorchestra.workspace.task_folder import read_task_folder, with_task

            self.task = read_task_folder(self.task_folder, image=self.settings.terminal.image)
            self.settings = with_task(self.settings, self.task)
        if self.app is None and self.settings.app is not None:
            self.app = self.settings.app
        self.store: Store = self.own.store or store_for(self.settings, self.folder)
        await self.store.open()
        try:
            if self.own.store is not None and not self.folder.exists():
                # A workspace without a folder of its own still needs a place for the files of its runs.
                self._temporary = tempfile.TemporaryDirectory(prefix="agentorchestra-")
            self._compose(self.folder if self._temporary is None else Path(self._temporary.name))
            await self._composition.check()
            if self.task is not None:
                from agentorchestra.environments.base import base_for
                from agentorchestra.workspace.task_folder import need_sandbox

                base_for(self.settings.terminal, self.folder / "images")
                await need_sandbox(self._composition.builtin.workbench.sandbox)
        except BaseException:  # a prompt that is none, an agent that names what is not there: nothing stays open
            await self.store.close()
            self._remove_temporary()
            raise
        self._open = True

    def read_variables(self, settings: Settings) -> Variables:
        """Take the variables of the `.env` file and the keyring that the settings name, and return all there are."""
        found = variables_of(settings, self.own.environ, settings_folder(self.folder), self.env_file)
        self.own = replace(self.own, environ=found)
        return found

    def _compose(self, base: Path) -> None:
        parts = self._composition = Composition(
            self,
            self.settings,
            self.store,
            base,
            self._clock,
            create_calls=lambda: self._creator.create_calls(),
            services=lambda called: self._handlers.for_calls(called),
        )
        self.engine, self.models = parts.engine, parts.models
        self._handlers = Handlers(parts)
        self._equipper = Equipper(parts, self._equipment, self._clients)
        self._creator = RunCreator(parts, self._equipper)
        self._driver = RunDriver(parts, self._equipper, self._handlers)

    def _remove_temporary(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    async def close(self, *, verify: bool = True) -> None:
        """Stop what is driven here, drain the log, release all; idempotent. `verify`: models tell of unused steps."""
        if not self._open:
            return
        await self._composition.calls.close()
        self._open = False
        await self.engine.close()
        await self._driver.close()
        await self._handlers.aclose()
        await self._composition.close()
        await self.store.close()
        self._remove_temporary()
        if verify:
            for client in [*self.own.models.values(), *self._clients]:
                finish = getattr(client, "finish", None)
                if finish is not None:
                    finish()

    @property
    def is_open(self) -> bool:
        """True while it can be used."""
        return self._open

    @property
    def tools(self) -> dict[str, Any]:
        """The tools by name: the packaged ones, the user's, and what others registered."""
        return self._composition.catalog.tools

    @property
    def agents(self) -> dict[str, Any]:
        """The agents by name."""
        return self._composition.catalog.agents

    @property
    def systems(self) -> dict[str, Any]:
        """The paradigms by name."""
        return self._composition.catalog.systems

    @property
    def memories(self) -> dict[str, Any]:
        """The memory systems by name."""
        return self._composition.catalog.memories

    @property
    def prompts(self) -> PromptLibrary:
        """The prompts."""
        return self._composition.catalog.prompts

    @property
    def given(self) -> dict[str, tuple[str, ...]]:
        """The names of the user's own tools, agents and systems, by kind, open or not."""
        return {
            "tool": (*tools_by_name(self.own.tools), *self.own.environments),
            "agent": tuple(str(getattr(agent, "name", agent)) for agent in self.own.agents),
            "system": tuple(self.own.systems),
        }

    @property
    def tcp(self) -> TCPServer:
        """The Tool Context Protocol: tools, their versions and life, which fit a task, calls (000, app. C.2.1)."""
        return self._parts.components.tools

    @property
    def ecp(self) -> ECPServer:
        """The Environment Context Protocol (000, app. C.2.2)."""
        return self._parts.components.environments

    @property
    def acp(self) -> ACPServer:
        """The Agent Context Protocol (000, app. C.2.3)."""
        return self._parts.components.agents

    @property
    def prompt_components(self) -> ContextManager[Prompt]:
        """The prompts, under the same operations."""
        return self._parts.components.prompts

    @property
    def memory_components(self) -> ContextManager[MemoryFactory]:
        """The memory systems, under the same operations (docs/memory.md)."""
        return self._parts.components.memories

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about packaged tools that its own replace, and tools of toolkits left out, in servers' words too."""
        replaced = (
            f"your tool {one!r} takes the place of the packaged tool {one!r}" for one in self._parts.catalog.replaced
        )
        return (*replaced, *self._parts.components.notes)

    @property
    def calls_run(self) -> str | None:
        """The run that holds the calls made outside of runs (`tcp.invoke`, `ecp.invoke`); None before the first."""
        return self._parts.calls.run_id

    def run_folder(self, run_id: str) -> Path:
        """Return the folder that the environments of a run work on (`files`, `terminal`, `git`), to look into.

        It need not exist: for a run without environments there is none. Copy what is to be changed: a resume of the
        run puts it back to where its log says.
        """
        return world_folder(self.runs_folder / run_id, MAIN) / WORKED_ON

    async def check_task(self, run_id: str) -> TaskVerdict:
        """Return whether a run that has ended solved the task of `task_folder`.

        Of a run that ended here, and whose terminal was used, the tests were run at its end, while what its agent left
        running still ran. Otherwise they are run now, on what it left on the disk.

        Raises:
            SandboxUnavailableError, WorkspaceStateError (the workspace has no task folder, the tests were stopped).
        """
        self._need_open()
        if self.task is None:
            raise WorkspaceStateError("the workspace has no task folder; set task_folder before it is opened")
        held = self._verdicts.get(run_id)
        if isinstance(held, Exception):
            raise held
        return held or await self._tested(self.task, run_id)

    async def _tested(self, task: TaskFolder, run_id: str, shell: Shell | None = None) -> TaskVerdict:
        from agentorchestra.workspace.task_folder import check

        bench = self._parts.builtin.workbench
        return await check(
            task,
            world_folder(self.runs_folder / run_id, MAIN),
            settings=self.settings,
            sandbox=bench.sandbox,
            limits=bench.limits,
            images=self._parts.folder / "images",
            environ=self.own.environ,
            shell=shell,
        )

    async def ended(self, run: Run, status: RunStatus) -> TestsRan | None:
        """Run the tests of a run on its machine, before that is closed; called when a run comes to an end."""
        if run.manifest.tests and status not in TESTLESS:
            from agentorchestra.workspace.project_tests import tests_ran

            return await tests_ran(run, self._parts.builtin.workbench.limits.seconds)
        if self.task is None or not run.manifest.task_folder or status in TESTLESS:
            return None
        from agentorchestra.environments.folder import FOLDER
        from agentorchestra.environments.terminal.environment import Terminal

        live = run.environments.get((MAIN, FOLDER))
        terminal = live.members.get(Terminal.name) if live is not None else None
        shell = terminal.tested_shell if isinstance(terminal, Terminal) else None
        if shell is None:
            return None
        self._verdicts[run.id] = WorkspaceStateError(
            f"the tests of {run.id} were stopped before their end; `agentorchestra resume {run.id}` runs them again"
        )
        try:
            self._verdicts[run.id] = await self._tested(self.task, run.id, shell)
        except (AgentOrchestraError, OSError) as exc:  # the run itself is not touched by what goes wrong here
            self._verdicts[run.id] = exc
        return None

    @property
    def task_place(self) -> str:
        """The folder whose task its runs work on; "" for none."""
        return str(self.task.path.absolute()) if self.task is not None else ""

    @property
    def runs_folder(self) -> Path:
        """The folder with the files of the runs."""
        return self._composition.runs_folder

    # -- runs ------------------------------------------------------------------------------------------------------

    async def run(
        self,
        task: str | RunSpec,
        *,
        output_type: type[Out] | None = None,
        out: str | Path | None = None,
        **options: Unpack[RunOptions],
    ) -> RunResult[Out]:
        """Run a task to its end, or to where it waits.

        Args:
            task: what is asked, in the user's words; or a RunSpec.
            output_type: the type of `result.output`: a pydantic model, a dataclass, or anything pydantic can check.
            out: the folder into which the files that the run made are written when it has ended, as `save_files` does;
                None writes none.
            options: fields of `RunSpec` (`files`, `system`, `budget`, ...; of a spec they replace its own), and what
                cannot be written down, which a resume in another process finds only through `app = "module:workspace"`,
                or when it is given to `resume`: `tools`, further tools for this run; `model` as a ModelClient or a
                function; `deps`, dependencies instead of the workspace's; `policy` instead of the workspace's;
                `output_type`; hooks besides the workspace's (`on_step`, `on_tool`, `on_model`).

        Raises:
            UsageError: for input that is refused before anything is spent.
            OutFolderError: for an `out` that cannot be written, before anything is spent; and where that is found only
                when the run has ended (`save_files` writes the files elsewhere).
        """
        self._need_open()
        spec, objects = run_request(task, {**options, "output_type": output_type})
        await self._check_out(out)
        run_id = await self._creator.create(spec, objects, begins=True)
        return await self._handed_over(await self._driver.drive(run_id, objects), out)

    def session(self, name: str) -> Session:
        """Return a session, whether it has turns by now or not: `await ws.session("offers").run("...")`."""
        return Session(self, name)

    async def create(
        self,
        task: str | RunSpec,
        *,
        tools: Sequence[Any] = (),
        output_type: type[Any] | None = None,
        temporary_files: bool = False,
        accepted: Acceptance | None = None,
        begins: bool = False,
        **fields: Unpack[RunFields],
    ) -> str:
        """Check everything, then write the run into the log; nothing is spent yet. Nobody drives it.

        `resume` drives it here; `take_up` drives it by its id in any process that has the same application.

        Args:
            task, tools, output_type, fields: as for `run`.
            temporary_files: the files lie where they will not stay: sources name the run's own copies.
            accepted: a server or a queue takes the run on, and sees to it that it is driven, also after a crash.
            begins: this process drives it next; where it dies before, the run is abandoned (see `standings`).

        Returns:
            The run's id; that of the earlier run where the same request was accepted before under its key.

        Raises:
            RequestKeyError: if another request was accepted under the key.
        """
        self._need_open()
        spec, objects = run_request(task, {**fields, "tools": tools, "output_type": output_type})
        try:
            return await self._creator.create(
                spec, objects, temporary_files=temporary_files, accepted=accepted, begins=begins
            )
        except RequestKeyError:
            known = None if accepted is None else await self.accepted(accepted)
            if known is None:
                raise
            return known

    async def accepted(self, request: Acceptance) -> str | None:
        """Return the run that was accepted under a request's key, if any; RequestKeyError if for another one."""
        self._need_open()
        key = request.key
        found = None if key is None else await self.store.request(key)
        if found is None:
            return None
        run_id, earlier = found
        if earlier != request.digest:
            raise RequestKeyError(
                f"the key {key!r} was used for another request, which became run {run_id}; send this one under a new "
                "key, or the earlier one unchanged"
            )
        return run_id

    async def take_up(self, run_id: str, *, accept: bool = False) -> RunResult:
        """Drive a run that is created, running or waiting by its id, to its end or to where it waits, as a server does.

        A run that ended the process that drove it several times in a row, without progress, fails instead (a `resume`
        that a person asks for still tries it again). A run of any other status stays as it is.

        Args:
            accept: it is a server's from here on: the next one goes on with it after a crash.

        Returns:
            Its result, as `resume` gives it.

        Raises:
            FencedError: if another process drives it.
            OtherSettingsError: if it was made with another application, preset or task folder; it stays in the log
                for a process that has them.
            UnknownRunError, UnknownComponentError: as `resume`.
        """
        self._need_open()
        return await self._driver.take_up(run_id, accept=accept)

    async def enqueue(self, run_id: str, *, budget: Budget | None = None) -> None:
        """Put a run that stopped, and that nobody drives, into the queue: it is `running`, and `take_up` drives it.

        Args:
            run_id: the run; one that is over stays as it is.
            budget: other limits from here on.

        Raises:
            FencedError: if a process drives it.
        """
        self._need_open()
        await self._driver.enqueue(run_id, budget)

    async def standings(self, runs: Sequence[str] | None = None) -> dict[str, Standing]:
        """Return how each run stands that is created or running, or those of these 1000 at most.

        It is driven, queued, abandoned, or created and not begun; of other statuses there is nothing to say.
        """
        return {one.id: standing(one) for one in await self._parts.store.unfinished(runs=runs)}

    async def foresee(self, task: str | RunSpec, **fields: Unpack[RunFields]) -> Foresight:
        """Return the requests that a run's test-time scaling comes to (docs/scaling.md); nothing is asked or written.

        Args:
            task, fields: as for `run`.
        """
        self._need_open()
        spec, objects = run_request(task, {**fields, "tools": (), "output_type": None})
        return await self._creator.foresee(spec, objects)

    async def resume(
        self,
        run_id: str,
        *,
        output_type: type[Out] | None = None,
        tools: Sequence[Any] = (),
        deps: Any = None,
        policy: Policy | None = None,
        model: Any = None,
        budget: Budget | None = None,
        pin: bool = False,
        out: str | Path | None = None,
    ) -> RunResult[Out]:
        """Go on with a run that was interrupted, waits, failed, or ran out of budget.

        What is recorded is not asked, paid or executed again. A run that ended returns its result, and so does one
        that only waits for a time that has not come (`result.until`).

        Args:
            tools, deps, policy, output_type: what was given to `run`, for a process that does not have it.
            model: the client the manifest names, where it is not found by name.
            budget: other limits from here on.
            pin: use the prompts and tools as the run was started with (their texts are kept with it) where they have
                changed since. The kept text of a changed tool's module is executed, as its file once was.
            out: as for `run`.

        Raises:
            OutFolderError, UnknownRunError, UnknownComponentError, FencedError (another process drives it),
            DivergedError, PinError.
        """
        self._need_open()
        objects = RunObjects(model=model, tools=tools, deps=deps, policy=policy, output_type=output_type)
        await self._check_out(out)
        return await self._handed_over(await self._driver.resume(run_id, objects, budget=budget, pin=pin), out)

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
        components: Mapping[str, str] | None = None,
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
            components: other versions of components, by `KIND:NAME`, as for `run`.

        Returns:
            The new run's id.

        Raises:
            ForkError: for an event or a change that does not fit, and for environments that cannot be carried over.
        """
        self._need_open()
        fields: RunOptions = {
            "model": model,
            "roles": roles,
            "budget": budget,
            "labels": labels,
            "tools": tools,
            "components": components,
        }
        other, objects = run_request("fork", fields)
        return await self._creator.fork(run_id, at, other, objects, prompts=prompts or {}, outcomes=outcomes or {})

    async def first_affected(self, run_id: str, components: Mapping[str, str]) -> Affected | None:
        """Return the first effect of a run that other versions of components can change.

        Up to there the run is the same with them. Where the log cannot tell, an earlier effect is named.

        Args:
            components: the other versions, by `KIND:NAME`, as for `fork`.

        Returns:
            Its key, and the event to fork at so that it is done anew; None where the change touches nothing.

        Raises:
            UnknownRunError, UnknownComponentError, VersionError.
        """
        events = await self.events(run_id)
        run_request("fork", {"components": components})  # refuses what names no component
        await self._parts.ready(toolkits=False)
        return await self._equipper.first_affected(await self._parts.record(run_id), events, components)

    async def try_policy(self, run_id: str, policy: Policy) -> RunTrial:
        """Judge each effect of a recorded run again under another policy; no model is asked, and nothing is done.

        Raises:
            UnknownRunError, RunUnderWayError, EventFormatError, PolicyFileError (the policy fails on an effect).
        """
        from agentorchestra.workspace.trial import tried

        return await tried(self._parts, await self._parts.record(run_id), policy)

    async def probe_policy(self, run_id: str, *, budget: Budget | None = None) -> Probe:
        """Fork a run with other values in the place of untrusted ones, and say which sensitive effects followed them.

        The fork asks the run's model from the first result on that has such a value, and carries out nothing that
        reaches beyond its own folder (docs/security.md).

        Args:
            budget: other limits for the fork than the run's.

        Raises:
            UnknownRunError, RunUnderWayError, ForkError, UnknownComponentError, and what `resume` raises.
        """
        from agentorchestra.workspace.probe import Probe, Prober, compared
        from agentorchestra.workspace.trial import refuse_under_way

        record = await self._parts.record(run_id)
        await refuse_under_way(self._parts, record)
        prober = Prober(record.manifest, Ledger.of(await self.store.load(run_id)))
        if prober.first is None or not prober.acting():
            return Probe(run_id=run_id)
        fork = await self.fork(run_id, at=prober.first - 1, budget=budget, labels={"probe": run_id})
        result = await self._driver.resume(fork, RunObjects(policy=prober), wrap=prober.wrap)
        return Probe(
            run_id=run_id,
            fork=fork,
            status=result.status,
            swapped=len(prober.swap),
            effects=compared(prober, Ledger.of(await self.store.load(fork))),
            usage=result.usage,
            error=result.error or "",
        )

    async def compare(self, run_id: str, other_id: str) -> Comparison:
        """Return where two runs first differ, and how each goes on from there."""
        return compare_runs(await self.events(run_id), await self.events(other_id))

    async def stream(
        self,
        task: str | RunSpec,
        *,
        output_type: Any = None,
        out: str | Path | None = None,
        **options: Unpack[RunOptions],
    ) -> AsyncIterator[Notice]:
        """Run a task and yield what happens: pieces of the answer, thoughts, events, progress, the end with the result.

        When the run ends with an answer, the texts of all notices `delta` since the last `retracted` are that answer.

        Args:
            task, output_type, out, options: as for `run`; the files are written before the end is told.
        """
        self._need_open()
        spec, objects = run_request(task, {**options, "output_type": output_type})
        await self._check_out(out)
        run_id = await self._creator.create(spec, objects, begins=True)
        async with aclosing(self._driver.stream(run_id, objects)) as notices:
            async for notice in notices:
                if notice.kind == "end":
                    notice = notice.model_copy(update={"result": await self._handed_over(notice.result, out)})
                yield notice

    @asynccontextmanager
    async def watch(self, run_id: str) -> AsyncIterator[asyncio.Queue[Notice]]:
        """Give a queue of notices of a run that is about to be driven here."""
        self._need_open()
        async with self._driver.watched(run_id) as queue:
            yield queue

    # -- questions -------------------------------------------------------------------------------------------------

    async def answer(self, run_id: str, answer: str, *, question: str | None = None, by: str = "") -> Question:
        """Answer an open question; `resume` (here or anywhere) goes on.

        Args:
            question: its key; without it, the oldest open question.

        Raises:
            AnswerError: if there is no such open question, or it asks for an approval.
        """
        self._need_open()
        return await self._driver.answer(run_id, answer, question=question, by=by, kind="question")

    async def approve(
        self, run_id: str, *, question: str | None = None, code: str | None = None, by: str = ""
    ) -> Question:
        """Approve an open approval; `resume` (here or anywhere) goes on.

        Args:
            question: its key; without key and code, the only one that is open.
            code: of the call as it was shown (`Question.code`): another call that is asked about meanwhile is not
                approved.

        Raises:
            AnswerError: if there is no such open approval, or several and none is named.
        """
        self._need_open()
        return await self._driver.answer(run_id, True, question=question, by=by, kind="approval", code=code)

    async def deny(self, run_id: str, *, reason: str = "", question: str | None = None, by: str = "") -> Question:
        """Deny the oldest (or the named) open approval."""
        self._need_open()
        # Only True approves: no reason, however it is worded, can be read as a yes.
        said = reason.strip() or False
        return await self._driver.answer(run_id, said, question=question, by=by, kind="approval")

    async def tell(self, run_id: str, text: str, *, to: str = "", by: str = "") -> None:
        """Add to a running task; the top agent reads it at its next step.

        Args:
            text: counts as the user's own words.
            to: mail for this agent in place of that, for which it waits (`ctx.wait_for_mail`); a run that waits for
                nothing else goes on with the next `resume`.

        Raises:
            UnknownComponentError: if the run has no agent of this name.
            RunOverError: the run is over; `session(run_id).run(...)` goes on from it.
        """
        if not text.strip():
            raise EmptyTaskError("there is nothing to tell; give a text")
        status = (await self._parts.record(run_id)).status
        if status in FINAL:
            raise RunOverError(
                f"run {run_id} is over ({status.value}) and reads nothing more; to go on from it: `agentorchestra run "
                f'--continue {run_id} "..."`'
            )
        known = actors(await self.events(run_id))
        if to and to not in known:
            raise UnknownComponentError(
                f"run {run_id} has no agent {to!r} yet; its agents: {', '.join(known) or 'none'}"
            )
        await self._parts.tell(run_id, Told(text=self._parts.redact(text), by=by, to=to), by=by)

    async def rate(self, run_id: str, score: float, *, note: str = "", by: str = "") -> None:
        """Say how good a run was, from 0 to 1 (else UsageError): the last word is its outcome for evolution."""
        if not 0 <= score <= 1:
            raise UsageError(f"the score {score!r} is outside 0 to 1; 1 is as good as it can be")
        await self._parts.record(run_id)
        await self._parts.tell(run_id, Rated(score=score, note=self._parts.redact(note), by=by), by=by)

    async def cancel(self, run_id: str, *, reason: str = "", by: str = "") -> None:
        """Stop a run, wherever it is driven. A run nobody drives is marked as cancelled at once."""
        if (await self._parts.record(run_id)).status in FINAL:
            return
        await self.engine.cancel(run_id, reason=self._parts.redact(reason), by=by)
        if run_id not in self.engine.driving:
            await end_undriven(self.store, self.engine, self._clock, run_id, RunStatus.CANCELLED)
            self._equipment.ended(run_id)

    async def pause(self, run_id: str, *, reason: str = "", by: str = "") -> RunStatus:
        """Stop a run before its next effect, wherever it is driven; `resume` goes on.

        What is under way ends and is recorded: nothing is interrupted or paid twice. A run nobody drives is paused at
        once. A run that is over, paused or was stopped otherwise stays as it is.

        Returns:
            Its status now: `running` where its driver was asked and what is under way has not ended yet.
        """
        if (await self._parts.record(run_id)).status in GOES_ON:
            await self._parts.tell(run_id, PauseRequested(reason=self._parts.redact(reason), by=by), by=by)
            if run_id not in self.engine.driving:
                await end_undriven(self.store, self.engine, self._clock, run_id, RunStatus.PAUSED)
        return (await self._parts.record(run_id)).status

    async def questions(self, run_id: str) -> tuple[Question, ...]:
        """Return the open questions of a run, oldest first."""
        return open_questions(Ledger.of(await self.events(run_id)))

    # -- reading ---------------------------------------------------------------------------------------------------

    async def events(self, run_id: str, *, after: int = 0) -> list[Event]:
        """Return the run's log."""
        return await self.store.load(run_id, after=after)

    async def due(self) -> list[str]:
        """Return the waiting runs that `resume` can go on with: their time, answer or mail has come."""
        return await due_runs(self._parts.store, self._clock.now())

    async def waiting_until(self) -> dict[str, datetime]:
        """Return when the first timer of each run that waits for a time is due."""
        return await waiting_until(self._parts.store)

    async def schedule(
        self, cron: str, task: str | RunSpec, *, name: str = "", zone: str | None = None, **fields: Unpack[RunFields]
    ) -> str:
        """Have a task run again and again (docs/schedule.md); return the id of the run that waits for its times.

        A server, a worker, `agentorchestra schedule run` or `resume --due` starts the runs: each is an ordinary one
        with the label `schedule`. `pause`, `resume` and `cancel` of the id pause, resume and remove the schedule.

        Args:
            cron: minute, hour, day of the month, month, day of the week, e.g. `0 9 * * 1-5`.
            task, fields: as for `run`; files are read when a run begins.
            name: of the schedule; its id by default.
            zone: the clock that is meant, e.g. `Europe/Berlin`; by default that of this machine. It is kept.

        Raises:
            ScheduleError: for times that cannot be read or never come, and a name that another schedule has.
            MissingExtraError: if the extra `schedule` is not installed.
        """
        self._need_open()
        spec, _ = run_request(task, {**fields})
        if name and name in {schedule.name for schedule in await self.schedules()}:
            raise ScheduleError(f"there is a schedule {name!r} already; remove it first, or choose another name")
        zone = machine_zone(self.own.environ) if zone is None else zone
        first = next(time_points(cron, zone, self._clock.now()))
        schedule = Schedule(name=name, cron=cron, zone=zone, first=first, spec=spec)
        run_id = await self._creator.create_schedule(schedule)
        with suppress(FencedError):  # a server has it already
            await self._driver.resume(run_id, RunObjects())
        return run_id

    async def schedules(self) -> list[ScheduleState]:
        """Return the schedules that are not removed, oldest first."""
        over = {*FINAL, RunStatus.CANCELLED}
        heads = [run for run in await self.runs() if run.manifest.system == SCHEDULE]
        found = [await self._parts.record(head.id) for head in reversed(heads) if head.status not in over]
        return [state_of(one, await self.events(one.id), self._clock.now()) for one in found]

    async def runs(self, *, limit: int | None = None) -> list[RunHead]:
        """Return the workspace's runs, newest first, each with the head of its manifest."""
        return await self._parts.store.list_runs(limit=limit)

    async def backup(self, target: str | Path) -> None:
        """Copy the workspace into a new folder while runs go on.

        Raises:
            BackupError: the target is not free or cannot be written, or the log lies in a database.
        """
        from agentorchestra.log.store.sqlite import SqliteStore

        if not isinstance(self.store, SqliteStore):
            place = getattr(self.store, "place", "memory")
            raise BackupError(
                f"the log lies in {place}, not in the folder; copy a database with pg_dump --schema=NAME, and "
                + (
                    f"then the objects below {self.settings.artifacts}, e.g. with `aws s3 sync`"
                    if self.settings.artifacts is not None
                    else f"the folder {self.folder} with it"
                )
            )
        await self.store.backup(Path(target))

    async def gc(
        self, retention: Retention | None = None, *, grace_s: float = GRACE_S, dry_run: bool = False
    ) -> Collected:
        """Delete runs that are no longer wanted, and folders, files, blobs and unpacked images that no run refers to.

        Args:
            retention: which runs go, if nobody needs them; none by default.
            grace_s: blobs, files and folders that are younger stay, in seconds.
            dry_run: only say what would go.
        """
        now, base = self._clock.now(), self._parts.base
        return await collect(self.store, base, retention or Retention(), now=now, grace_s=grace_s, dry_run=dry_run)

    async def result(self, run_id: str) -> RunResult:
        """Return the result as the log has it; a run that is not over gives its present status."""
        self._need_open()
        return await self._driver.result(run_id)

    async def artifact(self, run_id: str, name: str) -> bytes:
        """Return the bytes of a file a run produced, or of a cut result; UnknownComponentError with their names."""
        artifacts = (await self.result(run_id)).artifacts
        for ref in artifacts:
            if ref.name == name:
                return await self.store.get_blob(ref.sha256)
        known = ", ".join(ref.name for ref in artifacts) or "none"
        raise UnknownComponentError(f"run {run_id} has no artifact {name!r}; its artifacts: {known}")

    async def files(self, run_id: str) -> tuple[RunFile, ...]:
        """Return the files that a run made for its user, by their names; of one under way those it has made by now.

        Unlike `RunResult.files` this reads what the log has of the run's folder, also of a run from before that list.
        """
        self._need_open()
        return (await self._driver.with_files(run_id)).files

    async def save_files(self, run_id: str, out: str | Path) -> FilesSaved:
        """Write the files that a run made for its user into a folder, by their names.

        A folder that is missing is made, for a run without files nothing is. What is there is not written over: a name
        that other content has gets a number (`chart-2.png`), and where the same content is there nothing is written.
        No name leads out of the folder.

        Raises:
            OutFolderError: `out` is a file, or cannot be written.
        """
        return await save(self._parts.store, await self.files(run_id), Path(out))

    async def diff(self, run_id: str) -> str:
        """Return what a run changed in its project's copy by now, as git writes it; ProjectError without one."""
        self._need_open()
        return await asyncio.to_thread((await self._driver.changes(run_id)).diff)

    async def changes(self, run_id: str) -> Changes:
        """Return the same file by file; raise as `diff`."""
        self._need_open()
        return await self._driver.changes(run_id)

    async def apply(self, run_id: str, *, branch: str | None = None) -> Applied:
        """Bring what a run changed into its project: all of it, or nothing. A second time changes nothing more.

        Args:
            run_id: the run, which is not under way.
            branch: commit it as a new branch of this name; no file of the project changes then.

        Raises:
            ApplyConflictError: what the run changed was changed in the project meanwhile.
            ProjectError: the run works on no project, is under way, or came from elsewhere; the project cannot be
                written; the branch cannot be made.
        """
        from agentorchestra.workspace.changes import apply, commit

        record = await self._parts.record(run_id)
        if record.status in (RunStatus.CREATED, RunStatus.RUNNING):
            raise ProjectError(f"run {run_id} is {record.status.value}; apply what it changed when it has stopped")
        project = record.manifest.project
        if record.imported is not None or (project is not None and not project.path):
            raise ProjectError(f"run {run_id} came from elsewhere, and the folder that it names is not meant here")
        changes = await self.changes(run_id)
        if branch is None:
            earlier = [await self.changes(one) for one in await self._earlier_on_project(record)]
            return await asyncio.to_thread(apply, changes, self.runs_folder / run_id, earlier)
        message = f"{record.manifest.task.splitlines()[0][:70]}\n\nBy agentorchestra, run {run_id}\n"
        return await asyncio.to_thread(commit, changes, branch, message)

    async def _earlier_on_project(self, record: RunRecord) -> list[str]:
        """Return the turns before a run that worked on the same copy of a project, the newest first."""
        found, project = list[str](), record.manifest.project
        while (previous := record.manifest.previous) is not None:
            before = await self._parts.store.get_run(previous)
            if before is None or before.manifest.project != project:
                break
            found.append(previous)
            record = before
        return found

    async def _check_out(self, out: str | Path | None) -> None:
        if out is not None:
            await asyncio.to_thread(check_out, Path(out))

    async def _handed_over(self, result: RunResult, out: str | Path | None) -> RunResult:
        """Write the files of a run that has ended to where its user wants them."""
        if out is None or result.status in UNDER_WAY:
            return result
        saved = await save(self._parts.store, result.files, Path(out))
        return result.model_copy(update={"files": saved.files})

    async def tokens(self, run_id: str) -> tuple[SourceTokens, ...]:
        """Return a run's input tokens by the source of what stood in its prompts, the largest first."""
        return tokens_by_source(Ledger.of(await self.events(run_id)))

    async def replay(
        self, run_id: str, *, tools: Sequence[Any] = (), deps: Any = None, model: Any = None, pin: bool = False
    ) -> ReplayReport:
        """Run today's code and prompts against the recording, with no handler called.

        Args:
            tools, deps, model: as for `resume`.
            pin: with the prompts and tools as the run was started with.

        Raises:
            DivergedError: at the first effect that differs.
            ReplayError: if the replay asks for other keys than were recorded.
        """
        self._need_open()
        return await self._driver.replay(run_id, RunObjects(model=model, tools=tools, deps=deps), pin=pin)

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
        from agentorchestra.log.bundle.exporter import export_run
        from agentorchestra.log.bundle.origin import origin_of
        from agentorchestra.log.bundle.secrets import secret_variables

        record = await self._parts.record(run_id)
        program = Path(self.app_folder or self.folder.absolute().parent)
        if files:
            await self._parts.fetch_files(run_id, record.manifest.files)
        return await export_run(
            self.store,
            record,
            Path(out if out is not None else f"{run_id}.zip"),
            files=self._parts.carried() if files else None,
            secrets=secret_variables(self.own.environ) | self._parts.secrets(),
            origin=await asyncio.to_thread(origin_of, self.settings, distribution(), program),
        )

    async def export_folder(self, run_id: str, out: str | Path) -> FolderWritten:
        """Write the folder of a run into a new one, as it stands by the log: on any machine, whoever drove the run.

        Raises:
            BundleError: if `out` is there already or cannot be written, or the log has no folder of the run.
        """
        return await self._driver.export_folder(run_id, Path(out))

    async def import_file(self, path: str | Path) -> list[Imported]:
        """Take the run of a bundle, or whole logs as `agentorchestra log --jsonl` writes them, into this workspace.

        Everything is checked before anything is written, and nothing that comes in is executed, then or by `replay`.

        Raises:
            BundleError: for a file that does not fit, and for a run that is here already and is another.
        """
        from agentorchestra.log.bundle.importer import import_file

        parts = self._parts
        found = await import_file(
            parts.store, Path(path), files=parts.carried(), folder=parts.base, now=parts.clock.now()
        )
        for one in found:
            if not one.left_out:
                await parts.share_files((await parts.record(one.run_id)).manifest.files)
        return found

    async def log(
        self, wanted: LogQuery | None = None, *, task: str | None = None, limit: int | None = None, verify: bool = False
    ) -> AsyncIterator[Event]:
        """Yield events of any runs, oldest run first: the paper's tracer, by session, task, record, index (000, C.1.1).

        Args:
            task: only of runs whose task has this text in it, whatever the case.
            limit: only the last ones, so many.
            verify: check that each is the one that was recorded.

        Raises:
            LogChangedError: with `verify`, for one that is not.
        """
        wanted = wanted or LogQuery()
        if task is not None:
            runs = [run.id for run in await self.runs() if task.casefold() in run.manifest.task.casefold()]
            held = runs if wanted.runs is None else [run for run in runs if run in wanted.runs]
            wanted = wanted.model_copy(update={"runs": tuple(held)})
        async for event in selected_events(self.store, wanted, limit, verify=verify):
            yield event

    async def remembered(
        self,
        query: str = "",
        *,
        kinds: Sequence[EntryKind] = ("summary", "insight"),
        agent: str = "",
        limit: int | None = None,
    ) -> list[Entry]:
        """Return what the workspace's runs remember, newest first; of insights those that hold now.

        Args:
            query: only what fits it, best first.
            kinds: `event`, `summary`, `insight`.
            agent: only what this agent wrote.
            limit: at most so many.
        """
        from agentorchestra.tea.memory.handler import fitting
        from agentorchestra.tea.memory.records import remembered

        found = [one for one, _ in await remembered(self._parts.store, kinds) if agent in ("", one.agent)][::-1]
        return fitting(found, query, limit or len(found)) if query else found[:limit]

    async def forget(self, names: Sequence[str], *, by: str = "", retired: str = "") -> list[str]:
        """Have entries never be told again, by their `ref`; the log keeps them.

        Args:
            names: their `ref`.
            retired: of tips that a validation found to be of no use, on which evidence; "" for anything else.

        Returns:
            The references of all that is forgotten now: an insight that was found several times is several entries.

        Raises:
            UsageError: for a name that there is not; nothing is forgotten then.
        """
        from agentorchestra.tea.memory.records import forget

        return await forget(self._parts.store, names, clock=self._clock, by=by, retired=retired)

    async def retired(self) -> list[tuple[Entry, str]]:
        """Return the tips that a validation retired, each with its evidence (docs/evolution.md)."""
        from agentorchestra.tea.memory.records import Reader

        self._need_open()
        return await Reader(self.store).retired()

    # -- without async ---------------------------------------------------------------------------------------------

    def run_sync(
        self,
        task: str | RunSpec,
        *,
        output_type: type[Out] | None = None,
        out: str | Path | None = None,
        **options: Unpack[RunOptions],
    ) -> RunResult[Out]:
        """Open the workspace, run a task, close it: `run` without async, in a notebook too."""

        async def work() -> RunResult:
            async with self:
                return await self.run(task, output_type=output_type, out=out, **options)

        if self._open:
            raise WorkspaceStateError(
                "run_sync opens the workspace itself; inside `async with` use `await ws.run(...)`"
            )
        result: RunResult = _run_anywhere(work)
        return result

    # -- parts -----------------------------------------------------------------------------------------------------

    def _need_open(self) -> None:
        if not self._open:
            raise WorkspaceStateError("the workspace is not open; use `async with Workspace(dir) as ws:`")

    @property
    def _parts(self) -> Composition:
        self._need_open()
        return self._composition


def _run_anywhere(work: Callable[[], Any]) -> Any:
    """Run a coroutine function whether or not this thread has a running loop (notebooks have one)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    outcome: dict[str, Any] = {}
    stop: list[Callable[[], object]] = []

    async def stoppable() -> Any:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        stop.append(lambda: loop.call_soon_threadsafe(task.cancel))
        return await work()

    def target() -> None:
        try:
            outcome["value"] = asyncio.run(stoppable())
        except BaseException as exc:
            outcome["error"] = exc

    thread = threading.Thread(target=target, name="agentorchestra-run-sync")
    thread.start()
    try:
        thread.join()
    except BaseException:  # Ctrl-C reaches only this thread: the run is cancelled, and nothing is left behind
        for one in stop:
            one()
        thread.join()
        raise
    if "error" in outcome:
        raise outcome["error"]
    return outcome["value"]


def load_app(reference: str, folder: Path) -> Workspace[Any]:
    """Return the user's workspace of `app = "module:workspace"`.

    Args:
        reference: `module:attribute`; a Workspace, or a function without arguments that returns one.
        folder: where the settings file lies: the module is looked for there first, as in the user's own programs. Each
            folder has modules of its own: `app.py` of one is not that of another (tea/programs/namespaces.py).

    Raises:
        AppError: in one sentence.
    """
    module_name, _, attribute = reference.partition(":")
    if not module_name or not attribute:
        raise AppError(f'app is {reference!r}; write it as "module:workspace"')
    namespace = namespace_of(folder)
    try:
        found = getattr(import_below(module_name, namespace), attribute)
        workspace = found if isinstance(found, Workspace) else found()
    except (Exception, SystemExit) as exc:
        raise AppError(f"the app {reference!r} cannot be loaded from {folder}: {type(exc).__name__}: {exc}") from None
    if not isinstance(workspace, Workspace):
        raise AppError(f"the app {reference!r} is a {type(workspace).__name__}, not a Workspace")
    workspace.app, workspace.app_folder, workspace.namespace = reference, str(folder), namespace
    return workspace


def open_workspace(
    folder: str | Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    app: bool = True,
    preset: str | None = None,
) -> Workspace[Any]:
    """Return the workspace of a folder, not yet opened, with the user's application where the settings name one.

    Args:
        folder: default `.agentorchestra/` in the current folder.
        environ: replaces the process's environment.
        app: load the application; reading the log needs none, and must work while it is broken.
        preset: see Workspace; None for the one that the application or the settings name.
    """
    base = Path(folder or DEFAULT_FOLDER)
    settings = load_settings(base, preset)
    if settings.app is None or not app:
        return Workspace(base, environ=environ, preset=preset)
    path = settings_path(base)
    workspace = load_app(settings.app, path.parent if path is not None else Path.cwd())
    workspace.folder = base
    workspace.preset = workspace.preset if preset is None else preset
    return workspace
