from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Unpack

from agentorchestra.core.errors import SandboxUnavailableError, SettingsError
from agentorchestra.core.settings import SandboxSettings
from agentorchestra.sandbox.base import MIB, HostCall, Program, Ran, Sandbox, SandboxLimits
from agentorchestra.sandbox.bubblewrap import INSTALL, Bubblewrap
from agentorchestra.sandbox.docker import Docker
from agentorchestra.sandbox.libraries import DEFAULT_LIBRARIES
from agentorchestra.sandbox.local import UnsafeLocal
from agentorchestra.sandbox.shell import Shell, ShellOptions, ShellSandbox
from agentorchestra.sandbox.shell_driver import Backend, World

GROUP = "agentorchestra.sandboxes"
"""The entry points of backends elsewhere: callables that take the SandboxSettings and give a Sandbox."""

WITHOUT = "programs that models write are refused until then, and runs on texts, files and the web go on without"
"""What is to be known where there is no sandbox."""


class AnySandbox(ShellSandbox):
    """The first of several sandboxes that can be used here; fails closed when none can."""

    safe = True

    def __init__(self, candidates: tuple[Sandbox, ...]) -> None:
        self._candidates = candidates
        self._chosen: Sandbox | None = None

    @property
    def name(self) -> str:
        """The name of the one that is used, `auto` until that is known."""
        return self._chosen.name if self._chosen is not None else "auto"

    async def problem(self) -> str:
        if self._chosen is not None:
            return ""
        problems = []
        for candidate in self._candidates:
            problem = await candidate.problem()
            if not problem:
                self._chosen = candidate
                return ""
            problems.append(problem)
        return "; or ".join(problems)

    async def run(self, program: Program, limits: SandboxLimits, *, call: HostCall | None = None) -> Ran:
        return await (await self._usable()).run(program, limits, call=call)

    async def shell(self, folder: Path, limits: SandboxLimits | None = None, **options: Unpack[ShellOptions]) -> Shell:
        return await shell_in(await self._usable(), folder, limits, **options)

    async def _usable(self) -> Sandbox:
        problem = await self.problem()
        if self._chosen is None:
            raise SandboxUnavailableError(f"there is no sandbox here: {problem or INSTALL}; {WITHOUT}")
        return self._chosen

    async def aclose(self) -> None:
        for candidate in self._candidates:
            await candidate.aclose()


async def shell_in(
    sandbox: Sandbox, folder: Path, limits: SandboxLimits | None = None, **options: Unpack[ShellOptions]
) -> Shell:
    """Start a shell in a sandbox, see `ShellSandbox.shell`; SandboxUnavailableError also where it has none."""
    if not isinstance(sandbox, ShellSandbox):
        raise SandboxUnavailableError(
            f"the sandbox {sandbox.name!r} has no shells; set sandbox.backend to bubblewrap or docker"
        )
    if not options.get("mounts"):
        options.pop("mounts", None)  # a backend of elsewhere may not know them
    if not isinstance(sandbox, Backend | AnySandbox):
        world = World(folder, SandboxLimits(), machine=options.pop("machine", None), gate=options.pop("gate", None))
        world.without_machine(sandbox.name)
    return await sandbox.shell(folder, limits, **options)


def sandbox_for(settings: SandboxSettings) -> Sandbox | None:
    """Return the sandbox that the settings name, None for `none`; SettingsError for a name that no backend has."""
    libraries = (*DEFAULT_LIBRARIES, *settings.libraries)
    if settings.backend == "none":
        return None
    if settings.backend == "auto":
        return AnySandbox((Bubblewrap(libraries), Docker(settings.image, settings.runtime)))
    if settings.backend == "bubblewrap":
        return Bubblewrap(libraries)
    if settings.backend == "docker":
        return Docker(settings.image, settings.runtime)
    if settings.backend == "unsafe-local":
        return UnsafeLocal()
    points = {point.name: point for point in entry_points(group=GROUP)}
    if settings.backend not in points:
        names = ", ".join(["auto", "bubblewrap", "docker", "unsafe-local", "none", *sorted(points)])
        raise SettingsError(f"sandbox.backend is {settings.backend!r}; it can be one of: {names}")
    sandbox = points[settings.backend].load()(settings)
    if not isinstance(sandbox, Sandbox):
        raise SettingsError(f"the entry point {settings.backend!r} of {GROUP} gave {sandbox!r}, which is no Sandbox")
    return sandbox


def limits_for(settings: SandboxSettings) -> SandboxLimits:
    return SandboxLimits(
        seconds=settings.timeout_s,
        cpu_seconds=int(2 * settings.timeout_s) + 1,
        memory_bytes=settings.memory_mib * MIB,
        processes=settings.processes,
        work_bytes=settings.files_mib * MIB,
    )
