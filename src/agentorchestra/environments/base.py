"""What the machine of a run's worlds lies on: this host's /usr, or an image."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentorchestra.core.errors import SettingsError, ToolError
from agentorchestra.core.settings import TerminalCopy, TerminalSettings
from agentorchestra.sandbox.ground import IMAGE_USER, chooses_users
from agentorchestra.sandbox.image import Image, read_image, unpack
from agentorchestra.sandbox.machine import NOBODY_UID, WORK, Machine, host_base

_NOT_FOLDERS = ("/dev", "/proc", "/run", "/sys", "/usr")
_NOT_ON_THE_HOST = (*_NOT_FOLDERS, "/bin", "/etc", "/home", "/lib", "/lib64", "/opt", "/sbin", "/tmp", "/workspace")


@dataclass(frozen=True)
class Base:
    """A base and where it is unpacked; `name` stands in snapshots, and with another one they mean nothing."""

    name: str
    work: str = WORK  # where the folder is seen
    image: Image | None = None
    images: Path = Path()  # the folder of unpacked images
    copies: tuple[TerminalCopy, ...] = ()  # what a new folder begins with
    environment: Mapping[str, str] = field(default_factory=dict)  # variables that commands find

    def machine(self, layer: Path) -> Machine:
        """Return the machine with this layer; an image is unpacked first, or ImageError raised. Blocks."""
        if self.image is None:
            return Machine(layer, work=self.work, environment=self.environment)
        root = unpack(self.image, self.images, IMAGE_USER if chooses_users() else None)
        user = _number(self.image.user, root)
        return Machine(layer, root, self.work, user, {**self.image.environment, **self.environment})

    def begin(self, machine: Machine, folder: Path) -> None:
        """Put into a new folder what an image has where the folder will be seen, and the copies. Blocks."""
        if machine.image is not None:
            self._begin_as_image(machine.image, folder)
        for copy in self.copies:
            source, target = Path(copy.source).expanduser(), folder / copy.to
            try:
                if source.is_dir():
                    shutil.copytree(source, target, dirs_exist_ok=True)
                else:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(source, target)
            except (OSError, shutil.Error) as exc:
                raise ToolError(f"{copy.source} of terminal.copies cannot be copied: {exc}") from None

    def _begin_as_image(self, at: Path, folder: Path) -> None:
        for part in self.work.strip("/").split("/"):
            at /= part
            if at.is_symlink() or not at.is_dir():
                return  # the image has nothing there, or leads elsewhere
        try:
            shutil.copytree(at, folder, symlinks=True, dirs_exist_ok=True)
        except (OSError, shutil.Error) as exc:
            raise ToolError(f"{self.work} of the image cannot be copied into the run's folder: {exc}") from None


def base_for(settings: TerminalSettings, images: Path) -> Base:
    """Return the base that the settings name; nothing is unpacked. Blocks for an image.

    Raises:
        ImageError: the image does not exist, is none, or is for another processor.
        SettingsError: the working folder is none that commands can have, or a copy leads out of it.
    """
    for copy in settings.copies:
        if copy.to.startswith("/") or ".." in copy.to.split("/"):
            raise SettingsError(
                f"terminal.copies has to = {copy.to!r}, which leads out of the run's folder; give a path below it"
            )
        if settings.image:
            raise SettingsError("terminal.copies is for a machine without terminal.image; put the files into the image")
        _check_source(Path(copy.source).expanduser())
    if not settings.image:
        work = settings.workdir or WORK
        _check_work(work, _NOT_ON_THE_HOST)
        return Base(host_base(), work.rstrip("/"), copies=settings.copies, environment=settings.environment)
    image = read_image(Path(settings.image).expanduser())
    work = settings.workdir or ("" if image.work == "/" else image.work) or WORK
    _check_work(work, _NOT_FOLDERS)
    return Base(f"image {image.digest}", work.rstrip("/"), image, images, settings.copies, settings.environment)


def _check_source(source: Path) -> None:
    """Refuse what is not there, and links: copied, or followed, one could lead out of where it belongs."""
    if not source.exists():
        raise SettingsError(f"{str(source)!r} is to be copied (terminal.copies) and does not exist; put it there")
    for path in (source, *source.rglob("*")):
        if path.is_symlink():
            raise SettingsError(
                f"{str(path)!r} is to be copied (terminal.copies) and is a link; put the file itself there"
            )


def _check_work(work: str, folders: tuple[str, ...]) -> None:
    below = any(work == other or work.startswith(f"{other}/") for other in folders)
    if not work.startswith("/") or not work.strip("/") or ".." in work.split("/") or below:
        raise SettingsError(f"commands cannot work in {work!r}; set terminal.workdir to a folder such as /app")


def _number(user: str, root: Path) -> int:
    """Return the number of an image's user; a name that the image does not know is nobody."""
    name = user.partition(":")[0]
    if name in ("", "root"):
        return 0
    if name.isdigit():
        return min(int(name), NOBODY_UID)
    passwd = root / "etc" / "passwd"
    if passwd.is_file() and not passwd.is_symlink() and not passwd.parent.is_symlink():
        for line in passwd.read_text(errors="replace").splitlines():
            fields = line.split(":")
            if len(fields) > 2 and fields[0] == name and fields[2].isdigit():
                return min(int(fields[2]), NOBODY_UID)
    return NOBODY_UID
