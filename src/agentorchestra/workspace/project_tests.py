"""The command that tests a run's work, run on its machine when its agents have ended."""

from __future__ import annotations

from agentorchestra.core.errors import AgentOrchestraError
from agentorchestra.core.spec import TestsRan
from agentorchestra.environments.folder import FOLDER
from agentorchestra.environments.terminal.environment import Terminal
from agentorchestra.log.folders import MAIN
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.run import Run
from agentorchestra.runtime.worlds import lay_ground, new_environment
from agentorchestra.workspace.task_folder import why_unfinished

_SHOWN_CHARS = 4000


async def tests_ran(run: Run, timeout_s: float) -> TestsRan:
    """Run the tests of a run's manifest, in the terminal that its agents used, or in one as it begins.

    What they write is in no snapshot: it is no work of the run's.

    Args:
        run: has ended, and its environments are open.
    """
    command = run.manifest.tests
    try:
        ctx = BranchContext.root(run)
        await lay_ground(run, Terminal.name, ctx)
        live = run.environments[(MAIN, FOLDER)]
        if Terminal.name not in live.members:
            await live.join(new_environment(run, Terminal.name), ctx)
        terminal = live.members[Terminal.name]
        assert isinstance(terminal, Terminal)
        ran = await (await terminal.opened_shell()).run_apart(command, timeout_s=timeout_s)
    except (AgentOrchestraError, OSError) as exc:  # how the run itself ended stays
        return TestsRan(command=command, passed=False, why=f"the tests could not be run: {exc}")
    output = (ran.output or "")[-_SHOWN_CHARS:]
    if ran.state != "ended" or ran.exit_code is None:
        return TestsRan(command=command, passed=False, why=why_unfinished(ran, timeout_s), output=output)
    why = "the tests pass" if ran.exit_code == 0 else f"the tests fail with exit code {ran.exit_code}"
    return TestsRan(command=command, passed=ran.exit_code == 0, why=why, output=output)
