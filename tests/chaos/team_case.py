"""A team in a workspace folder of its own, driven by the command line in fresh processes."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentorchestra.core.events import Event
from tests.chaos import team_model
from tests.chaos.support import only_run, python, read_log, start, until

CLI = ("-m", "agentorchestra.cli")
PROGRAM = Path(__file__).with_name("team_program.py")
KEYS = {
    "/#1",
    *(f"/1.react#{n}" for n in range(1, 11)),
    "/1.react/3.team#1",
    "/1.react/3.team#2",
    *(f"/1.react/3.team/{side}#{n}" for side in ("1.left", "2.right") for n in range(1, 7)),
}
"""Of all effects of such a run."""

KEYS = {
    "/#1",
    *(f"/1.react#{n}" for n in range(1, 11)),
    "/1.react/3.team#1",
    "/1.react/3.team#2",
    *(f"/1.react/3.team/{side}#{n}" for side in ("1.left", "2.right") for n in range(1, 7)),
}
"""Of every effect of the team's run."""


@dataclass
class Case:
    """One run in a folder of its own; its model's name tells its requests from those of the others."""

    folder: Path
    server: team_model.Served
    run: str = ""
    settings: tuple[str, ...] = ()
    environ: dict[str, str] = field(default_factory=dict)

    def lay_out(self) -> None:
        """The user's program, its settings, an empty workspace."""
        self.folder.mkdir(parents=True)
        shutil.copy(PROGRAM, self.folder / "app.py")
        settings = [
            'app = "app:workspace"',
            'model = "team"',
            'system = "react"',
            *self.settings,
            "[models.team]",
            f'model = "{self.folder.name}"',
            f'base_url = "{self.server.base_url}"',
            'api_key_env = ""',
        ]
        (self.folder / "agentorchestra.toml").write_text("\n".join(settings))

    def words(self, *words: str) -> list[str | Path]:
        """A command line."""
        return [*CLI, *words, "--workspace", self.folder / "ws"]

    async def cli(self, *words: str, kill_at: str = "", code: int = 0) -> tuple[str, list[dict[str, Any]]]:
        """A command in a fresh process; what it printed, and the requests it made."""
        before = len(self.server.bodies)
        whole = [*self.words(*words), "--json"]
        printed = await asyncio.to_thread(python, whole, kill_at=kill_at, code=code, environ=self.environ)
        return printed, self.asked(before)

    def asked(self, before: int = 0) -> list[dict[str, Any]]:
        """This run's requests, from a number of all requests on."""
        return [body for body in self.server.bodies[before:] if body["model"] == self.folder.name]

    @asynccontextmanager
    async def held(self, count: int) -> AsyncIterator[subprocess.Popen[str]]:
        """The run in a process, at the point where this many sub-agents wait for their second answer."""
        process = start([*self.words("run", team_model.TASK), "--json"], environ=self.environ)
        try:
            await until(lambda: self.server.held == count, process)
            self.run = await only_run(self.folder / "ws")
            yield process
        finally:
            process.kill()
            await finished(process)

    async def log(self) -> list[Event]:
        """The log as it stands."""
        if not self.run:
            self.run = await only_run(self.folder / "ws")
        return await read_log(self.folder / "ws", self.run)

    def lines(self, name: str) -> list[list[str]]:
        """What a tool wrote: key and argument of each time it ran."""
        path = self.folder / name
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


async def finished(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What it printed; waits for its end without keeping the model's server from answering."""
    if process.stdout is None or process.stdout.closed:
        return "", ""
    return await asyncio.to_thread(process.communicate)
