"""`Tree`: a folder of this machine as snapshots hold it. What did not change is neither looked at nor written again."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

from agentorchestra.core.effects import ArtifactRef
from agentorchestra.core.errors import ToolError
from agentorchestra.environments.beneath import MAX_DEPTH, OutsideError, closing, folder_at, open_folder, parts_of
from agentorchestra.environments.manifest import (
    FolderEntry,
    FolderLimits,
    FolderManifest,
    Mark,
    Omission,
    clear_for,
    encoded,
    entry_of,
    finish,
    make_folders,
    make_links,
    needs_writing,
    place_file,
    read_file,
    shown_size,
)
from agentorchestra.sandbox.changes import WORTH, FolderWatch

# Contents that are kept, or fetched, at the same time; bytes of them together (a larger one is alone).
_AT_ONCE, _BYTES_AT_ONCE = 256, 64 << 20
_CLOCK_NS = 100_000_000  # changes so close to each other may bear the same time
_LARGE = 128  # so many entries have a part of their own: it is stored again only when something in it changes


@dataclass
class _Listing:
    """One folder: what is directly in it."""

    entries: list[FolderEntry] = field(default_factory=list)  # by name; a file's content is "" until it was read
    folders: list[str] = field(default_factory=list)  # paths
    left_out: list[Omission] = field(default_factory=list)  # too large to be kept
    size: int = 0  # of the files, in bytes
    has_links: bool = False  # holds a file with several names: it may change by another one
    lines: bytes | None = None  # its entries as they stand in a manifest


class Tree:
    """The folder `root`, its files kept by their contents in the store.

    `limits` hold for it; `apart` are names directly in it that no snapshot has. Of a `layer` all permissions are kept,
    and what hides something of the base below. Of the upper folder of an overlay the kernel tells no changes: it is not
    `watched`, and holds nothing but changes.
    """

    def __init__(
        self,
        root: Path,
        ctx: Any,
        limits: FolderLimits,
        *,
        apart: frozenset[str] = frozenset(),
        layer: bool = False,
        watch: bool = True,
    ) -> None:
        self.root, self.limits = root, limits
        self._ctx, self._apart, self._layer, self._watched = ctx, apart, layer, watch
        self._changes = FolderWatch(root)
        self._listings: dict[str, _Listing] = {}
        self._known: dict[str, tuple[Mark, str]] = {}
        self._begun: dict[str, FolderEntry] = {}  # files as they were copied, until they were looked at once
        self._count = 0
        self._is_empty = False  # whether nothing was in the folder, or it was not there, when it had this `_mark`
        self._mark: Mark | None = None

    # -- as it stands ------------------------------------------------------------------------------------------------

    async def look(self, *, full: bool) -> bool:
        """Look at what changed, with `full` at all, and keep it; ToolError for too much. True if anything differs."""
        if self._is_empty and self._mark == _mark(self.root):
            return False  # a thread would take a hundred times as long
        differs = await asyncio.to_thread(self._look, full)
        pending = [
            (listing, index)
            for listing in self._listings.values()
            if listing.lines is None
            for index, entry in enumerate(listing.entries)
            if entry.kind == "file" and not entry.content
        ]
        for part in batches(range(len(pending)), [listing.entries[index].size for listing, index in pending]):
            await asyncio.gather(*(self._take(*pending[number]) for number in part))
        return differs

    def left_out(self) -> list[Omission]:
        return [omission for path in sorted(self._listings) for omission in self._listings[path].left_out]

    def lines(self) -> tuple[list[bytes], list[bytes]]:
        """Return the entries for the manifest itself, as lines, and parts of their own with many entries."""
        for listing in self._listings.values():
            if listing.lines is None:
                # A file without content is gone, or was left out, since it was listed.
                listing.entries = [entry for entry in listing.entries if entry.kind != "file" or entry.content]
                listing.lines = encoded(listing.entries)
        pairs = [(path, listing) for path, listing in sorted(self._listings.items()) if listing.entries]
        parts = [b"[%b]" % (listing.lines or b"") for _, listing in pairs if len(listing.entries) >= _LARGE]
        small = [(path, listing) for path, listing in pairs if len(listing.entries) < _LARGE]
        count = sum(len(listing.entries) for _, listing in small)
        if count < _LARGE:
            return [listing.lines or b"" for _, listing in small], parts
        # By the hash of the path: a folder stays in its part whatever becomes of others, until there are twice as many.
        groups: list[list[bytes]] = [[] for _ in range(1 << (count // _LARGE).bit_length())]
        for path, listing in small:
            groups[crc32(path.encode("utf-8", "surrogateescape")) % len(groups)].append(listing.lines or b"")
        return [], [*parts, *(b"[%b]" % b",".join(group) for group in groups if group)]

    async def begins_as(self, began: FolderManifest) -> None:
        """Take notice of a folder that was copied, and in which nobody has worked: it is not read again."""
        self._begun = {entry.path: entry for entry in began.entries if entry.kind == "file"}
        await self.look(full=True)
        self._begun = {}

    def forget(self) -> None:
        """Look at everything the next time."""
        self._listings.clear()
        self._is_empty = False

    def close(self) -> None:
        self._changes.close()

    def _look(self, full: bool) -> bool:
        self._mark, now = _mark(self.root), time.time_ns()
        self._is_empty = self._mark is None
        if not self.root.is_dir():
            was_there, self._listings = bool(self._listings), {}
            return was_there
        changed = self._changes.take() if self._count >= WORTH and self._watched else None
        if changed is None or full or not self._listings:
            before, self._listings = self._listings, {}
            with folder_at(self.root) as at:
                self._all(at, "", before)
            if self._mark is not None and now - self._mark.ctime_ns > _CLOCK_NS:
                self._is_empty = not (self._listings[""].entries or self._listings[""].left_out)
            differs = before.keys() != self._listings.keys() or any(
                before[path] is not listing for path, listing in self._listings.items()
            )
            self._known = {
                path: mark for path, mark in self._known.items() if path.rpartition("/")[0] in self._listings
            }
        elif not changed:
            return False
        else:
            changed |= {path for path, listing in self._listings.items() if listing.has_links}
            differs = False
            for path in sorted(changed, key=lambda path: path.count("/")):
                differs |= self._again(path)
        self._check()
        return differs

    def _all(self, at: int, path: str, before: dict[str, _Listing]) -> None:
        """List an open folder and all below it; of what is as it was the former listing stays."""
        listing = self._listings[path] = _same(before.get(path), self._listing(at, path))
        self._below(at, path, listing.folders, before)

    def _below(self, at: int, path: str, folders: Iterable[str], before: dict[str, _Listing]) -> None:
        if path.count("/") + 1 >= MAX_DEPTH and folders:
            raise ToolError(f"the folder has folders more than {MAX_DEPTH - 1} deep, which cannot be kept; delete them")
        for below in folders:
            name = below.rpartition("/")[2]
            try:
                inner = open_folder(at, name, os.stat(name, dir_fd=at, follow_symlinks=False).st_mode)
            except OSError as exc:
                if exc.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                    raise  # what is left out without a word would be taken for deleted
                self._listings[below] = _Listing()  # it became something else: the next look finds it
                continue
            with closing(inner):
                self._all(inner, below, before)

    def _again(self, path: str) -> bool:
        """List a folder again in which something changed; what came below it too, what is gone is forgotten."""
        former = self._listings.get(path)
        if former is None and path.rpartition("/")[0] not in self._listings:
            return False  # below something that is gone, or listed with its parent
        try:
            with folder_at(self.root, tuple(path.split("/")) if path else ()) as at:
                listing = self._listings[path] = _same(former, self._listing(at, path))
                new = [folder for folder in listing.folders if folder not in self._listings]
                self._below(at, path, new, {})
        except (FileNotFoundError, NotADirectoryError, OutsideError):
            self._drop(path)
            return True
        folders = set(former.folders if former is not None else ()) - set(listing.folders)
        for folder in folders:
            self._drop(folder)
        return listing is not former or bool(new)

    def _drop(self, path: str) -> None:
        listing = self._listings.pop(path, None)
        for below in listing.folders if listing is not None else ():
            self._drop(below)

    def _listing(self, at: int, path: str) -> _Listing:
        listing = _Listing()
        with os.scandir(at) as children:
            names = sorted(child.name for child in children)
        for name in names:
            if not path and name in self._apart:
                continue
            below = f"{path}/{name}" if path else name
            try:
                status = os.stat(name, dir_fd=at, follow_symlinks=False)
                entry = entry_of(at, name, below, status, layer=self._layer)
            except FileNotFoundError:
                continue
            if entry is None:
                continue
            if entry.kind == "file":
                if entry.size > self.limits.file_bytes:
                    listing.left_out.append(Omission(below, entry.size, entry.mtime_ns))
                    continue
                listing.size += entry.size
                listing.has_links |= status.st_nlink > 1
                pair = self._known.get(below)
                if pair is not None and pair[0] == Mark.of(status):
                    entry = entry._replace(content=pair[1])
                copy = self._begun.get(below)
                if copy is not None and copy[2:5] == entry[2:5]:
                    entry = copy
                    self._known[below] = (Mark.of(status), copy.content)
            elif entry.kind in ("folder", "opaque"):
                listing.folders.append(below)
            listing.entries.append(entry)
        return listing

    def _check(self) -> None:
        self._count = sum(len(listing.entries) for listing in self._listings.values())
        if self._count > self.limits.entries:
            raise ToolError(
                f"the folder holds more than {self.limits.entries:,} files and folders, which is the most that can be "
                "kept; delete what is not needed (caches, downloaded packages)"
            )
        if sum(listing.size for listing in self._listings.values()) > self.limits.bytes:
            raise ToolError(
                f"the folder holds more than {shown_size(self.limits.bytes)}, which is the most that can be kept; "
                "delete what is not needed"
            )

    async def _take(self, listing: _Listing, index: int) -> None:
        """Keep a file's content; one that is gone keeps none."""
        entry = listing.entries[index]
        try:
            read = await asyncio.to_thread(read_file, self.root, entry.path, self.limits)
        except ToolError:  # it grew since it was listed
            listing.left_out.append(Omission(entry.path, entry.size, entry.mtime_ns))
            return
        if read is None:
            return
        ref = await self._ctx.artifact(entry.path, read.data)
        if read.mark is not None:
            self._known[entry.path] = (read.mark, ref.sha256)
        listing.entries[index] = entry._replace(size=len(read.data), content=ref.sha256)

    # -- as it was ---------------------------------------------------------------------------------------------------

    async def put_back(
        self, entries: Sequence[FolderEntry], left_out: Collection[Omission], temporary: Callable[[], Path]
    ) -> None:
        """Make it as the entries say; what is as it should be is not written again, what was left out stays."""
        if not entries and not self.root.is_dir():
            return
        await asyncio.to_thread(self.root.mkdir, parents=True, exist_ok=True)
        by_path = {entry.path: entry for entry in entries}
        present = await asyncio.to_thread(clear_for, self.root, by_path, self._apart, set(left_out), layer=self._layer)
        await asyncio.to_thread(make_folders, self.root, entries)
        files = [entry for entry in entries if entry.kind == "file"]
        missing = await asyncio.to_thread(
            lambda: [e for e in files if needs_writing(self.root, e, present.get(e.path), self._known.get(e.path))]
        )
        for part in batches(range(len(missing)), [entry.size for entry in missing]):
            await asyncio.gather(*(self._write(missing[index], temporary) for index in part))

        def end() -> dict[str, tuple[Mark, str]]:
            make_links(self.root, entries)
            return finish(self.root, entries)

        self._known = await asyncio.to_thread(end)
        self.forget()

    async def _write(self, entry: FolderEntry, temporary: Callable[[], Path]) -> None:
        data = await self._ctx.read_artifact(ArtifactRef(name=entry.path, sha256=entry.content, size=entry.size))

        def write() -> None:
            temp = temporary()
            temp.write_bytes(data)
            place_file(self.root, parts_of(entry.path), temp)

        await asyncio.to_thread(write)


def _mark(root: Path) -> Mark | None:
    try:
        return Mark.of(root.stat())
    except OSError:
        return None


def _same(former: _Listing | None, listing: _Listing) -> _Listing:
    """Return the former listing of a folder, with its lines, if nothing that they say changed."""
    if former is None or former.lines is None:
        return listing
    if (former.entries, former.left_out) != (listing.entries, listing.left_out):
        return listing
    former.has_links, former.size = listing.has_links, listing.size
    return former


def batches(indices: Iterable[int], sizes: Sequence[int]) -> Iterator[list[int]]:
    """Yield indices in groups that are neither too many nor, by their sizes in bytes, too large together."""
    part: list[int] = []
    size = 0
    for index in indices:
        if part and (len(part) >= _AT_ONCE or size + sizes[index] > _BYTES_AT_ONCE):
            yield part
            part, size = [], 0
        part.append(index)
        size += sizes[index]
    if part:
        yield part
