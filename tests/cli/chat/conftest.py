"""Folders for chats."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.chat.support import ChatFolder
from tests.cli.support import LEASE


@pytest.fixture
def chats(tmp_path: Path) -> ChatFolder:
    """A folder with an application, its settings and a file whose name has a blank."""
    folder = ChatFolder(tmp_path).with_app()
    folder.write("the lease.txt", LEASE)
    return folder
