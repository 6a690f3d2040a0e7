"""Git of this machine, asked about a repository of the user's.

It is never run in the copy that agents work in: they may have written its configuration. Of the user's own repository
no program is started: no hook, no file monitor, no filter of its own, nothing that fetches.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agentorchestra.core.errors import ProjectError


@dataclass(frozen=True)
class Repository:
    """The work tree at a folder.

    Attributes:
        folder: in the work tree.
        prefix: where it lies below the top of the work tree, "" at the top, else with a slash at its end.
        git: the folder that git keeps of this work tree.
        common: the folder that all work trees of the repository share.
        head: the commit that is checked out, "" for none yet.
    """

    folder: Path
    prefix: str
    git: Path
    common: Path
    head: str

    def run(self, *words: str, data: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
        return run_git(self.folder, *words, data=data, env=env)

    def text(self, *words: str) -> str:
        """Return what git prints as text, without spaces around it; "" where git fails."""
        done = _started(self.folder, words)
        return done.stdout.decode(errors="surrogateescape").strip() if done.returncode == 0 else ""

    def paths(self, *words: str) -> list[str]:
        return [os.fsdecode(path) for path in self.run(*words, "-z").split(b"\0") if path]


def repository_at(folder: Path) -> Repository | None:
    """Return the repository in whose work tree a folder lies, or None; ProjectError if git refuses. Blocks."""
    done = _started(folder, ("rev-parse", "--show-prefix", "--absolute-git-dir", "--git-common-dir"))
    if done.returncode != 0:
        message = done.stderr.decode(errors="replace").strip()
        if "not a git repository (or any" in message or "must be run in a work tree" in message:
            return None
        raise ProjectError(f"git cannot read {folder}: {message.splitlines()[0] if message else 'no reason given'}")
    lines = os.fsdecode(done.stdout).split("\n")
    git = Path(lines[1])
    head = _started(folder, ("rev-parse", "--verify", "-q", "HEAD^{commit}")).stdout.decode().strip()
    return Repository(folder, lines[0], git, Path(os.path.normpath(folder / lines[2])), head)


def run_git(folder: Path, *words: str, data: bytes = b"", env: Mapping[str, str] | None = None, most: int = 0) -> bytes:
    """Run git in a folder and return what it prints; exit codes up to `most` are none of failure. Blocks.

    Raises:
        ProjectError: with what git says.
    """
    done = _started(folder, words, data, env)
    if not 0 <= done.returncode <= most:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise ProjectError(f"git {words[0]} failed in {folder}: {lines[-1] if lines else 'no reason given'}")
    return done.stdout


def _started(
    folder: Path, words: tuple[str, ...], data: bytes = b"", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    git = shutil.which("git")
    if git is None:
        raise ProjectError("git is not installed, and work on a folder of yours needs it; install git")
    # What a hook that called this program has set would lead git to another repository.
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    # Of a partial clone git would fetch what is missing, with programs that the repository names.
    own |= {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none", "GIT_LITERAL_PATHSPECS": "1"}
    own |= {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", **(env or {})}
    quiet = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.quotePath=false")
    return subprocess.run([git, *quiet, *words], cwd=folder, input=data, capture_output=True, env=own, check=False)
