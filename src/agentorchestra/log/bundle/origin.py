"""What a bundle says of the machine it was made on: packages, revision, settings - nothing secret."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from pydantic import SecretStr

from agentorchestra.core.settings import Settings
from agentorchestra.log.bundle.format import Git

_GIT_S = 10.0


def packages() -> dict[str, str]:
    """The installed distributions and their versions, by name."""
    found: dict[str, str] = {}
    for one in metadata.distributions():
        name = one.metadata["Name"]
        if name:
            found.setdefault(str(name).lower().replace("_", "-"), one.version)
    return dict(sorted(found.items()))


def revision(folder: Path) -> Git | None:
    """The git revision of a folder and whether its files differ from it; None where there is no repository.

    Blocks. Nothing that the repository's configuration names is executed.
    """
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

    if git("config", "--local", "--get-regexp", r"^filter\..*") is not None:
        # `status` would run these programs over changed files.
        head = git("rev-parse", "--verify", "HEAD")
        return None if head is None else Git(revision=head.strip(), dirty=True)
    head = git("rev-parse", "--verify", "HEAD")
    changed = git("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all")
    if head is None or changed is None:
        return None
    return Git(revision=head.strip(), dirty=bool(changed.strip()))


def shown_settings(settings: Settings) -> dict[str, Any]:
    """The settings as others may see them: no database, no secret values, no passwords in addresses."""
    secret = {name for name, value in settings if isinstance(value, SecretStr)}
    dumped = settings.model_dump(mode="json", exclude={"database", *secret})
    shown: dict[str, Any] = _without_passwords(dumped)
    return shown


def _without_passwords(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_passwords(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_without_passwords(one) for one in value]
    if isinstance(value, str) and "://" in value:
        try:
            parts = urlsplit(value)
            host = parts.netloc.rpartition("@")[2]
            return urlunsplit((parts.scheme, host, parts.path, "", ""))
        except ValueError:
            return ""
    return value


__all__ = ["packages", "revision", "shown_settings"]
