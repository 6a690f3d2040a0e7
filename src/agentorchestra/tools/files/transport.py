"""The files of a run on their way to another machine: read from where they are kept, and kept there again."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

from agentorchestra.core.errors import BundleError
from agentorchestra.core.spec import FileRef
from agentorchestra.log.bundle.format import check_names
from agentorchestra.tools.files.storage import kept_place, link_kept, seal, writing

_CHUNK = 1 << 20


class CarriedFiles:
    """The kept files of a workspace: `store` has contents by hash, `runs/ID/files` their names."""

    def __init__(self, store: Path, runs: Path) -> None:
        self._store = store
        self._runs = runs

    def reader(self, run_id: str, ref: FileRef) -> IO[bytes]:
        """Return the bytes of a file of a run; BundleError if they are gone."""
        for place in (kept_place(self._store, ref.sha256), self._runs / run_id / "files" / ref.name):
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

    def put(
        self, run_id: str, refs: tuple[FileRef, ...], reader: Callable[[FileRef], AbstractContextManager[IO[bytes]]]
    ) -> None:
        """Keep the files of a run that came from elsewhere. Blocks; `remove` undoes a part of it too.

        Raises:
            WorkspaceNotWritableError: if they cannot be kept.
            BundleError: for a name that leads out of the run's folder, or bytes that do not match their hash.
        """
        check_names(refs)
        if not refs:
            return
        target = self._runs / run_id / "files"
        with writing(self._store):
            self._store.mkdir(parents=True, exist_ok=True)
        for ref in refs:
            place = kept_place(self._store, ref.sha256)
            if not place.is_file() or place.stat().st_size != ref.size:
                self._take(ref, place, reader)
            name = target / ref.name
            with writing(name.parent):
                name.parent.mkdir(parents=True, exist_ok=True)
                for folder in (name.parent, *name.parent.parents):
                    if not folder.is_relative_to(target):
                        break
                    folder.chmod(0o755)
                name.unlink(missing_ok=True)  # of a process that died here
                with contextlib.suppress(FileExistsError):  # another one takes in the same run
                    link_kept(place, name)

    def _take(self, ref: FileRef, place: Path, reader: Callable[[FileRef], AbstractContextManager[IO[bytes]]]) -> None:
        with writing(self._store):
            handle, new = tempfile.mkstemp(prefix="new-", dir=self._store)
        try:
            digest, size = hashlib.sha256(), 0
            with os.fdopen(handle, "wb") as copy, reader(ref) as source, writing(self._store):
                while size <= ref.size and (chunk := source.read(_CHUNK)):
                    digest.update(chunk)
                    size += len(chunk)
                    copy.write(chunk)
            if (digest.hexdigest(), size) != (ref.sha256, ref.size):
                raise BundleError(f"the file {ref.name!r} is not what its hash says; nothing was imported")
            with writing(self._store):
                seal(Path(new), place, sync=True)
        finally:
            with contextlib.suppress(FileNotFoundError):
                Path(new).unlink()

    def remove(self, run_id: str) -> None:
        """Undo `put`: the run's names; contents stay, another run may have them."""
        shutil.rmtree(self._runs / run_id / "files", ignore_errors=True)
        with contextlib.suppress(OSError):
            (self._runs / run_id).rmdir()


__all__ = ["CarriedFiles"]
