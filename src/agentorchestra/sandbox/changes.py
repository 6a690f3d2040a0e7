"""Which folders below a folder changed, as the kernel tells it (inotify): nobody has to look at what did not change.

A watch is right or says that it does not know: where the kernel has no room for more watches or more news, where it is
not Linux, and where the tree is deeper than is looked at, every answer is "anything may have changed". A file that is
mapped and written without an end of its use (no unmap, no close) is told when that ends; one with several names is
told for the name that was used.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import sys
import threading
from pathlib import Path

WORTH = 1_000  # entries from which on a tree is watched: a smaller one is looked at in no time

_DEEPEST = 64
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_EVENT = struct.Struct("iIII")
_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_OVERFLOW, _REMOVAL, _IS_FOLDER = 0x4000, 0x8000, 0x40000000
_ONLY_FOLDERS = 0x01000000
_MASK = _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _ONLY_FOLDERS


class FolderWatch:
    """A watch over all folders below `root`, from the first question on. Its methods block for a moment."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._fd = -1
        self._paths: dict[int, str] = {}  # of what is watched, by the kernel's number
        self._untold: dict[str, set[str] | None] = {}  # what each reader has not heard yet
        self._lock = threading.Lock()

    def take(self, reader: str = "") -> set[str] | None:
        """Return the folders (paths from the root, "" for itself) in which something changed since its last question.

        None says that anything may have changed: always the first time that this `reader` asks.
        """
        with self._lock:
            try:
                news = self._hear() if self._fd >= 0 else None
                if self._fd < 0:
                    self._begin()
            except OSError:  # no room for more watches, or no such kernel: the next question tries again
                self._end()
                news = None
            for name, news_before in self._untold.items():
                self._untold[name] = None if news_before is None or news is None else news_before | news
            folders = self._untold.get(reader)
            self._untold[reader] = set() if self._fd >= 0 else None
            return folders

    def close(self) -> None:
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
        self._paths.clear()

    def _begin(self) -> None:
        if not sys.platform.startswith("linux"):
            return
        self._fd = _call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)
        top = os.open(self._root, _FOLDER)
        try:
            self._watch(top, "", set(), _DEEPEST)
        finally:
            os.close(top)

    def _watch(self, at: int, path: str, folders: set[str], depth: int) -> None:
        """Watch an open folder and those below it; `found` takes their paths. What comes later is an event."""
        if depth == 0:
            raise OSError("deeper than is looked at")
        self._paths[_call("inotify_add_watch", self._fd, f"/proc/self/fd/{at}".encode(), _MASK)] = path
        folders.add(path)
        with os.scandir(at) as entries:
            below = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        for name in below:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # gone, or something else, meanwhile
                inner = os.open(name, _FOLDER, dir_fd=at)
                try:
                    self._watch(inner, f"{path}/{name}" if path else name, folders, depth - 1)
                finally:
                    os.close(inner)

    def _hear(self) -> set[str] | None:
        folders: set[str] = set()
        while True:
            try:
                data = os.read(self._fd, 1 << 18)
            except BlockingIOError:
                return folders
            at = 0
            while at < len(data):
                number, mask, _, length = _EVENT.unpack_from(data, at)
                name = os.fsdecode(data[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0"))
                at += _EVENT.size + length
                if mask & _OVERFLOW:  # news were lost: all begins anew
                    self._end()
                    return None
                path = self._paths.get(number)
                if path is None:
                    continue
                if mask & _REMOVAL:
                    del self._paths[number]
                    continue
                folders.add(path)
                if mask & _IS_FOLDER and mask & (_CREATE | _MOVED_TO) and name:
                    self._watch_new(f"{path}/{name}" if path else name, folders)

    def _watch_new(self, path: str, folders: set[str]) -> None:
        """Watch a folder that came; one that moved within the tree is known by its new path from here on."""
        parts = path.split("/")
        at = os.open(self._root, _FOLDER)
        try:
            for part in parts:
                inner = os.open(part, _FOLDER, dir_fd=at)
                os.close(at)
                at = inner
            self._watch(at, path, folders, _DEEPEST - len(parts))
        except (FileNotFoundError, NotADirectoryError):
            return  # gone again, or it became something else: that is an event too
        finally:
            os.close(at)


def _call(name: str, *arguments: int | bytes) -> int:
    result: int = getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")
    return result
