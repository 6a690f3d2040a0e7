"""The programs of a desktop: each a job of one shell in the sandbox that the settings name."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

from agentorchestra.core.errors import SandboxUnavailableError, ToolError
from agentorchestra.environments.computer.display import COOKIE, SOCKETS, Display
from agentorchestra.sandbox import Job, Sandbox, SandboxLimits, Shell, ShellState
from agentorchestra.sandbox.factory import shell_in
from agentorchestra.sandbox.shell import Mount

_NUMBERS = range(100, 1000)  # of displays that programs outside of a sandbox are given; people's own begin at 0

CPU_S = 1800  # seconds of a processor that one process on the desktop may take


class DesktopPrograms:
    """The programs of a desktop. `limits` are those of all together; no sandbox: refuse all."""

    def __init__(self, sandbox: Sandbox | None, limits: SandboxLimits, network: bool) -> None:
        self._sandbox, self._network = sandbox, network
        self._limits = replace(limits, cpu_seconds=CPU_S)
        self._shell: Shell | None = None
        self._started: dict[int, str] = {}
        self._gone: set[int] = set()  # of a shell that is no more
        self._lost = ""
        self._link: Path | None = None

    async def check(self) -> None:
        """Raise a ToolError that says what to do, if programs cannot be started here."""
        if self._sandbox is None:
            raise ToolError(
                'programs run in a sandbox, and the settings want none (sandbox.backend = "none"); set it to "auto" '
                "and install bubblewrap or Docker"
            )
        if problem := await self._sandbox.problem():
            raise ToolError(f"programs run in a sandbox, and there is none here: {problem}")

    async def start(self, command: str, display: Display, folder: Path, files: Path | None) -> Job:
        """Start a program; the task's `files` are seen read only in its folder."""
        shell = await self._open(display, folder, files)
        job = await shell.start(command)
        self._started[job.job] = command
        return job

    async def _open(self, display: Display, folder: Path, files: Path | None) -> Shell:
        if self._shell is not None:
            return self._shell
        assert self._sandbox is not None
        number, authority = "0", COOKIE
        if not self._sandbox.safe:  # nothing is mounted: the socket and the cookie are where they are
            self._link = link_socket(display.sockets / "X0")
            number = self._link.name.removeprefix("X")
            authority = str(display.sockets.absolute() / "authority")
        folder.mkdir(parents=True, exist_ok=True)
        state, mounts = ShellState(last_job=max(self._started, default=0)), (Mount(display.sockets, SOCKETS),)
        shell = await shell_in(
            self._sandbox, folder, self._limits, inputs=files, network=self._network, state=state, mounts=mounts
        )
        result = await shell.run(f"unset WAYLAND_DISPLAY; export DISPLAY=':{number}' XAUTHORITY='{authority}'")
        if result.ending != "exited" or result.exit_code:
            await shell.close()
            raise ToolError(f"the programs' sandbox cannot be used: {result.detail or result.stderr or result.ending}")
        self._shell = shell
        return shell

    async def running(self) -> set[int]:
        return {job.job for job in await self.jobs() if job.state == "running"}

    async def jobs(self) -> list[Job]:
        by_number: dict[int, Job] = {}
        if self._shell is not None:
            try:
                by_number = {job.job: job for job in await self._shell.jobs()}
                if self._started.keys() - by_number.keys() - self._gone:
                    self._lost = (await self._shell.run(":")).again
            except (ToolError, SandboxUnavailableError) as exc:
                self._lost = str(exc)
        self._gone |= self._started.keys() - by_number.keys()
        return [by_number.get(number) or Job(number, text, 0, "ended") for number, text in self._started.items()]

    def take_loss(self) -> str:
        """Return, once, why programs ended that did not end by themselves; "" if there were none."""
        loss, self._lost = self._lost, ""
        return loss

    async def output_of(self, program: int) -> str:
        if self._shell is None or program in self._gone:
            return ""
        try:
            return (await self._shell.output(program)).output or ""
        except ToolError:
            return ""

    def shell_of(self, program: int) -> Shell:
        """Return the shell that has a program; a ToolError if there is none any more."""
        if program not in self._started:
            raise ToolError(
                f"there is no program {program}; the programs: {', '.join(map(str, self._started)) or 'none'}"
            )
        if self._shell is None or program in self._gone:
            raise ToolError(f"program {program} has ended, and what it printed is gone")
        return self._shell

    async def close(self) -> None:
        """End them all; what was started stays known."""
        shell, link, self._shell, self._link = self._shell, self._link, None, None
        self._gone |= self._started.keys()
        if shell is not None:
            await shell.close()
        if link is not None:
            link.unlink(missing_ok=True)


def link_socket(socket: Path) -> Path:
    """Link a display's socket at the one place where programs outside of a sandbox look; stale links are removed."""
    place = Path(SOCKETS)
    place.mkdir(mode=0o1777, exist_ok=True)
    for number in _NUMBERS:
        link = place / f"X{number}"
        if link.is_symlink() and not link.exists() and link.readlink().name == socket.name:
            link.unlink(missing_ok=True)
        with contextlib.suppress(FileExistsError):
            link.symlink_to(socket.absolute())
            return link
    raise ToolError(f"no number is free in {place} for a display; remove links there that lead nowhere")
