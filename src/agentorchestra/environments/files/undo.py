"""What was changed, and can be taken back: what each file held, in what the environment remembers and in the store."""

from __future__ import annotations

import hashlib
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.effects import ArtifactRef
from agentorchestra.core.errors import UndoError
from agentorchestra.environments.files.disk import Place

MOST_KEPT = 100  # changes that can be taken back; older ones are forgotten
_NAME = "changed"


class Changes:
    """The changes of a folder's files in their order; `kept` is what the environment remembers, `ctx` has the store."""

    def __init__(self, kept: dict[str, JsonValue], ctx: Any) -> None:
        self._kept = kept
        self._ctx = ctx

    async def note(self, place: Place, before: bytes | None, after: bytes) -> None:
        """Keep what a file held (None for no file) before it was changed."""
        if before == after:
            return
        held = "" if before is None else (await self._ctx.artifact(place.shown, before)).sha256
        one: JsonValue = {"path": place.shown, "before": held, "after": hashlib.sha256(after).hexdigest()}
        self._kept[_NAME] = [*self._all(), one][-MOST_KEPT:]

    async def last(self, place: Place, now: bytes | None) -> bytes | None:
        """Return what a file held before its last change, None for no file; `now` is what it holds.

        Raises:
            UndoError: nothing was changed there, or the file was changed by something else since.
        """
        one = next((one for one in reversed(self._all()) if one["path"] == place.shown), None)
        if one is None:
            paths = ", ".join(dict.fromkeys(str(one["path"]) for one in self._all())) or "nothing"
            raise UndoError(f"there is no change of {place.shown} to take back; what can be taken back: {paths}")
        if now is None or hashlib.sha256(now).hexdigest() != one["after"]:
            said = "is gone" if now is None else "was changed by something else"
            raise UndoError(
                f"{place.shown} {said} since its last change here, which cannot be taken back alone; read it, and "
                "change it by edit or write"
            )
        if not one["before"]:
            return None
        before: bytes = await self._ctx.read_artifact(ArtifactRef(name=place.shown, sha256=one["before"], size=0))
        return before

    def forget(self, place: Place) -> None:
        changed = self._all()
        index = max(number for number, one in enumerate(changed) if one["path"] == place.shown)
        self._kept[_NAME] = [*changed[:index], *changed[index + 1 :]]

    def _all(self) -> list[Any]:
        held = self._kept.get(_NAME)
        return [*held] if isinstance(held, list) else []
