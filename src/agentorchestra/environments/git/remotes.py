"""Where repositories may be fetched from and pushed to: over HTTP through the checked client, and on this machine."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import re
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from agentorchestra.core.errors import MissingKeyError, SettingsError, ToolError, WebError
from agentorchestra.core.protocols import RunContext
from agentorchestra.core.settings import GitSettings
from agentorchestra.environments.git.shell import COMMAND_S
from agentorchestra.environments.git.wire import ADVERTISED_BYTES, QUIET, Remote, Service, one_line
from agentorchestra.tools.web.addresses import WebAddress, parse_address
from agentorchestra.tools.web.http import Answer, WebClient

_SSH = re.compile(r"(?:ssh://)?(?:[\w.-]+@)?([A-Za-z0-9.-]+\.[A-Za-z0-9-]+)[:/](?!/)(.+)")
TRANSFER_S = 600.0  # of one fetch or push
EXAMPLE = "give one like https://github.com/owner/name.git"


class Remotes:
    """Find the remote behind an address, if the settings let it be used; raise SettingsError for wrong settings."""

    def __init__(self, settings: GitSettings, web: WebClient) -> None:
        self._settings, self._web = settings, web
        try:
            self._beginnings = [parse_address(remote) for remote in settings.remotes]
        except WebError as error:
            raise SettingsError(f"git.remotes: {error}") from None
        for path in settings.local:
            if not Path(path).is_absolute():
                raise SettingsError(f"git.local names {path!r}; give absolute paths")

    def find(self, ctx: RunContext[Any], address: str) -> Remote:
        """Return the remote of an address; raise ToolError for one that may not be used."""
        text = address.strip()
        if text.startswith("/") or text.lower().startswith("file:"):
            return self._local(ctx, text)
        if "::" in text.partition("/")[0] or text.startswith("-") or not text.isprintable():
            raise ToolError(f"{one_line(text)!r} is no address of a repository that may be used; {EXAMPLE}")
        if not text.lower().startswith(("http://", "https://")):
            way = _SSH.fullmatch(text)
            hint = f"use https://{way[1]}/{way[2]}" if way else EXAMPLE
            raise ToolError(f"{one_line(text)!r} cannot be reached from here: only https:// is spoken; {hint}")
        try:
            target = parse_address(text)
        except WebError as error:
            raise ToolError(f"{error} (tokens are named in the settings, git.tokens)") from None
        if "?" in target.path:
            raise ToolError(f"{one_line(text)!r} is no address of a repository: it has a `?`; {EXAMPLE}")
        is_listed = any(_begins(target, beginning) for beginning in self._beginnings)
        if self._beginnings and not is_listed:
            raise ToolError(
                f"{target.url} may not be used: the settings allow addresses that begin with "
                f"{', '.join(self._settings.remotes)}"
            )
        variable = self._settings.tokens.get(target.place) or self._settings.tokens.get(target.host) or ""
        loopback = target.host == "localhost" or (target.ip is not None and target.ip.is_loopback)
        if variable and target.scheme != "https" and not loopback:
            raise ToolError(f"{target.url} is not encrypted, so its token cannot be sent; use https://")
        token = ""
        with contextlib.suppress(MissingKeyError):
            token = ctx.secret(variable) if variable else ""
        return HttpRemote(self._web, target, variable, token, private=is_listed or bool(variable))

    def _local(self, ctx: RunContext[Any], text: str) -> Remote:
        parts = urlsplit(text) if text.lower().startswith("file:") else None
        if parts is not None and parts.netloc not in ("", "localhost"):
            raise ToolError(f"{one_line(text)!r} names a file of another machine; {EXAMPLE}")
        location = Path(unquote(parts.path) if parts is not None else text)
        try:
            path = location.resolve(strict=True)
            allowed = [Path(name).resolve() for name in self._settings.local]
            runs = ctx.folder.resolve().parent
        except (OSError, ValueError, RuntimeError):
            raise ToolError(f"there is no repository at {one_line(text)}; check the path") from None
        # What agents write is below the folder of the runs: hooks there would be theirs.
        if not any(path.is_relative_to(folder) for folder in allowed) or path.is_relative_to(runs):
            raise ToolError(
                f"{one_line(text)} may not be used: whoever runs this names repositories of this machine in the "
                "settings, git.local"
            )
        if not (path / "objects").is_dir() or not (path / "HEAD").is_file():
            raise ToolError(f"{one_line(text)} is no bare repository; make one with git init --bare")
        return LocalRemote(path, TRANSFER_S)


class HttpRemote:
    """A repository that a server has, if `private` in a place that the user named; `variable` holds `token`."""

    def __init__(self, web: WebClient, address: WebAddress, variable: str, token: str, *, private: bool) -> None:
        self._web, self._address = web, address
        self.url = address.url.rstrip("/")
        self._variable, self._token = variable, token
        self._private = [address.place] if private else []

    async def advertise(self, service: Service) -> bytes:
        """Return its refs. Where it moved to is where it is asked from here on."""
        tail = f"/info/refs?service={service}"
        answer = await self._ask("GET", tail, None, ADVERTISED_BYTES, service, "*/*")
        if answer.media_type != f"application/x-{service}-advertisement":
            raise ToolError(f"{self.url} is no git repository (it answers with {answer.media_type or 'no type'})")
        if answer.redirects and answer.url.endswith(tail):
            self.url = answer.url.removesuffix(tail)
        return answer.body

    async def exchange(self, service: Service, body: bytes, max_bytes: int) -> bytes:
        accept = f"application/x-{service}-result"
        try:
            answer = await self._ask("POST", f"/{service}", body, max_bytes, service, accept)
        except WebError as error:
            if service != "git-receive-pack" or error.kind == "refused":
                raise
            raise ToolError(f"{error}; the push may or may not have been made: fetch it before pushing again") from None
        if answer.media_type != accept:
            # It may have been sent on as a read, which moves nothing and answers something.
            raise ToolError(
                f"{self.url} answered with {answer.media_type or 'no type'} in place of what git answers; fetch it "
                "to see how it stands, and check the address"
            )
        return answer.body

    async def _ask(
        self, method: str, tail: str, body: bytes | None, max_bytes: int, service: Service, accept: str
    ) -> Answer:
        headers = {"accept": accept, "user-agent": "git/2 (agentorchestra)"}
        if body is not None:
            headers["content-type"] = f"application/x-{service}-request"
        # The token is for the host it was named for, wherever the repository moved to.
        secret = ""
        if self._token and parse_address(self.url).origin == self._address.origin:
            secret = base64.b64encode(f"x-access-token:{self._token}".encode()).decode("ascii")
            headers["authorization"] = f"Basic {secret}"
        answer = await self._web.request(
            method,
            self.url + tail,
            headers=headers,
            data=body,
            allowed=self._private,
            max_bytes=max_bytes,
            timeout_s=COMMAND_S if body is None else TRANSFER_S,
            retry=False,
        )
        if answer.status != 200:
            raise ToolError(self._sentence(answer, service, secret))
        return answer

    def _sentence(self, answer: Answer, service: Service, secret: str) -> str:
        doing = "push" if service == "git-receive-pack" else "read"
        name = self._variable
        remark = answer.text[:300] if answer.media_type == "text/plain" else ""
        for value in (self._token, secret):
            remark = remark.replace(value, f"secret:{name}") if value else remark
        remark = f' (it says "{one_line(remark)}")' if remark.strip() else ""
        if answer.status == 401 and not self._token:
            host = self._address.host if self._address.port in (80, 443) else self._address.place
            setting = f"the settings name its variable: git.tokens = {{ {host!r} = ... }}"
            hint = f"export {name}=..." if name else setting
            return f"{self.url} wants a token for a {doing}{remark}: {hint}"
        if answer.status == 401:
            return f"{self.url} does not accept the token in {name}{remark}: whoever set it has to make a new one"
        if answer.status == 403:
            return f"{self.url} lets the token in {name or 'use'} not {doing}{remark}: it needs the permission"
        if answer.status == 404:
            return (
                f"there is no repository at {self.url}, or the token may not see it{remark}: create it first, or check "
                "owner and name"
            )
        return f"{self.url} answered {answer.status} to a {doing}{remark}: try again later"


class LocalRemote:
    """A bare repository of this machine that the user named; its own hooks run as they do for every push."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        self.url, self._timeout_s = str(path), timeout_s

    async def advertise(self, service: Service) -> bytes:
        return await self._git(service, ("--http-backend-info-refs",), b"", ADVERTISED_BYTES)

    async def exchange(self, service: Service, body: bytes, max_bytes: int) -> bytes:
        return await self._git(service, (), body, max_bytes)

    async def _git(self, service: Service, options: Sequence[str], data: bytes, max_bytes: int) -> bytes:
        command = service.removeprefix("git-")
        process = await asyncio.create_subprocess_exec(
            *("git", command, "--stateless-rpc", *options, self.url),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"PATH": os.environ.get("PATH", os.defpath), "HOME": "/nonexistent", "LC_ALL": "C", **QUIET},
            cwd="/",
            start_new_session=True,
        )

        def end() -> None:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

        try:
            async with asyncio.timeout(self._timeout_s):
                errors, out, _ = await asyncio.gather(
                    _read(process.stderr, 1 << 16, lambda: None),
                    _read(process.stdout, max_bytes, end),
                    _write(process.stdin, data),
                )
                await process.wait()
        except TimeoutError:
            raise ToolError(
                f"{self.url} did not answer within {self._timeout_s:g} s (a hook there may hang); look before trying "
                "again"
            ) from None
        finally:
            if process.returncode is None:
                end()
                await asyncio.shield(process.communicate())  # `wait` alone hangs where a full pipe has no reader
        if len(out) > max_bytes:
            raise ToolError(
                f"there is more than {max_bytes >> 20} MiB to read; give a depth, or raise git.max_pack_mib"
            )
        if process.returncode != 0 and not out:
            words = (errors.decode("utf-8", "replace").strip().splitlines() or ["no reason given"])[-1]
            raise ToolError(f"{self.url} cannot be used: {one_line(words)}")
        return out


async def _read(stream: asyncio.StreamReader | None, most: int, on_more: Callable[[], None]) -> bytes:
    """Read all that a process says, since it counts as ended when its pipes are empty; return `most` bytes and one."""
    assert stream is not None
    buffer = bytearray()
    while data := await stream.read(1 << 16):
        buffer += data[: most + 1 - len(buffer)]
        if len(buffer) > most:
            on_more()
    return bytes(buffer)


async def _write(stream: asyncio.StreamWriter | None, data: bytes) -> None:
    assert stream is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it says on its other outputs why it left
        stream.write(data)
        await stream.drain()
    stream.close()


def _begins(address: WebAddress, beginning: WebAddress) -> bool:
    """Return True if an address lies below another, by whole parts of its path and with none that lead up again."""
    low = address.path.lower()
    if ".." in address.path.split("/") or any(sign in low for sign in ("%2e", "%2f", "%5c", "\\", "//")):
        return False
    path = beginning.path.rstrip("/")
    return address.origin == beginning.origin and (
        address.path in (path, f"{path}.git") or address.path.startswith(f"{path}/")
    )
