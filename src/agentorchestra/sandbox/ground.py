"""The folder of the host that a shell works in: whose it is, and how much is in it.

Commands work in it at the same time, so nothing here follows a link or believes a name twice.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Collection, Iterable
from pathlib import Path

FIRST_USER = 0x60000000  # where root runs sandboxes, their users' numbers begin here; nobody else has such
INPUTS = "files"  # where the given files are seen in the folder

IMAGE_USER = FIRST_USER + (1 << 28)
"""Whose the files of unpacked images are, and who works in them, where root runs sandboxes."""

_DEEPEST = 64
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_users = itertools.count()


def chooses_users() -> bool:
    """Return True for the host's root, who can choose users; in a user namespace of somebody else root cannot."""
    if os.geteuid() != 0:
        return False
    try:
        first, _, count = Path("/proc/self/uid_map").read_text().split()[:3]
    except (OSError, ValueError):
        return True
    return int(first) + int(count) > FIRST_USER + (1 << 28)


def new_user() -> int:
    """Return a number that no other sandbox of this process has now."""
    return FIRST_USER + (os.getpid() % (1 << 22)) * 64 + next(_users) % 64


def own(folder: Path, *, by_number: bool, image: bool = False) -> int | None:
    """Close a folder of commands to others and return whose its files have to be, None for ours.

    Where the user goes `by_number` (root), it is the one it belongs to since an earlier shell, or a new one; with an
    `image` the one whose its files are.
    """
    close_to_others(folder)
    if not by_number:
        return None
    owner = folder.stat().st_uid
    return IMAGE_USER if image else owner if FIRST_USER <= owner <= IMAGE_USER else new_user()


def close_to_others(folder: Path) -> None:
    """Let only its owner into a folder, whatever commands changed: others execute nothing that was made in it."""
    if stat.S_IMODE(folder.stat().st_mode) != 0o700:
        folder.chmod(0o700)


def mount_point(folder: Path) -> None:
    """Make the empty folder where the given files will be seen, whatever commands made of the name before."""
    place = folder / INPUTS
    if place.is_symlink() or not place.is_dir():
        place.unlink(missing_ok=True)
        place.mkdir()


def give(folder: Path, user: int, only: Collection[str] | None = None) -> int:
    """Let everything in a folder belong to a user, 64 folders deep; only for root. Blocks, for a look at each file.

    `only` are the folders in it (paths, "" for itself) that are looked at; None for all. Returns how many files and
    folders were looked at.
    """
    if only is None:
        at = os.open(folder, _FOLDER)
        try:
            _give_one(at, ".", os.fstat(at), user)
            return _give(at, user, _DEEPEST)
        finally:
            os.close(at)
    count = 0
    for path in only:
        at = os.open(folder, _FOLDER)
        try:
            for part in path.split("/") if path else ():
                inner = os.open(part, _FOLDER, dir_fd=at)
                os.close(at)
                at = inner
            _give_one(at, ".", os.fstat(at), user)
            count += _give(at, user, 0)
        except (FileNotFoundError, NotADirectoryError):
            pass  # gone since it changed
        finally:
            os.close(at)
    return count


def _give(at: int, user: int, depth: int) -> int:
    with os.scandir(at) as entries:
        names = [entry.name for entry in entries]
    count = len(names)
    for name in names:
        with contextlib.suppress(OSError):  # gone, or something else, meanwhile
            status = os.stat(name, dir_fd=at, follow_symlinks=False)
            _give_one(at, name, status, user)
            if stat.S_ISDIR(status.st_mode) and depth > 0:
                inner = os.open(name, _FOLDER, dir_fd=at)
                try:
                    count += _give(inner, user, depth - 1)
                finally:
                    os.close(inner)
    return count


def _give_one(at: int, name: str, status: os.stat_result, user: int) -> None:
    if status.st_uid == user:
        return
    os.chown(name, user, user, dir_fd=at, follow_symlinks=False)
    if stat.S_ISREG(status.st_mode) and status.st_mode & (stat.S_ISUID | stat.S_ISGID):
        # A new owner takes these rights away. By an open file: the name may be another one's by now.
        handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
        try:
            if os.fstat(handle).st_uid == user:
                Path(f"/proc/self/fd/{handle}").chmod(stat.S_IMODE(status.st_mode))
        finally:
            os.close(handle)


def use_of(folders: Iterable[Path], most_files: int) -> tuple[int, int]:
    """Return bytes on the disk, and files and folders; what is beyond `most_files` is not counted. Blocks."""
    size = entries = 0
    todo = [str(folder) for folder in folders]
    while todo and entries <= most_files:
        with contextlib.suppress(OSError), os.scandir(todo.pop()) as scan:
            for entry in scan:
                entries += 1
                with contextlib.suppress(OSError):
                    size += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)
    return size, entries
