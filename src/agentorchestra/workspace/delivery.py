"""The files of a run on their way to its user: which of its folder they are, and how they get into a folder of his.

Names and contents come from models and from what they read. So a name leads nowhere but below the folder, nothing that
lies there is written over, no link is followed, and a file is there whole or not at all.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import mimetypes
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from agentorchestra.core.errors import OutFolderError, StoreError
from agentorchestra.core.protocols import Store
from agentorchestra.core.spec import RunFile, RunResult, RunStatus
from agentorchestra.environments.beneath import OutsideError, closing, open_file
from agentorchestra.environments.folder import FOLDER, read_manifest
from agentorchestra.environments.manifest import FolderManifest
from agentorchestra.runtime.files import FolderFiles, clean_name, name_of, numbered_names
from agentorchestra.runtime.open_environments import CHANGED
from agentorchestra.runtime.run import Run
from agentorchestra.runtime.worlds import ENV_STATE, final_snapshot

MOST_FILES = 1000
"""Files of a run's folder that are listed in the log, and copied; there may be any number (packages, a repository)."""

UNDER_WAY = frozenset({RunStatus.CREATED, RunStatus.RUNNING, RunStatus.WAITING, RunStatus.PAUSED})
"""Of a run with this status nothing is copied: it goes on."""

_GIT = ".git"  # what git keeps for itself in a repository; no file of the user's

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
_BLOCK = 1 << 20


class FilesSaved(NamedTuple):
    """The files of a run, written into a folder of the user's."""

    path: Path  # the folder; it was not made where there is no file
    files: tuple[RunFile, ...] = ()  # each with the path where it lies
    written: int = 0  # how many were written now; the others were there with the same content
    missing: tuple[str, ...] = ()  # names of those whose bytes the store does not have


async def folder_files(run: Run) -> FolderFiles:
    """Return what a run made or changed in its folder, as its log has it; no file is read."""
    snapshot = final_snapshot(run.ledger, FOLDER)
    if snapshot is None or snapshot == CHANGED or run.manifest.project is not None:  # then it is a diff
        return FolderFiles()
    now = await read_manifest(await run.blob(snapshot), run.blob)
    before = FolderManifest()
    if now.began:
        before = await read_manifest(await run.blob(now.began), run.blob)
    old = {(entry.path, entry.content) for entry in before.entries}
    changed = [entry for entry in now.entries if entry.kind == "file" and (entry.path, entry.content) not in old]
    entries = [entry for entry in changed if _GIT not in entry.path.split("/")]
    makers = ", ".join(_makers(run))
    files = tuple(
        RunFile(name=entry.path, media_type=_type_of(entry.path), size=entry.size, sha256=entry.content, made_by=makers)
        for entry in entries[:MOST_FILES]
    )
    return FolderFiles(files, len(entries) - len(files) + len(now.left_out))


async def check_target(out: str | Path | None) -> None:
    """Refuse (OutFolderError) a folder that cannot be written, before a run spends anything; None is refused never."""
    if out is not None:
        await asyncio.to_thread(check_out, Path(out))


async def hand_over(store: Store, result: RunResult, out: str | Path | None) -> RunResult:
    """Write the files of a run that has ended to where its user wants them; return its result with their paths."""
    if out is None or result.status in UNDER_WAY:
        return result
    return result.model_copy(update={"files": (await save(store, result.files, Path(out))).files})


def check_out(out: Path) -> None:
    """Refuse (OutFolderError) a folder that cannot be written, before a run spends anything. Blocks."""
    try:
        at = out
        while not _is_there(at) and at != at.parent:
            at = at.parent
        if not at.is_dir():
            raise OutFolderError(f"{out} cannot be the folder for the files: {at} is no folder; name another folder")
        if not os.access(at, os.W_OK | os.X_OK):
            raise OutFolderError(f"{out} cannot be the folder for the files: {at} may not be written; name another")
    except (OSError, ValueError) as exc:
        raise _unwritable(out, exc) from None


async def save(store: Store, files: Sequence[RunFile], out: Path) -> FilesSaved:
    """Write files into a folder by their names; nothing that is there is written over.

    A name that is taken by other content gets a number; where the same content is there, nothing is written.

    Raises:
        OutFolderError: the folder cannot be written. What was written by then stays.
    """
    if not files:
        return FilesSaved(out)
    await asyncio.to_thread(check_out, out)
    copies: list[RunFile] = []
    count, missing = 0, list[str]()
    for file in files:
        try:
            data = await store.get_blob(file.sha256)
        except StoreError:
            missing.append(file.name)
            continue
        try:
            name, new = await asyncio.to_thread(_write, out, clean_name(file.name), data)
        except (OSError, ValueError) as exc:
            raise _unwritable(out, exc) from None
        copies.append(file.model_copy(update={"path": str(out / name)}))
        count += new
    return FilesSaved(out, tuple(copies), count, tuple(missing))


def _is_there(path: Path) -> bool:
    """Return True if something lies there, also a link that leads nowhere; OSError for a place that cannot be."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _unwritable(out: Path, exc: Exception) -> OutFolderError:
    reason = (exc.strerror if isinstance(exc, OSError) else None) or str(exc)
    return OutFolderError(f"{out} cannot be written: {reason}; name another folder, or make room there")


def _makers(run: Run) -> list[str]:
    state = f"{ENV_STATE}{FOLDER}"
    records = run.ledger.records.values()
    change_records = (record for record in records if record.outcome is not None and state in record.outcome.writes)
    return sorted({name_of(record) for record in change_records if record.effect.get("instance") == FOLDER})


def _type_of(name: str) -> str:
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


def _write(out: Path, name: str, data: bytes) -> tuple[str, bool]:
    """Write a file below the folder; return its name there, and whether it was not there before. Blocks."""
    out.mkdir(parents=True, exist_ok=True)
    *folders, last = name.split("/")
    sha256 = hashlib.sha256(data).hexdigest()
    with _below(out.resolve(), folders) as (at, place):
        for candidate in numbered_names(last):
            digest = _digest_of(at, candidate, len(data))
            if digest == sha256:
                return "/".join((*place, candidate)), False
            if digest is None and _write_new(at, candidate, data):
                return "/".join((*place, candidate)), True
    raise AssertionError("unreachable")


@contextmanager
def _below(root: Path, folders: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Open a folder below the root, made where it is missing; a name that is no folder's gets a number."""
    at, place = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), list[str]()
    try:
        for part in folders:
            below, name = _down(at, part)
            os.close(at)
            at = below
            place.append(name)
        yield at, place
    finally:
        os.close(at)


def _down(at: int, part: str) -> tuple[int, str]:
    for name in numbered_names(part):
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=at)
        try:
            return os.open(name, _FOLDER, dir_fd=at), name
        except OSError as exc:
            if exc.errno not in (errno.ENOTDIR, errno.ELOOP):  # a file or a link has the name
                raise
    raise AssertionError("unreachable")


def _digest_of(at: int, name: str, size: int) -> str | None:
    """Return the SHA-256 of a file, "" for what cannot be the same, None for nothing."""
    try:
        status = os.stat(name, dir_fd=at, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode) or status.st_size != size:
            return ""
        with closing(open_file(at, name)) as descriptor:
            digest = hashlib.sha256()
            while part := os.read(descriptor, _BLOCK):
                digest.update(part)
            return digest.hexdigest()
    except FileNotFoundError:
        return None
    except (PermissionError, OutsideError):
        return ""


def _write_new(at: int, name: str, data: bytes) -> bool:
    """Write a file that is not there, whole or not at all; return False if somebody was faster."""
    half = f".{os.urandom(8).hex()}.part"
    descriptor = os.open(half, _NEW, 0o666, dir_fd=at)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        return _place(at, half, name)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(half, dir_fd=at)


def _place(at: int, half: str, name: str) -> bool:
    try:
        os.link(half, name, src_dir_fd=at, dst_dir_fd=at, follow_symlinks=False)
    except FileExistsError:
        return False
    except OSError as exc:
        if exc.errno not in _NO_LINKS:
            raise
        # A file system without links: the look and the renaming are not one there.
        if _digest_of(at, name, -1) is not None:
            return False
        os.rename(half, name, src_dir_fd=at, dst_dir_fd=at)
    return True
