"""Folders for the commands."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import LEASE, Folder, remove, unprivileged


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A folder with `lease.txt`, and no workspace yet."""
    made = Folder(tmp_path)
    made.write("lease.txt", LEASE)
    return made


@pytest.fixture
def app(folder: Folder) -> Folder:
    """A folder with an application: tools and a scripted model."""
    return folder.with_app()


@pytest.fixture
def open_folder() -> Iterator[Folder]:
    """A folder that every user may enter and write."""
    path = Path(tempfile.mkdtemp(prefix="agentorchestra-cli-"))
    path.chmod(0o777)
    made = Folder(path)
    made.write("lease.txt", LEASE).chmod(0o644)
    try:
        yield made
    finally:
        remove(path)


@pytest.fixture(scope="session")
def bound() -> dict[str, Any]:
    """Options for a process that permissions hold for."""
    options = unprivileged()
    if options is None:
        pytest.skip("root runs the tests, and neither nobody nor setpriv can start this Python")
    return options
