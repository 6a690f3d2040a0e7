"""No sandbox: programs run as this user, with all that this user may do. Only where it was asked for by name."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import psutil

from agentorchestra.sandbox.base import HostCall, Program, Ran, SandboxLimits
from agentorchestra.sandbox.driver import Driver, Place
from agentorchestra.sandbox.ground import INPUTS, mount_point
from agentorchestra.sandbox.pipe import Launch
from agentorchestra.sandbox.shell import Mount, Shell, ShellSandbox, ShellState
from agentorchestra.sandbox.shell_driver import DrivenShell, Inside

HERE = Path(__file__).parent
_MARK = "AGENTORCHESTRA_SHELL"


class UnsafeLocal(ShellSandbox):
    """Programs as plain processes in a temporary folder: limits of time, memory and output hold, nothing else does."""

    name = "unsafe-local"
    safe = False

    async def problem(self) -> str:
        return ""

    async def run(self, program: Program, limits: SandboxLimits, *, call: HostCall | None = None) -> Ran:
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
            return await Driver(Launch(command, _environment(str(temporary))), program, limits, place, call=call).run()

    async def shell(
        self,
        folder: Path,
        limits: SandboxLimits | None = None,
        *,
        inputs: Path | None = None,
        network: bool = False,
        state: ShellState | None = None,
        mounts: Sequence[Mount] = (),
    ) -> Shell:
        """Start a shell on this machine as it is, with its network and all folders; the given files are a link."""
        folder = folder.absolute()
        temporary = tempfile.TemporaryDirectory(prefix="agentorchestra-", ignore_cleanup_errors=True)
        given = folder / INPUTS
        if inputs is not None:
            mount_point(folder)
            given.rmdir()
            given.symlink_to(inputs.absolute())

        def launch() -> Launch:
            mark = secrets.token_hex(16)
            command = [sys.executable, "-E", "-s", "-B", str(HERE / "_shell.py"), str(folder)]
            return Launch(command, {**_environment(temporary.name), _MARK: mark}, done=lambda: _end_marked(mark))

        def done() -> None:
            if given.is_symlink():
                given.unlink()
            temporary.cleanup()

        inside = Inside(root=str(folder), temporary=temporary.name, own_user=False, watched=())
        return DrivenShell(launch, folder, limits or SandboxLimits(), inside, state, done)

    async def aclose(self) -> None:
        pass  # nothing is kept between programs


def _environment(temporary: str) -> dict[str, str]:
    """Return the environment of a program whose home is a temporary folder."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    return {**kept, "HOME": temporary, "MPLBACKEND": "Agg", "MPLCONFIGDIR": temporary, "PYTHONUNBUFFERED": "1"}


def _end_marked(mark: str) -> None:
    """End what a shell left that was killed with the process that kept it: nothing else binds them together here."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(_MARK) == mark:
                process.kill()
