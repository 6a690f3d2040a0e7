"""Servers that are programs: lines of JSON over their standard input and output, bounded, and nothing left of them.

The SDK's own transport (`mcp.stdio_client`) keeps a line of any length, at a cost that grows with its square, and ends
what a program started only while the program itself lives; otherwise this is what it does.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from agentorchestra.tools.mcp.config import Server

MAX_LINE_BYTES = 50_000_000
EXIT_S = 2.0  # seconds a program has to end when its input is closed, and once more when it is told to
_POLL_S = 0.01
_LAST_WORDS = 4_000
_Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


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
        """The end of what it wrote to its standard error."""
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
    """Start a program; give the streams of messages from it and to it. `words` takes what it writes besides.

    Raises:
        OSError: if it cannot be started.
    """
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
    arriving, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sent, leaving = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks:
        try:
            tasks.start_soon(_read, process, arriving, words)
            tasks.start_soon(_write, process, leaving, arriving)
            yield received, sent
        finally:
            with anyio.CancelScope(shield=True):
                received.close()  # from here on what it says is read and dropped, or it could not end
                await _stop(process)
                with anyio.move_on_after(EXIT_S):
                    await process.wait()  # for the ends of its pipes too
                for stream in (arriving, sent, leaving):
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
            async for one in leaving:
                text = one.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()
    except OSError:
        arriving.close()  # it reads no more: whoever waits for an answer is told that the connection has ended


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Close its input, then tell it to end, then end it; and whatever of its session is left."""
    assert process.stdin is not None
    process.stdin.close()
    if not await _ended(process):
        _signal(process, signal.SIGTERM)
        await _ended(process)
    _signal(process, signal.SIGKILL)
    await _ended(process)


async def _ended(process: asyncio.subprocess.Process) -> bool:
    # Not `wait`: that waits for the end of its pipes too, which a program it started may hold.
    for _ in range(int(EXIT_S / _POLL_S)):
        if process.returncode is not None:
            return True
        await asyncio.sleep(_POLL_S)
    return process.returncode is not None


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
