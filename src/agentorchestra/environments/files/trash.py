"""What was deleted, and can be brought back: its manifest in what the environment remembers, contents in the store."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.effects import ArtifactRef
from agentorchestra.core.errors import ToolError
from agentorchestra.environments.beneath import PathStatus, parent_of, parts_of, remove, walk
from agentorchestra.environments.files import disk
from agentorchestra.environments.files.disk import DiskPlace
from agentorchestra.environments.folder import FolderGround
from agentorchestra.environments.manifest import FolderEntry, entry_of, read_file

MOST_KEPT = 200  # deletions that can be undone; older ones are forgotten
MOST_ENTRIES = 20_000  # files and folders of all of them together
_NAME = "deleted"


class Trash:
    """The deletions of a folder in their order; `kept` is what the environment remembers, `ctx` has the store."""

    def __init__(self, record: dict[str, JsonValue], ground: FolderGround, ctx: Any) -> None:
        self._kept = record
        self._ground = ground
        self._ctx = ctx

    @staticmethod
    def paths(record: dict[str, JsonValue]) -> list[str]:
        return [str(row["path"]) for row in _deleted(record) if isinstance(row, dict)]

    async def put(self, place: DiskPlace) -> int:
        """Delete what lies there; how many files, folders and links."""
        entries = await disk.in_thread(lambda: self._entries(place))
        lines: list[JsonValue] = []
        for entry in entries:
            content, size = entry.content, entry.size
            if entry.kind == "file":
                if (read := await asyncio.to_thread(read_file, place.root, entry.path, self._ground.limits)) is None:
                    continue
                content = (await self._ctx.artifact(entry.path, read.data)).sha256
                size = len(read.data)
            lines.append([*entry._replace(size=size, content=content)])

        def delete() -> None:
            with parent_of(place.root, place.parts) as (at, name):
                remove(at, name)

        await disk.in_thread(delete)
        deleted: list[JsonValue] = [*_deleted(self._kept), {"path": place.path, "entries": lines}]
        while len(deleted) > MOST_KEPT or (len(deleted) > 1 and _count(deleted) > MOST_ENTRIES):
            deleted.pop(0)
        self._kept[_NAME] = deleted
        return len(lines)

    @staticmethod
    def _entries(place: DiskPlace) -> list[FolderEntry]:
        top = PathStatus("/".join(place.parts), disk.status(place))
        below = walk(place.root, place.parts) if top.kind == "folder" else ()
        return [entry for node in (top, *below) if (entry := Trash._entry(place, node)) is not None]

    @staticmethod
    def _entry(place: DiskPlace, node: PathStatus) -> FolderEntry | None:
        with suppress(OSError), parent_of(place.root, parts_of(node.path)) as (at, name):
            return entry_of(at, name, node.path, node.status)
        return None

    async def back(self, path: str, target: DiskPlace) -> None:
        """Put back what was deleted last under a path; raise ToolError if there is none, or the target is taken."""
        deleted = _deleted(self._kept)
        index = max((i for i, row in enumerate(deleted) if isinstance(row, dict) and row["path"] == path), default=-1)
        if index < 0:
            paths = ", ".join(self.paths(self._kept)[-20:]) or "nothing"
            raise ToolError(f"nothing was deleted at {path!r}; what can be brought back: {paths}")
        if await disk.in_thread(lambda: disk.is_taken(target)):
            raise ToolError(f"{target.path} is there again; give another path by `to`")
        row: Any = deleted[index]
        for line in row["entries"]:
            entry = FolderEntry(*line)
            below = parts_of(entry.path)[len(parts_of(path)) :]
            await self._put(entry, DiskPlace(target.root, (*target.parts, *below), entry.path))
        del deleted[index]
        self._kept[_NAME] = deleted

    async def _put(self, entry: FolderEntry, to: DiskPlace) -> None:
        if entry.kind == "folder":
            await disk.in_thread(lambda: disk.make_folder(to))
        elif entry.kind == "file":
            ref = ArtifactRef(name=entry.path, sha256=entry.content, size=entry.size)
            data = await self._ctx.read_artifact(ref)
            await disk.in_thread(lambda: disk.write(to, self._ground.temporary, data, new=True))
            await disk.in_thread(lambda: disk.set_mode(to, entry.mode))
        else:

            def link() -> None:
                with parent_of(to.root, to.parts, make=True) as (at, name):
                    os.symlink(entry.content, name, dir_fd=at)

            await disk.in_thread(link)


def _deleted(record: dict[str, JsonValue]) -> list[JsonValue]:
    before = record.get(_NAME)
    return [*before] if isinstance(before, list) else []


def _count(deleted: list[JsonValue]) -> int:
    return sum(len(row["entries"]) for row in deleted if isinstance(row, dict) and isinstance(row["entries"], list))
