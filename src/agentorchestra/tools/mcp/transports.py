"""How servers are reached: programs whose last words are kept, and HTTP that says what became of each request."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx2
from mcp import StdioServerParameters, stdio_client
from mcp.client.streamable_http import MCP_SESSION_ID, streamable_http_client

from agentorchestra.core.errors import McpError
from agentorchestra.tools.mcp.config import Server

MAX_RESPONSE_BYTES = 50_000_000
"""Of one answer over HTTP, and of one event of a stream."""

_CONNECT_S = 10.0
_GOODBYE_S = 2.0
_LAST_WORDS = 4_000


@dataclass
class Sending:
    """What became of the HTTP requests of one call.

    Attributes:
        unsent: none of it was sent: nobody listens there.
        refused: the server does not know this session any more, so it did nothing.
        problem: why there is no answer, in a few words.
        status: of the answer, 0 without one.
    """

    unsent: bool = False
    refused: bool = False
    problem: str = ""
    status: int = 0


SENDING: ContextVar[Sending | None] = ContextVar("sending", default=None)
"""Of the call at hand; the SDK sends each request in the context of whoever asked for it."""


class LastWords:
    """The end of what a program writes to its standard error, which nobody else reads.

    Attributes:
        file: for the program to write to.
    """

    def __init__(self) -> None:
        self._read, write = os.pipe()
        os.set_blocking(self._read, False)
        self.file = os.fdopen(write, "w")
        self._tail = b""
        asyncio.get_running_loop().add_reader(self._read, self._take)

    @property
    def text(self) -> str:
        """As far as it is kept."""
        return self._tail.decode("utf-8", "replace").strip()

    def _take(self) -> None:
        try:
            data = os.read(self._read, 65_536)
        except BlockingIOError:
            return
        if not data:
            asyncio.get_running_loop().remove_reader(self._read)
        self._tail = (self._tail + data)[-_LAST_WORDS:]

    def close(self) -> None:
        """Read what is there, then let go of the pipe."""
        self._take()
        asyncio.get_running_loop().remove_reader(self._read)
        self.file.close()
        os.close(self._read)


@asynccontextmanager
async def streams(server: Server, where: str, words: LastWords | None) -> AsyncIterator[Any]:
    """The SDK's pair of streams to a server.

    Args:
        server: which one.
        where: for messages.
        words: takes what a program writes to its standard error; None for HTTP.

    Raises:
        McpError: if the program is not there.
    """
    async with AsyncExitStack() as stack:
        if words is not None:
            yield await stack.enter_async_context(stdio_client(_program(server, where), errlog=words.file))
        else:
            client = await stack.enter_async_context(_Client(server))
            yield await stack.enter_async_context(
                streamable_http_client(server.url, http_client=client, max_sse_event_size=MAX_RESPONSE_BYTES)
            )


def _program(server: Server, where: str) -> StdioServerParameters:
    if server.cwd is not None and not server.cwd.is_dir():
        raise McpError(f'{where} is to run in the folder {server.cwd}, which is not there; correct "cwd"')
    command: str | None = server.command
    if os.sep in server.command:
        path = (server.cwd or Path.cwd()) / server.command
        command = str(path) if os.access(path, os.X_OK) and path.is_file() else None
    else:
        command = shutil.which(server.command, path=server.env.get("PATH"))
    if command is None:
        raise McpError(
            f"{where} starts the program {server.command!r}, which is not there or may not be run; install it, or give "
            'its whole path as "command"'
        )
    return StdioServerParameters(command=command, args=list(server.args), env=dict(server.env), cwd=server.cwd)


class _Client(httpx2.AsyncClient):
    """One that answers in place of a server that cannot, so that one failed request ends no other."""

    def __init__(self, server: Server) -> None:
        super().__init__(
            # Compressed answers could be any size: none are asked for, none are taken.
            headers={**server.headers, "Accept-Encoding": "identity"},
            timeout=httpx2.Timeout(_CONNECT_S, read=None),  # how long a call takes is the caller's to limit
            trust_env=not _is_loopback(server.url),  # a proxy is no way to this machine
            follow_redirects=False,
        )

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """The answer; one of our own where there is none."""
        sending = SENDING.get() or Sending()
        try:
            async with asyncio.timeout(_GOODBYE_S if request.method == "DELETE" else None):
                response = await super().send(request, **options)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as exc:
            sending.unsent = True
            return _in_place_of(request, 503, sending, exc)
        except (httpx2.TransportError, TimeoutError) as exc:
            return _in_place_of(request, 502, sending, exc)
        sending.status = response.status_code
        if response.status_code == 404 and MCP_SESSION_ID in request.headers:
            sending.refused = True
        if response.headers.get("content-encoding", "identity").lower() not in ("identity", ""):
            await response.aclose()
            return _in_place_of(request, 502, sending, "its answer is compressed, which was not asked for")
        event_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Bounded(response.stream, None if event_stream else MAX_RESPONSE_BYTES, sending)
        return response


def _in_place_of(request: httpx2.Request, status: int, sending: Sending, why: object) -> httpx2.Response:
    sending.problem = str(why).strip() or type(why).__name__
    return httpx2.Response(status, request=request)


def _is_loopback(url: str) -> bool:
    host = httpx2.URL(url).host
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


class _Bounded(httpx2.AsyncByteStream):
    """A body up to a size; one that breaks off does so in the way the SDK expects."""

    def __init__(self, inner: httpx2.AsyncByteStream, most: int | None, sending: Sending) -> None:
        self._inner = inner
        self._most = most
        self._sending = sending

    async def __aiter__(self) -> AsyncIterator[bytes]:
        taken = 0
        try:
            async for chunk in self._inner:
                taken += len(chunk)
                if self._most is not None and taken > self._most:
                    raise httpx2.StreamError(f"the answer has more than {self._most:,} bytes")
                yield chunk
        except httpx2.TransportError as exc:
            self._sending.problem = str(exc).strip() or type(exc).__name__
            raise httpx2.StreamError(self._sending.problem) from exc

    async def aclose(self) -> None:
        await self._inner.aclose()


def quiet() -> None:
    """Let the SDK's tracebacks not reach a terminal where nobody has set up logging."""
    for name in ("mcp", "client"):
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())


__all__ = ["MAX_RESPONSE_BYTES", "SENDING", "LastWords", "Sending", "quiet", "streams"]
