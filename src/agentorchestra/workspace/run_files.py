"""The files of runs, in their folders and on their way to their user (`ws.files`)."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from agentorchestra.core.errors import BundleError, ProjectError, UnknownComponentError
from agentorchestra.core.protocols import RunRecord
from agentorchestra.core.spec import RunFile, RunStatus
from agentorchestra.environments.folder import FOLDER, write_folder
from agentorchestra.log.folders import MAIN, WORKED_ON, world_folder
from agentorchestra.runtime.context import BranchContext
from agentorchestra.runtime.files import made_files
from agentorchestra.runtime.open_environments import CHANGED
from agentorchestra.runtime.run import Run
from agentorchestra.runtime.worlds import final_snapshot
from agentorchestra.workspace.assembly import Facet
from agentorchestra.workspace.delivery import FilesSaved, folder_files, save

if TYPE_CHECKING:
    from agentorchestra.workspace.changes import Applied, Changes


class FolderWritten(NamedTuple):
    path: Path  # where it is
    files: int  # how many it holds
    left_out: tuple[str, ...]  # files that were too large for a snapshot: they are where the run was driven


class RunFiles(Facet):
    """What the runs of a workspace made and changed."""

    @property
    def root(self) -> Path:
        return self._parts.runs_folder

    def folder(self, run_id: str) -> Path:
        """Return the folder that the environments of a run work on (`files`, `terminal`, `git`), to look into.

        It need not exist: for a run without environments there is none. Copy what is to be changed: a resume of the
        run puts it back to where its log says.
        """
        return world_folder(self.root / run_id, MAIN) / WORKED_ON

    async def of(self, run_id: str) -> tuple[RunFile, ...]:
        """Return the files that a run made for its user, by their names; of one under way those it has made by now.

        Unlike `RunResult.files` this reads what the log has of the run's folder, also of a run from before that list.
        """
        run = await self._run(await self._parts.record(run_id))
        return made_files(run.ledger, (await folder_files(run)).files)

    async def save(self, run_id: str, out: str | Path) -> FilesSaved:
        """Write the files that a run made for its user into a folder, by their names.

        A folder that is missing is made, for a run without files nothing is. What is there is not written over: a name
        that other content has gets a number (`chart-2.png`), and where the same content is there nothing is written.
        No name leads out of the folder.

        Raises:
            OutFolderError: `out` is a file, or cannot be written.
        """
        return await save(self._parts.store, await self.of(run_id), Path(out))

    async def artifact(self, run_id: str, name: str) -> bytes:
        """Return the bytes of a file a run produced, or of a cut result; UnknownComponentError with their names."""
        assembly = self._assembly()
        artifacts = (await assembly.driver.result(run_id)).artifacts
        for ref in artifacts:
            if ref.name == name:
                return await assembly.parts.store.get_blob(ref.sha256)
        names = ", ".join(ref.name for ref in artifacts) or "none"
        raise UnknownComponentError(f"run {run_id} has no artifact {name!r}; its artifacts: {names}")

    async def changes(self, run_id: str) -> Changes:
        """Return what a run changed in its project's copy by now, file by file; ProjectError without one."""
        record = await self._parts.record(run_id)
        return await self._assembly().driver.changes(record, await self._run(record))

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
            earlier = [await self.changes(turn) for turn in await self._earlier_on_project(record)]
            return await asyncio.to_thread(apply, changes, self.root / run_id, earlier)
        message = f"{record.manifest.task.splitlines()[0][:70]}\n\nBy agentorchestra, run {run_id}\n"
        return await asyncio.to_thread(commit, changes, branch, message)

    async def export(self, run_id: str, out: str | Path) -> FolderWritten:
        """Write the folder of a run into a new one, as it stands by the log: on any machine, whoever drove the run.

        Raises:
            BundleError: if `out` is there already or cannot be written, or the log has no folder of the run.
        """
        record = await self._parts.record(run_id)
        run, out = await self._run(record, verify=True), Path(out)
        ref = final_snapshot(run.ledger, FOLDER)
        if ref is None:
            raise BundleError(f"the log of run {run_id} has no folder of it: none of its environments changed one")
        if ref == CHANGED:
            raise BundleError(
                f"how the folder of run {run_id} stands could not be kept when it was last changed; fork the run "
                "before that: `agentorchestra show` names the action"
            )
        if out.exists():
            raise BundleError(f"{out} is there already; name a folder that is not")
        try:
            result = await write_folder(await run.blob(ref), out, BranchContext.root(run))
        except BaseException as exc:
            await asyncio.to_thread(shutil.rmtree, out, ignore_errors=True)
            if isinstance(exc, OSError):
                raise BundleError(f"{out} cannot be written: {exc.strerror or exc}; name another folder") from exc
            raise
        return FolderWritten(
            out, sum(entry.kind == "file" for entry in result.entries), tuple(entry.path for entry in result.left_out)
        )

    async def _earlier_on_project(self, record: RunRecord) -> list[str]:
        """Return the turns before a run that worked on the same copy of a project, the newest first."""
        turns, project = list[str](), record.manifest.project
        while (previous := record.manifest.previous) is not None:
            before = await self._parts.store.get_run(previous)
            if before is None or before.manifest.project != project:
                break
            turns.append(previous)
            record = before
        return turns

    async def _run(self, record: RunRecord, *, verify: bool = False) -> Run:
        """Return a run as its log has it; `verify`: check that each event is the one that was recorded."""
        events = await self._parts.store.load(record.id, verify=verify)
        return self._assembly().driver.recorded_run(record, events)
