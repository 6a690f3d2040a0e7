from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from copy import copy
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self

from pydantic import JsonValue
from typing_extensions import TypeVar, Unpack

from agentorchestra.core.budget import Budget
from agentorchestra.core.clock import Clock, SystemClock
from agentorchestra.core.errors import (
    AppError,
    EmptyTaskError,
    RequestKeyError,
    RunOverError,
    UnknownComponentError,
    WorkspaceStateError,
)
from agentorchestra.core.events import PauseRequested, Told
from agentorchestra.core.policy import Policy
from agentorchestra.core.protocols import Acceptance, Environment, Store
from agentorchestra.core.settings import Settings
from agentorchestra.core.spec import FINAL, Out, Question, RunFields, RunResult, RunSpec, RunStatus
from agentorchestra.models.function import as_client
from agentorchestra.runtime.bus import Notice
from agentorchestra.runtime.hooks import OnModel, OnStep, OnTool
from agentorchestra.runtime.run import Asker
from agentorchestra.runtime.waits import GOES_ON, actors, end_undriven
from agentorchestra.sandbox import Sandbox
from agentorchestra.tea.programs.namespaces import import_below, namespace_of
from agentorchestra.workspace.assembly import Assembly
from agentorchestra.workspace.catalog import Catalog, HandlerWrapper, Own
from agentorchestra.workspace.delivery import check_target, hand_over
from agentorchestra.workspace.driver import ReplayReport
from agentorchestra.workspace.equipment import GivenEquipment, RunObjects, RunOptions, run_request
from agentorchestra.workspace.policy_trial import PolicyTrials
from agentorchestra.workspace.presets import with_preset
from agentorchestra.workspace.run_files import RunFiles
from agentorchestra.workspace.run_log import RunLog, RunMemory
from agentorchestra.workspace.run_tests import RunTests
from agentorchestra.workspace.runs import Runs, Schedules
from agentorchestra.workspace.sessions import Session
from agentorchestra.workspace.settings import load_settings, settings_folder, settings_path
from agentorchestra.workspace.variables import Variables, variables_of

if TYPE_CHECKING:
    from agentorchestra.tea.registry.servers import ACPServer, ECPServer, TCPServer
    from agentorchestra.workspace.components import Components
    from agentorchestra.workspace.task_folder import TaskFolder

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

    Attributes, to be used while it is open:
        runs, files, tests: how runs stand and the queue; what they made; whether it passes.
        log: all that is recorded: read, compared, carried to another machine, cleaned up.
        components, catalog: the managers of each kind (`tcp`, `ecp`, `acp` are three of them); today's by name.
        memory, policy, schedules: what runs remember; other policies tried on them; runs at certain times.
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
        self._begin()

    def _begin(self) -> None:
        """Have nothing open, and objects of its own for what users call."""
        self._open = False
        self._equipment = GivenEquipment()
        self._clients: list[Any] = []
        self.runs = Runs(self.assembly)
        self.files = RunFiles(self.assembly)
        self.tests = RunTests(self.assembly)
        self.schedules = Schedules(self.assembly)
        self.log = RunLog(self.assembly)
        self.policy = PolicyTrials(self.assembly)
        self.memory = RunMemory(self.assembly)

    def copy(self) -> Self:
        """Return a workspace that is given the same, not open: an application has one, and its arms several."""
        other = copy(self)
        other._begin()
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

        own = self.own.settings
        self.settings = load_settings(self.folder, self.preset) if own is None else with_preset(own, self.preset)
        self.read_variables(self.settings)
        check_lease(self.settings.lease_s)
        if self.task_folder is not None:
            from agentorchestra.workspace.task_folder import read_task_folder, with_task

            self.task = read_task_folder(self.task_folder, image=self.settings.terminal.image)
            self.settings = with_task(self.settings, self.task)
        if self.app is None and self.settings.app is not None:
            self.app = self.settings.app
        self.store: Store = self.own.store or store_for(self.settings, self.folder)
        async with AsyncExitStack() as stack:  # where a prompt is none, or an agent names what is not there
            await self.store.open()
            stack.push_async_callback(self.store.close)
            base = self.folder
            if self.own.store is not None and not base.exists():
                # A workspace without a folder of its own still needs a place for the files of its runs.
                base = Path(stack.enter_context(TemporaryDirectory(prefix="agentorchestra-")))
            self._assembly = Assembly(
                self, self.settings, self.store, base, self._clock, self._equipment, self._clients, self.tests.at_end
            )
            await self._assembly.parts.check()
            if self.task is not None:
                from agentorchestra.environments.base import base_for
                from agentorchestra.workspace.task_folder import need_sandbox

                base_for(self.settings.terminal, self.folder / "images")
                await need_sandbox(self._assembly.parts.builtin.workbench.sandbox)
            self._resources = stack.pop_all()
        self.engine, self.models = self._assembly.parts.engine, self._assembly.parts.models
        self._open = True

    def assembly(self) -> Assembly:
        """Return the parts that it is put together from; WorkspaceStateError while it is not open."""
        if not self._open:
            raise WorkspaceStateError("the workspace is not open; use `async with Workspace(dir) as ws:`")
        return self._assembly

    def read_variables(self, settings: Settings) -> Variables:
        """Take the variables of the `.env` file and the keyring that the settings name, and return all there are."""
        variables = variables_of(settings, self.own.environ, settings_folder(self.folder), self.env_file)
        self.own = replace(self.own, environ=variables)
        return variables

    async def close(self, *, verify: bool = True) -> None:
        """Stop what is driven here, drain the log, release all; idempotent. `verify`: models tell of unused steps."""
        if not self._open:
            return
        await self._assembly.parts.calls.close()
        self._open = False
        await self._assembly.close()
        await self._resources.aclose()
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
    def catalog(self) -> Catalog:
        """The components of its runs by name: the packaged ones, the user's, and what others registered."""
        return self.assembly().parts.catalog

    @property
    def components(self) -> Components:
        """The components of every kind, with their versions and life (docs/components.md)."""
        return self.assembly().parts.components

    @property
    def tcp(self) -> TCPServer:
        """The Tool Context Protocol: tools, their versions and life, which fit a task, calls (000, app. C.2.1)."""
        return self.components.tools

    @property
    def ecp(self) -> ECPServer:
        """The Environment Context Protocol (000, app. C.2.2)."""
        return self.components.environments

    @property
    def acp(self) -> ACPServer:
        """The Agent Context Protocol (000, app. C.2.3)."""
        return self.components.agents

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
        assembly = self.assembly()
        spec, objects = run_request(task, {**options, "output_type": output_type})
        await check_target(out)
        run_id = await assembly.creator.create(spec, objects, begins=True)
        return await hand_over(self.store, await assembly.driver.drive(run_id, objects), out)

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
        spec, objects = run_request(task, {**fields, "tools": tools, "output_type": output_type})
        try:
            return await self.assembly().creator.create(
                spec, objects, temporary_files=temporary_files, accepted=accepted, begins=begins
            )
        except RequestKeyError:
            earlier = None if accepted is None else await self.runs.accepted_run(accepted)
            if earlier is None:
                raise
            return earlier

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
        driver = self.assembly().driver
        objects = RunObjects(model=model, tools=tools, deps=deps, policy=policy, output_type=output_type)
        await check_target(out)
        return await hand_over(self.store, await driver.resume(run_id, objects, budget=budget, pin=pin), out)

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
        creator = self.assembly().creator
        fields = RunOptions(model=model, roles=roles, budget=budget, labels=labels, tools=tools, components=components)
        other, objects = run_request("fork", fields)
        return await creator.fork(run_id, at, other, objects, prompts=prompts or {}, outcomes=outcomes or {})

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
        assembly = self.assembly()
        spec, objects = run_request(task, {**options, "output_type": output_type})
        await check_target(out)
        run_id = await assembly.creator.create(spec, objects, begins=True)
        async with aclosing(assembly.driver.stream(run_id, objects)) as notices:
            async for notice in notices:
                if notice.kind == "end":
                    notice = notice.model_copy(update={"result": await hand_over(self.store, notice.result, out)})
                yield notice

    # -- questions -------------------------------------------------------------------------------------------------

    async def answer(self, run_id: str, answer: str, *, question: str | None = None, by: str = "") -> Question:
        """Answer an open question; `resume` (here or anywhere) goes on.

        Args:
            question: its key; without it, the oldest open question.

        Raises:
            AnswerError: if there is no such open question, or it asks for an approval.
        """
        return await self.assembly().driver.answer(run_id, answer, question=question, by=by, kind="question")

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
        return await self.assembly().driver.answer(run_id, True, question=question, by=by, kind="approval", code=code)

    async def deny(self, run_id: str, *, reason: str = "", question: str | None = None, by: str = "") -> Question:
        """Deny the oldest (or the named) open approval."""
        # Only True approves: no reason, however it is worded, can be read as a yes.
        verdict = reason.strip() or False
        return await self.assembly().driver.answer(run_id, verdict, question=question, by=by, kind="approval")

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
        parts = self.assembly().parts
        status = (await parts.record(run_id)).status
        if status in FINAL:
            raise RunOverError(
                f"run {run_id} is over ({status.value}) and reads nothing more; to go on from it: `agentorchestra run "
                f'--continue {run_id} "..."`'
            )
        names = actors(await self.log.events(run_id))
        if to and to not in names:
            raise UnknownComponentError(
                f"run {run_id} has no agent {to!r} yet; its agents: {', '.join(names) or 'none'}"
            )
        await parts.tell(run_id, Told(text=parts.redact(text), by=by, to=to), by=by)

    async def cancel(self, run_id: str, *, reason: str = "", by: str = "") -> None:
        """Stop a run, wherever it is driven. A run nobody drives is marked as cancelled at once."""
        parts = self.assembly().parts
        if (await parts.record(run_id)).status in FINAL:
            return
        await self.engine.cancel(run_id, reason=parts.redact(reason), by=by)
        if run_id not in self.engine.driving:
            await end_undriven(self.store, self.engine, self._clock, run_id, RunStatus.CANCELLED)
            self._equipment.note_end(run_id)

    async def pause(self, run_id: str, *, reason: str = "", by: str = "") -> RunStatus:
        """Stop a run before its next effect, wherever it is driven; `resume` goes on.

        What is under way ends and is recorded: nothing is interrupted or paid twice. A run nobody drives is paused at
        once. A run that is over, paused or was stopped otherwise stays as it is.

        Returns:
            Its status now: `running` where its driver was asked and what is under way has not ended yet.
        """
        parts = self.assembly().parts
        if (await parts.record(run_id)).status in GOES_ON:
            await parts.tell(run_id, PauseRequested(reason=parts.redact(reason), by=by), by=by)
            if run_id not in self.engine.driving:
                await end_undriven(self.store, self.engine, self._clock, run_id, RunStatus.PAUSED)
        return (await parts.record(run_id)).status

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
        return await self.assembly().driver.replay(run_id, RunObjects(model=model, tools=tools, deps=deps), pin=pin)

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
        for call in stop:
            call()
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
        value = getattr(import_below(module_name, namespace), attribute)
        workspace = value if isinstance(value, Workspace) else value()
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
