"""What the tests of the desktop share."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

from tests.environments.gits import SANDBOX

from agentorchestra import Workspace
from agentorchestra.core.effects import Outcome
from agentorchestra.environments.computer.display import missing_program

FORM = (Path(__file__).parent / "form.py").read_text(encoding="utf-8")
PYTHON = "/usr/bin/python3"
"""Debian's own has tkinter; the one of the tests may not."""


def why_not() -> str:
    """What is missing for these tests, "" for nothing."""
    if SANDBOX is None:
        return "no sandbox here: install bubblewrap"
    try:
        found = subprocess.run([PYTHON, "-c", "import tkinter"], capture_output=True, check=False).returncode == 0
    except OSError:
        found = False
    return missing_program() or ("" if found else "no tkinter here: install python3-tk")


def program(source: str, *arguments: str) -> str:
    """The command that runs a Python program of the tests."""
    words = " ".join(f"'{one}'" for one in arguments)
    return f"cat >program.py <<'END-OF-PROGRAM'\n{source}\nEND-OF-PROGRAM\nexec {PYTHON} program.py {words}"


class Desk:
    """Acts on the desktop of a workspace, outside of runs."""

    def __init__(self, ws: Workspace) -> None:
        self.ws = ws
        self._read = 0  # bytes of what the program told

    async def tried(self, action: str, **arguments: Any) -> Outcome:
        """Act; whatever comes of it."""
        return await self.ws.ecp.invoke("computer", action, arguments)

    async def do(self, action: str, **arguments: Any) -> str:
        """Act, and what is said."""
        outcome = await self.tried(action, **arguments)
        assert outcome.error is None, outcome.error
        return "\n".join(getattr(one, "text", "") for one in outcome.blocks())

    async def refused(self, action: str, **arguments: Any) -> str:
        """The sentence of an action that fails."""
        outcome = await self.tried(action, **arguments)
        assert outcome.error is not None, outcome
        return outcome.error

    async def state(self) -> str:
        """What an agent is shown, in words."""
        return "\n".join(getattr(one, "text", "") for one in await self.ws.ecp.state("computer"))

    @property
    def folder(self) -> Path:
        """The programs' folder."""
        (found,) = self.ws.folder.glob("runs/*/environments/main/computer")
        return found

    async def told(self, what: str, times: int = 1) -> list[dict[str, Any]]:
        """What the program told until it told this so often; a test that waits in vain is ended by its own limit."""
        found = self.seen()
        while [one["what"] for one in found].count(what) < times:
            await asyncio.sleep(0.02)
            found += self.seen()
        return found

    def seen(self) -> list[dict[str, Any]]:
        """What the program told since this was asked last."""
        path = self.folder / "seen.jsonl"
        if not path.exists():
            return []
        with path.open("rb") as file:
            file.seek(self._read)
            # Only whole lines: the program may be in the middle of one.
            lines = [one for one in file if one.endswith(b"\n")]
        self._read += sum(map(len, lines))
        return [json.loads(one) for one in lines]
