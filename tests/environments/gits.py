"""A workspace with `git`, whose calls go through the door into a real sandbox."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.support import here, usable

from agentorchestra import Workspace
from agentorchestra.core.effects import Outcome
from agentorchestra.core.settings import FolderSettings, GitSettings, Settings
from agentorchestra.log.store import MemoryStore
from agentorchestra.trust.policy import AllowAll

SANDBOX = next((usable(name) for name in here() if name != "unsafe-local"), None)
TOKEN = "ghp_0123456789abcdefTESTONLY"


def git(folder: Path, *words: str) -> str:
    """What git says of a repository, from outside of the sandbox."""
    command = ["git", "-c", "safe.directory=*", "-C", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


class Bench:
    """Actions of one workspace, and the folder they work in."""

    def __init__(self, ws: Workspace) -> None:
        self.ws = ws

    @property
    def folder(self) -> Path:
        (found,) = self.ws.files.root.glob("*/environments/main/folder")
        return found

    async def outcome(self, action: str, **arguments: Any) -> Outcome:
        return await self.ws.ecp.invoke("git", action, arguments)

    async def do(self, action: str, **arguments: Any) -> Any:
        done = await self.outcome(action, **arguments)
        assert done.ok, done.error
        return done.value

    async def refused(self, action: str, **arguments: Any) -> str:
        done = await self.outcome(action, **arguments)
        assert done.status == "error", done
        assert "\n" not in str(done.error) and TOKEN not in str(done)
        return str(done.error)

    async def terminal(self, command: str) -> str:
        """What a command in the terminal of the same folder printed."""
        done = await self.ws.ecp.invoke("terminal", "run", {"command": command})
        assert done.ok, done.error
        return str(done.value)

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Put a file into the folder as `files` would: it belongs to whoever the folder belongs to."""
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        place.chmod(mode)

    def read(self, path: str) -> str:
        return (self.folder / path).read_text()

    async def commit(self, files: Mapping[str, str], message: str, repository: str = ".") -> None:
        """Write files and commit them; the repository is made if there is none."""
        if repository == "." and not list(self.ws.files.root.glob("*/environments/main/folder/.git")):
            await self.do("init")
        for path, text in files.items():
            self.write(path, text)
        await self.do("commit", message=message, repository=repository, all_changes=True)

    async def everything_kept(self) -> str:
        """The log, and whatever lies in the folder."""
        runs = await self.ws.store.list_runs()
        kept = [event.model_dump_json() for run in runs for event in await self.ws.store.load(run.id)]
        files = [one.read_bytes().decode("latin-1") for one in self.folder.rglob("*") if one.is_file()]
        assert kept and files
        return json.dumps([kept, files])


@asynccontextmanager
async def bench_at(
    place: Path,
    *,
    tokens: Mapping[str, str] | None = None,
    local: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    folder_mib: int = 512,
    **settings: Any,
) -> AsyncIterator[Bench]:
    """A workspace with these settings of git."""
    if SANDBOX is None:
        pytest.skip("no sandbox here: install bubblewrap (Debian and Ubuntu: apt-get install bubblewrap)")
    given = GitSettings(tokens=dict(tokens or {}), local=tuple(local), **settings)
    ws = Workspace(
        place / "ws",
        store=MemoryStore(),
        policy=AllowAll(),
        environ=environ or {},
        settings=Settings(git=given, folder=FolderSettings(max_mib=folder_mib)),
        sandbox=SANDBOX,
    )
    async with ws:
        yield Bench(ws)
