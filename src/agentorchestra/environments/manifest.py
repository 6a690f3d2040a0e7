"""The snapshot of a folder: a manifest of its paths, with the contents named by their hashes; how it is put back."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import JsonValue

from agentorchestra.core.errors import ToolError
from agentorchestra.environments.beneath import (
    OutsideError,
    PathStatus,
    closing,
    open_file,
    open_folder,
    parent_of,
    parts_of,
    remove,
    walk,
)

# 1: entries `[path, kind, mode, mtime_ns, size, sha256 or target of the link]`, `parts` (blobs with further entries),
# and `kept`; `left_out` (`[path, size, mtime_ns]`), `layer` (`base`, `entries`, `parts`), `began` (the blob with the
# snapshot of what the folder began with) and `packs` (see packs.py) where there is such.
FORMAT = 1


@dataclass(frozen=True)
class FolderLimits:
    """What the folder of a run's environments may hold, so that a snapshot of it can be kept."""

    bytes: int = 4 << 30  # of all files together
    entries: int = 250_000  # files, folders and links
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


class FolderEntry(NamedTuple):
    """A line of the manifest; `content` is the SHA-256 of a file, the target of a link, "" for all else.

    Only the upper folder of an overlay has a `whiteout`, which hides what the base has there, and an `opaque` folder,
    which hides what the base has in it.
    """

    path: str
    kind: Literal["file", "folder", "link", "whiteout", "opaque"]
    mode: int
    mtime_ns: int
    size: int
    content: str


class Omission(NamedTuple):
    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class FolderManifest:
    """What a snapshot says: the folder as it stood (folders before what is in them), and what was beside it."""

    entries: tuple[FolderEntry, ...] = ()
    kept: Mapping[str, Mapping[str, JsonValue]] = field(default_factory=dict)  # by the environments' names
    left_out: tuple[Omission, ...] = ()  # files that are in no snapshot
    base: str = ""  # what `layer` lies on, "" for none
    layer: tuple[FolderEntry, ...] = ()  # what the run has besides the folder
    began: str = ""  # the blob with the snapshot of what the folder began with, "" where it was empty
    packs: tuple[tuple[str, int], ...] = ()  # blobs with the contents of several files each, see packs.py

    @classmethod
    def from_bytes(cls, data: bytes, parts: Mapping[str, bytes] | None = None) -> FolderManifest:
        """Read the stored form with the blobs that it names; raise ToolError for an unknown format."""
        try:
            body, blobs = _body(data), parts or {}
            layer = body.get("layer") or {"base": "", "entries": [], "parts": []}
            return cls(
                _entries(body, blobs),
                dict(body["kept"]),
                tuple(Omission(*row) for row in body.get("left_out", [])),
                str(layer["base"]),
                _entries(layer, blobs),
                str(body.get("began", "")),
                tuple((str(name), int(count)) for name, count in body.get("packs", ())),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise ToolError(f"the snapshot of the folder cannot be read: {exc}") from None


def manifest_data(
    inside: Sequence[bytes],
    parts: Sequence[str],
    record: Mapping[str, Mapping[str, JsonValue]],
    *,
    left_out: Sequence[Omission] = (),
    layer: bytes = b"",
    began: str = "",
    packs: Sequence[tuple[str, int]] = (),
) -> bytes:
    """Return the stored form of a manifest: lines that stand `inside` it, the names of the blobs with the others."""
    rest: dict[str, Any] = {"kept": record, "parts": list(parts)}
    if left_out:
        rest["left_out"] = [list(omission) for omission in left_out]
    if began:
        rest["began"] = began
    if packs:
        rest["packs"] = [list(pack) for pack in packs]
    more = b',"layer":' + layer if layer else b""
    return b'{"entries":[%b],"format":%d%b,%b' % (b",".join(inside), FORMAT, more, _json(rest)[1:])


def stored_layer(base: str, inside: Sequence[bytes], parts: Sequence[str]) -> bytes:
    return b'{"base":%b,"entries":[%b],"parts":%b}' % (_json(base), b",".join(inside), _json(list(parts)))


def encoded(entries: Sequence[FolderEntry]) -> bytes:
    return _json([list(entry) for entry in entries])[1:-1]


def _entries(body: Any, parts: Mapping[str, bytes]) -> tuple[FolderEntry, ...]:
    lines = [*body["entries"], *(line for name in body["parts"] for line in json.loads(parts[name]))]
    # A folder stands before what is in it.
    entries = sorted((FolderEntry(*line) for line in lines), key=lambda entry: entry.path.split("/"))
    for entry in entries:
        if not parts_of(entry.path):
            raise ValueError("an entry without a path")
    return tuple(entries)


def parts_named(data: bytes) -> list[str]:
    """Return the blobs with further entries that a stored manifest names; raise ToolError for no manifest."""
    try:
        body = _body(data)
        return [str(name) for name in (*body["parts"], *(body.get("layer") or {"parts": ()})["parts"])]
    except (ValueError, KeyError, TypeError) as exc:
        raise ToolError(f"the snapshot of the folder cannot be read: {exc}") from None


def _body(data: bytes) -> Any:
    body = json.loads(data)
    if body["format"] != FORMAT:
        raise ToolError(f"the snapshot of the folder has the format {body['format']}; this version reads {FORMAT}")
    return body


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def shown_size(count: int) -> str:
    return f"{count / (1 << 20):,.0f} MiB" if count >= 10 << 20 else f"{count:,} bytes"


def too_large(path: str, size: int, limits: FolderLimits) -> str:
    return (
        f"{path} has {shown_size(size)}; files of more than {shown_size(limits.file_bytes)} are in no snapshot: it is "
        "there for this run on this machine, not in a fork or in a bundle"
    )


def entry_of(at: int, name: str, path: str, status: os.stat_result, *, layer: bool = False) -> FolderEntry | None:
    """Return the line of what lies in an open folder, a file's without its content; None if it cannot be kept."""
    mode = stat.S_IMODE(status.st_mode) & (0o7777 if layer else 0o777)
    if stat.S_ISREG(status.st_mode):
        return FolderEntry(path, "file", mode, status.st_mtime_ns, status.st_size, "")
    if stat.S_ISDIR(status.st_mode):
        return FolderEntry(path, "opaque" if layer and _is_opaque(at, name) else "folder", mode, 0, 0, "")
    if stat.S_ISLNK(status.st_mode):
        return FolderEntry(path, "link", 0, 0, 0, os.readlink(name, dir_fd=at))
    if layer and stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
        return FolderEntry(path, "whiteout", 0, 0, 0, "")
    return None


_OPAQUE = "user.overlay.opaque"


def _is_opaque(at: int, name: str) -> bool:
    with closing(os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)) as inner:
        try:
            return os.getxattr(inner, _OPAQUE) == b"y"
        except OSError:  # it has no such mark
            return False


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
        if len(data) > limits.file_bytes:
            raise ToolError(f"{path} has more than {shown_size(limits.file_bytes)}, which is the most that can be kept")
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


def clear_for(
    root: Path,
    entries: Mapping[str, FolderEntry],
    apart: frozenset[str],
    left_out: Collection[Omission] = (),
    *,
    layer: bool = False,
) -> dict[str, PathStatus]:
    """Remove what a manifest does not have, or has as something else; return what there is of the rest. Blocks.

    A file that was left out, and is as it was then, stays.
    """
    present: dict[str, PathStatus] = {}
    paths: list[str] = []
    for node in walk(root, skip=apart):
        if paths and node.path.startswith(f"{paths[-1]}/"):
            continue
        entry = entries.get(node.path)
        if entry is not None and _is_a(root, node, entry.kind, layer=layer):
            present[node.path] = node
        elif Omission(node.path, node.status.st_size, node.status.st_mtime_ns) not in left_out:
            paths.append(node.path)
    for path in paths:
        with suppress(FileNotFoundError), parent_of(root, parts_of(path)) as (at, name):
            remove(at, name)
    return present


def _is_a(root: Path, node: PathStatus, kind: str, *, layer: bool) -> bool:
    if not layer:
        return node.kind == kind
    with parent_of(root, parts_of(node.path)) as (at, name):
        entry = entry_of(at, name, node.path, node.status, layer=True)
    return entry is not None and entry.kind == kind


def needs_writing(root: Path, entry: FolderEntry, node: PathStatus | None, marks: tuple[Mark, str] | None) -> bool:
    """Return True if a file's content has to be written. Blocks."""
    if node is None or node.status.st_size != entry.size:
        return True
    if marks is not None and marks[0] == Mark.of(node.status):
        return marks[1] != entry.content
    read = read_file(root, entry.path, FolderLimits(file_bytes=entry.size))
    return read is None or hashlib.sha256(read.data).hexdigest() != entry.content


def make_folders(root: Path, entries: Sequence[FolderEntry]) -> None:
    """Make the folders of a manifest, open to their owner while they are filled. Blocks."""
    for entry in entries:
        if entry.kind in ("folder", "opaque"):
            with parent_of(root, parts_of(entry.path)) as (at, name):
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=at)
                with closing(open_folder(at, name, os.stat(name, dir_fd=at, follow_symlinks=False).st_mode)) as inner:
                    os.fchmod(inner, entry.mode | 0o700)
                    if entry.kind == "opaque":
                        os.setxattr(inner, _OPAQUE, b"y")


def make_links(root: Path, entries: Sequence[FolderEntry]) -> None:
    """Make the links of a manifest, and what hides something of the base. Blocks."""
    for entry in entries:
        if entry.kind == "link":
            _make_link(root, entry)
        elif entry.kind == "whiteout":
            with parent_of(root, parts_of(entry.path)) as (at, name), suppress(FileExistsError):
                os.mknod(name, stat.S_IFCHR, os.makedev(0, 0), dir_fd=at)


def _make_link(root: Path, entry: FolderEntry) -> None:
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


def finish(root: Path, entries: Sequence[FolderEntry]) -> dict[str, tuple[Mark, str]]:
    """Modes and times, from the inside out; what is known of the files now. Blocks."""
    marks = {}
    for entry in reversed(entries):
        if entry.kind in ("link", "whiteout"):
            continue
        with parent_of(root, parts_of(entry.path)) as (at, name):
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
            with closing(_readable(at, name) if entry.kind == "file" else os.open(name, flags, dir_fd=at)) as inner:
                status = os.fstat(inner)
                if stat.S_IMODE(status.st_mode) != entry.mode:
                    os.fchmod(inner, entry.mode)
                if entry.kind == "file":
                    if status.st_mtime_ns != entry.mtime_ns:
                        os.utime(inner, ns=(entry.mtime_ns, entry.mtime_ns))
                    marks[entry.path] = (Mark.of(os.fstat(inner)), entry.content)
    return marks
