"""Ways to reach servers: programs, and HTTP that says what became of each request."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx2
from mcp.client.streamable_http import MCP_SESSION_ID, streamable_http_client

from agentorchestra.core.errors import McpError
from agentorchestra.tools.mcp.config import Server
from agentorchestra.tools.mcp.programs import LastWords, program_streams

MAX_RESPONSE_BYTES = 50_000_000  # of one answer over HTTP, and of one event of a stream
_CONNECT_S = 10.0
_GOODBYE_S = 2.0


@dataclass
class Sending:
    """The fate of the HTTP requests of one call."""

    begun: bool = False  # something of it went out
    unsent: bool = False  # none of it was sent: nobody listens there
    refused: bool = False  # the server does not know this session any more, so it did nothing
    problem: str = ""  # why there is no answer, in a few words
    status: int = 0  # of the answer, 0 without one


# Of the call at hand; the SDK sends each request in the context of whoever asked for it
SENDING: ContextVar[Sending | None] = ContextVar("sending", default=None)


@asynccontextmanager
async def streams(server: Server, where: str, words: LastWords | None) -> AsyncIterator[Any]:
    """Give the SDK's pair of streams to a server; `words` takes what a program says besides, None for HTTP."""
    if words is not None:
        async with program_streams(_program(server, where), server, words) as pair:
            yield pair
        return
    async with (
        _Client(server) as client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=MAX_RESPONSE_BYTES) as pair,
    ):
        yield pair


def _program(server: Server, where: str) -> str:
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
    return command


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
        """Return the answer; one of our own where there is none."""
        sending = SENDING.get() or Sending()

        async def told(event: str, _info: Any) -> None:
            if event.endswith("send_request_headers.started"):
                sending.begun = True

        request.extensions = {**request.extensions, "trace": told}
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
