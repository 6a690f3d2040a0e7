"""Keeps the files given with tasks: each content once in the workspace, linked into the folders of the runs.

`files/ab/<sha256>` holds the bytes, read-only; `files/seen.db` remembers which file on the disk held which bytes, so
that a second task over an unchanged folder reads none of them. The database is a cache: without it everything is read
again.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import mimetypes
import os
import shutil
import sqlite3
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import IO

from agentorchestra.core.errors import BundleError, FileInputError, UnseenScanError, WorkspaceNotWritableError
from agentorchestra.core.spec import FileRef, first_names
from agentorchestra.log.bundle.format import check_names
from agentorchestra.tools.files.cache_db import open_cache
from agentorchestra.tools.files.common import WAY_TO_SEE
from agentorchestra.tools.files.folders import MAX_BYTES, MAX_FILES, FoundFile, LeftOut, list_folder, printable
from agentorchestra.tools.files.formats.sniff import sniff
from agentorchestra.tools.files.readers import check_stop, look_into
from agentorchestra.tools.files.worker import LIMITS

THREADS = 4  # files that are hashed and checked at the same time
# Of the table in seen.db; a file with another one is begun anew. 1: the first. 2: what was found inside.
_VERSION = 2
_TABLES = {
    "seen": """CREATE TABLE seen (
        path BLOB PRIMARY KEY, size INTEGER, mtime_ns INTEGER, ctime_ns INTEGER, inode INTEGER, device INTEGER,
        sha256 TEXT, media_type TEXT, problem TEXT, inside TEXT, checked_by TEXT
    ) WITHOUT ROWID"""
}
# A file changed less than this before it was read may change again without another time: it is not remembered.
_SETTLED_NS = 100_000_000
# The time (s since 1970) of every kept file: one that was written to since has another and is not used again.
_KEPT_MTIME = 946_684_800
_HEAD = 8_192
_CONTAINERS = frozenset({"application/zip", "application/x-ole-storage"})
_CHUNK = 1 << 20
_SYNC_ONE_BY_ONE = 64
_PICTURES = "pictures"
_STALE_S = 86_400


@dataclass(frozen=True)
class Kept:
    """The files of a run, and what is said of them: what of the folders was left out, "" for nothing.

    `new_names` are those that are new in a session.
    """

    refs: tuple[FileRef, ...] = ()
    left_out: str = ""
    new_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Seen:
    """The content of a file when it looked like `look` (size, times, inode, device)."""

    look: tuple[int, int, int, int, int]
    sha256: str
    media_type: str
    problem: str = ""
    inside: str = ""  # what a look inside found, `text` or `pictures`; "" where only its first bytes were looked at
    remember: bool = True


def keep_files(
    paths: Sequence[Path],
    store: Path,
    target: Path,
    *,
    temporary: bool = False,
    apart: Path | None = None,
    blind: bool = False,
    stop: threading.Event | None = None,
    before: Sequence[FileRef] = (),
) -> Kept:
    """Check the files, keep their bytes, and link them into `target`. Blocks; on an error nothing is left in `target`.

    `paths` are files, and folders that stand for what lies below them, without the folder `apart`. `temporary` ones are
    not remembered, and their `origin` names the kept ones. Where a run is `blind`, no model sees: a PDF of pictures
    that is given by its own name is an UnseenScanError. FileInputError for such a file, or a whole folder, that cannot
    be read; WorkspaceNotWritableError if they cannot be kept. The files of its session `before` go on beside them, but
    for those that are given again, from the same place: these take the content that they have now.
    """
    if not paths and not before:
        return Kept()
    keeper = _Keeper(store, stop, remember=not temporary, blind=blind)
    left_out: list[str] = []
    again = _given_again(before, paths)
    old_names = {ref.name.partition("/")[0] for ref in before if ref.name not in again}
    entries = _entries(paths, apart, left_out, old_names)
    try:
        refs = keeper.keep(entries, target, left_out, temporary=temporary) if paths else []
        names = {ref.name for ref in refs}
        stay = [ref for ref in before if ref.name not in names]
        for ref in stay:
            place = kept_place(store, ref.sha256)
            if not place.exists():
                raise FileInputError(
                    f"{ref.name}, which this session was given, is not on this machine: give it again, run the turn "
                    "where it was given, or let machines share files with the setting `artifacts`"
                )
            with writing(target):
                (target / ref.name).parent.mkdir(parents=True, exist_ok=True)
                link_kept(place, target / ref.name)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise
    hashes = {ref.name: ref.sha256 for ref in before}
    new = [ref.name for ref in refs if hashes.get(ref.name) != ref.sha256]
    changed = [name for name in new if name in hashes]
    if changed:
        left_out.append(f"Given again, with other content than before in this session: {first_names(changed)}.")
    return Kept((*stay, *refs), " ".join(sentence for sentence in left_out if sentence), tuple(new))


def _given_again(before: Sequence[FileRef], paths: Sequence[Path]) -> set[str]:
    """Return the names of the files that come from a place that is given once more."""
    if not before:
        return set()
    places = {str(path.absolute()) for path in paths if not path.is_dir()}
    folders = tuple(f"{path.resolve()}{os.sep}" for path in paths if path.is_dir())
    return {ref.name for ref in before if ref.origin in places or (folders and ref.origin.startswith(folders))}


@dataclass
class _Entry:
    """A file or folder as it was given: what is to be kept for it."""

    files: list[FoundFile]
    lenient: str  # the name of the folder whose files may fail, "" for a file given by its own name
    left_out: LeftOut
    root: Path | None = None  # where that folder is


def _entries(paths: Sequence[Path], apart: Path | None, sentences: list[str], names: Collection[str]) -> list[_Entry]:
    used = {*names}  # by other files of the session
    entries = []
    seen: set[str] = set()
    for path in paths:
        if (place := os.path.abspath(path)) in seen:  # noqa: PTH100 - without following links
            continue
        seen.add(place)
        folder = path.is_dir()
        stem, suffix = (path.resolve().name or "files", "") if folder else (path.stem, path.suffix)
        stem, suffix = printable(stem), printable(suffix)
        name, counter = stem + suffix, 1
        while name in used:
            counter += 1
            name = f"{stem}-{counter}{suffix}"
        used.add(name)
        if stem + suffix in names:
            sentences.append(f"{path} is {name} here: {stem + suffix} is another file of this session.")
        left_out = LeftOut()
        files = list_folder(path, name, left_out, apart=apart) if folder else [FoundFile(name, path)]
        root = path.resolve() if folder else None
        entries.append(_Entry(_unique_names(files), name if folder else "", left_out, root))
        if not files:
            raise _nothing_in(entries[-1])
    total = sum(len(entry.files) for entry in entries)
    if total > MAX_FILES:
        raise FileInputError(f"{total:,} files were given; at most {MAX_FILES:,} belong to one task: give fewer.")
    return entries


def _unique_names(files: list[FoundFile]) -> list[FoundFile]:
    """Number the names that became equal when what cannot be printed was replaced."""
    used: set[str] = set()
    counters: dict[str, int] = {}
    apart = []
    for file in files:
        name = file.name
        while name in used:
            counter = counters[file.name] = counters.get(file.name, 1) + 1
            folder, slash, last = file.name.rpartition("/")
            stem, dot, suffix = last.rpartition(".")
            name = f"{folder}{slash}{stem}-{counter}.{suffix}" if dot else f"{folder}{slash}{last}-{counter}"
        used.add(name)
        apart.append(FoundFile(name, file.path))
    return apart


class _Keeper:
    def __init__(self, store: Path, stop: threading.Event | None, *, remember: bool, blind: bool) -> None:
        self._store = store
        self._blind = blind
        self._stop = stop
        self._remember = remember
        self._new = 0
        self._bytes = 0
        self._lock = threading.Lock()

    def keep(self, entries: Sequence[_Entry], target: Path, left_out: list[str], *, temporary: bool) -> list[FileRef]:
        with writing(self._store):
            self._store.mkdir(parents=True, exist_ok=True)
            self._sweep()
        with contextlib.closing(_SeenFiles(self._store / "seen.db" if self._remember else None)) as seen:
            jobs = [(entry, file) for entry in entries for file in entry.files]
            by_path = seen.recall(os.fsencode(file.path.absolute()) for _, file in jobs)
            results: list[_Seen] = []
            try:
                with ThreadPoolExecutor(THREADS, thread_name_prefix="files") as pool:
                    results.extend(pool.map(lambda job: self._result(job[0], job[1], by_path), jobs))
            finally:
                seen.remember(
                    (os.fsencode(job[1].path.absolute()), result) for job, result in zip(jobs, results, strict=False)
                )
            seen.forget_deleted(os.fsencode(entry.root) for entry in entries if entry.root is not None)
        if self._new > _SYNC_ONE_BY_ONE:
            os.sync()
        return self._link(jobs, results, target, left_out, temporary=temporary)

    def _sweep(self) -> None:
        """Remove what a dead process left half-written, by the time of its inode: `seal` sets the other one back."""
        for path in self._store.glob("new-*"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_ctime > _STALE_S:
                    path.unlink()

    def _result(self, entry: _Entry, file: FoundFile, by_path: dict[bytes, _Seen]) -> _Seen:
        check_stop(self._stop)
        look = _look(file.path)
        with self._lock:
            self._bytes += look[0]
            if self._bytes > MAX_BYTES:
                raise FileInputError(
                    f"the files have more than {MAX_BYTES:,} bytes, which is the most for one task: give fewer."
                )
        old = by_path.get(os.fsencode(file.path.absolute()))
        good = old is not None and not old.problem and self._has(old.sha256, look[0])
        if old is not None and not entry.lenient:  # seen in a folder, it may not have been looked into
            good = good and bool(old.inside) and not (self._blind and old.inside == _PICTURES)
        bad = old is not None and old.problem and entry.lenient
        if old is not None and old.look == look and (good or bad):
            return old
        is_settled = time.time_ns() - max(look[1], look[2]) > _SETTLED_NS
        try:
            # In a folder the beginning of a file has to do where more would take a process for each.
            media_type, inside = (_at_first_sight(file.path) if entry.lenient else None), ""
            if media_type is None:
                seen = look_into(file.path)
                media_type, inside = seen.media_type, _PICTURES if seen.textless else "text"
            if self._blind and inside == _PICTURES and not entry.lenient:
                raise UnseenScanError(
                    f"{file.path} is a PDF of pictures without text, and no model of this run sees: {WAY_TO_SEE}; or "
                    "recognise its text first, e.g. with ocrmypdf."
                )
            digest, after = self._take(file.path)
        except FileInputError as error:
            if not entry.lenient:
                raise
            problem = str(error).replace(str(file.path), "{name}")
            return _Seen(look, "", "", problem, remember=is_settled)
        return _Seen(after, digest, media_type, inside=inside, remember=is_settled and after == look)

    def _take(self, source: Path) -> tuple[str, tuple[int, int, int, int, int]]:
        """Copy a file into the store; return the hash of what was kept, and how the file looked when it was opened."""
        try:
            # Without waiting: in the meantime it may have become a pipe.
            fd = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise FileInputError(f"{source} cannot be read: {error.strerror}; give a readable file") from None
        with os.fdopen(fd, "rb") as file:
            look = _looks(os.fstat(fd))
            with _new_content(self._store) as (new, copy):
                digest, size = self._copy(file, copy, source)
                copy.close()
                if _looks(os.fstat(fd)) != look:
                    look = (-1, 0, 0, 0, 0)  # it was being written: kept as it was read, and read again next time
                self._put(new, digest, size)
        return digest, look

    def _copy(self, file: IO[bytes], copy: IO[bytes], source: Path) -> tuple[str, int]:
        digest, size = hashlib.sha256(), 0
        while True:
            check_stop(self._stop)
            try:
                chunk = file.read(_CHUNK)
            except OSError as error:
                raise FileInputError(f"{source} cannot be read: {error.strerror}; give a readable file") from None
            if not chunk:
                break
            digest.update(chunk)
            size += len(chunk)
            if size > LIMITS.max_bytes:
                raise FileInputError(f"{source} grew beyond {LIMITS.max_bytes:,} bytes while it was read; give a part.")
            with writing(self._store):
                copy.write(chunk)
        with writing(self._store):
            copy.flush()
        return digest.hexdigest(), size

    def _put(self, new: Path, digest: str, size: int) -> None:
        if self._has(digest, size):
            return
        with self._lock:
            self._new += 1
            one_by_one = self._new <= _SYNC_ONE_BY_ONE
        with writing(self._store):
            seal(new, kept_place(self._store, digest), sync=one_by_one)

    def _has(self, digest: str, size: int) -> bool:
        try:
            status = kept_place(self._store, digest).stat()
        except OSError:
            return False
        return status.st_size == size and status.st_mtime == _KEPT_MTIME

    def _link(
        self,
        jobs: Sequence[tuple[_Entry, FoundFile]],
        results: Sequence[_Seen],
        target: Path,
        left_out: list[str],
        *,
        temporary: bool,
    ) -> list[FileRef]:
        refs = []
        sizes: dict[str, int] = {}
        paths: set[Path] = set()
        for (entry, file), result in zip(jobs, results, strict=True):
            check_stop(self._stop)
            if result.problem:
                entry.left_out.add("unreadable", result.problem.replace("{name}", file.name).rstrip("."))
                continue
            place = target / file.name
            with writing(place.parent):
                _make_folder(place.parent, target, paths)
                link_kept(kept_place(self._store, result.sha256), place)
                size = sizes.get(result.sha256)
                if size is None:
                    size = sizes[result.sha256] = place.stat().st_size
            origin = str((place if temporary else file.path).absolute())
            refs.append(
                FileRef(
                    name=file.name,
                    sha256=result.sha256,
                    size=size,
                    media_type=result.media_type,
                    origin=os.fsencode(origin).decode("utf-8", "replace"),
                )
            )
        readable = {id(entry) for (entry, _), result in zip(jobs, results, strict=True) if not result.problem}
        folders = {id(entry): entry for entry, _ in jobs if entry.lenient}
        if empty := next((folder for key, folder in folders.items() if key not in readable), None):
            raise _nothing_in(empty)
        left_out.extend(folder.left_out.sentence(folder.lenient) for folder in folders.values())
        return refs


def _nothing_in(folder: _Entry) -> FileInputError:
    reasons = folder.left_out.sentence(folder.lenient)
    return FileInputError(
        f"the folder {folder.lenient} holds no file that can be read; give one that does. {reasons}".strip()
    )


def _at_first_sight(path: Path) -> str | None:
    """Return the type by the first bytes, None for text and for what has to be looked into."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > LIMITS.max_bytes:
                return None
            head = file.read(_HEAD)
    except OSError:
        return None  # look_into says it in a sentence
    kind = sniff(head, path.name)
    if kind.startswith("text/") and kind != "text/html":
        return None
    if kind in _CONTAINERS:  # what it holds is seen when it is read; until then its name is believed
        return mimetypes.guess_type(path.name)[0] or kind
    return kind


def _look(path: Path) -> tuple[int, int, int, int, int]:
    try:
        return _looks(path.stat())
    except (OSError, ValueError):
        return (-1, 0, 0, 0, 0)


def _looks(status: os.stat_result) -> tuple[int, int, int, int, int]:
    # The time of the last change of the inode cannot be set: it tells a file whose other times were restored.
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev


@contextlib.contextmanager
def _new_content(store: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """Hold a new file in the store while it is written; one that is not sealed by then is removed."""
    with writing(store):
        handle, name = tempfile.mkstemp(prefix="new-", dir=store)
    try:
        with os.fdopen(handle, "wb") as copy:
            yield Path(name), copy
    finally:
        Path(name).unlink(missing_ok=True)


def kept_place(store: Path, sha256: str) -> Path:
    return store / sha256[:2] / sha256


def seal(new: Path, place: Path, *, sync: bool) -> None:
    """Put a written file in its place, read-only; `sync` makes its bytes durable first."""
    new.chmod(0o444)
    os.utime(new, (_KEPT_MTIME, _KEPT_MTIME))
    if sync:
        with new.open("rb") as file:
            os.fsync(file.fileno())
    place.parent.mkdir(exist_ok=True)
    new.replace(place)


def _make_folder(folder: Path, below: Path, paths: set[Path]) -> None:
    """Make a folder below another; the user of a sandbox must get in, whatever the umask says."""
    if folder not in paths:
        folder.mkdir(parents=True, exist_ok=True)
    for parent in (folder, *folder.parents):
        if parent in paths or not parent.is_relative_to(below):
            break
        parent.chmod(0o755)
        paths.add(parent)


def link_kept(source: Path, target: Path) -> None:
    """Give a kept file another name, by a copy where links are not to be had."""
    try:
        os.link(source, target)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
        shutil.copyfile(source, target)  # another disk, a file system without links, too many links of one file
        target.chmod(0o444)


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn what goes wrong while writing into a sentence."""
    try:
        yield
    except OSError as error:
        raise WorkspaceNotWritableError(
            f"{folder} cannot be written: {error.strerror}; free space or choose another --workspace"
        ) from None


class _SeenFiles:
    """The contents of files on the disk when they were looked at last; without a path, or when it fails, none."""

    def __init__(self, path: Path | None) -> None:
        self._by = _checker()
        try:
            self._db = open_cache(path, _VERSION, _TABLES, timeout_s=10)
        except (sqlite3.Error, OSError):
            self._db = open_cache(None, _VERSION, _TABLES, timeout_s=10)
        self.close = self._db.close

    def recall(self, paths: Iterable[bytes]) -> dict[bytes, _Seen]:
        results: dict[bytes, _Seen] = {}
        try:
            self._db.execute("CREATE TEMP TABLE wanted (path BLOB PRIMARY KEY) WITHOUT ROWID")
            with self._db:
                self._db.execute("BEGIN")
                self._db.executemany("INSERT OR IGNORE INTO wanted VALUES (?)", ((path,) for path in paths))
            for row in self._db.execute("SELECT seen.* FROM wanted JOIN seen USING (path)"):
                path, *look, sha256, media_type, problem, inside, by = row
                if by == self._by:
                    results[path] = _Seen(tuple(look), sha256, media_type, problem, inside, remember=False)
        except sqlite3.Error:
            return {}
        return results

    def remember(self, seen: Iterable[tuple[bytes, _Seen]]) -> None:
        rows = [
            (path, *result.look, result.sha256, result.media_type, result.problem, result.inside, self._by)
            for path, result in seen
            if result.remember
        ]
        if not rows:
            return
        with contextlib.suppress(sqlite3.Error), self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("INSERT OR REPLACE INTO seen VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def forget_deleted(self, folders: Iterable[bytes]) -> None:
        """Forget what was below these folders and was not asked for by `known`: it is gone."""
        with contextlib.suppress(sqlite3.Error):
            for folder in folders:
                self._db.execute(
                    "DELETE FROM seen WHERE path > ? AND path < ? AND path NOT IN (SELECT path FROM wanted)",
                    (folder.rstrip(b"/") + b"/", folder.rstrip(b"/") + b"0"),
                )


def _checker() -> str:
    """Return the version that checked: another one may read what this one cannot."""
    try:
        return metadata.version("agentorchestra")
    except metadata.PackageNotFoundError:
        return ""


Opener = Callable[[FileRef], contextlib.AbstractContextManager[IO[bytes]]]  # opens a file that came from elsewhere


class CarriedFiles:
    """The kept files of a workspace: `store` has contents by hash, `runs/ID/files` their names."""

    def __init__(self, store: Path, runs: Path) -> None:
        self._store = store
        self._runs = runs

    def reader(self, run_id: str, ref: FileRef) -> IO[bytes]:
        return self._open(ref, kept_place(self._store, ref.sha256), self._runs / run_id / "files" / ref.name)

    def content(self, ref: FileRef) -> IO[bytes]:
        """Return the bytes of a file that was kept just now; BundleError if they are gone."""
        return self._open(ref, kept_place(self._store, ref.sha256))

    def _open(self, ref: FileRef, *places: Path) -> IO[bytes]:
        for place in places:
            try:
                handle = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            except OSError:
                continue
            if os.fstat(handle).st_size == ref.size:
                return os.fdopen(handle, "rb")
            os.close(handle)
        raise BundleError(
            f"the file {ref.name!r} of the task is no longer kept in {self._store} as it was; restore it, or export "
            "with --no-files"
        )

    def put(self, run_id: str, refs: tuple[FileRef, ...], reader: Opener) -> None:
        check_names(refs)
        if not refs:
            return
        target = self._runs / run_id / "files"
        paths: set[Path] = set()
        with writing(self._store):
            self._store.mkdir(parents=True, exist_ok=True)
        for ref in refs:
            place = kept_place(self._store, ref.sha256)
            if not place.is_file() or place.stat().st_size != ref.size:
                self._take(ref, place, reader)
            name = target / ref.name
            with writing(name.parent):
                _make_folder(name.parent, target, paths)
                name.unlink(missing_ok=True)  # of a process that died here
                with contextlib.suppress(FileExistsError):  # another one takes in the same run
                    link_kept(place, name)

    def _take(self, ref: FileRef, place: Path, reader: Opener) -> None:
        with _new_content(self._store) as (new, copy):
            digest, size = hashlib.sha256(), 0
            with copy, reader(ref) as source, writing(self._store):
                while size <= ref.size and (chunk := source.read(_CHUNK)):
                    digest.update(chunk)
                    size += len(chunk)
                    copy.write(chunk)
            if (digest.hexdigest(), size) != (ref.sha256, ref.size):
                raise BundleError(f"the file {ref.name!r} is not what its hash says; nothing was imported")
            with writing(self._store):
                seal(new, place, sync=True)

    def remove(self, run_id: str) -> None:
        """Undo `put`: the run's names; contents stay, another run may have them."""
        shutil.rmtree(self._runs / run_id / "files", ignore_errors=True)
        with contextlib.suppress(OSError):
            (self._runs / run_id).rmdir()
