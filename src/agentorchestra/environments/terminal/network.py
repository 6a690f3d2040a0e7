"""The hosts that commands of the terminal reach: through a proxy of this machine that judges every connection."""

from __future__ import annotations

import asyncio
import configparser
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from agentorchestra.core.errors import SettingsError
from agentorchestra.core.settings import WebSettings
from agentorchestra.environments.browser.session.boundary import Boundary
from agentorchestra.environments.browser.session.proxy import BoundaryProxy
from agentorchestra.sandbox.shell import Gate

_PIP_FILES = ("/etc/pip.conf", "/etc/xdg/pip/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf")
_APT = Path("/etc/apt")
_PIECE = 32 * 1024


@dataclass(frozen=True)
class Reach:
    hosts: tuple[str, ...] = ()
    private: tuple[str, ...] = ()  # `HOST:PORT` of them that may lie in a network of one's own
    environment: Mapping[str, str] = field(default_factory=dict)  # what tells installers where to look


def reach_of(hosts: Iterable[str], environ: Mapping[str, str]) -> Reach:
    """Return what the setting `terminal.hosts` means here; `pip` and `apt` stand for what this machine configures.

    Raises:
        SettingsError: this machine configures no index for pip.
    """
    names: list[str] = []
    private: list[str] = []
    variables: dict[str, str] = {}
    for host in hosts:
        if host == "pip":
            index = _pip_index(environ)
            if "PIP_INDEX_URL" not in index:
                raise SettingsError(
                    "terminal.hosts has 'pip', but pip has no index of its own on this machine: set one with `pip "
                    "config set global.index-url ADDRESS`, or name in place of 'pip' the hosts that pip reaches here"
                )
            for address in index.values():
                parts = urlsplit(address)
                if parts.hostname:
                    port = parts.port or (443 if parts.scheme == "https" else 80)
                    names.append(f"{parts.hostname}:{port}")
                    private.append(f"{parts.hostname}:{port}")
            variables |= {name: _without_password(address) for name, address in index.items()}
        elif host == "apt":
            names += _apt_hosts(_APT)
        else:
            names.append(host)
    return Reach(tuple(dict.fromkeys(names)), tuple(dict.fromkeys(private)), variables)


def _pip_index(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the indexes that pip is configured with on this machine, as pip's variables."""
    config = configparser.RawConfigParser(strict=False)
    config.read([Path(file).expanduser() for file in _PIP_FILES], encoding="utf-8")
    variables = {}
    for variable, option in (("PIP_INDEX_URL", "index-url"), ("PIP_EXTRA_INDEX_URL", "extra-index-url")):
        set_ = environ.get(variable) or str(config.get("global", option, fallback=""))
        first = next((word for word in set_.split() if word.startswith(("http://", "https://"))), "")
        if first:
            variables[variable] = first
    return variables


def _without_password(address: str) -> str:
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _apt_hosts(folder: Path) -> list[str]:
    texts = []
    for path in (folder / "sources.list", *sorted(folder.glob("sources.list.d/*"))):
        if path.suffix in (".list", ".sources") and path.is_file():
            texts += [line.partition("#")[0] for line in path.read_text(errors="replace").splitlines()]
    return [urlsplit(address).hostname or "" for address in re.findall(r"https?://[^\s/]+", "\n".join(texts))]


class TerminalProxy(BoundaryProxy):
    """The proxy behind a socket in a folder of its own, for the commands of one shell."""

    def __init__(self, reach: Reach, web: WebSettings) -> None:
        private = (*web.private, *reach.private) if reach.private else None
        boundary = Boundary(web, private=private, allow=reach.hosts, lists="terminal.hosts")
        super().__init__(boundary)
        self._reach = reach
        self._folder: Path | None = None

    async def start(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="agentorchestra-"))
        place = self._folder / "proxy"
        self._server = await asyncio.start_unix_server(self._serve, place, limit=_PIECE)
        os.chmod(place, 0o666)  # noqa: PTH101 - the folder is closed; only the sandbox has this one file

    async def close(self) -> None:
        await super().close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def gate(self) -> Gate:
        """The way to it, for the sandbox."""
        assert self._folder is not None
        return Gate(self._folder / "proxy", self._reach.environment)
