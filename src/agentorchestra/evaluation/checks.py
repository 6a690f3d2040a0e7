"""The machines that runs left are looked at, once each: by the tests of their tasks, or for what was changed.

What was found lies in `evaluations/NAME/checks.jsonl`, a line for each look; of several for one run the last one holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentorchestra.core.errors import EvaluationError
from agentorchestra.evaluation.plan import Arm, EvalPlan, folder_of
from agentorchestra.evaluation.questions import MachineCheck, TaskMachine, read_lines
from agentorchestra.workspace import Workspace, load_settings

CHECKS = "checks.jsonl"
_MAX_PATCH_BYTES = 16 * 1024**2

Workspaces = Callable[[Path, Arm], Workspace[Any]]  # makes the workspace of an arm, not yet opened


def on_machine(workspace: Workspace[Any], machine: TaskMachine) -> Workspace[Any]:
    """Give a workspace, before it is opened, the machine of a question; return it."""
    settings = workspace.own.settings or load_settings(workspace.folder, workspace.preset)
    terminal = settings.terminal.model_copy(update={"image": machine.image})
    workspace.own = replace(workspace.own, settings=settings.model_copy(update={"terminal": terminal}))
    workspace.task_folder = machine.folder
    return workspace


async def check_run(arm_workspace: Workspace[Any], machine: TaskMachine, run: str) -> MachineCheck:
    """Look at the machine that a run left; its tests change it.

    Args:
        arm_workspace: the workspace of the arm, not yet opened.
        run: its id; it has ended.

    Raises:
        AgentOrchestraError: there is no sandbox, or the machine is not as it was.
    """
    async with on_machine(arm_workspace, machine) as workspace:
        verdict = await workspace.tests.verdict(run)
        if not machine.patch:
            return MachineCheck(run=run, reward=verdict.reward, why=verdict.why, output=verdict.output)
        path = workspace.files.folder(run) / machine.patch
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _MAX_PATCH_BYTES:
            raise EvaluationError(f"the change of {run} cannot be read ({verdict.why}): {verdict.output[-300:]}")
        patch = path.read_bytes().decode(errors="replace")
    return MachineCheck(run=run, reward=None, why="the set's own harness has not scored the change yet", patch=patch)


def kept_checks(folder: Path, plan: EvalPlan) -> dict[str, MachineCheck]:
    path = folder_of(folder, plan.name) / CHECKS
    if not path.is_file():
        return {}
    return {check.run: check for check in (MachineCheck.model_validate(line) for _, line in read_lines(path))}


def keep_check(folder: Path, plan: EvalPlan, check: MachineCheck) -> None:
    with (folder_of(folder, plan.name) / CHECKS).open("a", encoding="utf-8") as file:
        file.write(check.model_dump_json() + "\n")
