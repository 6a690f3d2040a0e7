"""No sandbox: programs run as this user, with all that this user may do. Only where it was asked for by name."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import tempfile
from pathlib import Path

import psutil

from agentorchestra.sandbox.base import HostCall, Program, Ran, SandboxLimits
from agentorchestra.sandbox.driver import Driver, SupervisorPaths
from agentorchestra.sandbox.ground import INPUTS, mount_point
from agentorchestra.sandbox.pipe import Launch
from agentorchestra.sandbox.shell import Shell
from agentorchestra.sandbox.shell_driver import Backend, DrivenShell, Inside, World

HERE = Path(__file__).parent
_MARK = "AGENTORCHESTRA_SHELL"


class UnsafeLocal(Backend):
    """Programs as plain processes in a temporary folder: limits of time, memory and output hold, nothing else does."""

    name = "unsafe-local"
    safe = False

    async def _look(self) -> str:
        return ""

    async def run(self, program: Program, limits: SandboxLimits, *, call: HostCall | None = None) -> Ran:
        with tempfile.TemporaryDirectory(prefix="agentorchestra-", ignore_cleanup_errors=True) as folder:
            work, temporary = Path(folder, "work"), Path(folder, "tmp")
            work.mkdir()
            temporary.mkdir()
            place = SupervisorPaths(
                inputs=str(program.folder.absolute()) if program.folder is not None else "",
                libraries="/nonexistent",
                temporary=str(temporary),
                own_user=False,
            )
            command = [sys.executable, "-I", "-B", str(HERE / "_supervisor.py"), str(work)]
            return await Driver(Launch(command, _environment(str(temporary))), program, limits, place, call=call).run()

    async def _open_shell(self, world: World) -> Shell:
        """Start a shell on this machine as it is, with its network and all folders; the given files are a link."""
        world = world.without_machine(self.name)
        temporary = tempfile.TemporaryDirectory(prefix="agentorchestra-", ignore_cleanup_errors=True)
        inputs = world.folder / INPUTS
        if world.inputs is not None:
            mount_point(world.folder)
            inputs.rmdir()
            inputs.symlink_to(world.inputs.absolute())

        def launch() -> Launch:
            mark = secrets.token_hex(16)
            command = [sys.executable, "-E", "-s", "-B", str(HERE / "_shell.py"), str(world.folder)]
            return Launch(command, {**_environment(temporary.name), _MARK: mark}, done=lambda: _end_marked(mark))

        def done() -> None:
            if inputs.is_symlink():
                inputs.unlink()
            temporary.cleanup()

        inside = Inside(root=str(world.folder), temporary=temporary.name, own_user=False, file_systems=())
        return DrivenShell(launch, world, inside, done)


def _environment(temporary: str) -> dict[str, str]:
    variables = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    return {**variables, "HOME": temporary, "MPLBACKEND": "Agg", "MPLCONFIGDIR": temporary, "PYTHONUNBUFFERED": "1"}


def _end_marked(mark: str) -> None:
    """End what a shell left that was killed with the process that kept it: nothing else binds them together here."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(_MARK) == mark:
                process.kill()
