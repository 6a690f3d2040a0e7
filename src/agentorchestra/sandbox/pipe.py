"""The host's end of a pipe to a process inside a sandbox: started, ended without a trace, its messages bounded."""

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

from agentorchestra.sandbox.cgroup import Group

LONGEST_LINE = 4 << 20
_STDERR_BYTES = 4_000


class Broken(Exception):
    """The other end does not keep to the protocol."""


def clean_environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath)}


@dataclass(frozen=True)
class Launch:
    command: Sequence[str]  # starts `_supervisor.py` or `_shell.py` in the sandbox
    env: dict[str, str] = field(default_factory=clean_environment)  # of the command; the sandbox clears it
    pass_fds: Sequence[int] = ()  # descriptors that it needs
    on_kill: Callable[[], Awaitable[None]] | None = None  # awaited when it was killed
    done: Callable[[], None] = lambda: None  # called when it is over, or could not be started
    group: Group | None = None  # that `command` enters, None where none could be made


class Pipe:
    """A started process. Its messages are lines of JSON; nothing in them is believed."""

    def __init__(self, process: asyncio.subprocess.Process, launch: Launch) -> None:
        self.process = process
        self._launch = launch
        self.group = launch.group
        self._stderr = b""
        self._hearing = asyncio.create_task(self._hear_errors())

    @classmethod
    async def open(cls, launch: Launch) -> Pipe:
        """Start the process; OSError if it cannot be started."""
        # asyncio may wait for ever when it is cancelled in the middle of this, so it is not.
        creating = asyncio.create_task(
            asyncio.create_subprocess_exec(
                *launch.command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=launch.env,
                pass_fds=launch.pass_fds,
                start_new_session=True,  # an interrupt at the terminal is for us
                limit=LONGEST_LINE,
            )
        )
        try:
            return cls(await asyncio.shield(creating), launch)
        except BaseException:
            await asyncio.wait({creating})
            if creating.cancelled() or creating.exception() is not None:
                launch.done()
            else:
                await cls(creating.result(), launch).close()
            raise

    async def send(self, *messages: dict[str, Any]) -> None:
        """Send messages; BrokenPipeError or ConnectionResetError if the process is gone."""
        assert self.process.stdin is not None
        for message in messages:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            await self.process.stdin.drain()

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message, None at the end; Broken for what is none."""
        assert self.process.stdout is not None
        try:
            line = await self.process.stdout.readline()
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

    async def last_words(self) -> str:
        """Return how a process ended that said nothing more."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await self.process.wait()
        words = (self._stderr.decode("utf-8", "replace").strip().splitlines() or [""])[-1]
        detail = f"it ended without a word (status {self.process.returncode})"
        return detail + (f": {printable(words)[:300]}" if words else "")

    async def _hear_errors(self) -> None:
        assert self.process.stderr is not None
        while data := await self.process.stderr.read(1 << 16):
            self._stderr = (self._stderr + data)[-_STDERR_BYTES:]

    async def close(self, *tasks: asyncio.Task[Any] | None) -> None:
        """End the process and the tasks that listen to it; nothing of it is left."""
        process = self.process
        running = [task for task in (self._hearing, *tasks) if task is not None]
        for task in running:
            task.cancel()
        try:
            if process.stdin is not None and not process.stdin.transport.is_closing():
                process.stdin.transport.abort()  # a supervisor that is only now coming up finds its input closed
            if process.returncode is None:
                # The group: the command may have children that do not yet go with it. By number: Process.kill could
                # take the status from asyncio.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                if self._launch.on_kill is not None:
                    await asyncio.shield(self._launch.on_kill())
            # Output that nobody reads any more must not keep its pipe, and so the wait for the end, open. asyncio has
            # no public way to close it.
            transport: asyncio.SubprocessTransport | None = getattr(process, "_transport", None)
            for fd in (1, 2):
                pipe = transport.get_pipe_transport(fd) if transport is not None else None
                if pipe is not None:
                    pipe.close()
            # A killed process ends at once: wait even while being cancelled.
            await asyncio.shield(process.wait())
            await asyncio.gather(*running, return_exceptions=True)
            if transport is not None:
                transport.close()
        finally:
            self._launch.done()


def decoded(message: dict[str, Any]) -> bytes:
    """Return the data of a message; Broken if it is none."""
    try:
        return base64.b64decode(message["data"], validate=True)
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise Broken("it sent data that cannot be read") from None


def text_or_kind(value: object) -> str:
    """Return a value for a sentence if it is a text, else its type: it could be nested without end."""
    return value if isinstance(value, str) else f"a {type(value).__name__}"


def printable(text: str) -> str:
    return "".join(char if char.isprintable() else "�" for char in text)
