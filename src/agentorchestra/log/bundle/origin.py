"""The origin of a bundle, the machine it was made on: packages, revision, settings - nothing secret."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from pydantic import SecretStr

from agentorchestra.core.settings import Settings
from agentorchestra.log.bundle.format import GitRevision

_GIT_S = 10.0


class Origin(NamedTuple):
    """A bundle's word on the machine it was made on."""

    settings: dict[str, Any]  # without database, secret values and passwords in addresses
    packages: dict[str, str]  # versions of the installed distributions, by name
    distribution: str  # the version of agentorchestra
    git: GitRevision | None  # the revision of the program's folder, None where there is no repository


def origin_of(settings: Settings, distribution: str, folder: Path) -> Origin:
    """Return what is said of this machine and a folder on it. Blocks."""
    secret = {name for name, value in settings if isinstance(value, SecretStr)}
    values = _without_passwords(settings.model_dump(mode="json", exclude={"database", *secret}))
    return Origin(values, _packages(), distribution, _revision(folder))


def _packages() -> dict[str, str]:
    versions: dict[str, str] = {}
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"]
        if name:
            versions.setdefault(str(name).lower().replace("_", "-"), distribution.version)
    return dict(sorted(versions.items()))


def _revision(folder: Path) -> GitRevision | None:
    """Return a folder's git revision; nothing that the repository's configuration names is executed."""
    program = shutil.which("git")
    if program is None or not folder.is_dir():
        return None
    # What a repository's own configuration can have git run: monitors, hooks, filters of changed files.
    quiet = ["-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}", "-c", "protocol.allow=never"]
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CONFIG_NOSYSTEM": "1",
        "LC_ALL": "C",
    }

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(
                [program, *quiet, "-C", str(folder), *words],
                capture_output=True,
                timeout=_GIT_S,
                env=environ,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None

    head = git("rev-parse", "--verify", "HEAD")
    if head is not None and git("config", "--local", "--get-regexp", r"^filter\..*") is not None:
        # `status` would run these programs over changed files.
        return GitRevision(revision=head.strip(), dirty=True)
    changed = git("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all")
    if head is None or changed is None:
        return None
    return GitRevision(revision=head.strip(), dirty=bool(changed.strip()))


def _without_passwords(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_passwords(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_without_passwords(entry) for entry in value]
    if isinstance(value, str) and "://" in value:
        try:
            parts = urlsplit(value)
            host = parts.netloc.rpartition("@")[2]
            return urlunsplit((parts.scheme, host, parts.path, "", ""))
        except ValueError:
            return ""
    return value
