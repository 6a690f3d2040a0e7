"""The session of a chat: its turns, what the next one is given, and branches of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentorchestra.core.errors import ChatError
from agentorchestra.core.protocols import RunHead, RunRecord
from agentorchestra.core.spec import RunFields
from agentorchestra.workspace import Workspace
from agentorchestra.workspace.sessions import conversations, turns_of


class ChatSession:
    """The turns of a session, of which the last one may be under way.

    Args:
        workspace: open.
        session: its name; None for a new one, which gets the id of its first turn as its name.
        options: of the next turns; what they leave open is as in the turn before, or as the settings say.
    """

    def __init__(self, workspace: Workspace[Any], session: str | None, options: RunFields) -> None:
        self.workspace = workspace
        self.session = session
        self.options = options
        self.last: RunRecord | None = None  # the newest turn

    async def look(self) -> None:
        """Read which turn of the session is the newest."""
        if self.session is not None:
            self.session, turns = await turns_of(self.workspace.store, self.session)
            self.last = await self.workspace.store.get_run(turns[0].id) if turns else None

    async def other_talks(self) -> list[tuple[list[RunHead], str]]:
        """Return the turns of the workspace's other conversations, the newest first, each with how its end stands."""
        talks, standings = await conversations(self.workspace.store), await self.workspace.runs.standings()
        ends = [(turns, turns[-1]) for turns in talks if self.last is None or turns[-1].id != self.last.id]
        return [(turns, standings.get(end.id, end.status.value)) for turns, end in ends]

    async def begin(self, task: str, files: Sequence[Path]) -> RunRecord:
        """Write the next turn into the log; raise UsageError if it cannot be begun."""
        fields = self.options.copy()
        if self.last is not None:
            fields["project"] = None  # the session has its copy
        fields["files"], fields["session"] = files, self.session
        run_id = await self.workspace.create(task, begins=True, **fields)
        self.session = self.session or run_id
        self.last = record = await self.workspace.store.get_run(run_id)
        assert record is not None
        return record

    async def turns(self) -> list[RunRecord]:
        """Return the turns that led to the last one, oldest first, those before a branch included."""
        turns, record = list[RunRecord](), self.last
        while record is not None:
            turns.append(record)
            previous = record.manifest.previous
            record = await self.workspace.store.get_run(previous) if previous is not None else None
        return turns[::-1]

    async def branch(self, turn: int) -> None:
        """Go on from the end of an earlier turn, in a session of its own; 0 begins anew. Raise ChatError, ForkError."""
        turns = await self.turns()
        if not 0 <= turn <= len(turns):
            raise ChatError(f"there is no turn {turn}; the last one is {len(turns)}: /fork lists them")
        if turn == 0:
            self.session = self.last = None
            return
        fork = await self.workspace.fork(turns[turn - 1].id)
        await self.workspace.resume(fork)  # all of it is recorded: nothing is asked or paid
        self.session, self.last = fork, await self.workspace.store.get_run(fork)

    def has(self, file: Path) -> bool:
        """Return True for a file that agents see: it was attached, or they work on a copy of the user's folder."""
        last = self.last.manifest if self.last is not None else None
        project = self.options.get("project") if last is None else last.project
        return project is not None or (last is not None and file.name in {file.name for file in last.files})

    def now(self, name: str) -> str:
        """Return the `model` or the `system` of the next turn."""
        before = self.last.manifest if self.last is not None else self.workspace.settings
        return str(self.options.get(name) or getattr(before, name))
