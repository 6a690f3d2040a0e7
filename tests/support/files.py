"""A context with files, as file tools need it, without a run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace

from agentorchestra.core.spec import FileRef
from agentorchestra.tools.files.readers import check_input


@cache
def _ref(path: Path) -> FileRef:
    media_type, size = check_input(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return FileRef(name=path.name, sha256=digest, size=size, media_type=media_type)


class FakeContext:
    """What the file tools need of a run."""

    def __init__(self, files: Sequence[Path], folder: Path) -> None:
        self._paths = {path.name: path for path in files}
        self.folder = folder
        self.manifest = SimpleNamespace(files=tuple(_ref(path) for path in files), media_models={})

    def file(self, name: str) -> Path:
        """The path behind a name."""
        return self._paths[name]

    def progress(self, text: str) -> None:
        """Nobody watches."""
