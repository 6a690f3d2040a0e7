"""The session of a chat: its turns, what the next one is given, and branches of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentorchestra.core.budget import Budget
from agentorchestra.core.errors import ChatError
from agentorchestra.core.protocols import RunRecord
from agentorchestra.core.settings import OnAsk
from agentorchestra.core.spec import RunSpec
from agentorchestra.workspace import Workspace
from agentorchestra.workspace.sessions import turns_of

SAVED = "chat"
"""The folder in the workspace's folder with saved prompts (`NAME.md`), the history and pasted texts."""


class Conversation:
    """The turns of a session, of which the last one may be under way.

    Args:
        workspace: open.
        session: its name; None for a new one, which gets the id of its first turn as its name.
        model, system, environments, project, budget: for the next turns; None or nothing as in the turn before, or as
            the settings say.
    """

    def __init__(
        self,
        workspace: Workspace[Any],
        *,
        session: str | None = None,
        model: str | None = None,
        system: str | None = None,
        environments: tuple[str, ...] = (),
        project: Path | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.workspace = workspace
        self.session = session
        self.model = model
        self.system = system
        self.on_ask: OnAsk = workspace.settings.on_ask
        self._environments = environments
        self._project = project
        self._budget = budget
        self.last: RunRecord | None = None  # the newest turn

    async def look(self) -> None:
        """Read which turn of the session is the newest."""
        if self.session is not None:
            self.session, turns = await turns_of(self.workspace.store, self.session)
            self.last = turns[0] if turns else None

    async def begin(self, task: str, files: list[Path]) -> RunRecord:
        """Write the next turn into the log.

        Raises:
            UsageError: it cannot be begun.
        """
        spec = RunSpec(
            task=task,
            files=tuple(files),
            session=self.session,
            model=self.model,
            system=self.system,
            on_ask=self.on_ask,
            environments=self._environments,
            project=self._project if self.last is None else None,
            budget=self._budget,
        )
        run_id = await self.workspace.create(spec, begins=True)
        self.session = self.session or run_id
        record = await self.workspace.store.get_run(run_id)
        assert record is not None
        self.last = record
        return record

    async def turns(self) -> list[RunRecord]:
        """Return the turns that led to the last one, oldest first, those before a branch included."""
        found, record = list[RunRecord](), self.last
        while record is not None:
            found.append(record)
            previous = record.manifest.previous
            record = await self.workspace.store.get_run(previous) if previous is not None else None
        return found[::-1]

    async def branch(self, turn: int) -> None:
        """Go on from the end of an earlier turn, in a session of its own; 0 begins anew. What came after stays.

        Args:
            turn: its number, from 1 on.

        Raises:
            ChatError: there is no such turn.
            ForkError: it cannot be gone on from.
        """
        turns = await self.turns()
        if not 0 <= turn <= len(turns):
            raise ChatError(f"there is no turn {turn}; the last one is {len(turns)}: /fork lists them")
        if turn == 0:
            self.session = self.last = None
            return
        fork = await self.workspace.fork(turns[turn - 1].id)
        await self.workspace.resume(fork)  # all of it is recorded: nothing is asked or paid
        self.session, self.last = fork, await self.workspace.store.get_run(fork)

    @property
    def model_now(self) -> str:
        """The model of the next turn."""
        before = self.last.manifest.model if self.last is not None else self.workspace.settings.model
        return self.model or before

    @property
    def system_now(self) -> str:
        """The system of the next turn."""
        before = self.last.manifest.system if self.last is not None else self.workspace.settings.system
        return self.system or before
