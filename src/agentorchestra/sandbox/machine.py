"""The machine of a shell: what it may write besides its working folder, in a layer of the host that is the run's own.

Without an image `/home`, `/tmp` and `/opt` are folders of the layer, over the host's read-only `/usr`. With an image
the layer is the upper folder of an overlay (`userxattr`, so that no right is needed that a user namespace does not
give), and bubblewrap runs inside of the mounted root. What starts the shell there (bubblewrap, setpriv, Python) is the
host's and runs with the host's own loader and libraries, because an image may have others, or none.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentorchestra.core.errors import SandboxUnavailableError

WORK = "/work"
PLACE = "/run/agentorchestra"  # the place inside of what the shell itself needs
LIBRARIES = f"{PLACE}/libraries"  # a folder of it with what Python programs may import
TEMPORARY = f"{PLACE}/shell"  # a folder of it for what is gone with the shell
HOST = f"{PLACE}/host"  # with an image: where the host's /usr and Python are seen
NOBODY_UID = 65534
FOLDERS = ("home", "tmp", "opt")  # the folders of the layer that are seen at the root where there is no image
HOSTS = "127.0.0.1 localhost\n::1 localhost\n"  # the names that commands know without a network, as /etc/hosts has them
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LOADERS = {"x86_64": "/lib64/ld-linux-x86-64.so.2", "aarch64": "/lib/ld-linux-aarch64.so.1"}
_LIBRARIES = ("/usr/lib/{}-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib")
_MOUNT = (
    'cd "$0" && mount -t overlay -o userxattr,lowerdir=lower,upperdir=upper,workdir=work overlay root '
    '&& cd / && exec "$@"'
)


@dataclass(frozen=True)
class Machine:
    """What the commands of a shell find and may change besides the working folder."""

    layer: Path  # the folder of the host that takes what they write
    image: Path | None = None  # the unpacked root below the layer; None for the host's /usr
    work: str = WORK  # where the working folder is seen
    user: int = NOBODY_UID  # whose number commands see as their own; 0 looks like root
    environment: Mapping[str, str] = field(default_factory=dict)  # variables that commands find besides

    @property
    def home(self) -> str:
        return "/root" if self.user == 0 else "/home/agent"

    def prepare(self) -> None:
        """Make what has to be there before the first command, as far as it is not. Blocks."""
        place = self._overlay
        shutil.rmtree(place, ignore_errors=True)
        if self.image is None:
            # Below these folders commands may have put links that lead anywhere: only what is new is written to.
            new = not (self.layer / "home").is_dir()
            for name in FOLDERS:
                (self.layer / name).mkdir(parents=True, exist_ok=True)
            (self.layer / "tmp").chmod(0o1777)
            self._make_work()
            if new:
                version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
                site = self.layer / "home/agent/.local/lib" / version / "site-packages"
                site.mkdir(parents=True)
                # Not PYTHONPATH: what is installed later, and in virtual environments, goes first.
                (site / "agentorchestra.pth").write_text(f"{LIBRARIES}\n")
            place.mkdir()
            (place / "passwd").write_text(f"agent:x:{NOBODY_UID}:{NOBODY_UID}:agent:{self.home}:/bin/bash\n")
            (place / "group").write_text(f"agent:x:{NOBODY_UID}:\n")
            (place / "hosts").write_text(HOSTS)
            (place / "nsswitch.conf").write_text("hosts: files\n")
            return
        self.layer.mkdir(parents=True, exist_ok=True)
        for name in ("work", "root"):
            (place / name).mkdir(parents=True)
        # Links, because a path in a mount's options could hold a comma or a colon.
        (place / "lower").symlink_to(self.image.absolute())
        (place / "upper").symlink_to(self.layer.absolute())

    def _make_work(self) -> None:
        """Make the place of the working folder where that is below a folder of the layer.

        The sandbox would follow a link that commands put on its way; none of theirs runs now.
        """
        parts = self.work.strip("/").split("/")
        at = os.open(self.layer, _FOLDER)
        try:
            for part in parts if parts[0] in FOLDERS else ():
                try:
                    below = os.open(part, _FOLDER, dir_fd=at)
                except OSError:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(part, dir_fd=at)
                    os.mkdir(part, 0o755, dir_fd=at)
                    below = os.open(part, _FOLDER, dir_fd=at)
                os.close(at)
                at = below
        finally:
            os.close(at)

    @property
    def _overlay(self) -> Path:
        return self.layer.parent / "overlay"

    def mount_command(self, command: Sequence[str], *, root: bool) -> list[str]:
        """Return the command that runs `command` where the overlay is mounted; without the host's `root` as its own."""
        if self.image is None:
            return list(command)
        own = [] if root else ["--map-root-user"]
        unshare = ["unshare", *own, "--mount", "--propagation", "private", "/bin/sh", "-c", _MOUNT]
        return [*unshare, str(self._overlay.absolute()), *command]

    def root_systems(self, base: str) -> list[str]:
        """Return the root with an image, as arguments of bubblewrap; `base` is where the host's Python lies."""
        systems = ["--bind", str(self._overlay.absolute() / "root"), "/", "--dev", "/dev", "--proc", "/proc"]
        systems += ["--perms", "0755", "--tmpfs", "/run"]
        own = not base.startswith("/usr/") and base != "/usr"
        # By hand: bubblewrap would close them to other users.
        above = [f"{HOST}{parent}" for parent in reversed(Path(base).parents[:-1])] if own else []
        for folder in (PLACE, HOST, *above):
            systems += ["--perms", "0755", "--dir", folder]
        systems += ["--ro-bind", "/usr", f"{HOST}/usr", *(("--ro-bind", base, f"{HOST}{base}") if own else ())]
        return systems

    def tool(self, program: str, base: str) -> list[str]:
        """Return the command that runs a program of the host inside."""
        if self.image is None:
            return [shutil.which(program) or program]
        path = Path(shutil.which(program) or program).resolve()
        if not path.is_relative_to("/usr") and not path.is_relative_to(base):
            raise SandboxUnavailableError(f"{path} cannot be used inside an image; install it below /usr")
        machine = platform.machine()
        loader = Path(_LOADERS.get(machine, "")).resolve()
        libraries = [f"{HOST}{library.format(machine)}" for library in _LIBRARIES] + [f"{HOST}{base}/lib"]
        return [
            f"{HOST}{loader}",
            *("--library-path", ":".join(libraries), "--argv0", f"{HOST}{path}", f"{HOST}{path}"),
        ]

    def layer_systems(self, *, network: bool) -> list[str]:
        """Return the folders of the layer, as arguments of bubblewrap, where there is no image."""
        systems = ["--symlink", self.work, "/workspace"]
        for parent in reversed(Path(self.work).parents[:-1]):  # by hand: bubblewrap would close them to other users
            systems += ["--perms", "0755", "--dir", str(parent)]
        for name in FOLDERS:
            systems += ["--bind", str(self.layer.absolute() / name), f"/{name}"]
        for name in ("passwd", "group", *(() if network else ("hosts", "nsswitch.conf"))):
            systems += ["--ro-bind", str(self._overlay.absolute() / name), f"/etc/{name}"]
        return systems


def host_base() -> str:
    """Return what distinguishes the system below a layer without an image from others, for a snapshot."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {"ID": platform.system().lower()}
    return f"host {release.get('ID', '')} {release.get('VERSION_ID', '')} {os.uname().machine}".replace("  ", " ")


def python_base() -> str:
    return str(Path(sys.base_prefix).resolve())
