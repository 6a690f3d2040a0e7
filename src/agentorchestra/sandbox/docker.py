"""Programs in containers of a Docker engine: the same supervisor, the engine's limits.

The image holds Python and the libraries; `docker_file()` is what it is built from. Nothing of the host is bound but the
run's files, read only.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import socket
import subprocess
from dataclasses import replace
from pathlib import Path

import psutil

from agentorchestra.sandbox.base import HostCall, Program, Ran, SandboxLimits, check_usable
from agentorchestra.sandbox.driver import Driver, SupervisorPaths
from agentorchestra.sandbox.ground import INPUTS as GIVEN
from agentorchestra.sandbox.ground import mount_point, own
from agentorchestra.sandbox.libraries import DEFAULT_LIBRARIES
from agentorchestra.sandbox.pipe import Launch
from agentorchestra.sandbox.shell import Shell
from agentorchestra.sandbox.shell_driver import SHELL_FILES, Backend, DrivenShell, Inside, World

HERE = Path(__file__).parent
DEFAULT_IMAGE = "agentorchestra-sandbox"
SCRIPTS = "/opt/agentorchestra"
WORK = "/work"
USER = 65534
INPUTS = "/inputs"
LABEL = "agentorchestra.process"
_FORMAT = '{{.Names}} {{.Label "' + LABEL + '"}}'
_ENGINE_S = 15.0


def docker_file(libraries: tuple[str, ...] = DEFAULT_LIBRARIES) -> str:
    """Return what the image is built from (`agentorchestra sandbox --dockerfile | docker build -t NAME -`)."""
    return (
        "FROM python:3.12-slim\n"
        "RUN apt-get update && apt-get install --yes --no-install-recommends git && rm -rf /var/lib/apt/lists/*\n"
        f"RUN pip install --no-cache-dir {' '.join(libraries)}\n"
        "RUN mkdir -p /work /inputs /opt/agentorchestra\n"
        "USER 65534:65534\n"
    )


class Docker(Backend):
    """Programs in containers of a local image (`docker_file`) with Python 3.11 or newer, by an engine's `runtime`."""

    name = "docker"
    safe = True

    def __init__(self, image: str = DEFAULT_IMAGE, runtime: str = "") -> None:
        self._image = image
        self._runtime = runtime

    async def _look(self) -> str:
        return await asyncio.to_thread(self._missing)

    def _missing(self) -> str:
        if shutil.which("docker") is None:
            return "docker is not installed: install Docker and start its engine"
        try:
            question = ["docker", "info", "--format", "{{.ServerVersion}}"]
            info = subprocess.run(question, capture_output=True, text=True, check=False, timeout=_ENGINE_S)
            if info.returncode != 0 or not info.stdout.strip():
                return f"no Docker engine answers ({_last(info.stderr)}): start it"
            inspection = ["docker", "image", "inspect", self._image]
            image = subprocess.run(inspection, capture_output=True, text=True, check=False, timeout=_ENGINE_S)
        except subprocess.TimeoutExpired:
            return f"the Docker engine did not answer within {_ENGINE_S:g} s: is it running?"
        if image.returncode != 0:
            return (
                f"the Docker engine has no image {self._image!r}: "
                f"agentorchestra sandbox --dockerfile | docker build -t {self._image} -"
            )
        return ""

    async def run(self, program: Program, limits: SandboxLimits, *, call: HostCall | None = None) -> Ran:
        await check_usable(self)
        name = f"agentorchestra-{secrets.token_hex(8)}"
        place = SupervisorPaths(inputs=INPUTS if program.folder else "", libraries="/nonexistent")
        launch = Launch(self.command(program, limits, name), on_kill=lambda: _remove(name))
        # The engine's own limits hold: there is nothing to watch.
        result = await Driver(launch, program, limits, place, call=call, visible=False).run()
        if result.ending == "lost" and "status 137" in result.detail:
            return replace(result, ending="memory", detail="it used more memory than allowed")
        return result

    async def _open_shell(self, world: World) -> Shell:
        world = world.without_machine(self.name)
        await remove_orphans()
        user = own(world.folder, by_number=os.geteuid() == 0)
        if world.inputs is not None:
            mount_point(world.folder)

        def launch() -> Launch:
            name = f"agentorchestra-{secrets.token_hex(8)}"
            owner = user if user is not None else os.geteuid()
            return Launch(self.shell_command(world, name, owner), on_kill=lambda: _remove(name))

        # The engine limits the processes; its kernel would count all of this user's.
        inside = Inside(root=WORK, own_user=False, file_systems=None, user=user)
        return DrivenShell(launch, world, inside)

    def shell_command(self, world: World, name: str, user: int) -> list[str]:
        command = self._container(world.limits, name, network=world.network, user=user, temporary=("/tmp",))
        command += ["--volume", f"{world.folder}:{WORK}", "--workdir", WORK]
        if world.inputs is not None:
            command += ["--volume", f"{world.inputs.absolute()}:{WORK}/{GIVEN}:ro"]
        for mount in world.mounts:
            command += ["--volume", f"{mount.folder.absolute()}:{mount.inside}" + ("" if mount.writable else ":ro")]
        for file in SHELL_FILES:
            command += ["--volume", f"{HERE / file}:{SCRIPTS}/{file}:ro"]
        return [*command, self._image, "python3", "-E", "-s", "-B", f"{SCRIPTS}/_shell.py", WORK]

    def command(self, program: Program, limits: SandboxLimits, name: str) -> list[str]:
        command = self._container(limits, name, network=program.network, user=USER, temporary=(WORK, "/tmp"))
        command += ["--volume", f"{HERE / '_supervisor.py'}:{SCRIPTS}/_supervisor.py:ro"]
        command += ["--volume", f"{HERE / '_program.py'}:{SCRIPTS}/_program.py:ro"]
        if program.folder is not None:
            command += ["--volume", f"{program.folder.absolute()}:{INPUTS}:ro"]
        return [*command, self._image, "python3", "-I", "-B", f"{SCRIPTS}/_supervisor.py", WORK]

    def _container(
        self, limits: SandboxLimits, name: str, *, network: bool, user: int, temporary: tuple[str, ...]
    ) -> list[str]:
        # The owner is named: the engine gives a tmpfs the mode of the image's folder, whatever mode= says.
        options = f"rw,exec,nosuid,nodev,uid={user},gid={user},size={limits.work_bytes},nr_inodes={limits.files}"
        command = ["docker", "run", "--rm", "--interactive", "--name", name, "--hostname", "sandbox", "--init"]
        command += ["--label", f"{LABEL}={os.getpid()}@{socket.gethostname()}"]
        command += ["--network", "bridge" if network else "none"]
        command += ["--read-only", "--user", f"{user}:{user}", "--cap-drop", "ALL"]
        command += ["--security-opt", "no-new-privileges", "--pids-limit", str(limits.processes + 3)]
        command += ["--memory", str(limits.memory_bytes), "--memory-swap", str(limits.memory_bytes)]
        command += ["--ulimit", "core=0", "--log-driver", "none", "--pull", "never"]
        for folder in temporary:
            command += ["--tmpfs", f"{folder}:{options}"]
        if self._runtime:
            command += ["--runtime", self._runtime]
        for variable in ("HOME=/tmp", "LANG=C.UTF-8", "MPLBACKEND=Agg", "MPLCONFIGDIR=/tmp", "PYTHONUNBUFFERED=1"):
            command += ["--env", variable]
        return command


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:200] if lines else "no reason given"


async def remove_orphans() -> int:
    """Remove containers of this machine's dead processes, whose stopped supervisors heard nothing; return how many."""
    listing = await _engine("ps", "--all", "--no-trunc", "--filter", f"label={LABEL}", "--format", _FORMAT)
    count = 0
    for line in listing.splitlines():
        name, _, owner = line.partition(" ")
        pid, _, host = owner.partition("@")
        is_orphan = host == socket.gethostname() and pid.isdigit() and not psutil.pid_exists(int(pid))
        if is_orphan and name.startswith("agentorchestra-"):
            await _remove(name)
            count += 1
    return count


async def _engine(*arguments: str) -> str:
    with contextlib.suppress(OSError, TimeoutError):
        process = await asyncio.create_subprocess_exec(
            *("docker", *arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(_ENGINE_S):
                output, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            raise
        return output.decode("utf-8", "replace")
    return ""


async def _remove(name: str) -> None:
    await _engine("rm", "--force", name)
