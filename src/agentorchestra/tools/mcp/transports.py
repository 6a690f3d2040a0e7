"""Ways to reach servers: HTTP that says what became of each request, and programs, of which nothing is left.

Programs speak in lines of JSON over their standard input and output. The SDK's own transport (`mcp.stdio_client`) keeps
a line of any length, at a cost that grows with its square, and ends what a program started only while the program
itself lives; otherwise this is what it does.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import MCP_SESSION_ID, streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from agentorchestra.core.errors import McpError
from agentorchestra.tools.mcp.config import Server

MAX_RESPONSE_BYTES = 50_000_000  # of one answer over HTTP, and of one event of a stream
_CONNECT_S = 10.0
_GOODBYE_S = 2.0
MAX_LINE_BYTES = 50_000_000
EXIT_S = 2.0  # seconds a program has to end when its input is closed, and once more when it is told to
_POLL_S = 0.01
_LAST_WORDS = 4_000
_Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


@dataclass
class Sending:
    """The fate of the HTTP requests of one call."""

    went_out: bool = False  # something of it went out
    unreachable: bool = False  # none of it was sent: nobody listens there
    session_gone: bool = False  # the server does not know this session any more, so it did nothing
    problem: str = ""  # why there is no answer, in a few words
    status: int = 0  # of the answer, 0 without one


# Of the call at hand; the SDK sends each request in the context of whoever asked for it
SENDING: ContextVar[Sending | None] = ContextVar("sending", default=None)


@asynccontextmanager
async def streams(server: Server, label: str, words: LastWords | None) -> AsyncIterator[Any]:
    """Give the SDK's pair of streams to a server; `words` takes what a program says besides, None for HTTP."""
    if words is not None:
        async with program_streams(_program(server, label), server, words) as pair:
            yield pair
        return
    async with (
        _Client(server) as client,
        streamable_http_client(server.url, http_client=client, max_sse_event_size=MAX_RESPONSE_BYTES) as pair,
    ):
        yield pair


def _program(server: Server, label: str) -> str:
    if server.cwd is not None and not server.cwd.is_dir():
        raise McpError(f'{label} is to run in the folder {server.cwd}, which is not there; correct "cwd"')
    command: str | None = server.command
    if os.sep in server.command:
        path = (server.cwd or Path.cwd()) / server.command
        command = str(path) if os.access(path, os.X_OK) and path.is_file() else None
    else:
        command = shutil.which(server.command, path=server.env.get("PATH"))
    if command is None:
        raise McpError(
            f"{label} starts the program {server.command!r}, which is not there or may not be run; install it, or give "
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

        async def trace(event: str, _info: Any) -> None:
            if event.endswith("send_request_headers.started"):
                sending.went_out = True

        request.extensions = {**request.extensions, "trace": trace}
        try:
            async with asyncio.timeout(_GOODBYE_S if request.method == "DELETE" else None):
                response = await super().send(request, **options)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as exc:
            sending.unreachable = True
            return _in_place_of(request, 503, sending, exc)
        except (httpx2.TransportError, TimeoutError) as exc:
            return _in_place_of(request, 502, sending, exc)
        sending.status = response.status_code
        if response.status_code == 404 and MCP_SESSION_ID in request.headers:
            sending.session_gone = True
        if response.headers.get("content-encoding", "identity").lower() not in ("identity", ""):
            await response.aclose()
            return _in_place_of(request, 502, sending, "its answer is compressed, which was not asked for")
        event_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Bounded(response.stream, None if event_stream else MAX_RESPONSE_BYTES, sending)
        return response


def _in_place_of(request: httpx2.Request, status: int, sending: Sending, reason: object) -> httpx2.Response:
    sending.problem = str(reason).strip() or type(reason).__name__
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
        size = 0
        try:
            async for chunk in self._inner:
                size += len(chunk)
                if self._most is not None and size > self._most:
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


class LastWords:
    """The end of a program's standard error, and what was wrong with what it sent ("" for nothing)."""

    def __init__(self) -> None:
        self.problem = ""
        self._read, write = os.pipe()
        os.set_blocking(self._read, False)
        self.file = os.fdopen(write, "wb")
        self._tail = b""
        asyncio.get_running_loop().add_reader(self._read, self._take)

    @property
    def text(self) -> str:
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
async def program_streams(command: str, server: Server, words: LastWords) -> AsyncIterator[_Streams]:
    """Start a program, or raise OSError; give the streams of messages from it and to it."""
    process = await asyncio.create_subprocess_exec(
        command,
        *server.args,
        env={**get_default_environment(), **server.env},
        cwd=server.cwd or Path.cwd(),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=words.file,
        start_new_session=True,
        limit=MAX_LINE_BYTES,
    )
    # Nothing is awaited from here to the try: a cancellation in between would leave the program behind.
    arriving, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, leaving = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks:
        try:
            tasks.start_soon(_read, process, arriving, words)
            tasks.start_soon(_write, process, leaving, arriving)
            yield incoming, outgoing
        finally:
            with anyio.CancelScope(shield=True):
                incoming.close()  # from here on what it says is read and dropped, or it could not end
                await _stop(process)
                with anyio.move_on_after(EXIT_S):
                    await process.wait()  # for the ends of its pipes too
                for stream in (arriving, outgoing, leaving):
                    stream.close()
            tasks.cancel_scope.cancel()


async def _read(
    process: asyncio.subprocess.Process, arriving: MemoryObjectSendStream[SessionMessage | Exception], words: LastWords
) -> None:
    assert process.stdout is not None
    with arriving, suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, asyncio.IncompleteReadError):
        while not words.problem:
            try:
                line = await process.stdout.readuntil(b"\n")
                await arriving.send(_message(line))
            except asyncio.LimitOverrunError:
                words.problem = f"it sent a line of more than {MAX_LINE_BYTES:,} bytes"
    while await process.stdout.read(65_536):
        pass


def _message(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as exc:
        return exc  # whoever listens to the session passes over it


async def _write(process: asyncio.subprocess.Process, leaving: Any, arriving: Any) -> None:
    assert process.stdin is not None
    try:
        with leaving:
            async for envelope in leaving:
                text = envelope.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()
    except OSError:
        arriving.close()  # it reads no more: whoever waits for an answer is told that the connection has ended


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Close its input, then tell it to end, then end it; and whatever of its session is left."""
    assert process.stdin is not None
    process.stdin.close()
    if not await _has_ended(process):
        _signal(process, signal.SIGTERM)
        await _has_ended(process)
    _signal(process, signal.SIGKILL)
    await _has_ended(process)


async def _has_ended(process: asyncio.subprocess.Process) -> bool:
    # Not `wait`: that waits for the end of its pipes too, which a program it started may hold.
    for _ in range(int(EXIT_S / _POLL_S)):
        if process.returncode is not None:
            return True
        await asyncio.sleep(_POLL_S)
    return process.returncode is not None


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
