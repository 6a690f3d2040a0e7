"""The repositories of the stand-in for GitHub: bare ones on the disk, with what GitHub keeps beside them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Body = dict[str, Any]
CLEAN = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "octocat",
    "GIT_AUTHOR_EMAIL": "octocat@localhost",
    "GIT_COMMITTER_NAME": "octocat",
    "GIT_COMMITTER_EMAIL": "octocat@localhost",
}
"""The environment of git: nobody's configuration, and one author."""


class Refused(Exception):
    """An answer of GitHub that is none of success."""

    def __init__(self, status: int, message: str, *errors: Body) -> None:
        super().__init__(message)
        self.status, self.message, self.errors = status, message, list(errors)


@dataclass
class Repository:
    """A repository; its commits lie in `folder`, a bare repository."""

    full_name: str
    folder: Path
    private: bool
    description: str = ""
    issues: list[Body] = field(default_factory=list)  # pull requests among them, as GitHub numbers them
    comments: dict[int, list[Body]] = field(default_factory=dict)
    remarks: dict[int, list[Body]] = field(default_factory=dict)  # on lines of pull requests
    releases: list[Body] = field(default_factory=list)

    async def git(self, *words: str, check: bool = True, environ: Mapping[str, str] | None = None) -> str:
        """Return what git says of the bare repository; where it fails "", or with `check` raise Refused."""
        try:
            out = await run(["git", "-C", str(self.folder), *words], b"", {**os.environ, **CLEAN, **(environ or {})})
        except Refused:
            if check:
                raise
            return ""
        return out.decode("utf-8", "replace").strip()

    async def commit(self, branch: str, path: str, data: bytes, message: str) -> str:
        """Commit one more file, or another content of one."""
        index = {"GIT_INDEX_FILE": str(self.folder / "index.tmp")}
        tip = await self.git("rev-parse", "-q", "--verify", f"refs/heads/{branch}", check=False)
        if tip:
            await self.git("read-tree", tip, environ=index)
        blob = (await run(["git", "-C", str(self.folder), "hash-object", "-w", "--stdin"], data, None)).decode().strip()
        await self.git("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}", environ=index)
        tree = await self.git("write-tree", environ=index)
        (self.folder / "index.tmp").unlink()
        commit = await self.git("commit-tree", tree, *(["-p", tip] if tip else []), "-m", message)
        await self.git("update-ref", f"refs/heads/{branch}", commit)
        return commit

    def issue(self, number: str) -> Body:
        """Return an issue or pull request; raise Refused where there is none."""
        found = [one for one in self.issues if str(one["number"]) == number]
        if not found:
            raise Refused(404, "Not Found")
        return found[0]


async def run(command: list[str], data: bytes, environ: Mapping[str, str] | None) -> bytes:
    """Return what a program prints; raise Refused with what it says where it fails."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(environ) if environ is not None else {**os.environ, **CLEAN},
    )
    out, said = await process.communicate(data)
    if process.returncode != 0:
        raise Refused(500, said.decode("utf-8", "replace").strip() or f"{command[0]} failed")
    return out
