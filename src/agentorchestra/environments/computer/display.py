"""A display of its own: Xvfb and a window manager in a sandbox, reached through one socket in a private folder.

The server is a program like others: it sees neither the host's displays nor its network, has limits of memory and
processes, and ends with the process that started it. Programs of the desktop run in another sandbox, which sees the
socket and the cookie but none of the server's processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import socket
import stat
import struct
import sys
from pathlib import Path

from agentorchestra.core.errors import SandboxUnavailableError, ToolError
from agentorchestra.environments.beneath import closing
from agentorchestra.sandbox.base import MIB, SandboxLimits
from agentorchestra.sandbox.bubblewrap import INSTALL, Bubblewrap
from agentorchestra.sandbox.shell import Mount, Shell

SOCKETS = "/tmp/.X11-unix"  # where X programs look for the socket; the cookie lies beside it
COOKIE = f"{SOCKETS}/authority"
_CONFIGURATION = "openbox.xml"
# Of the server and the window manager together.
_LIMITS = SandboxLimits(
    seconds=30, cpu_seconds=10_000_000, memory_bytes=1024 * MIB, processes=32, work_bytes=64 * MIB, files=1000
)
_START_S = 60.0
_LOOK_S = 0.02
_AUTHORITY = b"MIT-MAGIC-COOKIE-1"
_ANY_FAMILY = 0xFFFF


def missing_program() -> str:
    if not sys.platform.startswith("linux"):
        return f"the desktop works on Linux only, and this is {sys.platform}"
    if not (missing := [name for name in ("Xvfb", "openbox") if shutil.which(name) is None]):
        return ""
    return f"the desktop needs {' and '.join(missing)} (Debian and Ubuntu: apt-get install xvfb openbox)"


class Display:
    """One virtual screen with a window manager; the folder `place` is made for it and removed with it."""

    def __init__(self, place: Path, width: int, height: int) -> None:
        self._place, self._width, self._height = place, width, height
        self._shell: Shell | None = None
        self._server = self._manager = 0
        # Without a colon, which the client library reads as the end of the cookie's name.
        self._cookie = secrets.token_urlsafe(12).encode("ascii")
        self.authority = _AUTHORITY + b":" + self._cookie  # as the client library takes it
        self.sockets = place / "server" / "sockets"  # the folder with the socket and the cookie

    async def start(self) -> None:
        """Start it and wait until it answers; a ToolError says why it cannot be started here."""
        if problem := missing_program():
            raise ToolError(problem)
        await asyncio.to_thread(self._prepare)
        try:
            server = Bubblewrap(())
            if problem := await server.problem():
                raise SandboxUnavailableError(problem)
            self._shell = await server.shell(
                self._place / "server", _LIMITS, mounts=(Mount(self.sockets, SOCKETS, writable=True),)
            )
            screen = f"{self._width}x{self._height}x24"
            job = await self._shell.start(
                f"exec Xvfb :0 -screen 0 {screen} -auth {COOKIE} -nolisten tcp -noreset -s 0 -dpi 96 -extension GLX"
            )
            self._server = job.job
            await self._answering()
            await self.manage()
        except BaseException as exc:
            await self.close()
            if not isinstance(exc, SandboxUnavailableError):
                raise
            hint = "it runs in bubblewrap whatever sandbox.backend says, and " if INSTALL in str(exc) else ""
            raise ToolError(f"the display cannot be started: {hint}{exc}") from None

    async def manage(self) -> None:
        """Start the window manager, anew if it runs; windows stay. A loop starts it, as any client can end it."""
        if self._shell is None:
            return
        if self._manager:
            await self._shell.stop(self._manager, 9)
        job = await self._shell.start(
            f"export DISPLAY=:0 XAUTHORITY={COOKIE}; "
            f"while true; do openbox --sm-disable --config-file /work/{_CONFIGURATION}; sleep 0.5; done"
        )
        self._manager = job.job

    def _prepare(self) -> None:
        shutil.rmtree(self._place, ignore_errors=True)  # of a process that was killed
        self._place.mkdir(parents=True, mode=0o700)
        server = self._place / "server"
        server.mkdir()
        self.sockets.mkdir()
        self.sockets.chmod(0o1777)  # the server asks for that; nobody else of this machine comes through `place`
        authority = self.sockets / "authority"
        authority.touch(mode=0o644)
        # One entry for every address and display: family, address, display, name, data.
        parts = b"".join(struct.pack(">H", len(field)) + field for field in (b"", b"", _AUTHORITY, self._cookie))
        authority.write_bytes(struct.pack(">H", _ANY_FAMILY) + parts)
        shutil.copyfile(Path(__file__).parent / _CONFIGURATION, server / _CONFIGURATION)

    async def _answering(self) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + _START_S
        while loop.time() < end:
            with contextlib.suppress(OSError):
                self.connect().close()
                return
            if ending := await self.ending():
                raise ToolError(f"the display cannot be started: {ending}")
            await asyncio.sleep(_LOOK_S)
        raise ToolError(f"the display cannot be started: it did not answer within {_START_S:g} s")

    async def ending(self) -> str:
        if self._shell is None:
            return "it is closed"
        for job in await self._shell.jobs():
            if job.job == self._server:
                if job.state == "running":
                    return ""
                lines = ((await self._shell.output(job.job)).output or "").strip().splitlines()
                detail = f": {lines[-1][:200]}" if lines else ""
                return f"Xvfb ended with exit code {job.exit_code}{detail}"
        reason = (await self._shell.run(":")).again
        return f"Xvfb was ended{f': {reason}' if reason else ''}"

    def connect(self) -> socket.socket:
        """Connect to this display and no other, whatever lies in place of its socket; an OSError if it is silent."""
        # By its descriptor: no link is followed, and the name may be longer than an address can be.
        with closing(os.open(self.sockets / "X0", os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)) as fd:
            if not stat.S_ISSOCK(os.fstat(fd).st_mode):
                raise OSError("what lies there is no socket")
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                sock.connect(f"/proc/self/fd/{fd}")
            except BaseException:
                sock.close()
                raise
            return sock

    async def close(self) -> None:
        shell, self._shell = self._shell, None
        if shell is not None:
            await shell.close()
        await asyncio.to_thread(shutil.rmtree, self._place, ignore_errors=True)
