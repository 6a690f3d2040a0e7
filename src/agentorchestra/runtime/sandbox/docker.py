"""Programs in containers of a Docker engine: the same supervisor, the engine's limits.

The image holds Python and the libraries; `docker_file()` is what it is built from. Nothing of the host is bound but the
run's files, read only.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shutil
import subprocess
from pathlib import Path

from agentorchestra.core.errors import SandboxUnavailableError
from agentorchestra.runtime.sandbox.base import HostCall, Program, Ran, SandboxLimits
from agentorchestra.runtime.sandbox.drive import Driver, Place
from agentorchestra.runtime.sandbox.libraries import DEFAULT_LIBRARIES

HERE = Path(__file__).parent
DEFAULT_IMAGE = "agentorchestra-sandbox"
OURS = "/opt/agentorchestra"
WORK = "/work"
USER = 65534
INPUTS = "/inputs"
_ENGINE_S = 15.0


def docker_file(libraries: tuple[str, ...] = DEFAULT_LIBRARIES) -> str:
    """What the image is built from (`agentorchestra sandbox --dockerfile | docker build -t NAME -`)."""
    return (
        "FROM python:3.12-slim\n"
        f"RUN pip install --no-cache-dir {' '.join(libraries)}\n"
        "RUN mkdir -p /work /inputs /opt/agentorchestra\n"
        "USER 65534:65534\n"
    )


class Docker:
    """Programs in containers.

    Args:
        image: a local image with Python 3.11 or newer; see `docker_file`.
        runtime: of the engine (e.g. `runsc`), "" for its default.
    """

    name = "docker"
    safe = True

    def __init__(self, image: str = DEFAULT_IMAGE, runtime: str = "") -> None:
        self._image = image
        self._runtime = runtime
        self._problem: str | None = None

    async def problem(self) -> str:
        """Why it cannot be used here, "" when it can: an engine must answer and have the image."""
        if self._problem is None:
            self._problem = await asyncio.to_thread(self._look)
        return self._problem

    def _look(self) -> str:
        if shutil.which("docker") is None:
            return "docker is not installed: install Docker and start its engine"
        try:
            asked = ["docker", "info", "--format", "{{.ServerVersion}}"]
            info = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=_ENGINE_S)
            if info.returncode != 0 or not info.stdout.strip():
                return f"no Docker engine answers ({_last(info.stderr)}): start it"
            found = ["docker", "image", "inspect", self._image]
            image = subprocess.run(found, capture_output=True, text=True, check=False, timeout=_ENGINE_S)
        except subprocess.TimeoutExpired:
            return f"the Docker engine did not answer within {_ENGINE_S:g} s: is it running?"
        if image.returncode != 0:
            return (
                f"the Docker engine has no image {self._image!r}: "
                f"agentorchestra sandbox --dockerfile | docker build -t {self._image} -"
            )
        return ""

    async def run(self, program: Program, limits: SandboxLimits, *, call: HostCall | None = None) -> Ran:
        """Run a program.

        Raises:
            SandboxUnavailableError: no engine answers here.
        """
        problem = await self.problem()
        if problem:
            raise SandboxUnavailableError(problem)
        name = f"agentorchestra-{secrets.token_hex(8)}"
        place = Place(inputs=INPUTS if program.folder else "", libraries="/nonexistent")
        driver = Driver(
            self.command(program, limits, name),
            program,
            limits,
            place,
            call=call,
            env=None,
            watch=False,  # the engine's own limits hold
            on_kill=lambda: _remove(name),
        )
        ran = await driver.run()
        if ran.ending == "lost" and "status 137" in ran.detail:
            return Ran(**{**ran.__dict__, "ending": "memory", "detail": "it used more memory than allowed"})
        return ran

    def command(self, program: Program, limits: SandboxLimits, name: str) -> list[str]:
        """The command that starts the supervisor in a container of this name."""
        # The owner is named: the engine gives a tmpfs the mode of the image's folder, whatever mode= says.
        temporary = f"rw,exec,nosuid,nodev,uid={USER},gid={USER},size={limits.work_bytes},nr_inodes={limits.files}"
        command = ["docker", "run", "--rm", "--interactive", "--name", name, "--hostname", "sandbox", "--init"]
        command += ["--network", "bridge" if program.network else "none"]
        command += ["--read-only", "--user", f"{USER}:{USER}", "--cap-drop", "ALL"]
        command += ["--security-opt", "no-new-privileges", "--pids-limit", str(limits.processes + 3)]
        command += ["--memory", str(limits.memory_bytes), "--memory-swap", str(limits.memory_bytes)]
        command += ["--ulimit", "core=0", "--log-driver", "none", "--pull", "never"]
        for folder in (WORK, "/tmp"):
            command += ["--tmpfs", f"{folder}:{temporary}"]
        if self._runtime:
            command += ["--runtime", self._runtime]
        for variable in ("HOME=/tmp", "LANG=C.UTF-8", "MPLBACKEND=Agg", "MPLCONFIGDIR=/tmp", "PYTHONUNBUFFERED=1"):
            command += ["--env", variable]
        command += ["--volume", f"{HERE / '_supervisor.py'}:{OURS}/_supervisor.py:ro"]
        command += ["--volume", f"{HERE / '_program.py'}:{OURS}/_program.py:ro"]
        if program.folder is not None:
            command += ["--volume", f"{program.folder.absolute()}:{INPUTS}:ro"]
        return [*command, self._image, "python3", "-I", "-B", f"{OURS}/_supervisor.py", WORK]

    async def aclose(self) -> None:
        """Nothing is kept between programs: a container removes itself when the supervisor's pipe is closed."""


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:200] if lines else "no reason given"


async def _remove(name: str) -> None:
    """The client was killed: the engine removes the container."""
    with contextlib.suppress(OSError, TimeoutError):
        process = await asyncio.create_subprocess_exec(
            *("docker", "rm", "--force", name),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        await asyncio.wait_for(process.wait(), _ENGINE_S)


__all__ = ["DEFAULT_IMAGE", "Docker", "docker_file"]
