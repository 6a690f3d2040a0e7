"""Sessions: conversations of several turns, each a run of its own (docs/sessions.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typing_extensions import Unpack

from agentorchestra.core.errors import SessionError
from agentorchestra.core.protocols import RunHead, Store
from agentorchestra.core.spec import Out, RunResult, RunSpec
from agentorchestra.log.retention import GRACE_S, Collected, Retention
from agentorchestra.runtime.direct_calls import SYSTEM as CALLS
from agentorchestra.workspace.equipment import RunOptions
from agentorchestra.workspace.schedules import LABEL as SCHEDULED
from agentorchestra.workspace.schedules import SYSTEM as SCHEDULE

APART = frozenset({"evaluation", "evolution", "judges"})
"""Labels of runs that are compared with each other, or judge: no candidate gets one by chance, and nobody goes on."""

_BY_CODE = APART | {SCHEDULED, "frontier", "probe", "tips"}
"""Labels of runs that code began."""


async def turns_of(store: Store, name: str) -> tuple[str, list[RunHead]]:
    """Return the name of a session and its turns, newest first.

    Args:
        name: its name, or the id of a run: of its session where it has one, else of the session that goes on from it
            and is named after it.
    """
    run = await store.get_run(name)
    session = name if run is None else run.manifest.session or name
    turns = await store.list_runs(session=session)
    first = run if session == name else await store.get_run(session)
    return session, turns if first is None else [*turns, first]


async def conversations(store: Store) -> list[list[RunHead]]:
    """Return the turns of each conversation, oldest first; the conversation with the newest turn comes first.

    A run that somebody asked for by itself is one of a single turn. What code began is none: evaluations, schedules.
    """
    runs = await store.list_runs()
    by_id, newest = {run.id: run for run in runs}, dict[str, RunHead]()
    for run in runs:
        if run.manifest.system not in (CALLS, SCHEDULE) and not _BY_CODE & run.manifest.labels.keys():
            newest.setdefault(run.manifest.session or run.id, run)
    talks = [[run] for run in newest.values()]
    for turns in talks:
        while (before := by_id.get(turns[0].manifest.previous or "")) is not None:
            turns.insert(0, before)
    return talks


class Session:
    """A conversation: `session = ws.session("offers"); await session.run("...")`.

    Args:
        ws: the `Workspace`, open.
        name: of the session; the id of a run that has none goes on with that run.
    """

    def __init__(self, ws: Any, name: str) -> None:
        self._ws = ws
        self.name = name

    async def run(
        self,
        task: str | RunSpec,
        *,
        output_type: type[Out] | None = None,
        out: str | Path | None = None,
        **options: Unpack[RunOptions],
    ) -> RunResult[Out]:
        """Run the next turn, see `Workspace.run`; SessionBusyError if the last turn is not over."""
        options["session"] = self.name
        result: RunResult = await self._ws.run(task, output_type=output_type, out=out, **options)
        return result

    async def turns(self) -> list[RunHead]:
        """Return the turns, oldest first."""
        return (await turns_of(self._ws.store, self.name))[1][::-1]

    async def erase(self, *, grace_s: float = GRACE_S, dry_run: bool = False) -> Collected:
        """Delete all turns, with what nothing else refers to of their files and blobs.

        Args:
            grace_s: blobs and files that are younger stay until the next collection, in seconds: another process may
                be about to refer to them. 0 where nothing runs in the workspace.
            dry_run: only say what would go.

        Raises:
            SessionError: there is no such session, or a turn of it has to stay; nothing was deleted.
        """
        turns = frozenset(turn.id for turn in await self.turns())
        if not turns:
            raise SessionError(f"there is no session {self.name!r}; `agentorchestra runs --json` names those there are")
        retention = Retention(runs=turns)
        foreseen: Collected = await self._ws.log.gc(retention, grace_s=grace_s, dry_run=True)
        if foreseen.kept:
            raise SessionError(
                f"the session {self.name!r} cannot be erased now: {', '.join(foreseen.kept)} is under way, waits, or a "
                "run that stays was forked from it; end it (`agentorchestra cancel`), or delete the fork first"
            )
        collection: Collected = foreseen if dry_run else await self._ws.log.gc(retention, grace_s=grace_s)
        return collection
