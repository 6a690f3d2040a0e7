"""Paths below a folder in which programs that are not trusted work at the same time.

A path is walked component by component from a descriptor of the folder, and no component may be a link: what a program
puts there between a look and the use of it leads nowhere else. So nothing here ever touches a file outside the folder.
All functions block; call them in a thread.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

MAX_DEPTH = 64  # folders in folders; deeper ones are refused
MAX_NAME = 255  # bytes of one name
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO that nobody writes must not stop the reader


class OutsideError(ValueError):
    """A path that would lead out of the folder, or through a link, or that is none; in one sentence."""


@dataclass(frozen=True)
class PathStatus:
    """Something below the folder: its relative path with slashes, and its own status, links not followed."""

    path: str
    status: os.stat_result

    @property
    def kind(self) -> str:
        """`file`, `folder`, `link`, or `other` (a socket, a pipe, a device)."""
        mode = self.status.st_mode
        if stat.S_ISREG(mode):
            return "file"
        if stat.S_ISDIR(mode):
            return "folder"
        return "link" if stat.S_ISLNK(mode) else "other"


def parts_of(path: str) -> tuple[str, ...]:
    """Return the components of a relative path (`a/../b` is `b`); raise OutsideError for one that leads elsewhere."""
    if "\0" in path:
        raise OutsideError("a path cannot hold a zero character")
    if path.startswith(("/", "~")):
        raise OutsideError(f"{path[:200]!r} is outside of the folder; give a path relative to it, such as notes/a.txt")
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if not parts:
                raise OutsideError(f"{path[:200]!r} leads out of the folder; give a path below it")
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    if len(parts) > MAX_DEPTH:
        raise OutsideError(f"the path has {len(parts)} parts; at most {MAX_DEPTH} are allowed")
    for part in parts:
        try:
            length = len(os.fsencode(part))
        except UnicodeEncodeError:
            raise OutsideError(f"{part[:100]!r} is no name a file can have") from None
        if length > MAX_NAME:
            raise OutsideError(f"the name {part[:40]!r}... has {length} bytes; at most {MAX_NAME} are allowed")
    return tuple(parts)


@contextmanager
def folder_at(root: Path, parts: tuple[str, ...] = (), *, make: bool = False) -> Iterator[int]:
    """Open a folder below the trusted `root`, made if `make`; raise OutsideError where a component is a link."""
    at = os.open(root, _FOLDER)
    try:
        for index, part in enumerate(parts):
            below = _down(at, part, parts[: index + 1], make=make)
            os.close(at)
            at = below
        yield at
    finally:
        os.close(at)


def _down(at: int, part: str, path: tuple[str, ...], *, make: bool) -> int:
    for attempt in (1, 2):
        try:
            return os.open(part, _FOLDER, dir_fd=at)
        except FileNotFoundError:
            if not make or attempt == 2:
                raise FileNotFoundError(errno.ENOENT, "there is no such folder", "/".join(path)) from None
            with suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=at)
        except OSError as exc:
            if exc.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
            if stat.S_ISLNK(os.stat(part, dir_fd=at, follow_symlinks=False).st_mode):
                raise OutsideError(
                    f"{'/'.join(path)!r} is a link, and links are not followed; name the file itself"
                ) from None
            raise NotADirectoryError(errno.ENOTDIR, "this is no folder", "/".join(path)) from None
    raise AssertionError("unreachable")


@contextmanager
def parent_of(root: Path, parts: tuple[str, ...], *, make: bool = False) -> Iterator[tuple[int, str]]:
    """Open the folder of a path's last component, and give that component; raise as `opened`."""
    if not parts:
        raise OutsideError("this is the folder itself; name something in it")
    with folder_at(root, parts[:-1], make=make) as at:
        yield at, parts[-1]


def open_file(at: int, name: str, flags: int = os.O_RDONLY, mode: int = 0o644) -> int:
    """Return a descriptor of a regular file in an opened folder; raise OutsideError for a link or another kind."""
    try:
        fd = os.open(name, flags | _FILE, mode, dir_fd=at)
    except OSError as exc:
        if exc.errno == errno.ELOOP:
            raise OutsideError(f"{name!r} is a link, and links are not followed; name the file itself") from None
        if exc.errno == errno.ENXIO:
            raise OutsideError(f"{name!r} is no file: a socket or a pipe") from None
        raise
    mode_found = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode_found):
        os.close(fd)
        if stat.S_ISDIR(mode_found):
            raise IsADirectoryError(errno.EISDIR, "this is a folder", name)
        raise OutsideError(f"{name!r} is no file: a socket, a pipe or a device")
    return fd


@contextmanager
def closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def status_of(root: Path, parts: tuple[str, ...]) -> os.stat_result:
    """Return what lies at a path, itself if it is a link."""
    if not parts:
        return os.lstat(root)
    with parent_of(root, parts) as (at, name):
        return os.stat(name, dir_fd=at, follow_symlinks=False)


def walk(
    root: Path, parts: tuple[str, ...] = (), *, depth: int = MAX_DEPTH, skip: frozenset[str] = frozenset()
) -> Iterator[PathStatus]:
    """Yield what is below a folder but `skip` (paths from the root): folders first, by name, links never followed."""
    with folder_at(root, parts) as at:
        yield from _walk(at, "/".join(parts), depth, skip)


def _walk(at: int, path: str, depth: int, skip: frozenset[str]) -> Iterator[PathStatus]:
    for name in sorted(os.listdir(at)):
        below = f"{path}/{name}" if path else name
        if below in skip:
            continue
        try:
            status = os.stat(name, dir_fd=at, follow_symlinks=False)
        except FileNotFoundError:
            continue
        yield PathStatus(below, status)
        if stat.S_ISDIR(status.st_mode) and depth > 1:
            try:
                inner = open_folder(at, name, status.st_mode)
            except OSError as exc:
                if exc.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                    raise  # what is left out without a word would be taken for deleted
                continue  # it became something else
            with closing(inner):
                yield from _walk(inner, below, depth - 1, skip)


def open_folder(at: int, name: str, mode: int) -> int:
    """Return a descriptor of a folder in an opened one; its owner gets the rights back that somebody took away."""
    if os.geteuid() != 0 and mode & 0o700 != 0o700:
        _give_rights(at, name)
    return os.open(name, _FOLDER, dir_fd=at)


def remove(at: int, name: str) -> None:
    """Remove whatever is there, a folder with all that is in it, however deep; nothing where nothing is."""
    waiting = [name]
    while waiting:
        _remove(at, waiting.pop(), at, waiting, MAX_DEPTH)


def _remove(at: int, name: str, top: int, waiting: list[str], depth: int) -> None:
    try:
        status = os.stat(name, dir_fd=at, follow_symlinks=False)
        if not stat.S_ISDIR(status.st_mode):
            os.unlink(name, dir_fd=at)
            return
        if depth == 0:  # descriptors are limited, and a program may nest folders without an end
            new_name = f".{status.st_ino:x}-{len(waiting)}-{os.urandom(8).hex()}"
            os.rename(name, new_name, src_dir_fd=at, dst_dir_fd=top)
            waiting.append(new_name)
            return
        if stat.S_IMODE(status.st_mode) & 0o700 != 0o700:
            _give_rights(at, name)
        inner = os.open(name, _FOLDER, dir_fd=at)
    except FileNotFoundError:
        return
    with closing(inner):
        with os.scandir(inner) as entries:
            names = [entry.name for entry in entries]
        for child in names:
            _remove(inner, child, top, waiting, depth - 1)
    with suppress(FileNotFoundError):
        os.rmdir(name, dir_fd=at)


def _give_rights(at: int, name: str) -> None:
    """Let its owner into a folder without rights, through a descriptor: a link put there has no target changed."""
    if not hasattr(os, "O_PATH"):  # another system than Linux: as it is
        return
    with closing(os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)) as handle:
        Path(f"/proc/self/fd/{handle}").chmod(0o700)
