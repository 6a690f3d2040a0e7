"""The log of a workspace (`ws.log`): read, compared, cleaned up, exported; and what its runs remember (`ws.memory`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentorchestra.core.errors import BackupError
from agentorchestra.core.events import Event
from agentorchestra.core.query import LogQuery
from agentorchestra.log.comparison import Comparison, compare_runs
from agentorchestra.log.ledger import Ledger
from agentorchestra.log.retention import GRACE_S, Collected, Retention, collect
from agentorchestra.log.store.pages import selected_events
from agentorchestra.models.token_sources import SourceTokens, tokens_by_source
from agentorchestra.workspace.assembly import Facet
from agentorchestra.workspace.catalog import distribution

if TYPE_CHECKING:
    from agentorchestra.log.bundle.format import Exported, Imported
    from agentorchestra.tea.memory.base import Entry, EntryKind


class RunLog(Facet):
    """The log of a workspace, in which all its runs are."""

    async def events(self, run_id: str, *, after: int = 0) -> list[Event]:
        return await self._parts.store.load(run_id, after=after)

    async def select(
        self, query: LogQuery | None = None, *, task: str | None = None, limit: int | None = None, verify: bool = False
    ) -> AsyncIterator[Event]:
        """Yield events of any runs, oldest run first: the paper's tracer, by session, task, record, index (000, C.1.1).

        Args:
            task: only of runs whose task has this text in it, whatever the case.
            limit: only the last ones, so many.
            verify: check that each is the one that was recorded.

        Raises:
            LogChangedError: with `verify`, for one that is not.
        """
        query = query or LogQuery()
        if task is not None:
            heads = await self._parts.store.list_runs()
            runs = [run.id for run in heads if task.casefold() in run.manifest.task.casefold()]
            run_ids = runs if query.runs is None else [run for run in runs if run in query.runs]
            query = query.model_copy(update={"runs": tuple(run_ids)})
        async for event in selected_events(self._parts.store, query, limit, verify=verify):
            yield event

    async def tokens(self, run_id: str) -> tuple[SourceTokens, ...]:
        """Return a run's input tokens by the source of what stood in its prompts, the largest first."""
        return tokens_by_source(Ledger.of(await self.events(run_id)))

    async def compare(self, run_id: str, other_id: str) -> Comparison:
        """Return where two runs first differ, and how each goes on from there."""
        return compare_runs(await self.events(run_id), await self.events(other_id))

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

        parts = self._parts
        record = await parts.record(run_id)
        program = Path(parts.host.app_folder or parts.folder.absolute().parent)
        if files:
            await parts.fetch_files(run_id, record.manifest.files)
        return await export_run(
            parts.store,
            record,
            Path(out if out is not None else f"{run_id}.zip"),
            files=parts.carried_files() if files else None,
            secrets=secret_variables(parts.host.own.environ) | parts.secrets(),
            origin=await asyncio.to_thread(origin_of, parts.settings, distribution(), program),
        )

    async def import_file(self, path: str | Path) -> list[Imported]:
        """Take the run of a bundle, or whole logs as `agentorchestra log --jsonl` writes them, into this workspace.

        Everything is checked before anything is written, and nothing that comes in is executed, then or by `replay`.

        Raises:
            BundleError: for a file that does not fit, and for a run that is here already and is another.
        """
        from agentorchestra.log.bundle.importer import import_file

        parts = self._parts
        files, now = parts.carried_files(), parts.clock.now()
        imports = await import_file(parts.store, Path(path), files=files, folder=parts.base, now=now)
        for run in imports:
            if not run.left_out:
                await parts.share_files((await parts.record(run.run_id)).manifest.files)
        return imports

    async def backup(self, target: str | Path) -> None:
        """Copy the workspace into a new folder while runs go on.

        Raises:
            BackupError: the target is not free or cannot be written, or the log lies in a database.
        """
        from agentorchestra.log.store.sqlite import SqliteStore

        store, artifacts = self._parts.store, self._parts.settings.artifacts
        if not isinstance(store, SqliteStore):
            place = getattr(store, "place", "memory")
            raise BackupError(
                f"the log lies in {place}, not in the folder; copy a database with pg_dump --schema=NAME, and "
                + (
                    f"then the objects below {artifacts}, e.g. with `aws s3 sync`"
                    if artifacts is not None
                    else f"the folder {self._parts.folder} with it"
                )
            )
        await store.backup(Path(target))

    async def gc(
        self, retention: Retention | None = None, *, grace_s: float = GRACE_S, dry_run: bool = False
    ) -> Collected:
        """Delete runs that are no longer wanted, and folders, files, blobs and unpacked images that no run refers to.

        Args:
            retention: which runs go, if nobody needs them; none by default.
            grace_s: blobs, files and folders that are younger stay, in seconds.
            dry_run: only say what would go.
        """
        parts, retention = self._parts, retention or Retention()
        now = parts.clock.now()
        return await collect(parts.store, parts.base, retention, now=now, grace_s=grace_s, dry_run=dry_run)


class RunMemory(Facet):
    """What the runs of a workspace remember (docs/memory.md)."""

    async def recall(
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
        from agentorchestra.tea.memory.records import memory_entries

        records = await memory_entries(self._parts.store, kinds)
        entries = [entry for entry, _ in records if agent in ("", entry.agent)][::-1]
        return fitting(entries, query, limit or len(entries)) if query else entries[:limit]

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

        return await forget(self._parts.store, names, clock=self._parts.clock, by=by, retired=retired)

    async def retired(self) -> list[tuple[Entry, str]]:
        """Return the tips that a validation retired, each with its evidence (docs/evolution.md)."""
        from agentorchestra.tea.memory.records import MemoryReader

        return await MemoryReader(self._parts.store).retirements()
