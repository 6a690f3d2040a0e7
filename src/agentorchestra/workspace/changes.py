"""What a run changed in its copy of a project: as a diff, and on its way back into the user's folder.

A file of the user's is replaced only where it is what the run began with, and all files are or none. For that every new
content is written into the project's folder under a name of its own first, and a journal in the run's folder names what
is to be done; then each target gets a second name and is replaced. A process that was killed meanwhile leaves the
journal: the next call brings all to an end, or, where the user has changed something since, puts back what was
replaced.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from agentorchestra.core.effects import ArtifactRef
from agentorchestra.core.errors import ApplyConflictError, ProjectError
from agentorchestra.core.spec import Project, first_names
from agentorchestra.environments.beneath import OutsideError, closing, folder_at, open_file, parent_of, parts_of
from agentorchestra.environments.folder import read_manifest
from agentorchestra.environments.manifest import FolderEntry, FolderManifest
from agentorchestra.environments.packs import Blobs, Contents
from agentorchestra.environments.project import GIT, made_anew
from agentorchestra.environments.repository import Repository, repository_at, run_git

Read = Callable[[str], Awaitable[bytes]]
"""Gives the bytes of a blob by its SHA-256."""

_JOURNAL = "apply.json"
_COMMITTER = "AgentOrchestra <agent@localhost> 0 +0000"


class File(NamedTuple):
    """A file as a project has it, as far as git tells files apart."""

    data: bytes  # of a link its target
    kind: str = "file"  # or `link`
    runs: bool = False  # whether its owner may execute it

    @property
    def mode(self) -> str:
        """The mode as git writes it."""
        return "120000" if self.kind == "link" else "100755" if self.runs else "100644"


class FileChange(NamedTuple):
    """A path that differs; None where there is no file."""

    path: str
    old: File | None
    new: File | None


class Applied(NamedTuple):
    """The changes of a run, brought into the user's folder.

    Attributes:
        folder: the user's.
        changed: paths of all that the run changed.
        written: how many of them were changed now; the others were so already.
        branch, commit: that they were committed as; "" for the folder itself.
    """

    folder: Path
    changed: tuple[str, ...]
    written: int = 0
    branch: str = ""
    commit: str = ""


class Changes(NamedTuple):
    """All that a run changed, without the caches that it made.

    In no diff are `left_out`, files too large for a snapshot, and `ignored`, new ones that git ignores.
    """

    project: Project
    files: tuple[FileChange, ...] = ()
    left_out: tuple[str, ...] = ()
    folders: frozenset[str] = frozenset()  # that the project began with
    ignored: tuple[str, ...] = ()

    def diff(self) -> str:
        """Return them as git writes them. Blocks."""
        return _diff(self.files) if self.files else ""


async def changes_of(project: Project, snapshot: str | None, read: Read) -> Changes:
    """Return what differs between what a run began with and a snapshot (the name of its blob), None for no other."""
    if snapshot is None:
        return Changes(project)
    began = await read_manifest(await read(project.began), read)
    now = await read_manifest(await read(snapshot), read)
    contents = Contents(Blobs(read))
    contents.unpack(began)
    apart = {path for manifest in (began, now) for path in (left.path for left in manifest.left_out)}
    before, after = _told_apart(began, project, apart), _told_apart(now, project, apart)
    differences = []

    async def file(entry: FolderEntry | None) -> File | None:
        if entry is None:
            return None
        if entry.kind == "link":
            return File(os.fsencode(entry.content), "link")
        data = await contents.read_artifact(ArtifactRef(name=entry.path, sha256=entry.content, size=entry.size))
        return File(data, runs=_runs(entry))

    caches = made_anew(after)
    fresh = [path for path in after if path not in before and path not in caches]
    skipped = await asyncio.to_thread(_git_ignored, Path(project.path), fresh) if project.repository else set[str]()
    for path in sorted({*before, *after}):
        if path not in before and (path in caches or path in skipped):
            continue
        old, new = before.get(path), after.get(path)
        if old is None or new is None or (old.kind, old.content, _runs(old)) != (new.kind, new.content, _runs(new)):
            differences.append(FileChange(path, await file(old), await file(new)))
    before_paths = {entry.path for entry in began.left_out}
    new_large = tuple(entry.path for entry in now.left_out if entry.path not in before_paths)
    folders = frozenset(entry.path for entry in began.entries if entry.kind == "folder")
    return Changes(project, tuple(differences), new_large, folders, tuple(sorted(skipped)))


def _git_ignored(root: Path, paths: Sequence[str]) -> set[str]:
    """Return those of new paths that git ignores in the user's folder, none where that is gone. Blocks."""
    data, literal = b"".join(b"./%b\0" % os.fsencode(path) for path in paths), {"GIT_LITERAL_PATHSPECS": "0"}
    output = b""
    with suppress(ProjectError, FileNotFoundError):  # no repository of this machine, or a path below a link
        output = run_git(root, "check-ignore", "-z", "--stdin", data=data, env=literal, most=1)
    return {os.fsdecode(path).removeprefix("./") for path in output.split(b"\0") if path}


def _runs(entry: FolderEntry) -> bool:
    return entry.kind == "file" and bool(entry.mode & 0o100)


def _told_apart(manifest: FolderManifest, project: Project, apart: set[str]) -> dict[str, FolderEntry]:
    """Return the files of a snapshot that belong to the project: not git's own, and none where others are seen."""
    return {
        entry.path: entry
        for entry in manifest.entries
        if entry.kind in ("file", "link")
        and entry.path not in apart
        and GIT not in entry.path.lower().split("/")
        and not any(entry.path == place or entry.path.startswith(f"{place}/") for place in project.seen)
    }


def _diff(files: Sequence[FileChange]) -> str:
    """Let git compare the two states, in a repository made for it."""
    with tempfile.TemporaryDirectory(prefix="agentorchestra-") as name:
        place, stream = Path(name), bytearray()
        own = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_DIR": name}
        run_git(place, "init", "-q", "--bare", name, env=own)
        for ref, states in (("old", [(f.path, f.old) for f in files]), ("new", [(f.path, f.new) for f in files])):
            stream += f"commit refs/heads/{ref}\ncommitter {_COMMITTER}\ndata 0\n".encode()
            for path, state in states:
                if state is not None:
                    quoted_path = b'"%b"' % b"".join(b"\\%03o" % byte for byte in os.fsencode(path))
                    stream += b"M %b inline %b\ndata %d\n" % (state.mode.encode(), quoted_path, len(state.data))
                    stream += state.data + b"\n"
        run_git(place, "fast-import", "--quiet", data=bytes(stream), env=own)
        options = ("-p", "-r", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")
        return run_git(place, "diff-tree", *options, "old", "new", env=own).decode(errors="replace")


# -- into the folder ---------------------------------------------------------------------------------------------------


class _Step(NamedTuple):
    """A change, and its names in the project's folder meanwhile: `new_name` has what is new, `old_name` what was."""

    change: FileChange
    new_name: str
    old_name: str


def apply(changes: Changes, run_folder: Path, earlier: Sequence[Changes] = ()) -> Applied:
    """Bring all changes into the user's folder, or none. Blocks.

    Args:
        changes: of the run, since its session began to work on the folder.
        run_folder: where the journal is kept.
        earlier: the changes of the session's earlier turns, the newest first: the user may have applied them.

    Raises:
        ApplyConflictError: something is not as the run found it; nothing is changed then.
        ProjectError: the folder is not there or cannot be written.
    """
    root, journal = Path(changes.project.path), run_folder / _JOURNAL
    try:
        with _folder_lock(root):
            changes = _upon(changes, earlier, _Applying(changes, root, journal))
            count = _Applying(changes, root, journal).run()
    except OSError as exc:
        msg = exc.strerror or str(exc)
        raise ProjectError(f"{root} cannot be written: {msg}; nothing of it was changed: apply it again then") from None
    return Applied(root, tuple(change.path for change in changes.files), count)


def is_applied(changes: Changes, run_folder: Path) -> bool:
    """Return True if the user's folder has all changes already, and no earlier call is to be finished. Blocks."""
    disk = _Applying(changes, Path(changes.project.path), run_folder / _JOURNAL)
    done = [disk.holds(change, change.new) for change in changes.files]
    return bool(done) and all(done) and not (run_folder / _JOURNAL).exists()


def _upon(changes: Changes, earlier: Sequence[Changes], disk: _Applying) -> Changes:
    """Return the changes with what the folder holds of an earlier turn's in place of what the session began with."""
    files = {change.path: change for change in changes.files}
    for former in (change for turn in earlier for change in turn.files):
        change = files.get(former.path, FileChange(former.path, former.old, former.old))
        if not any(disk.holds(change, state) for state in (change.old, change.new)) and disk.holds(change, former.new):
            files[change.path] = change._replace(old=former.new)
    return changes._replace(files=tuple(files[path] for path in sorted(files)))


@contextmanager
def _folder_lock(root: Path) -> Iterator[None]:
    """Let nobody else apply to the folder meanwhile."""
    if not root.is_dir():
        raise ProjectError(f"{root} is no folder any more; put it back, or copy what is needed from the run's folder")
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    with closing(descriptor):
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


class _Applying:
    def __init__(self, changes: Changes, root: Path, journal: Path) -> None:
        self._root, self._journal, self._folders = root, journal, changes.folders
        mark = hashlib.sha256(str(journal).encode()).hexdigest()[:12]
        # What is deleted goes first: a folder may take a file's place.
        by_deletion = sorted(changes.files, key=lambda change: (change.new is not None, change.path))
        self._gone = [change.path for change in by_deletion if change.new is None]
        self._steps = [
            _Step(change, f".agentorchestra-{mark}-{number}.new", f".agentorchestra-{mark}-{number}.old")
            for number, change in enumerate(by_deletion)
        ]

    def run(self) -> int:
        begun_paths = self._begun_paths()
        if begun_paths is not None and not begun_paths:  # all was done, and only names were left to remove
            self._clear(self._steps)
        conflicts = [step.change.path for step in self._steps if not self._is_due(step) and not self._is_done(step)]
        due = [step for step in self._steps if self._is_due(step)]
        # What the user has by another way is not ours to put back.
        begun_steps = [step for step in self._steps if step.change.path in (begun_paths or ())]
        own_steps = [step for step in self._steps if step in due or step in begun_steps]
        if conflicts:
            self._undo(begun_steps)
            raise self._conflict(conflicts)
        if not own_steps:
            return 0
        _write_durably(self._journal, json.dumps([step.change.path for step in own_steps]).encode())
        try:
            for step in due:
                self._make(step)
            for step in due:
                if not self._carry_out(step):
                    raise self._conflict([step.change.path])
        except (OSError, ProjectError):
            self._undo(own_steps)
            raise
        _write_durably(self._journal, b"[]")
        self._clear(own_steps)
        return len(due)

    def _begun_paths(self) -> list[str] | None:
        """Return the paths that a killed process was about to change; None where there was no such process."""
        try:
            paths: list[str] = json.loads(self._journal.read_bytes())
        except FileNotFoundError:
            return None
        return paths

    # What a file of the user's is. A path through a link, or below a file, holds nothing of the project's.

    def _is_due(self, step: _Step) -> bool:
        return self.holds(step.change, step.change.old) and not self._is_done(step)

    def _is_done(self, step: _Step) -> bool:
        return self.holds(step.change, step.change.new)

    def holds(self, change: FileChange, file: File | None) -> bool:
        """Return True if this, or with None no file, is at a change's path; other steps may make room for it first."""
        path, deleted = change.path, change.new is None
        try:
            with parent_of(self._root, parts_of(path)) as (at, name):
                if file is None and _is_folder(at, name):
                    return deleted or any(other.startswith(f"{path}/") for other in self._gone)
                return _is(at, name, file)
        except FileNotFoundError:
            return file is None
        except NotADirectoryError:  # a file stands where a folder was, or is to be
            return file is None and (deleted or any(path.startswith(f"{other}/") for other in self._gone))
        except OutsideError:
            return False

    def _make(self, step: _Step) -> None:
        new = step.change.new
        if new is None:
            return
        with folder_at(self._root) as top:
            with suppress(FileNotFoundError):
                os.unlink(step.new_name, dir_fd=top)
            if new.kind == "link":
                os.symlink(os.fsdecode(new.data), step.new_name, dir_fd=top)
                return
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            handle = os.open(step.new_name, flags, 0o777 if new.runs else 0o666, dir_fd=top)
        with open(handle, "wb") as file:  # noqa: PTH123 - a descriptor
            file.write(new.data)
            self._as_before(handle, step)
            file.flush()
            os.fsync(handle)

    def _as_before(self, descriptor: int, step: _Step) -> None:
        """Give a new file the owner and the rights of the one that it replaces, but for the right to execute it."""
        change, new = step.change, step.change.new
        if change.old is None or change.old.kind == "link" or new is None:
            return
        with parent_of(self._root, parts_of(change.path)) as (at, name):
            status = os.stat(name, dir_fd=at, follow_symlinks=False)
        mode = stat.S_IMODE(status.st_mode) & ~0o111
        if os.geteuid() == 0:
            os.fchown(descriptor, status.st_uid, status.st_gid)
        os.fchmod(descriptor, mode | (mode & 0o444) >> 2 if new.runs else mode)

    def _carry_out(self, step: _Step) -> bool:
        """Do a step; return False if what is there is not what the run began with."""
        change = step.change
        new = change.old is None
        with folder_at(self._root) as top, parent_of(self._root, parts_of(change.path), make=new) as (at, name):
            if new:
                try:
                    os.link(step.new_name, name, src_dir_fd=top, dst_dir_fd=at, follow_symlinks=False)
                except FileExistsError:
                    return False
                return True
            with suppress(FileNotFoundError):  # of a process that was killed before it replaced anything
                os.unlink(step.old_name, dir_fd=top)
            # The second name holds what is replaced: what the user saved a moment ago is not lost.
            os.link(name, step.old_name, src_dir_fd=at, dst_dir_fd=top, follow_symlinks=False)
            if not _is(top, step.old_name, change.old) or not _is_same(top, step.old_name, at, name):
                os.unlink(step.old_name, dir_fd=top)
                return False
            if change.new is None:
                os.unlink(name, dir_fd=at)
            else:
                os.rename(step.new_name, name, src_dir_fd=top, dst_dir_fd=at)
        if change.new is None:
            self._drop_folders(change.path)
        return True

    def _undo(self, steps: Sequence[_Step]) -> None:
        """Put back what was done, as far as it is still as it was put there; the last first."""
        for step in reversed(steps):
            change = step.change
            with suppress(FileNotFoundError, NotADirectoryError, OutsideError), folder_at(self._root) as top:
                has_old = change.old is not None
                if has_old and not _is(top, step.old_name, change.old):
                    continue  # it was not
                with parent_of(self._root, parts_of(change.path), make=has_old) as (at, name):
                    if not _is(at, name, change.new):
                        pass
                    elif has_old:
                        os.rename(step.old_name, name, src_dir_fd=top, dst_dir_fd=at)
                    else:
                        os.unlink(name, dir_fd=at)
            if change.old is None:
                self._drop_folders(change.path, new=True)
        self._clear(steps)

    def _drop_folders(self, path: str, *, new: bool = False) -> None:
        """Remove the folders above a file that are empty now; with `new` only those that the project did not have."""
        parts = parts_of(path)[:-1]
        while parts:
            if new and "/".join(parts) in self._folders:
                return
            try:
                with parent_of(self._root, parts) as (at, name):
                    os.rmdir(name, dir_fd=at)
            except FileNotFoundError:
                pass  # it was not made yet
            except OSError:
                return  # it holds something
            parts = parts[:-1]

    def _clear(self, steps: Sequence[_Step]) -> None:
        """Remove the second names, what was made and not used, and at last the journal."""
        with folder_at(self._root) as top:
            for name in (name for step in steps for name in (step.new_name, step.old_name)):
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=top)
        self._journal.unlink(missing_ok=True)

    def _conflict(self, paths: Sequence[str]) -> ApplyConflictError:
        return ApplyConflictError(
            f"nothing was changed in {self._root}: since the run began, this was changed there: "
            f"{first_names(paths, 10)}. Put it back as it was and apply again, or give --branch NAME for a commit "
            "beside it",
            tuple(paths),
        )


def _is(at: int, name: str, state: File | None) -> bool:
    """Return True if this, and nothing else, has the name in an open folder."""
    try:
        status = os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return state is None
    if state is None:
        return False
    if state.kind == "link":
        return stat.S_ISLNK(status.st_mode) and os.fsencode(os.readlink(name, dir_fd=at)) == state.data
    if not stat.S_ISREG(status.st_mode) or status.st_size != len(state.data):
        return False
    if bool(status.st_mode & 0o100) != state.runs:
        return False
    with open(open_file(at, name), "rb") as file:  # noqa: PTH123 - a descriptor
        return file.read() == state.data


def _is_folder(at: int, name: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _is_same(at: int, name: str, other_at: int, other: str) -> bool:
    """Return True if two names in open folders are those of one file."""
    return os.path.samestat(
        os.stat(name, dir_fd=at, follow_symlinks=False), os.stat(other, dir_fd=other_at, follow_symlinks=False)
    )


def _write_durably(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(".half")
    with half.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    half.replace(path)


# -- as a commit -------------------------------------------------------------------------------------------------------


def check_branch(folder: Path, name: str) -> Repository:
    """Return the repository in which a branch of this name can be made. Blocks.

    Raises:
        ProjectError: there is no repository or no commit, or there is such a branch, or the name is none.
    """
    repository = repository_at(folder.resolve()) if folder.is_dir() else None
    if repository is None:
        raise ProjectError(f"{folder} is in no git repository, so there is no branch {name!r} to make; use --apply")
    if not repository.head:
        raise ProjectError(f"the repository at {folder} has no commit yet; commit once, or use --apply")
    if name.startswith("-") or not repository.text("check-ref-format", "--branch", name):
        raise ProjectError(f"{name!r} is no name that a branch can have; give another one, e.g. fix-tests")
    if repository.text("rev-parse", "--verify", "-q", f"refs/heads/{name}"):
        raise ProjectError(f"there is a branch {name!r} already; give another name, or delete it: git branch -D {name}")
    return repository


def commit(changes: Changes, name: str, message: str) -> Applied:
    """Commit the changes as a new branch on the commit that the run began at; no file of the user's changes. Blocks.

    Raises:
        ProjectError: the branch cannot be made, a changed file was not committed when the run began, or it would go
            through a filter of the repository's own.
    """
    root, head = Path(changes.project.path), changes.project.head
    repository = check_branch(root, name)
    if not changes.files:
        raise ProjectError(f"the run changed nothing, so there is nothing to commit as {name!r}")
    _check_filters(repository, [change.path for change in changes.files])
    dirty = [change.path for change in changes.files if not _was_committed(repository, head, change)]
    if dirty:
        raise ProjectError(
            f"{first_names(dirty, 10)} had changes that were not committed when the run began, and a commit would take "
            "them along; apply the changes to the folder instead, or commit or stash first and run again"
        )
    with tempfile.TemporaryDirectory(prefix="agentorchestra-") as place:
        env = {"GIT_INDEX_FILE": str(Path(place) / "index")}
        repository.run("read-tree", head, env=env)
        lines = bytearray()
        for change in changes.files:
            path = os.fsencode(f"{repository.prefix}{change.path}")
            if change.new is None:
                lines += b"0 %b\t%b\0" % (b"0" * len(head), path)
            else:
                mode, digest = change.new.mode.encode(), _object(repository, change.path, change.new).encode()
                lines += b"%b %b\t%b\0" % (mode, digest, path)
        repository.run("update-index", "-z", "--index-info", data=bytes(lines), env=env)
        tree = repository.run("write-tree", "--missing-ok", env=env).decode().strip()
    identity = {
        f"GIT_{role}_{field.upper()}": value
        for role in ("AUTHOR", "COMMITTER")
        for field, value in (("name", "AgentOrchestra"), ("email", "agent@localhost"))
        if not repository.text("config", f"user.{field}")
    }
    sha = repository.run("commit-tree", tree, "-p", head, data=message.encode(), env=identity).decode().strip()
    # With the old value "none": a branch that somebody made meanwhile stays as it is.
    repository.run("update-ref", "-m", "agentorchestra", f"refs/heads/{name}", sha, "0" * len(head))
    return Applied(root, tuple(change.path for change in changes.files), len(changes.files), name, sha)


def _check_filters(repository: Repository, paths: Sequence[str]) -> None:
    """Refuse to commit through filters that the repository itself configures: they are programs of whoever made it."""
    lines = repository.text("config", "--show-scope", "--name-only", "--get-regexp", r"^filter\.").splitlines()
    own = {line.partition(".")[2].rpartition(".")[0] for line in lines if line.startswith(("local\t", "worktree\t"))}
    data = b"".join(os.fsencode(path) + b"\0" for path in paths)
    used = repository.run("check-attr", "-z", "--stdin", "filter", data=data).split(b"\0")[2::3] if own else []
    if names := sorted(own & {os.fsdecode(name) for name in used}):
        raise ProjectError(
            f"the configuration of the repository {repository.folder} names the programs of the filter {names[0]!r}, "
            "and they are not run: apply the changes without --branch and commit them, or configure it with "
            "git config --global"
        )


def _object(repository: Repository, path: str, file: File) -> str:
    options = ("--no-filters",) if file.kind == "link" else ("--path", path)
    return repository.run("hash-object", "-w", "--stdin", *options, data=file.data).decode().strip()


def _was_committed(repository: Repository, head: str, change: FileChange) -> bool:
    """Return True if a path was, when the run began, as in the commit that it began at."""
    line = repository.run("ls-tree", "-z", head, "--", change.path).rstrip(b"\0").decode(errors="surrogateescape")
    if change.old is None or not line:
        return change.old is None and line.partition(" ")[0] in ("", "040000")  # what lay in a folder is told apart
    mode, _, name = line.partition("\t")[0].split(" ")
    return (mode, name) == (change.old.mode, _object(repository, change.path, change.old))
