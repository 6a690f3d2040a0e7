"""Small projects of a user's: real folders and repositories."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentorchestra.core.spec import Project
from agentorchestra.workspace.changes import Changes, File, FileChange


def git(folder: Path, *words: str) -> str:
    """Return what git prints."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    who = ("-c", "user.name=User", "-c", "user.email=user@localhost")
    return subprocess.run(
        ["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True, env=own
    ).stdout.strip()


def write(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files with the folders above them."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


def repository(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Make a repository with one commit."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    write(folder, files)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "begin")
    return folder


def files_below(folder: Path) -> dict[str, Any]:
    """Return what lies below a folder but in `.git`: contents of files, targets of links."""
    return {
        str(one.relative_to(folder)): str(one.readlink()) if one.is_symlink() else one.read_bytes()
        for one in sorted(folder.rglob("*"))
        if ".git" not in one.relative_to(folder).parts and (one.is_symlink() or one.is_file())
    }


def state(text: str | bytes | None, *, runs: bool = False) -> File | None:
    """Return a file as a change has it."""
    if text is None:
        return None
    return File(text if isinstance(text, bytes) else text.encode(), runs=runs)


def changes(folder: Path, *files: tuple[str, str | bytes | None, str | bytes | None]) -> Changes:
    """Return changes of paths from one content to another, None for no file."""
    head = git(folder, "rev-parse", "HEAD") if (folder / ".git").is_dir() else ""
    project = Project(path=str(folder.resolve()), began="", head=head, repository=bool(head))
    folders = {str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_dir()}
    found = tuple(FileChange(path, state(old), state(new)) for path, old, new in files)
    return Changes(project, found, folders=frozenset(folders))
