"""Where the runs of an open workspace are: its log, its engine, its clock, its folders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pydantic import JsonValue

from agentorchestra.core.clock import Clock
from agentorchestra.core.errors import UnknownRunError
from agentorchestra.core.events import Body, new_event
from agentorchestra.core.protocols import RunRecord, Store
from agentorchestra.runtime.engine import LocalEngine
from agentorchestra.runtime.run import wait_for
from agentorchestra.trust.redact import Redactor


class Ready(Protocol):
    """Takes into use what is registered."""

    async def __call__(self, *, toolkits: bool = True) -> None:
        """Without toolkits, servers are not asked what they have."""
        ...


@dataclass(frozen=True)
class Place:
    """What all that works on runs needs of an open workspace.

    Attributes:
        folder: of the workspace.
        base: below which its runs keep their files; a temporary folder for a workspace without one of its own.
        store: the log.
        engine: drives runs here.
        clock: the time.
        secrets: those that are known by now, name -> value.
        need_open: complains when the workspace is not open.
    """

    folder: Path
    base: Path
    store: Store
    engine: LocalEngine
    clock: Clock
    secrets: Callable[[], dict[str, str]]
    need_open: Callable[[], None]

    @property
    def runs_folder(self) -> Path:
        """Where the runs keep their files."""
        return self.base / "runs"

    @property
    def files_folder(self) -> Path:
        """Where the bytes of the files that were given with tasks are kept, once for all runs."""
        return self.base / "files"

    def files_of(self, run_id: str) -> Path:
        """The folder with the files that were given with a run's task."""
        return self.runs_folder / run_id / "files"

    async def record(self, run_id: str) -> RunRecord:
        """What the workspace knows of a run.

        Raises:
            UnknownRunError: there is none with this id.
        """
        self.need_open()
        record = await self.store.get_run(run_id)
        if record is None:
            raise UnknownRunError(
                f"no run {run_id!r} in this workspace ({self.folder}); `agentorchestra runs` lists them"
            )
        return record

    async def say(self, run_id: str, body: Body, *, by: str = "") -> None:
        """Write from outside into a run's log, and have whoever drives it here look."""
        await wait_for(self.store.append(run_id, None, [new_event(body, ts=self.clock.now(), actor=by)]))
        await self.engine.poke(run_id)

    def redact(self, text: str) -> str:
        """The text without secrets."""
        return Redactor(self.secrets()).text(text)

    def redact_json(self, value: JsonValue) -> Any:
        """A JSON value without secrets."""
        return Redactor(self.secrets()).json(value)


__all__ = ["Place", "Ready"]
