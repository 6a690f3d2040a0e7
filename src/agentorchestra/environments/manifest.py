"""The snapshot of a folder: a manifest of its paths, with the contents named by their hashes; how it is put back."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import JsonValue

from agentorchestra.core.errors import ToolError
from agentorchestra.environments.beneath import (
    MAX_DEPTH,
    Found,
    OutsideError,
    closing,
    open_file,
    open_folder,
    parent_of,
    parts_of,
    remove,
    walk,
)

# 1: entries `[path, kind, mode, mtime_ns, size, sha256 or target of the link]`, `parts` (blobs with further entries),
# and `kept`.
FORMAT = 1
_LARGE = 16  # a folder with so many entries has a part of its own: it is stored again only when something in it changes


@dataclass(frozen=True)
class FolderLimits:
    """What the folder of a run's environments may hold, so that a snapshot of it can be kept."""

    bytes: int = 1 << 30  # of all files together
    entries: int = 50_000  # files, folders and links
    file_bytes: int = 256 << 20  # of one file


DEFAULT_LIMITS = FolderLimits()


class Mark(NamedTuple):
    """What tells that a file was not touched: it need not be read again."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> Mark:
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


class Entry(NamedTuple):
    """A line of the manifest; `content` is the SHA-256 of a file, the target of a link, "" for a folder."""

    path: str
    kind: Literal["file", "folder", "link"]
    mode: int
    mtime_ns: int
    size: int
    content: str


@dataclass(frozen=True)
class Manifest:
    """A folder as it stood (folders before what is in them), and what the environments on it kept, by their names."""

    entries: tuple[Entry, ...] = ()
    kept: Mapping[str, Mapping[str, JsonValue]] = field(default_factory=dict)

    def split(self) -> tuple[list[Entry], list[bytes]]:
        """Return the entries that stand in the manifest itself, and those of large folders as bytes of their own."""
        folders: dict[str, list[Entry]] = {}
        for one in self.entries:
            folders.setdefault(one.path.rpartition("/")[0], []).append(one)
        large = [several for several in folders.values() if len(several) >= _LARGE]
        inside = [one for several in folders.values() if len(several) < _LARGE for one in several]
        return inside, [_json([list(one) for one in several]) for several in large]

    def to_bytes(self, inside: Sequence[Entry], parts: Sequence[str]) -> bytes:
        """Return the stored form of the entries that stand `inside` it and the names of the blobs with the others."""
        entries = [list(one) for one in inside]
        return _json({"format": FORMAT, "entries": entries, "parts": list(parts), "kept": self.kept})

    @classmethod
    def from_bytes(cls, data: bytes, parts: Sequence[bytes] = ()) -> Manifest:
        """Read the stored form with the blobs that it names; raise ToolError for an unknown format."""
        try:
            body = _body(data)
            lines = [*body["entries"], *(line for part in parts for line in json.loads(part))]
            # A folder stands before what is in it.
            entries = sorted((Entry(*line) for line in lines), key=lambda one: one.path.split("/"))
            for one in entries:
                if not parts_of(one.path):
                    raise ValueError("an entry without a path")
            return cls(tuple(entries), dict(body["kept"]))
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise ToolError(f"the snapshot of the folder cannot be read: {exc}") from None


def parts_named(data: bytes) -> list[str]:
    """Return the blobs with further entries that a stored manifest names; raise ToolError for no manifest."""
    try:
        return [str(one) for one in _body(data)["parts"]]
    except (ValueError, KeyError, TypeError) as exc:
        raise ToolError(f"the snapshot of the folder cannot be read: {exc}") from None


def _body(data: bytes) -> Any:
    body = json.loads(data)
    if body["format"] != FORMAT:
        raise ToolError(f"the snapshot of the folder has the format {body['format']}; this version reads {FORMAT}")
    return body


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def list_folder(
    root: Path, known: Mapping[str, tuple[Mark, str]], limits: FolderLimits, apart: frozenset[str]
) -> tuple[list[Entry], dict[str, Mark]]:
    """Return the entries, with "" as the content of files that have to be read, and the marks of files. Blocks.

    A ToolError says that there is more than a snapshot can hold.
    """
    entries: list[Entry] = []
    marks: dict[str, Mark] = {}
    total = 0
    for found in walk(root, skip=apart):
        if len(entries) >= limits.entries:
            raise ToolError(
                f"the folder holds more than {limits.entries:,} files and folders, which is the most that can be kept; "
                "delete what is not needed (caches, downloaded packages)"
            )
        if (entry := entry_of(root, found)) is None:
            continue
        if entry.kind == "folder" and entry.path.count("/") + 1 >= MAX_DEPTH:
            raise ToolError(f"the folder has folders more than {MAX_DEPTH - 1} deep, which cannot be kept; delete them")
        if entry.kind == "file":
            total += entry.size
            _check_size(entry.path, entry.size, total, limits)
            mark = marks[entry.path] = Mark.of(found.status)
            held = known.get(entry.path)
            entry = entry._replace(content=held[1]) if held is not None and held[0] == mark else entry
        entries.append(entry)
    return entries, marks


def _check_size(path: str, size: int, total: int, limits: FolderLimits) -> None:
    if size > limits.file_bytes:
        raise ToolError(
            f"{path} has {_size(size)}; files of more than {_size(limits.file_bytes)} cannot be kept; delete it or "
            "make it smaller"
        )
    if total > limits.bytes:
        raise ToolError(
            f"the folder holds more than {_size(limits.bytes)}, which is the most that can be kept; delete what is not "
            "needed"
        )


def _size(count: int) -> str:
    return f"{count / (1 << 20):,.0f} MiB" if count >= 10 << 20 else f"{count:,} bytes"


def entry_of(root: Path, found: Found) -> Entry | None:
    """Return the line of what was found, a file's without its content; None if it cannot be kept, or is gone."""
    kind, status, mode = found.kind, found.status, stat.S_IMODE(found.status.st_mode) & 0o777
    if kind == "file":
        return Entry(found.path, "file", mode, status.st_mtime_ns, status.st_size, "")
    if kind == "folder":
        return Entry(found.path, "folder", mode, 0, 0, "")
    if kind == "link":
        with suppress(OSError), parent_of(root, parts_of(found.path)) as (at, name):
            return Entry(found.path, "link", 0, 0, 0, os.readlink(name, dir_fd=at))
    return None


class Read(NamedTuple):
    """A file's bytes; `mark` is None where it changed while it was read."""

    data: bytes
    mark: Mark | None


def read_file(root: Path, path: str, limits: FolderLimits) -> Read | None:
    """Return the bytes of a file, None if it is none any more; raise ToolError if it grew over the limit. Blocks."""
    try:
        with parent_of(root, parts_of(path)) as (at, name):
            descriptor = _readable(at, name)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, OutsideError):
        return None
    with os.fdopen(descriptor, "rb") as file:
        before = Mark.of(os.fstat(descriptor))
        data = file.read(limits.file_bytes + 1)
        _check_size(path, len(data), len(data), limits)
        return Read(data, before if Mark.of(os.fstat(descriptor)) == before and len(data) == before.size else None)


def _readable(at: int, name: str) -> int:
    try:
        return open_file(at, name)
    except PermissionError:
        # Its owner took the right to read away; it has to be in the snapshot all the same.
        mode = stat.S_IMODE(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode)
        with closing(os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)) as handle:
            Path(f"/proc/self/fd/{handle}").chmod(mode | 0o400)
            descriptor = open_file(at, name)
            os.fchmod(descriptor, mode)
            return descriptor


def clear_for(root: Path, wanted: Mapping[str, Entry], apart: frozenset[str]) -> dict[str, Found]:
    """Remove what a manifest does not have, or has as something else; what there is of the rest. Blocks."""
    there: dict[str, Found] = {}
    gone: list[str] = []
    for found in walk(root, skip=apart):
        if gone and found.path.startswith(f"{gone[-1]}/"):
            continue
        entry = wanted.get(found.path)
        if entry is None or entry.kind != found.kind:
            gone.append(found.path)
        else:
            there[found.path] = found
    for path in gone:
        with suppress(FileNotFoundError), parent_of(root, parts_of(path)) as (at, name):
            remove(at, name)
    return there


def differs(root: Path, entry: Entry, found: Found | None, known: tuple[Mark, str] | None) -> bool:
    """Return True if a file's content has to be written. Blocks."""
    if found is None or found.status.st_size != entry.size:
        return True
    if known is not None and known[0] == Mark.of(found.status):
        return known[1] != entry.content
    read = read_file(root, entry.path, FolderLimits(file_bytes=entry.size))
    return read is None or hashlib.sha256(read.data).hexdigest() != entry.content


def make_folders(root: Path, entries: Sequence[Entry]) -> None:
    """Make the folders of a manifest, open to their owner while they are filled. Blocks."""
    for entry in entries:
        if entry.kind == "folder":
            with parent_of(root, parts_of(entry.path)) as (at, name):
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=at)
                with closing(open_folder(at, name, os.stat(name, dir_fd=at, follow_symlinks=False).st_mode)) as inner:
                    os.fchmod(inner, entry.mode | 0o700)


def make_link(root: Path, entry: Entry) -> None:
    with parent_of(root, parts_of(entry.path)) as (at, name):
        with suppress(FileNotFoundError):
            if os.readlink(name, dir_fd=at) == entry.content:
                return
            os.unlink(name, dir_fd=at)
        os.symlink(entry.content, name, dir_fd=at)


def place_file(root: Path, parts: tuple[str, ...], source: Path, *, new: bool = False, make: bool = False) -> None:
    """Move a finished file to its place, with its folders if `make`; FileExistsError if `new` and taken. Blocks."""
    with parent_of(root, parts, make=make) as (at, name):
        if new:
            os.link(source, name, dst_dir_fd=at, follow_symlinks=False)
            source.unlink()
        else:
            os.rename(source, name, dst_dir_fd=at)


def finish(root: Path, entries: Sequence[Entry]) -> dict[str, tuple[Mark, str]]:
    """Modes and times, from the inside out; what is known of the files now. Blocks."""
    known = {}
    for entry in reversed(entries):
        if entry.kind == "link":
            continue
        with parent_of(root, parts_of(entry.path)) as (at, name):
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
            with closing(os.open(name, flags, dir_fd=at) if entry.kind == "folder" else _readable(at, name)) as inner:
                status = os.fstat(inner)
                if stat.S_IMODE(status.st_mode) != entry.mode:
                    os.fchmod(inner, entry.mode)
                if entry.kind == "file":
                    if status.st_mtime_ns != entry.mtime_ns:
                        os.utime(inner, ns=(entry.mtime_ns, entry.mtime_ns))
                    known[entry.path] = (Mark.of(os.fstat(inner)), entry.content)
    return known
