"""Drives one program: the host's end of the pipe to `_supervisor.py`. Shared by the backends that start a process.

Nothing that comes through the pipe is believed: lines, files, calls and output are counted and bounded here again,
names are checked, values are JSON.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from pydantic import JsonValue

from agentorchestra.core.errors import ToolError
from agentorchestra.sandbox._supervisor import CHUNK, STOP, Output
from agentorchestra.sandbox.base import Ending, HostCall, Program, Ran, SandboxLimits
from agentorchestra.sandbox.monitor import EVERY_S, Watch, too_much_memory
from agentorchestra.sandbox.pipe import Broken, Launch, Pipe, decoded, printable, text_or_kind

_GRACE_S = 20.0  # how long the supervisor has to end the program and take the files out, after the time is over
_START_S = 30.0
_END_S = 5.0
_LAST_S = 2.0  # how long the supervisor of a program that is over its limits has to pass on what it had printed
_OVER = 1.25  # times the memory that is allowed: what uses more is not waited for
_LONGEST_NAME = 200
_DEEPEST = 64  # levels of lists and objects in the arguments of a call


@dataclass(frozen=True)
class SupervisorPaths:
    """The places inside where the supervisor finds what it needs."""

    inputs: str  # the folder with the read-only files, "" for none; `files` in the working folder leads there
    libraries: str  # the folder with the libraries
    temporary: str = "/tmp"  # a folder for the program's text
    own_user: bool = True  # whether the number of processes can be limited for this program alone


@dataclass
class Driver:
    """One program in one sandbox; `program`, `limits` and `call` are as for `Sandbox.run`."""

    launch: Launch  # starts the supervisor
    program: Program
    limits: SandboxLimits
    place: SupervisorPaths
    call: HostCall | None = None
    visible: bool = True  # whether processes and temporary files can be looked at from here (an engine's cannot)

    def __post_init__(self) -> None:
        self._outputs = {1: Output(), 2: Output()}
        self._made: dict[str, bytes] = {}
        self._parts: dict[str, bytearray] = {}
        self._refused: set[str] = set()
        self._received = 0
        self._notes: list[str] = []
        self._calls = 0
        self._over = False

    async def run(self) -> Ran:
        """Start, feed, listen, end; leaves no process behind however it is left."""
        pipe = await Pipe.open(self.launch)
        watch = Watch(pipe.process.pid, self.limits, group=pipe.group)
        listening = asyncio.create_task(self._listen(pipe))
        watching = asyncio.create_task(watch.run()) if self.visible else None
        try:
            tasks: list[asyncio.Task[Any]] = [listening] if watching is None else [listening, watching]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if watching is not None and watching.done() and not listening.done():
                result = Ran(watching.result(), detail=watch.detail)
                await self._stop(pipe, listening, watch)
            else:
                result = await listening
                if pipe.group is not None and pipe.group.kills():
                    result = replace(result, ending="memory", detail=too_much_memory(self.limits))
                if result.ending == "exited":
                    with contextlib.suppress(TimeoutError):  # what started it may have something to put away
                        async with asyncio.timeout(_END_S):
                            await pipe.process.wait()
            return replace(
                result,
                stdout=self._outputs[1].text(),
                stderr=self._outputs[2].text(),
                made=dict(self._made),
                notes=tuple(self._notes),
                calls=self._calls,
                peak_bytes=watch.peak,
                detail=result.detail or watch.detail,
            )
        finally:
            await pipe.close(listening, watching)

    async def _stop(self, pipe: Pipe, listening: asyncio.Task[Ran], watch: Watch) -> None:
        """Have the supervisor kill the program and say what it had printed, which nobody else could read any more."""
        assert pipe.process.stdin is not None
        self._over = True
        if not pipe.process.stdin.transport.is_closing():
            pipe.process.stdin.write(STOP + b"\n")
        for _ in range(int(_LAST_S / EVERY_S)):
            done, _ = await asyncio.wait({listening}, timeout=EVERY_S)
            watch.look()
            if done or watch.used > self.limits.memory_bytes * _OVER:
                return

    # -- the pipe ----------------------------------------------------------------------------------------------------

    async def _listen(self, pipe: Pipe) -> Ran:
        """Return how it ended, without what it printed and made."""
        try:
            return await self._talk(pipe)
        except Broken as exc:
            return Ran("lost", detail=str(exc))
        except TimeoutError:
            return Ran("time", detail="it did not end in time and was killed")
        except (BrokenPipeError, ConnectionResetError):
            return Ran("lost", detail=await pipe.last_words())

    async def _talk(self, pipe: Pipe) -> Ran:
        async with asyncio.timeout(_START_S):
            first = await self._message(pipe)
        if first.get("kind") != "ready":
            raise Broken("it did not say that it is ready")
        sending = asyncio.create_task(self._start(pipe))
        try:
            loop = asyncio.get_running_loop()
            deadline = loop.time() + self.limits.seconds + _GRACE_S
            async with asyncio.timeout_at(deadline) as clock:
                while True:
                    message = await self._message(pipe)
                    kind = message.get("kind")
                    if kind == "out":
                        if self._hear(message) > self.limits.flood_bytes + (1 << 20):
                            return Ran("flood", detail="it printed without end and was killed")
                    elif kind == "call" and self._over:
                        continue  # what is being ended calls nothing any more
                    elif kind == "call":
                        began = loop.time()
                        clock.reschedule(None)
                        answer = await self._answer(message)
                        deadline += loop.time() - began
                        clock.reschedule(deadline)
                        await pipe.send(answer)
                        await asyncio.sleep(0)  # calls that are all there already must not hold up the others
                        if loop.time() > deadline:  # they put the clock off each time, before it could strike
                            raise TimeoutError
                    elif kind == "file":
                        self._file(message)
                    elif kind == "note":
                        self._note(text_or_kind(message.get("text")))
                    elif kind == "end":
                        return self._end(message)
                    else:
                        raise Broken(f"it said something unknown: {text_or_kind(kind)}")
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _message(self, pipe: Pipe) -> dict[str, Any]:
        message = await pipe.receive()
        if message is None:
            raise Broken(await pipe.last_words())
        return message

    async def _start(self, pipe: Pipe) -> None:
        program = self.program
        start = {
            "kind": "start",
            "language": program.language,
            "code": program.code,
            "seed": program.seed,
            "names": list(program.names),
            "functions": list(program.functions),
            **asdict(self.place),
            "limits": asdict(self.limits),
        }
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the listener hears that it is gone
            await pipe.send(start)
            for name, data in program.kept.items():
                for at in range(0, max(1, len(data)), CHUNK):
                    part = base64.b64encode(data[at : at + CHUNK]).decode("ascii")
                    last = at + CHUNK >= len(data)
                    await pipe.send({"kind": "file", "name": name, "data": part, "last": last})
            await pipe.send({"kind": "go"})

    # -- what it says ------------------------------------------------------------------------------------------------

    def _hear(self, message: dict[str, Any]) -> int:
        fd = message.get("fd")
        if fd not in (1, 2):
            raise Broken("it printed to an output that does not exist")
        self._outputs[fd].add(decoded(message))
        return self._outputs[1].size + self._outputs[2].size

    def _note(self, text: str) -> None:
        if len(self._notes) < 20:
            self._notes.append(printable(text)[:300])

    def _file(self, message: dict[str, Any]) -> None:
        name, data = message.get("name"), decoded(message)
        self._received += len(data)
        if self._received > self.limits.kept_bytes + (1 << 20):
            raise Broken("it sent more files than allowed")
        problem = name_problem(name)
        if not isinstance(name, str) or problem:
            label = repr(text_or_kind(name)[:100])
            if label not in self._refused and len(self._refused) < 100:
                self._refused.add(label)
                self._note(f"the file {label} was not kept: {problem}")
            return
        if name not in self._parts and len(self._parts) >= self.limits.kept_files:
            raise Broken("it sent more files than allowed")
        self._parts.setdefault(name, bytearray()).extend(data)
        if message.get("last"):
            self._made[name] = bytes(self._parts[name])

    async def _answer(self, message: dict[str, Any]) -> dict[str, Any]:
        self._calls += 1
        answer: dict[str, Any] = {"kind": "result", "id": message.get("id")}
        try:
            answer["value"] = await self._call(message)
        except (ToolError, TypeError) as exc:
            answer |= {"error": str(exc), "type": type(exc).__name__}
        else:
            size = len(json.dumps(answer))
            if size > self.limits.call_bytes:
                del answer["value"]
                answer["error"] = f"the result has {size:,} bytes; at most {self.limits.call_bytes:,} can be given"
        return answer

    async def _call(self, message: dict[str, Any]) -> JsonValue:
        name, arguments = message.get("name"), message.get("arguments")
        if type(message.get("id")) is not int:
            raise Broken("it made a call without a number")
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise ToolError("a call needs a name and arguments by name")
        if self._calls > self.limits.calls:
            raise ToolError(f"one program may call {self.limits.calls} tools at most; do the rest in another one")
        if self.call is None or name not in self.program.tools:
            names = ", ".join(self.program.tools) if self.call is not None else ""
            raise ToolError(f"there is no tool {printable(name)[:100]!r} here; the tools: {names or 'none'}")
        problem = _value_problem(arguments)
        if problem:
            raise ToolError(f"the arguments of {name} cannot be passed on: {problem}")
        return await self.call(name, arguments)

    def _end(self, message: dict[str, Any]) -> Ran:
        code, stopped, removed = message.get("exit_code"), message.get("stopped"), message.get("removed")
        if type(code) is not int or abs(code) > 255 or not isinstance(removed, list):
            raise Broken("it ended without saying how")
        removals = tuple(name for name in removed if isinstance(name, str) and name in self.program.kept)
        if stopped == "call":
            return Ran("lost", code, removed=removals, detail="it sent a call that is not one, and was stopped")
        ending: Ending = "time" if stopped == "time" else "flood" if stopped == "flood" else "exited"
        return Ran(ending, code, removed=removals)


def _value_problem(value: object) -> str:
    """Return why a value cannot go into records and requests, "" if it can: json.loads accepts more than JSON."""
    todo = [(value, 0)]
    while todo:
        part, depth = todo.pop()
        if depth > _DEEPEST:
            return f"they are nested more than {_DEEPEST} levels deep"
        if isinstance(part, float) and not math.isfinite(part):
            return "JSON has no NaN and no infinity"
        if isinstance(part, str) and any("\ud800" <= char <= "\udfff" for char in part):
            return "a text holds half a character (a lone surrogate)"
        if isinstance(part, dict):
            todo += [(part, depth + 1) for pair in part.items() for part in pair]
        elif isinstance(part, list):
            todo += [(part, depth + 1) for part in part]
    return ""


def name_problem(name: object) -> str:
    """Return why a file of this name is not taken out of a sandbox, "" if it is."""
    if not isinstance(name, str) or not name or len(name) > _LONGEST_NAME:
        return f"names have 1 to {_LONGEST_NAME} characters"
    if not name.isprintable() or (not name.isascii() and any(0xD800 <= ord(char) <= 0xDFFF for char in name)):
        return "its name holds characters that cannot be shown"
    parts = name.split("/")
    if name.startswith("/") or "\\" in name or any(part in ("", ".", "..") for part in parts):
        return "its name is not a path below the working folder"
    return ""
