"""Large bytes in files named by their SHA-256, durable before the row that names them is committed."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import itertools
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agentorchestra.core.errors import StoreError

FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""The system's errors when a disk, a quota or the limit of a file's size is reached."""

_STALE_S = 24 * 3600.0

_COUNTER = itertools.count()  # of the process: several stores of one folder may be open in it


class BlobFiles:
    """`<folder>/ab/<sha256>`; written beside (tmp/), synced, renamed, and the folder synced.

    Safe to use from several threads and processes: equal names hold equal bytes.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._temporary = folder / "tmp"

    def prepare(self) -> None:
        """Create the folders; remove what processes killed long ago left half-written."""
        for folder in (self.folder, self._temporary):
            if not folder.is_dir():
                folder.mkdir(mode=0o700, exist_ok=True)
                folder.chmod(0o700)
        sync_folder(self.folder.parent)
        oldest = time.time() - _STALE_S
        for path in self._temporary.iterdir():
            try:
                if path.stat().st_mtime < oldest:
                    path.unlink()
            except FileNotFoundError:  # another process cleans as well
                continue

    def path(self, sha256: str) -> Path:
        return self.folder / sha256[:2] / sha256

    @contextmanager
    def _gate(self, lock: int) -> Iterator[None]:
        """Let in writers together, or who removes alone: a file found to be there is not removed meanwhile."""
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, lock)
            yield
        finally:
            os.close(descriptor)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Let nobody remove a file meanwhile."""
        with self._gate(fcntl.LOCK_SH):
            yield

    def names(self) -> Iterator[tuple[str, float, int]]:
        """Yield every file's hash, the time it was last written (s since 1970), and its size."""
        for folder in self.folder.iterdir():
            if len(folder.name) != 2 or not folder.is_dir():
                continue
            for path in folder.iterdir():
                with suppress(FileNotFoundError):
                    status = path.stat()
                    yield path.name, status.st_mtime, status.st_size

    def remove(self, names: Iterable[str], *, before: float) -> list[str]:
        """Remove files last written before a time (s since 1970); return those that are gone."""
        removed = []
        with self._gate(fcntl.LOCK_EX):
            for sha256 in names:
                path = self.path(sha256)
                try:
                    if path.stat().st_mtime > before:
                        continue
                    path.unlink()
                except FileNotFoundError:
                    pass
                removed.append(sha256)
        return removed

    def write(self, sha256: str, data: bytes) -> None:
        """Keep the bytes; they are durable when this returns, and count as written now."""
        with self._gate(fcntl.LOCK_SH):
            self._write(sha256, data)

    def _write(self, sha256: str, data: bytes) -> None:
        target = self.path(sha256)
        try:
            os.utime(target)
            exists = target.read_bytes() == data
        except (FileNotFoundError, NotADirectoryError):
            exists = False
        if not exists:
            if not target.parent.is_dir():
                target.parent.mkdir(mode=0o700, exist_ok=True)
                target.parent.chmod(0o700)
                sync_folder(self.folder)
            temporary = self._temporary / f"{sha256}-{os.getpid()}-{next(_COUNTER)}"
            try:
                with temporary.open("wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                temporary.replace(target)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
        # Also for known bytes: whoever renamed them may not have come as far as this.
        sync_folder(target.parent)

    def read(self, sha256: str) -> bytes:
        """Return the bytes; StoreError if the file is missing or its bytes are not those of the name."""
        path = self.path(sha256)
        try:
            data = path.read_bytes()
        except OSError as exc:
            raise StoreError(
                f"the workspace refers to the blob {sha256}, but its file {path} cannot be read "
                f"({exc.strerror or exc}); restore it from a backup"
            ) from exc
        return check_hash(sha256, data, str(path))


def check_hash(sha256: str, data: bytes, place: str) -> bytes:
    """Return the bytes if they are those of the hash; StoreError if not."""
    actual = hashlib.sha256(data).hexdigest()
    if actual != sha256:
        raise StoreError(
            f"the blob {sha256} was changed after it was written: {place} holds {len(data)} bytes with the hash "
            f"{actual}; restore it from a backup"
        )
    return data


def no_blob(sha256: str) -> StoreError:
    return StoreError(f"no blob {sha256!r} in this workspace; if a log names it, restore it from a backup")


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
