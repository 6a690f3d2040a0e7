"""No sandbox: programs run as this user, with all that this user may do. Only where it was asked for by name."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from agentorchestra.runtime.sandbox.base import HostCall, Program, Ran, SandboxLimits
from agentorchestra.runtime.sandbox.drive import Driver, Place

HERE = Path(__file__).parent


class UnsafeLocal:
    """Programs as plain processes in a temporary folder: limits of time, memory and output hold, nothing else does."""

    name = "unsafe-local"
    safe = False

    async def problem(self) -> str:
        """It can always be used; whether it may is the settings' word."""
        return ""

    async def run(self, program: Program, limits: SandboxLimits, *, call: HostCall | None = None) -> Ran:
        """Run a program on this machine as it is."""
        with tempfile.TemporaryDirectory(prefix="agentorchestra-", ignore_cleanup_errors=True) as folder:
            work, temporary = Path(folder, "work"), Path(folder, "tmp")
            work.mkdir()
            temporary.mkdir()
            place = Place(
                inputs=str(program.folder.absolute()) if program.folder is not None else "",
                libraries="/nonexistent",
                temporary=str(temporary),
                own_user=False,
            )
            command = [sys.executable, "-I", "-B", str(HERE / "_supervisor.py"), str(work)]
            kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
            env = {**kept, "HOME": str(temporary), "MPLBACKEND": "Agg", "MPLCONFIGDIR": str(temporary)}
            env |= {"PYTHONUNBUFFERED": "1"}
            return await Driver(command, program, limits, place, call=call, env=env).run()

    async def aclose(self) -> None:
        """Nothing is kept between programs."""


__all__ = ["UnsafeLocal"]
