"""A project: a folder of the user's, of which the folder of a run begins as a copy.

A work tree of git's own would let agents write into the user's repository, whose hooks and configuration are programs
that the user runs. So what they get is a copy with a small `.git` of its own; the objects of the repository are seen
there read-only. What is taken is what git would take: tracked files and untracked ones that are not ignored, as they
are on the disk now. Ignored files stay where they are, since secrets lie in them (`.env`); so do caches. The folders
of installed packages (`.venv`, `node_modules`) are too many files to copy: commands see them read-only where they are.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from agentorchestra.core.errors import ProjectError
from agentorchestra.core.spec import Project
from agentorchestra.environments.beneath import MAX_DEPTH, OutsideError, closing, folder_at, parts_of, remove
from agentorchestra.environments.manifest import FolderEntry, FolderLimits, Omission, encoded, manifest_data, shown_size
from agentorchestra.environments.packs import LARGE, is_full, small_files
from agentorchestra.environments.repository import Repository, repository_at
from agentorchestra.sandbox.ground import chooses_users, new_user
from agentorchestra.sandbox.machine import WORK, python_base
from agentorchestra.sandbox.shell import Mount
from agentorchestra.tools.files.folders import NEVER

GIT = ".git"
ALTERNATE = f"{GIT}/alternate"
"""Where the copy sees the objects of the user's repository."""

_MARKER = "untouched"
"""The name of a file beside a new run's folder: nobody has worked there since it was copied."""

_VENV, _CACHE, _NODE = "pyvenv.cfg", "CACHEDIR.TAG", "node_modules"
"""What is put into virtual environments, and into caches (https://bford.info/cachedir); how npm names packages."""

_SYSTEM_PATHS = ("/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/workspace")
_GITLINK = "160000"
_MOST_SEEN = 200
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class Survey:
    """What a project is, before anything of it is copied.

    Attributes:
        folder: of the user's, absolute and without links.
        repository: whose work tree it lies in, None for none.
        files: files and links that are copied, relative to it.
        seen: folders that are seen read-only, relative to it.
        empty: folders with nothing in them, relative to it.
    """

    folder: Path
    repository: Repository | None
    files: list[str]
    seen: list[str]
    empty: list[str] = field(default_factory=list)


def survey(folder: Path, limits: FolderLimits, see: Sequence[str] = (), *, apart: Path | None = None) -> Survey:
    """Look at a project; nothing is written. Blocks.

    Args:
        limits: what a copy may hold.
        see: names of further ignored folders that are seen.
        apart: the folder of the workspace, which belongs to no project.

    Raises:
        ProjectError: it is no folder, holds more than the limits allow, or git cannot read it.
    """
    if not folder.is_dir():
        problem = "is no folder" if folder.exists() else "does not exist"
        raise ProjectError(f"{folder} {problem}; name the folder that is to be worked on")
    folder = folder.resolve()
    if folder == Path(folder.anchor):
        raise ProjectError(f"{folder} is the root of this machine; name the folder of one project")
    repository = repository_at(folder)
    names = frozenset({_NODE, *see})
    scan = _of_git(folder, repository, names) if repository is not None else _of_disk(folder, names)
    if apart is not None and (apart := apart.resolve()).is_relative_to(folder):
        inside = str(apart.relative_to(folder))
        for paths in (scan.files, scan.empty):
            paths[:] = [path for path in paths if path != inside and not path.startswith(f"{inside}/")]
    if len(scan.seen) > _MOST_SEEN:
        raise ProjectError(
            f"{folder} has {len(scan.seen):,} folders of installed packages, and commands can see {_MOST_SEEN}; name a "
            "folder below it"
        )
    _check_size(scan, limits)
    return scan


def _of_git(folder: Path, repository: Repository, names: frozenset[str]) -> Survey:
    files, seen = dict[str, None](), dict[str, None]()
    for line in repository.paths("ls-files", "-s"):
        mode, _, path = line.partition(" ")[0], *line.partition("\t")[1:]
        (seen if mode == _GITLINK else files)[path] = None  # of a submodule what is checked out
    extra = repository.paths("ls-files", "--others", "--exclude-standard")
    packages = {path.rpartition("/")[0] for path in extra if path.rpartition("/")[2] == _VENV}
    caches = made_anew(extra)
    for path in extra:
        at = next((place for place in _folders_of(path) if place.rpartition("/")[2] == _NODE or place in packages), "")
        if at or path.endswith("/"):  # a repository of its own
            seen[at or path.rstrip("/")] = None
        elif path not in caches:
            files[path] = None
    listing = repository.paths("ls-files", "--others", "--exclude-standard", "--directory")
    folders = (path for path in listing if path.endswith("/") and path.rstrip("/") not in seen)
    empty = [f"{path}{below}".rstrip("/") for path in folders for below in _of_disk(folder / path, names).empty]
    for path in repository.paths("ls-files", "--others", "--ignored", "--exclude-standard", "--directory"):
        place = path.rstrip("/")
        if path.endswith("/") and (place.rpartition("/")[2] in names or (folder / place / _VENV).is_file()):
            seen[place] = None
    return Survey(folder, repository, [*files], _outermost(folder, seen), empty)


def _of_disk(folder: Path, names: frozenset[str]) -> Survey:
    files, seen, empty = list[str](), list[str](), list[str]()
    for at, folders, leaves in os.walk(folder):
        base = os.path.relpath(at, folder)
        prefix = "" if base == "." else f"{base}/"
        below = []
        if not folders and not leaves:
            empty.append(prefix.rstrip("/"))
        for name in sorted(folders):
            if (Path(at) / name).is_symlink():
                files.append(prefix + name)
            elif name in names or (Path(at) / name / _VENV).is_file():
                seen.append(prefix + name)
            else:
                below.append(name)
        folders[:] = below
        files += [prefix + name for name in leaves]
    caches = made_anew(files)
    return Survey(folder, None, [path for path in files if path not in caches], _outermost(folder, seen), empty)


def made_anew(files: Collection[str]) -> set[str]:
    """Return those of a folder's files that lie in caches and installed packages: programs make them anew."""
    roots = {file.rpartition("/")[0] for file in files if file.rpartition("/")[2] in (_VENV, _CACHE)} - {""}
    return {file for file in files if any(top in roots or top.rpartition("/")[2] in NEVER for top in _folders_of(file))}


def _folders_of(path: str) -> Iterator[str]:
    parts = path.split("/")[:-1]
    for count in range(1, len(parts) + 1):
        yield "/".join(parts[:count])


def _outermost(folder: Path, paths: Iterable[str]) -> list[str]:
    folders = {path for path in paths if (folder / path).is_dir() and (folder / path).resolve() == folder / path}
    return sorted(path for path in folders if folders.isdisjoint(_folders_of(path)))


def _check_size(scan: Survey, limits: FolderLimits) -> None:
    deep = next((path for path in (*scan.files, *scan.empty) if path.count("/") >= MAX_DEPTH), None)
    if deep is not None:
        raise ProjectError(f"{deep[:200]}... lies more than {MAX_DEPTH - 1} folders deep in {scan.folder}; ignore it")
    file_sizes = [_size(f"{scan.folder}/{path}") for path in scan.files]
    total, by_count = sum(file_sizes), len(scan.files) > limits.entries
    if not by_count and total <= limits.bytes:
        return
    sizes, counts = Counter[str](), Counter[str]()
    for path, size in zip(scan.files, file_sizes, strict=True):
        top = path.partition("/")[0]
        sizes[top] += size
        counts[top] += 1
    most = ", ".join(
        f"{name} ({shown_size(sizes[name])}, {counts[name]:,} files)"
        for name, _ in (counts if by_count else sizes).most_common(3)
    )
    allowed = f"{limits.entries:,} files" if by_count else shown_size(limits.bytes)
    setting = "folder.max_entries" if by_count else "folder.max_project_mib"
    raise ProjectError(
        f"{scan.folder} has {shown_size(total)} in {len(scan.files):,} files to copy, and a run works on {allowed} at "
        f"most; the largest in it: {most}. Name what is not needed in .gitignore, name a folder below it, or raise the "
        f"setting {setting}"
    )


def _size(path: str) -> int:
    try:
        status = os.lstat(path)
    except OSError:  # it is gone since it was listed, or deleted and still tracked
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


# -- the copy ----------------------------------------------------------------------------------------------------------


class Copier:
    """Copies a project into a run's folder, pack by pack (see packs.py).

    Args:
        held: what is copied.
        place: what the run's world has on disk.
        limits: of snapshots.
    """

    def __init__(self, scan: Survey, place: Path, limits: FolderLimits) -> None:
        self._held, self._place, self._limits = scan, place, limits
        self._user = new_user() if chooses_users() else None  # whose files those of the commands are
        self._entries: list[FolderEntry] = []
        self._left_out: list[Omission] = []
        self._packs: list[tuple[str, int]] = []
        self._umask = _umask()

    def packs(self) -> Iterator[tuple[bytes, int]]:
        """Copy the next files, and yield what has to be kept: a pack and how many files are in it, or one large file.

        The caller keeps each as a blob and tells its name with `note`. Blocks.
        """
        root = self._place / "folder"
        root.mkdir(parents=True)
        own = _own_git(self._held.repository) if self._held.repository is not None else {}
        groups: dict[str, list[str]] = {place: [] for point in self._points for place in _folders_of(f"{point}/")}
        for path in (*self._held.files, *own):
            # Of a work tree `.git` is a file or a folder that is not taken; without git it is one like all others.
            if not own or path in own or path.partition("/")[0] != GIT:
                folder, _, name = path.rpartition("/")
                if folder not in groups:
                    groups.update({place: [] for place in _folders_of(path) if place not in groups})
                groups.setdefault(folder, []).append(name)
        self._folders = sorted(group for group in groups if group)
        for path in self._folders:
            (root / path).mkdir(mode=0o755)
            self._entries.append(FolderEntry(path, "folder", 0o755, 0, 0, ""))
        pack, count, order = bytearray(), 0, sorted(groups)
        for folder, following in zip(order, [*order, ""][1:], strict=True):
            for data in self._folder(root, folder, sorted(groups[folder]), own):
                if len(data) >= LARGE:
                    yield data, 0
                elif data:
                    pack += data
                    count += 1
                    if is_full(len(pack), folder, folder):
                        yield bytes(pack), count
                        pack, count = bytearray(), 0
            if pack and is_full(len(pack), folder, following):
                yield bytes(pack), count
                pack, count = bytearray(), 0
        if pack:
            yield bytes(pack), count
        if self._user is not None:
            for path in ("", *self._folders):
                os.chown(root / path, self._user, self._user)
        (self._place / _MARKER).touch()

    def note(self, name: str, count: int) -> None:
        if count:
            self._packs.append((name, count))

    def _folder(self, root: Path, folder: str, names: list[str], own: Mapping[str, bytes]) -> Iterator[bytes]:
        parts, prefix = parts_of(folder), f"{folder}/" if folder else ""
        with ExitStack() as stack:
            source, target = -1, stack.enter_context(folder_at(root, parts))
            with suppress(OSError, OutsideError):  # it is gone, or a link stands in its place: no file of it is there
                source = stack.enter_context(folder_at(self._held.folder, parts))
            for name in names:
                path = prefix + name
                if path in own:
                    yield self._write(target, name, path, own[path], 0o644, 0)
                elif source >= 0 and (data := self._copy(source, target, name, path)) is not None:
                    yield data

    def manifest(self) -> bytes:
        assert sum(count for _, count in self._packs) == len(small_files(self._entries))
        return manifest_data([encoded(self._entries)], [], {}, left_out=self._left_out, packs=self._packs)

    def project(self, began: str) -> Project:
        """Return what the run's manifest says; `began` is the blob with `manifest`."""
        repository = self._held.repository
        return Project(
            path=str(self._held.folder),
            began=began,
            seen=tuple(self._held.seen),
            pythons=tuple(_pythons(self._held)),
            objects=str(repository.common / "objects") if repository is not None and not repository.prefix else "",
            head=repository.head if repository is not None else "",
            repository=repository is not None,
        )

    @property
    def _points(self) -> list[str]:
        """The empty folders: the project's, where others are seen, and without which git takes a folder for none."""
        repository = self._held.repository
        own = [ALTERNATE, f"{GIT}/refs/heads"] if repository is not None and not repository.prefix else []
        return [*self._held.seen, *self._held.empty, *own]

    def _copy(self, source: int, target: int, name: str, path: str) -> bytes | None:
        """Copy a file or a link; return a file's bytes, None for what no snapshot has."""
        try:
            file = os.open(name, _FILE, dir_fd=source)
        except OSError as exc:
            if exc.errno == errno.ELOOP:
                self._link(source, target, name, path)
            elif exc.errno == errno.EACCES:
                raise ProjectError(
                    f"{self._held.folder / path} may not be read; make it readable, or ignore it"
                ) from None
            return None  # it is gone since it was listed, or deleted and still tracked, or a socket
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                return None  # a pipe, or a folder where git tracks a file
            mode = status.st_mode & 0o777 | 0o600
            if status.st_size > self._limits.file_bytes:
                self._copy_large(file, target, name, path, mode, status)
                return None
            data = os.read(file, status.st_size + 1)
            while len(data) < status.st_size and (more := os.read(file, status.st_size)):
                data += more
            return self._write(target, name, path, data, mode, status.st_mtime_ns)
        finally:
            os.close(file)

    def _link(self, source: int, target: int, name: str, path: str) -> None:
        to = os.readlink(name, dir_fd=source)
        os.symlink(to, name, dir_fd=target)
        if self._user is not None:
            os.chown(name, self._user, self._user, dir_fd=target, follow_symlinks=False)
        self._entries.append(FolderEntry(path, "link", 0, 0, 0, to))

    def _copy_large(self, file: int, target: int, name: str, path: str, mode: int, status: os.stat_result) -> None:
        output = os.open(name, _NEW, mode, dir_fd=target)
        with closing(output):
            while part := os.read(file, 1 << 20):
                os.write(output, part)
            self._finish(output, mode, status.st_mtime_ns)
            self._left_out.append(Omission(path, os.fstat(output).st_size, status.st_mtime_ns))

    def _write(self, target: int, name: str, path: str, data: bytes, mode: int, mtime_ns: int) -> bytes:
        output = os.open(name, _NEW, mode, dir_fd=target)
        try:
            count = os.write(output, data)
            while count < len(data):
                count += os.write(output, data[count:])
            self._finish(output, mode, mtime_ns)
        finally:
            os.close(output)
        self._entries.append(FolderEntry(path, "file", mode, mtime_ns, len(data), hashlib.sha256(data).hexdigest()))
        return data

    def _finish(self, output: int, mode: int, mtime_ns: int) -> None:
        if mode & self._umask:
            os.fchmod(output, mode)
        if self._user is not None:
            os.fchown(output, self._user, self._user)
        os.utime(output, ns=(mtime_ns, mtime_ns))


def _umask() -> int:
    """Return the rights that new files of this process do not get; it can only be read by setting it."""
    match = re.search(r"^Umask:\s*(\d+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(match[1], 8) if match else 0o777


def _own_git(repository: Repository) -> dict[str, bytes]:
    """Return the files of a `.git` with the history of a repository, whose objects are seen; none below its top."""
    if repository.prefix:
        return {}
    sha256 = repository.text("rev-parse", "--show-object-format") == "sha256"
    branch = repository.text("symbolic-ref", "-q", "HEAD")
    refs = repository.run(
        "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags", "refs/remotes"
    )
    config = f"[core]\n\trepositoryformatversion = {int(sha256)}\n\tfilemode = true\n\tbare = false\n"
    config += "\tcheckStat = minimal\n\ttrustctime = false\n"  # so the index fits the copies
    config += "[user]\n\tname = AgentOrchestra\n\temail = agent@localhost\n"
    config += "[extensions]\n\tobjectFormat = sha256\n" * sha256
    files = {
        "HEAD": (f"ref: {branch}" if branch else repository.head).encode() + b"\n",
        "config": config.encode(),
        "packed-refs": b"# pack-refs with: sorted\n" + refs,
        "objects/info/alternates": b"../alternate\n",
        "info/exclude": _read(repository.common / "info" / "exclude"),
    }
    shared = repository.text("rev-parse", "--shared-index-path")
    for place in (repository.git / "index", repository.common / "shallow", *([Path(shared)] if shared else [])):
        files[place.name] = _read(place if place.is_absolute() else repository.folder / place)
    return {f"{GIT}/{name}": data for name, data in files.items() if data}


def _read(path: Path) -> bytes:
    """Return a file's bytes; none of what a link leads to, which may be any file of the user's."""
    with suppress(OSError), open(os.open(path, _FILE), "rb") as file:  # noqa: PTH123 - a descriptor
        return file.read()
    return b""


def _pythons(scan: Survey) -> Iterator[str]:
    """Yield the installations of Python that virtual environments of a project were made of, outside of /usr."""
    for path in scan.seen:
        program = scan.folder / path / "bin" / "python"
        with suppress(OSError):
            base = program.resolve(strict=True).parent.parent
            real = (scan.folder / path / _VENV).is_file() and any(base.glob("lib/python3.*/os.py"))
            places = (Path("/usr"), Path(python_base()), scan.folder)
            if real and not any(base.is_relative_to(place) for place in places):
                yield str(base)


# -- in a run ----------------------------------------------------------------------------------------------------------


def is_untouched(place: Path) -> bool:
    """Return True, once, if nobody has worked in a run's folder since it was copied. Blocks."""
    try:
        (place / _MARKER).unlink()
    except FileNotFoundError:
        return False
    return True


def seen_at(project: Project, work: str) -> str:
    """Return where commands see the folder: where the project lies, so that paths in files fit, or at `work`."""
    path = project.path
    is_taken = not path or any(path == place or path.startswith(f"{place}/") for place in _SYSTEM_PATHS)
    hides = any(Path(top).is_relative_to(path) for top in ("/home", "/opt", "/tmp", python_base(), *project.pythons))
    return work or WORK if is_taken or hides or Path(path).is_relative_to(python_base()) else path


def mounts_of(project: Project, folder: Path, work: str, *, machine: bool) -> list[Mount]:
    """Return what commands see of a project besides the copy, and make the places for it in the `folder`. Blocks.

    Commands may have made anything of the places before; none of theirs runs now.
    """
    sources = [(Path(project.path) / path, path) for path in project.seen]
    sources += [(Path(project.objects), ALTERNATE)] if project.objects else []
    mounts = []
    for source, at in sources:
        if source.is_dir() and source.resolve() == source:
            make_folders(folder, at.split("/"))
            mounts.append(Mount(source, f"{work}/{at}"))
    bases = project.pythons if machine else ()
    return [*mounts, *(Mount(Path(base), base) for base in bases if Path(base).is_dir())]


def make_folders(root: Path, parts: Sequence[str]) -> None:
    """Make folders in folders below `root`, in place of whatever else has their names. Blocks."""
    for count in range(1, len(parts) + 1):
        with folder_at(root, tuple(parts[: count - 1])) as at:
            try:
                kind = os.stat(parts[count - 1], dir_fd=at, follow_symlinks=False).st_mode
            except FileNotFoundError:
                kind = 0
            if not stat.S_ISDIR(kind):
                remove(at, parts[count - 1])
                os.mkdir(parts[count - 1], 0o755, dir_fd=at)
