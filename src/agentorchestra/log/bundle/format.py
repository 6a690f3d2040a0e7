"""The format of a bundle, and its limits.

A ZIP file with members of these names only, sorted, with fixed times, so that equal runs give equal bytes:

    blobs/<sha256>   every blob the run refers to
    bundle.json      this header
    events.jsonl     the log, an event a line
    files/<sha256>   the files given with the task, by content
    manifest.json    what the run is pinned to
    packages.json    distributions and their versions where it was made
    settings.json    the workspace's settings there, without addresses' passwords and without the database
    sums.json        SHA-256 and size of every other member

History of the format (a line each, newest last):

- 1: first version.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple, Protocol

from pydantic import BaseModel

from agentorchestra.core.errors import BundleError
from agentorchestra.core.spec import FileRef, RunStatus

FORMAT = 1
KIND = "agentorchestra bundle"

HEADER = "bundle.json"
EVENTS = "events.jsonl"
MANIFEST = "manifest.json"
PACKAGES = "packages.json"
SETTINGS = "settings.json"
SUMS = "sums.json"
BLOBS = "blobs/"
FILES = "files/"

SINGLE = (HEADER, EVENTS, MANIFEST, PACKAGES, SETTINGS, SUMS)
MEMBER = re.compile(r"(?:blobs|files)/[0-9a-f]{64}")
RUN_ID = re.compile(r"run_[0-9A-Z]{26}")  # run ids name folders: nothing else than what `new_run_id` gives comes in
MAX_BYTES = 16 * 1024**3  # unpacked, of a whole bundle

MAX_MEMBERS = 100_000

MAX_LOG_BYTES = 1024**3  # of a log: whoever drives or replays a run holds it in memory
MAX_JSON_BYTES = 32 * 1024**2  # of a member that is read whole, and of a line of events
MAX_RATIO = 200  # unpacked to packed bytes of a member over `RATIO_FROM`: more is a bomb (deflate ends at 1032)

RATIO_FROM = 64 * 1024**2

CHUNK = 1 << 20


class GitRevision(BaseModel, frozen=True):
    """The revision of the folder that the run's program lies in, when it was exported."""

    revision: str
    dirty: bool


class Header(BaseModel, frozen=True):
    """`bundle.json`."""

    kind: str = KIND
    format: int = FORMAT
    run: str
    status: RunStatus
    events: int  # how many
    media_types: dict[str, str] = {}  # of the blobs, by hash
    files: bool = True  # whether the files given with the task are in it
    distribution: str = ""  # the version of agentorchestra it was made with
    python: str = ""
    git: GitRevision | None = None  # None where there is no repository


class Sum(BaseModel, frozen=True, extra="forbid"):
    """A member's entry in `sums.json`; `size` in bytes."""

    sha256: str
    size: int


class Exported(NamedTuple):
    """A written bundle. `size` in bytes."""

    path: Path
    sha256: str
    size: int
    run_id: str
    events: int
    blobs: int
    files: int


class Imported(NamedTuple):
    run_id: str
    status: RunStatus
    events: int
    identical: bool  # it was there already, event for event, and nothing was written
    parent_run: str | None = None  # what it was forked from; its own log holds what it needs of it
    left_out: bool = False  # whether the files given with its task were left out of the bundle


def check_names(refs: tuple[FileRef, ...]) -> None:
    """Raise BundleError for names of files that are not inside the run's folder, or in each other's place."""
    names: set[str] = set()
    folders: set[str] = set()
    for ref in refs:
        name, path = ref.name, PurePosixPath(ref.name)
        parts = path.parts
        bad = not parts or path.is_absolute() or ".." in parts or name != str(path) or name == "."
        bad = bad or any(c in "\0\\\n" or "\ud800" <= c <= "\udfff" for c in name) or len(parts) > 100
        if bad or any(len(part.encode()) > 255 for part in parts):
            raise BundleError(
                f"the name {name[:200]!r} of a file of the task leads out of the run's folder, or is none; nothing was "
                "imported"
            )
        above = {str(parent) for parent in path.parents} - {"."}
        if name in names or name in folders or above & names:
            raise BundleError(f"two files of the task have one name, {name[:200]!r}; nothing was imported")
        names.add(name)
        folders |= above


class KeptFiles(Protocol):
    """The files given with tasks, as a workspace keeps them (tools/files/storage.py)."""

    def reader(self, run_id: str, ref: FileRef) -> IO[bytes]:
        """Open a file of a run; BundleError if it is gone or changed."""

    def put(
        self, run_id: str, refs: tuple[FileRef, ...], reader: Callable[[FileRef], AbstractContextManager[IO[bytes]]]
    ) -> None:
        """Keep the files of a run that came from elsewhere; `remove` undoes a part of it too.

        Raises:
            WorkspaceNotWritableError: if they cannot be kept.
            BundleError: if bytes do not match their hash.
        """

    def remove(self, run_id: str) -> None:
        """Undo `put`."""
