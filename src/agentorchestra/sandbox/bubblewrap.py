"""The sandbox of Linux: bubblewrap.

Inside: a root of its own with /usr (read only), this interpreter and the libraries (read only), and three temporary
file systems; namespaces of its own for users, processes, network, mounts, IPC and names; no capabilities, no new user
namespaces, a filter of system calls (seccomp.py), no environment of ours.

As root, `--unshare-user` alone would leave the program with the user id 0 of the host behind its mapped one: exempt
from limits of processes, owner of root's files. So root makes two stages: the first binds and unshares, then the user
is changed to a number that nobody else has, and a second bubblewrap takes that user into its own user namespace.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from agentorchestra.sandbox.base import HostCall, Program, Ran, SandboxLimits, check_usable
from agentorchestra.sandbox.cgroup import Group, new_group
from agentorchestra.sandbox.driver import Driver, SupervisorPaths
from agentorchestra.sandbox.ground import chooses_users, mount_point, new_user, own
from agentorchestra.sandbox.libraries import DEFAULT_LIBRARIES, library_paths
from agentorchestra.sandbox.machine import LIBRARIES, PLACE, TEMPORARY, WORK, Machine, python_base
from agentorchestra.sandbox.pipe import Launch
from agentorchestra.sandbox.seccomp import filter_for
from agentorchestra.sandbox.shell import Gate, Shell
from agentorchestra.sandbox.shell_driver import SHELL_FILES, Backend, DrivenShell, Inside, World

HERE = Path(__file__).parent
SCRIPTS = f"{PLACE}/program"
INPUTS = "/inputs"
PORT, SOCKET = 3128, f"{PLACE}/proxy"  # where a gate is found inside, by programs and by `_gate.py`
INSTALL = "install bubblewrap 0.8 or newer (Debian and Ubuntu: apt-get install bubblewrap)"
_OLDEST = (0, 8)
_ENVIRONMENT = {
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": "/tmp",
    "OPENBLAS_NUM_THREADS": "2",
    "OMP_NUM_THREADS": "2",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    "PYTHONPATH": LIBRARIES,  # of interpreters that a shell starts
}
_INSTALLERS = {"PIP_NO_CACHE_DIR": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
_NO_NETWORK = {"PIP_RETRIES": "0", "npm_config_fetch_retries": "0", "CARGO_NET_RETRY": "0"}  # to fail at once
_TELLING = (
    *("cmdline", "config.gz", "iomem", "ioports", "kallsyms", "kcore", "key-users", "keys", "kmsg", "latency_stats"),
    *("modules", "pagetypeinfo", "sched_debug", "slabinfo", "sysrq-trigger", "timer_list", "vmallocinfo"),
)
"""Files of /proc that tell how the host's kernel was started and what lies in its memory, or act on the machine."""
_ETC = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/fonts", "/etc/localtime", "/etc/mime.types", "/etc/os-release")
_ETC_PROXY = ("/etc/ssl", "/etc/ca-certificates")
_ETC_NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl", "/etc/ca-certificates")


class Bubblewrap(Backend):
    """Programs in bubblewrap, which may import the distributions `libraries` of the environment of this interpreter."""

    name = "bubblewrap"
    safe = True

    def __init__(self, libraries: tuple[str, ...] = DEFAULT_LIBRARIES) -> None:
        self._libraries = libraries

    async def _look(self) -> str:
        return self._missing() or await self._trial()  # a program is run once to know

    def _missing(self) -> str:
        if not sys.platform.startswith("linux"):
            return f"bubblewrap runs on Linux only, and this is {sys.platform}"
        program = shutil.which("bwrap")
        if program is None:
            return f"bubblewrap is not installed: {INSTALL}"
        text = subprocess.run([program, "--version"], capture_output=True, text=True, check=False, timeout=10).stdout
        version = re.search(r"(\d+)\.(\d+)", text)
        if version is None or (int(version[1]), int(version[2])) < _OLDEST:
            return f"{program} is {text.strip() or 'of an unknown version'}: {INSTALL}"
        if chooses_users() and shutil.which("setpriv") is None:
            return "setpriv is not installed: install util-linux"
        return ""

    async def _trial(self) -> str:
        result = await self._run(Program("python", "print(6 * 7)"), SandboxLimits(seconds=20), None)
        if result.ending == "exited" and result.stdout == "42\n":
            return ""
        lines = (result.detail or result.stderr or result.ending).strip().splitlines()
        return (
            f"bubblewrap is installed but cannot make a sandbox here ({lines[-1] if lines else 'no reason given'}): "
            "user namespaces must be allowed (sysctl kernel.unprivileged_userns_clone=1, "
            "kernel.apparmor_restrict_unprivileged_userns=0; in a container: its engine's security profile)"
        )

    async def run(self, program: Program, limits: SandboxLimits, *, call: HostCall | None = None) -> Ran:
        await check_usable(self)
        return await self._run(program, limits, call)

    async def _run(self, program: Program, limits: SandboxLimits, call: HostCall | None) -> Ran:
        world = World(Path(), limits, program.folder, program.network)
        systems = [*self._root(world), *self._shared(world, ("_supervisor.py", "_program.py"))]
        for folder in (WORK, "/tmp"):
            systems += ["--perms", "1777", "--size", str(limits.work_bytes), "--tmpfs", folder]
        systems += ["--ro-bind", str(program.folder), INPUTS] if program.folder is not None else []
        systems += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", WORK]
        group = await asyncio.to_thread(new_group, limits.memory_bytes, limits.processes)
        user = new_user() if chooses_users() else None
        launch = _launch(systems, group, network=program.network, user=user, script="_supervisor.py")
        place = SupervisorPaths(inputs=INPUTS if program.folder else "", libraries=LIBRARIES)
        return await Driver(launch, program, limits, place, call=call).run()

    async def _open_shell(self, world: World) -> Shell:
        machine = world.machine
        user = own(world.folder, by_number=chooses_users(), image=machine is not None and machine.image is not None)
        if world.inputs is not None:
            mount_point(world.folder)

        def launch() -> Launch:
            systems = self._shell_systems(world)
            group = new_group(world.limits.memory_bytes, world.limits.processes)
            gate = world.gate if not world.network else None
            return _launch(
                systems, group, network=world.network, user=user, script="_shell.py", machine=machine, gate=gate
            )

        if machine is None:
            return DrivenShell(launch, world, Inside(root=WORK, user=user))
        paths = (TEMPORARY.lstrip("/"), "dev/shm")
        return DrivenShell(launch, world, Inside(root=machine.work, temporary=TEMPORARY, file_systems=paths, user=user))

    def _shell_systems(self, world: World) -> list[str]:
        """Return the file systems of a shell as arguments, in the order in which they are mounted."""
        machine, size = world.machine, str(world.limits.work_bytes)
        if machine is not None and machine.image is not None:
            systems = [*machine.root_systems(python_base()), *self._shared(world, SHELL_FILES, libraries=False)]
        else:
            systems = [*self._root(world), *self._shared(world, SHELL_FILES)]
        if machine is None:
            systems += ["--perms", "1777", "--size", size, "--tmpfs", "/tmp"]
        else:
            systems += ["--perms", "1777", "--size", size, "--tmpfs", TEMPORARY]
            systems += machine.layer_systems(network=world.network) if machine.image is None else []
        work = machine.work if machine is not None else WORK
        systems += ["--bind", str(world.folder), work]
        systems += ["--ro-bind", str(world.inputs), f"{work}/files"] if world.inputs is not None else []
        for mount in world.mounts:
            systems += ["--bind" if mount.writable else "--ro-bind", str(mount.folder.absolute()), mount.inside]
        if world.gate is not None:
            systems += [
                "--ro-bind",
                str(HERE / "_gate.py"),
                f"{SCRIPTS}/_gate.py",
                "--bind",
                str(world.gate.socket),
                SOCKET,
            ]
        systems += ["--remount-ro", "/dev"]
        systems += ["--remount-ro", "/"] if machine is None or machine.image is None else []
        return [*systems, "--chdir", work]

    def _root(self, world: World) -> list[str]:
        """Return a root over the host's /usr, as arguments."""
        systems = ["--ro-bind", "/usr", "/usr"]
        for name in ("bin", "lib", "lib64", "sbin"):
            path = Path("/") / name
            if path.is_symlink():
                systems += ["--symlink", str(path.readlink()), str(path)]
            elif path.is_dir():
                systems += ["--ro-bind", str(path), str(path)]
        systems += ["--perms", "0755", "--dir", "/etc"]  # by hand: bubblewrap would close it to other users
        for path_ in (*_ETC, *(_ETC_NETWORK if world.network else _ETC_PROXY if world.gate is not None else ())):
            systems += ["--ro-bind-try", path_, path_]
        for java in sorted(Path("/etc").glob("java-*-openjdk")):  # Debian's Java begins with what lies there
            systems += ["--ro-bind", str(java), str(java)]
        base = python_base()
        if not base.startswith("/usr/") and base != "/usr":
            for parent in reversed(Path(base).parents[:-1]):
                systems += ["--perms", "0755", "--dir", str(parent)]
            systems += ["--ro-bind", base, base]
        return [*systems, "--dev", "/dev", "--proc", "/proc", "--perms", "0755", "--dir", "/run"]

    def _shared(self, world: World, files: tuple[str, ...], *, libraries: bool = True) -> list[str]:
        """Return what every root has besides: shared memory, our files, and the libraries, as arguments."""
        systems = ["--perms", "1777", "--size", str(world.limits.work_bytes), "--tmpfs", "/dev/shm"]
        for folder in (PLACE, SCRIPTS, LIBRARIES):
            systems += ["--perms", "0755", "--dir", folder]
        for name in files:
            systems += ["--ro-bind", str(HERE / name), f"{SCRIPTS}/{name}"]
        for name, path in library_paths(self._libraries)[0].items() if libraries else ():
            systems += ["--ro-bind", str(path), f"{LIBRARIES}/{name}"]
        return systems


def _launch(
    systems: list[str],
    group: Group | None,
    *,
    network: bool,
    user: int | None,
    script: str,
    machine: Machine | None = None,
    gate: Gate | None = None,
) -> Launch:
    """Return what starts a script inside, under the number of `user`; None where it cannot be chosen.

    `systems` are the file systems, as arguments of bubblewrap; with `network` it reaches the host's.
    """
    machine = machine or Machine(Path())
    rules = filter_for()
    fd = _memory_file(rules) if rules is not None else None
    outer = ["--clearenv", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]
    outer += [] if network else ["--unshare-net"]
    outer += ["--die-with-parent", "--new-session", "--hostname", "sandbox"]
    outer += [*systems, *_masks()]
    inner = str(machine.user)
    # Set last of all: what changes the user has rights, and a loader that obeys variables, which an image may choose.
    variables = _environment(machine, gate, shell=script == "_shell.py")
    closing = [word for name, value in variables.items() for word in ("--setenv", name, value)]
    closing += ["--disable-userns", "--uid", inner, "--gid", inner, "--cap-drop", "ALL"]
    closing += ["--seccomp", str(fd)] if fd is not None else []
    base = python_base()
    lower: list[str] = []
    if user is not None:
        lower += machine.tool("setpriv", base)
        lower += ["--reuid", str(user), "--regid", str(user), "--clear-groups", "--no-new-privs"]
        lower += ["--inh-caps=-all", "--bounding-set=-all", *machine.tool("bwrap", base)]
        lower += ["--unshare-user", *closing, "--dev-bind", "/", "/", "--chdir", machine.work]
    else:
        # The supervisor is the first process: bubblewrap's own would belong to the program's user, who could read
        # its memory and write to the pipe that it holds.
        outer[1:1] = ["--unshare-user", "--as-pid-1", *closing]
    # The shell's file imports its neighbours, which -I would forbid; the environment is ours.
    flags = ["-I"] if script == "_supervisor.py" else ["-E", "-s"]
    program = [*machine.tool(_python(), base), *flags, "-B", f"{SCRIPTS}/{script}", machine.work]
    if gate is not None:
        program = [*machine.tool(_python(), base), *flags, "-B", f"{SCRIPTS}/_gate.py", str(PORT), SOCKET, *program]
    # Through a file: whoever sees the process, inside or here, reads its arguments; these name paths of this machine.
    arguments = _memory_file(b"\0".join(os.fsencode(word) for word in outer))
    fds = (arguments,) if fd is None else (arguments, fd)
    command = machine.mount_command(["bwrap", "--args", str(arguments), *lower, *program], root=user is not None)

    def done() -> None:
        for handle in fds:
            os.close(handle)
        if group is not None:
            group.remove()

    inner_command = command if group is None else group.inside(command)
    return Launch(inner_command, pass_fds=fds, done=done, group=group)


def _masks() -> list[str]:
    """Return what of /proc tells of the host's kernel as arguments that put nothing in its place."""
    return [
        word
        for name in _TELLING
        if Path("/proc", name).exists()
        for word in ("--ro-bind", "/dev/null", f"/proc/{name}")
    ]


def _environment(machine: Machine, gate: Gate | None, *, shell: bool) -> dict[str, str]:
    values = {**_ENVIRONMENT, "PATH": host_path()}
    if machine.image is not None:
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        values = {"PATH": path, "LANG": "C.UTF-8", "HOME": machine.home, **_INSTALLERS, **machine.environment}
    elif machine.layer != Path() and shell:
        del values["PYTHONPATH"]  # it would hide what is installed into a virtual environment; see Machine.prepare
        values |= {"HOME": machine.home, **_INSTALLERS, **machine.environment}
    if gate is None:
        return {**values, **_NO_NETWORK} if shell else values
    proxy = f"http://127.0.0.1:{PORT}"
    names = {variable: proxy for name in ("http_proxy", "https_proxy") for variable in (name, name.upper())}
    return {**values, **names, "no_proxy": "localhost,127.0.0.1", "NO_PROXY": "localhost,127.0.0.1", **gate.environment}


def host_path() -> str:
    return ":".join(dict.fromkeys((str(Path(_python()).parent), "/usr/bin", "/bin")))


def _python() -> str:
    base = getattr(sys, "_base_executable", "") or sys.executable
    return str(Path(base).resolve())


def _memory_file(data: bytes) -> int:
    fd = os.memfd_create("filter")
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
