"""The tests of runs: those of their task's folder and those of their project (`ws.tests`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from agentorchestra.core.errors import AgentOrchestraError, WorkspaceStateError
from agentorchestra.core.spec import TESTLESS, RunStatus, TestsRan
from agentorchestra.log.folders import MAIN, world_folder
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.run import Run
from agentorchestra.runtime.worlds import lay_ground, new_environment
from agentorchestra.sandbox import Shell
from agentorchestra.workspace.assembly import Assembly, Facet

if TYPE_CHECKING:
    from agentorchestra.workspace.task_folder import TaskFolder, TaskVerdict

_SHOWN_CHARS = 4000


class RunTests(Facet):
    """The tests that are run on what runs left."""

    def __init__(self, assembly: Callable[[], Assembly]) -> None:
        super().__init__(assembly)
        self._verdicts: dict[str, TaskVerdict | Exception] = {}  # of runs whose tests were run at their end here

    async def verdict(self, run_id: str) -> TaskVerdict:
        """Return whether a run that has ended solved the task of `task_folder`.

        Of a run that ended here, and whose terminal was used, the tests were run at its end, while what its agent left
        running still ran. Otherwise they are run now, on what it left on the disk.

        Raises:
            SandboxUnavailableError, WorkspaceStateError (the workspace has no task folder, the tests were stopped).
        """
        task = self._parts.host.task
        if task is None:
            raise WorkspaceStateError("the workspace has no task folder; set task_folder before it is opened")
        verdict = self._verdicts.get(run_id)
        if isinstance(verdict, Exception):
            raise verdict
        return verdict or await self._run_tests(task, run_id)

    async def _run_tests(self, task: TaskFolder, run_id: str, shell: Shell | None = None) -> TaskVerdict:
        from agentorchestra.workspace.task_folder import check

        bench = self._parts.builtin.workbench
        return await check(
            task,
            world_folder(self._parts.runs_folder / run_id, MAIN),
            settings=self._parts.settings,
            sandbox=bench.sandbox,
            limits=bench.limits,
            images=self._parts.folder / "images",
            environ=self._parts.host.own.environ,
            shell=shell,
        )

    async def at_end(self, run: Run, status: RunStatus) -> TestsRan | None:
        """Run the tests of a run on its machine, before that is closed; called when a run comes to an end."""
        if status in TESTLESS:
            return None
        if run.manifest.tests:
            return await _tests_ran(run, self._parts.builtin.workbench.limits.seconds)
        task = self._parts.host.task if run.manifest.task_folder else None
        if task is None:
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
            self._verdicts[run.id] = await self._run_tests(task, run.id, shell)
        except (AgentOrchestraError, OSError) as exc:  # the run itself is not touched by what goes wrong here
            self._verdicts[run.id] = exc
        return None


async def _tests_ran(run: Run, timeout_s: float) -> TestsRan:
    """Run the tests of a run's manifest, in the terminal that its agents used, or in one as it begins.

    What they write is in no snapshot: it is no work of the run's.

    Args:
        run: has ended, and its environments are open.
    """
    from agentorchestra.environments.folder import FOLDER
    from agentorchestra.environments.terminal.environment import Terminal
    from agentorchestra.workspace.task_folder import unfinished_reason

    command = run.manifest.tests
    try:
        ctx = BranchContext.root(run)
        await lay_ground(run, Terminal.name, ctx)
        live = run.environments[(MAIN, FOLDER)]
        if Terminal.name not in live.members:
            await live.join(new_environment(run, Terminal.name), ctx)
        terminal = live.members[Terminal.name]
        assert isinstance(terminal, Terminal)
        job = await (await terminal.opened_shell()).run_apart(command, timeout_s=timeout_s)
    except (AgentOrchestraError, OSError) as exc:  # how the run itself ended stays
        return TestsRan(command=command, passed=False, why=f"the tests could not be run: {exc}")
    output = (job.output or "")[-_SHOWN_CHARS:]
    if job.state != "ended" or job.exit_code is None:
        return TestsRan(command=command, passed=False, why=unfinished_reason(job, timeout_s), output=output)
    reason = "the tests pass" if job.exit_code == 0 else f"the tests fail with exit code {job.exit_code}"
    return TestsRan(command=command, passed=job.exit_code == 0, why=reason, output=output)
