"""A process at the other end of a pipe: started, ended without a trace, its lines and outputs bounded.

Shared by the host's ends of programs (drive.py) and of shells (shelldrive.py).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import json
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

PRINTED_BYTES = 200_000
"""Of each output that is kept: the first and the last half."""

LONGEST_LINE = 4 << 20

OnKill = Callable[[], Awaitable[None]]


class Broken(Exception):
    """The other end does not keep to the protocol."""


@dataclass
class Output:
    """The beginning and the end of an output."""

    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    size: int = 0

    def add(self, data: bytes) -> None:
        self.size += len(data)
        half = PRINTED_BYTES // 2
        room = half - len(self.head)
        self.head += data[:room] if room > 0 else b""
        self.tail += data[max(0, room) :]
        if len(self.tail) > 2 * half:
            del self.tail[:-half]

    def text(self) -> str:
        tail = bytes(self.tail[-(PRINTED_BYTES // 2) :])
        left = self.size - len(self.head) - len(tail)
        note = f"\n[{left:,} bytes left out]\n".encode() if left > 0 else b""
        return (bytes(self.head) + note + tail).decode("utf-8", "replace")


async def started(
    command: Sequence[str], *, env: dict[str, str], pass_fds: Sequence[int] = (), on_kill: OnKill | None = None
) -> asyncio.subprocess.Process:
    """The command's process. asyncio may wait for ever when it is cancelled in the middle of this, so it is not."""
    creating = asyncio.create_task(
        asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=env,
            pass_fds=pass_fds,
            start_new_session=True,  # an interrupt at the terminal is for us
            limit=LONGEST_LINE,
        )
    )
    try:
        return await asyncio.shield(creating)
    except asyncio.CancelledError:
        await asyncio.wait({creating})
        if not creating.cancelled() and creating.exception() is None:
            await ended(creating.result(), [], on_kill=on_kill)
        raise


async def ended(
    process: asyncio.subprocess.Process, tasks: list[asyncio.Task[Any]], *, on_kill: OnKill | None = None
) -> None:
    """End a process and the tasks that listen to it; nothing of it is left.

    Args:
        process: started here.
        tasks: to be cancelled.
        on_kill: awaited when it had to be killed.
    """
    for task in tasks:
        task.cancel()
    if process.stdin is not None and not process.stdin.transport.is_closing():
        process.stdin.transport.abort()  # a supervisor that is only now coming up finds its input closed, and ends
    if process.returncode is None:
        # The group: the command may have children that do not yet go with it. By number: Process.kill could take
        # the status from asyncio.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if on_kill is not None:
            await asyncio.shield(on_kill())
    # Output that nobody reads any more must not keep its pipe, and so the wait for the end, open. asyncio has no
    # public way to close it.
    transport: asyncio.SubprocessTransport | None = getattr(process, "_transport", None)
    for fd in (1, 2):
        pipe = transport.get_pipe_transport(fd) if transport is not None else None
        if pipe is not None:
            pipe.close()
    # A killed process ends at once: wait even while being cancelled.
    await asyncio.shield(process.wait())
    await asyncio.gather(*tasks, return_exceptions=True)
    if transport is not None:
        transport.close()


async def message_of(process: asyncio.subprocess.Process) -> dict[str, Any] | None:
    """The next message, None at the end.

    Raises:
        Broken: for what is none.
    """
    assert process.stdout is not None
    try:
        line = await process.stdout.readline()
    except ValueError:
        raise Broken("it sent a line that is longer than allowed") from None
    if not line:
        return None
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        raise Broken("it sent something that is not JSON") from None
    if not isinstance(message, dict):
        raise Broken("it sent something that is no message")
    return message


def decoded(message: dict[str, Any]) -> bytes:
    """The data of a message."""
    try:
        return base64.b64decode(message["data"], validate=True)
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise Broken("it sent data that cannot be read") from None


def shown(value: object) -> str:
    """Something that may be a text, for a sentence; anything else could be nested without end."""
    return value if isinstance(value, str) else f"a {type(value).__name__}"


def printable(text: str) -> str:
    """Without characters that move the cursor."""
    return "".join(char if char.isprintable() else "�" for char in text)


__all__ = [
    "LONGEST_LINE",
    "PRINTED_BYTES",
    "Broken",
    "OnKill",
    "Output",
    "decoded",
    "ended",
    "message_of",
    "printable",
    "shown",
    "started",
]
