"""Opening workspaces and finding runs in them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentorchestra.core.errors import AgentOrchestraError, NoWorkspaceError, UnknownRunError
from agentorchestra.core.names import did_you_mean
from agentorchestra.core.protocols import RunHead, RunRecord
from agentorchestra.core.spec import TESTLESS, RunResult
from agentorchestra.workspace import DEFAULT_FOLDER, Workspace, load_app, load_settings, open_workspace
from agentorchestra.workspace.variables import ENV_FILE

if TYPE_CHECKING:
    from agentorchestra.evaluation.plan import Arm
    from agentorchestra.workspace.task_folder import TaskVerdict

LAST = "last"
_PREFIX = "run_"


def exists(folder: Path) -> bool:
    """Return True if there is a workspace; opening one would make it.

    Raises:
        NoWorkspaceError: if there is none in a folder that was named; in the default one there is none at first.
    """
    from agentorchestra.log.store.sqlite import DATABASE

    if load_settings(folder).database is not None:
        return True  # whether it holds anything, only the database can say
    try:
        is_there = (folder / DATABASE).exists()
    except OSError:
        return True  # it cannot be looked into: opening it says why
    if not is_there and folder != Path(DEFAULT_FOLDER):
        problem = "is a file" if folder.is_file() else "holds no workspace" if folder.exists() else "does not exist"
        raise NoWorkspaceError(
            f'{folder} {problem}; name a workspace with --workspace, or make one: `agentorchestra run "..."`'
        )
    return is_there


def opening(
    folder: Path,
    *,
    app: bool = True,
    unsafe_local: bool = False,
    preset: str | None = None,
    task_folder: Path | None = None,
    open_: Callable[[Workspace[Any]], Awaitable[None]] | None = None,
) -> AbstractAsyncContextManager[Workspace[Any]]:
    """Open the workspace of a folder; make it where it is missing.

    Without `app` the user's application is not loaded: reading the log needs none, and must work while it is broken.
    Without `preset` it is that of the command line, or of the settings. `open_` may wait for its database.
    """
    workspace = open_workspace(folder, app=app, preset=_option("preset", None) if preset is None else preset)
    workspace.task_folder = task_folder
    return _open(workspace, unsafe_local=unsafe_local, open_=open_)


def workspace_of_arm(folder: Path, arm: Arm) -> Workspace[Any]:
    """Return the workspace of an evaluation's arm, not yet opened, with the variables that commands have."""
    from agentorchestra.evaluation.runner import arm_workspace

    workspace = arm_workspace(folder, arm)
    workspace.env_file = ENV_FILE
    return workspace


@asynccontextmanager
async def _open(
    workspace: Workspace[Any], *, unsafe_local: bool, open_: Callable[[Workspace[Any]], Awaitable[None]] | None = None
) -> AsyncIterator[Workspace[Any]]:
    workspace.unsafe_local = unsafe_local
    workspace.env_file = ENV_FILE
    workspace.mcp_files = _option("mcp", ())
    await (workspace.open() if open_ is None else open_(workspace))
    try:
        yield workspace
    finally:
        # A scripted model of the application may have steps left for the next process.
        await workspace.close(verify=False)


@asynccontextmanager
async def opened_run(
    folder: Path, name: str, *, app: bool = False, unsafe_local: bool = False, machine: bool = False
) -> AsyncIterator[tuple[Workspace[Any], RunRecord]]:
    """Open an existing workspace and find one of its runs, else raise UnknownRunError. Nothing is made.

    With `app` comes what the run is driven with: its preset, and the application of the settings, or the one that was
    recorded with the run where they name none - but never the one that came in with an imported run: that is a
    stranger's word for code to execute. With `machine` comes the machine of its task folder besides.
    """
    if not exists(folder):
        raise UnknownRunError(
            f"there is no run {name!r}: {folder} holds no workspace yet; start a run with "
            '`agentorchestra run "..."`, or name the workspace with --workspace'
        )
    async with opening(folder, app=app, unsafe_local=unsafe_local) as workspace:
        record = await find_run(workspace, name)
        manifest = record.manifest
        is_recorded = workspace.app is None and manifest.app is not None and record.imported is None
        task_folder = task_folder_of(record) if machine else None
        as_started = manifest.preset == workspace.settings.preset and task_folder is None
        if not app or (as_started and not is_recorded):
            yield workspace, record
            return
    if not is_recorded:
        preset = manifest.preset
        async with opening(folder, unsafe_local=unsafe_local, preset=preset, task_folder=task_folder) as workspace:
            yield workspace, record
        return
    assert manifest.app is not None
    loaded = load_app(manifest.app, Path(manifest.app_folder or "."))
    loaded.folder = folder
    loaded.preset = manifest.preset
    loaded.task_folder = task_folder
    async with _open(loaded, unsafe_local=unsafe_local) as workspace:
        yield workspace, record


def task_folder_of(record: RunHead) -> Path | None:
    """Return the folder whose task a run works on; None for none, and for a run that came from elsewhere."""
    place = record.manifest.task_folder
    return Path(place) if place and record.imported is None else None


async def verdict_on(workspace: Workspace[Any], result: RunResult) -> TaskVerdict | None:
    """Return the verdict on a run that has ended, None where there is no task folder; an error is its sentence."""
    if workspace.task is None or result.status in TESTLESS:
        return None
    from agentorchestra.workspace.task_folder import TaskVerdict

    try:
        return await workspace.tests.verdict(result.run_id)
    except (AgentOrchestraError, OSError) as exc:
        return TaskVerdict(solved=False, reward=0.0, why=f"the tests could not be run: {exc}")


async def is_abandoned(workspace: Workspace[Any], record: RunRecord) -> bool:
    """Return True if whoever drove a run, or was about to, is gone, and no server goes on with it."""
    return (await workspace.runs.standings([record.id])).get(record.id) == "abandoned"


async def find_run(workspace: Workspace[Any], name: str) -> RunRecord:
    """Return the run of this id, of this beginning of one id, or the newest for `last`; else raise UnknownRunError."""
    place = f"in the workspace {workspace.folder}"
    run_id = name.strip()
    if run_id == LAST:
        newest = await workspace.runs.list(limit=1)
        if not newest:
            raise UnknownRunError(f'there is no run yet {place}; start one with `agentorchestra run "..."`')
        run_id = newest[0].id
    bare = run_id.removeprefix(_PREFIX).upper()
    fitting = await workspace.store.run_ids(_PREFIX + bare) if bare else []
    exact = [entry for entry in fitting if entry == run_id]
    if not exact and len(fitting) > 1:
        text = ", ".join(fitting[:3])
        raise UnknownRunError(f"{name!r} is the beginning of {len(fitting)} runs {place} ({text}); give more of it")
    record = await workspace.store.get_run((exact or fitting)[0]) if fitting else None
    if record is None:
        raise UnknownRunError(
            f"no run {name!r} {place}; {did_you_mean(run_id, [LAST], '`agentorchestra runs` lists them')}"
        )
    return record


def _option(name: str, default: Any) -> Any:
    context = click.get_current_context(silent=True)
    return context.meta.get(f"agentorchestra.{name}", default) if context is not None else default
