"""Packs: the contents of a folder's many small files in few blobs.

A project of 50,000 files is copied when its run is made. A blob for each file would take longer than the copy itself,
and nearly none of them is ever read again: only what an agent changes is, for the diff, and all of it where the folder
is made anew on another machine or in a fork. So the files stand one after another in blobs of some megabytes. Which
one stands where follows from the manifest: packs hold its files in the order of `small_files`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any
from zlib import crc32

from agentorchestra.core.effects import ArtifactRef
from agentorchestra.environments.manifest import FolderEntry, FolderManifest

LARGE = 4 << 20
"""Bytes of a file from which on it has a blob of its own."""

_LEAST, _MOST = 1 << 20, 16 << 20
_EMPTY = hashlib.sha256(b"").hexdigest()


def small_files(entries: Iterable[FolderEntry]) -> list[FolderEntry]:
    """Return the files that stand in packs, in their order: by the folder, then by the name."""
    files = (entry for entry in entries if entry.kind == "file" and 0 < entry.size < LARGE)
    return sorted(files, key=lambda file: file.path.rpartition("/")[::2])


def is_full(size: int, folder: str, following: str) -> bool:
    """Return True if a pack of this size ends after a file in a folder; `following` is the folder of the next file.

    Ends depend on the folders' names, so that a changed file changes one pack and the others are the blobs of before.
    """
    return size >= _MOST or (size >= _LEAST and folder != following and crc32(folder.encode()) % 8 == 0)


class Contents:
    """The contents of a folder's files by their hashes: those in packs, and all others as artifacts of a run.

    Args:
        ctx: has `artifact` and `read_artifact`.
    """

    def __init__(self, ctx: Any) -> None:
        self._ctx = ctx
        self._began: FolderManifest | None = None
        self._places: dict[str, tuple[str, int, int]] = {}
        self._last: tuple[str, bytes] = ("", b"")

    def unpack(self, began: FolderManifest) -> None:
        self._began = began

    def _look(self, began: FolderManifest) -> None:
        files = iter(small_files(began.entries))
        for pack, count in began.packs:
            at = 0
            for _ in range(count):
                entry = next(files)
                self._places[entry.content] = (pack, at, entry.size)
                at += entry.size

    async def artifact(self, name: str, data: bytes, media_type: str = "application/octet-stream") -> ArtifactRef:
        ref: ArtifactRef = await self._ctx.artifact(name, data, media_type)
        return ref

    async def read_artifact(self, ref: ArtifactRef) -> bytes:
        if ref.sha256 == _EMPTY:
            return b""
        if self._began is not None:
            self._look(self._began)
            self._began = None
        place = self._places.get(ref.sha256)
        if place is None:
            data: bytes = await self._ctx.read_artifact(ref)
            return data
        pack, at, size = place
        if self._last[0] != pack:
            self._last = pack, await self._ctx.read_artifact(ArtifactRef(name=pack, sha256=pack, size=0))
        return self._last[1][at : at + size]


class Blobs:
    """Where contents are read by a function from a blob's hash to its bytes; nothing can be kept."""

    def __init__(self, read: Callable[[str], Awaitable[bytes]]) -> None:
        self._read = read

    async def read_artifact(self, ref: ArtifactRef) -> bytes:
        return await self._read(ref.sha256)
