"""Workspaces that begin as one that was opened before: the packaged components are registered already.

A new workspace registers some 140 of them, and nearly every test makes one. The folders of tests that are about the
first time, or about who registered what and when, are not in the list.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from agentorchestra import Settings, Workspace
from agentorchestra.core.clock import SystemClock

FOLDERS = frozenset(
    {
        "agents",
        "bundle",
        "chaos",
        "cli",
        "environments",
        "evaluation",
        "evolution",
        "files",
        "fork",
        "models",
        "policy",
        "systems",
        "tools",
        "web",
        "workspace",
    }
)

_MADE: list[tempfile.TemporaryDirectory[str]] = []
_FIRST_TIME = Workspace.open


async def _opened_before() -> Path:
    """Return the database of a workspace that was opened once in this process."""
    if not _MADE:
        place = tempfile.TemporaryDirectory(prefix="agentorchestra-registered-")
        workspace = Workspace(place.name, settings=Settings(), environ={})
        await _FIRST_TIME(workspace)
        await workspace.tcp.list()
        await workspace.close()
        _MADE.append(place)
    return Path(_MADE[0].name, "workspace.db")


async def _open(self: Workspace[Any]) -> None:
    database = self.folder / "workspace.db"
    if self.own.store is None and type(self._clock) is SystemClock and not (database.exists() or self.folder.is_file()):
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        database.touch(0o600)
        shutil.copyfile(await _opened_before(), database)
    await _FIRST_TIME(self)


def begin_registered(patch: pytest.MonkeyPatch) -> None:
    """Let the new workspaces of this process begin so."""
    patch.setattr(Workspace, "open", _open)
