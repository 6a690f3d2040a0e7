"""What was changed, and can be taken back: what each file held, in what the environment remembers and in the store."""

from __future__ import annotations

import hashlib
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.effects import ArtifactRef
from agentorchestra.core.errors import UndoError
from agentorchestra.environments.files.disk import DiskPlace

MOST_KEPT = 100  # changes that can be taken back; older ones are forgotten
_NAME = "changed"


class FileChanges:
    """The changes of a folder's files in their order; `kept` is what the environment remembers, `ctx` has the store."""

    def __init__(self, record: dict[str, JsonValue], ctx: Any) -> None:
        self._kept = record
        self._ctx = ctx

    async def note(self, place: DiskPlace, before: bytes | None, after: bytes) -> None:
        """Keep what a file held (None for no file) before it was changed."""
        if before == after:
            return
        digest = "" if before is None else (await self._ctx.artifact(place.path, before)).sha256
        row: JsonValue = {"path": place.path, "before": digest, "after": hashlib.sha256(after).hexdigest()}
        self._kept[_NAME] = [*self._all(), row][-MOST_KEPT:]

    async def last(self, place: DiskPlace, now: bytes | None) -> bytes | None:
        """Return what a file held before its last change, None for no file; `now` is what it holds.

        Raises:
            UndoError: nothing was changed there, or the file was changed by something else since.
        """
        row = next((row for row in reversed(self._all()) if row["path"] == place.path), None)
        if row is None:
            paths = ", ".join(dict.fromkeys(str(row["path"]) for row in self._all())) or "nothing"
            raise UndoError(f"there is no change of {place.path} to take back; what can be taken back: {paths}")
        if now is None or hashlib.sha256(now).hexdigest() != row["after"]:
            event = "is gone" if now is None else "was changed by something else"
            raise UndoError(
                f"{place.path} {event} since its last change here, which cannot be taken back alone; read it, and "
                "change it by edit or write"
            )
        if not row["before"]:
            return None
        before: bytes = await self._ctx.read_artifact(ArtifactRef(name=place.path, sha256=row["before"], size=0))
        return before

    def forget(self, place: DiskPlace) -> None:
        changed = self._all()
        index = max(number for number, row in enumerate(changed) if row["path"] == place.path)
        self._kept[_NAME] = [*changed[:index], *changed[index + 1 :]]

    def _all(self) -> list[Any]:
        rows = self._kept.get(_NAME)
        return [*rows] if isinstance(rows, list) else []
