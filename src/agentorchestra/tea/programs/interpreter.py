"""Interpreters of programs whose functions are calls of the host: one interface, and Monty behind it.

While the host does what the program called, the program is frozen as bytes and its interpreter serves others: a
program may wait for agents that run programs themselves, or for a human, and none of them holds a process meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from pydantic import JsonValue

from agentorchestra.core.errors import ProgramEndedError
from agentorchestra.tea.programs.concurrency import Span, awaited_calls
from agentorchestra.tea.programs.monty import lacks
from agentorchestra.tea.programs.processes import Lease, MontyPool

_PRELUDE = "ToolError = RuntimeError"
"""Monty knows no classes of exceptions but its own: what a tool says is a RuntimeError under this name."""

_TIME = "TimeoutError: feed time limit"
_OWN_LIMITS = ("MemoryError: memory limit", "RuntimeError: Internal error in monty")
_INPUT = re.compile(r"<python-input-(\d+)>")
_LONGEST_ERROR = 4_000
_LONGEST_VALUE = 20_000
_MOST_FRAMES = 8


@dataclass(frozen=True)
class ProgramCall:
    name: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Reply:
    """The result of a call: a value, or an exception for the program; a SystemExit ends the program well."""

    value: JsonValue = None
    error: str | None = None
    kind: Literal["ToolError", "TypeError", "SystemExit"] = "ToolError"


class Host(Protocol):
    """The other side of a program."""

    @property
    def ctx(self) -> Any:
        """The program's RunContext: for an interpreter whose parts are effects themselves."""

    @property
    def names(self) -> frozenset[str]:
        """The functions that the program may call."""

    async def calls(self, calls: Sequence[ProgramCall]) -> list[Reply]:
        """Do one call, or several awaited together, in the program's order; what this raises ends the program."""

    def print(self, text: str) -> None:
        """Take what the program printed; raises ProgramEndedError where that is too much."""


@dataclass(frozen=True)
class ProgramRun:
    value: str | None = None  # its last expression's as Python writes it, None where it has none
    error: str | None = None  # the exception with its line, None where it ran to its end
    state: bytes | None = None  # the program's variables for the next one, None where they cannot be kept
    # what it printed since its last call depends on how fast the machine is: it was ended by the clock
    chance: bool = False


class Interpreter(Protocol):
    """Runs programs that call functions of the host."""

    @property
    def name(self) -> str:
        """As observations name it."""

    def lacks(self, code: str) -> str | None:
        """Return why it is not the one for a program, found without running it; None if nothing speaks against it."""

    async def run(self, code: str, host: Host, *, now: datetime, seed: int, state: bytes | None = None) -> ProgramRun:
        """Run a program that sees the variables of `state`; with equal replies, `now` and `seed` it does the same."""

    async def aclose(self) -> None:
        """End what it holds open; idempotent."""


@dataclass(frozen=True)
class ProgramLimits:
    seconds: float = 10.0  # of computing, between two calls
    memory: int = 64_000_000  # bytes of its heap
    depth: int = 500  # nested calls
    processes: int = 4  # interpreters that compute at the same time; further programs wait


class MontyInterpreter:
    """Programs in Monty: no files, no network, no environment; what they do to the world are the host's calls."""

    name = "Monty"

    def __init__(self, limits: ProgramLimits | None = None) -> None:
        self._limits = limits or ProgramLimits()
        self._pool = MontyPool(self._limits.processes)

    def lacks(self, code: str) -> str | None:
        return lacks(code)

    async def run(self, code: str, host: Host, *, now: datetime, seed: int, state: bytes | None = None) -> ProgramRun:
        """Run a program; errors of its own are in what comes back, what the host raises is passed on."""
        code = code.replace("\r\n", "\n").replace("\r", "\n")  # as Python reads it
        options = {
            "limits": {
                "max_feed_duration_secs": self._limits.seconds,
                "max_memory": self._limits.memory,
                "max_recursion_depth": self._limits.depth,
            },
            "os_policy": {"datetime": now, "sleep": "zero", "random_start": {"seed": seed}},
        }
        return await _MontyRun(self._pool, options, code, host, self._limits.seconds).run(state)

    async def aclose(self) -> None:
        await self._pool.aclose()


@dataclass
class _State:
    """Variables of a program as bytes, with what is known of the programs that made them."""

    programs: int = 0  # how many there were: functions they defined may still be called
    # of each, by its number, the places of the calls that it awaits
    spans: dict[int, frozenset[Span]] = field(default_factory=dict)

    def with_dump(self, dump: bytes) -> bytes:
        places = {str(number): sorted(spans) for number, spans in self.spans.items() if spans}
        return json.dumps({"programs": self.programs, "awaited": places}).encode() + b"\n" + dump

    @classmethod
    def read(cls, state: bytes) -> tuple[_State, bytes]:
        head, _, dump = state.partition(b"\n")
        fields = json.loads(head)
        places = {int(n): frozenset((start, end) for start, end in spans) for n, spans in fields["awaited"].items()}
        return cls(fields["programs"], places), dump


class _OverError(Exception):
    """The program was ended and does not stop."""


class _MontyRun:
    """One program in Monty; it holds an interpreter of the pool only while it computes."""

    def __init__(self, pool: MontyPool, options: dict[str, Any], code: str, host: Host, seconds: float) -> None:
        self._pool = pool
        self._options = options
        self._held: Lease | None = None
        self._seconds = seconds
        self._code = code
        self._host = host
        self._known = _State()
        self._interpreter: Any = None
        self._pending: dict[int, ProgramCall] = {}
        self._said: list[str] = []
        self._ended: ProgramEndedError | None = None
        self._enough = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._over = False

    async def run(self, state: bytes | None) -> ProgramRun:
        from pydantic_monty import MontyCrashedError, MontyError

        try:
            try:
                snapshot = await self._begin(state)
                while not hasattr(snapshot, "output"):
                    snapshot = await self._next(snapshot)
            except MontyError as exc:
                if self._over:
                    return ProgramRun(state=await self._dump())
                if isinstance(exc, MontyCrashedError) or _TIME in str(exc):
                    return ProgramRun(
                        error=f"it computed for more than {self._seconds:g} s without a call", chance=True
                    )
                fatal = any(limit in str(exc) for limit in _OWN_LIMITS)
                return ProgramRun(error=self._error(exc), state=None if fatal else await self._dump())
            return ProgramRun(value=None if self._over else _rendering(snapshot.output), state=await self._dump())
        except _OverError:
            return ProgramRun()
        finally:
            await self._give_back()

    async def _take(self) -> None:
        self._held = await self._pool.take(self._options)
        self._interpreter = self._held.interpreter

    async def _give_back(self) -> None:
        lease, self._held = self._held, None
        if lease is not None:
            await lease.give_back()

    async def _begin(self, state: bytes | None) -> Any:
        await self._take()
        if state is None:
            await self._interpreter.feed_run(_PRELUDE)
        else:
            self._known, dump = _State.read(state)
            await self._interpreter.load_session(dump)
        self._known.programs += 1
        self._known.spans[self._known.programs] = awaited_calls(self._code)
        return await self._compute(self._interpreter.feed_start(self._code, print_callback=self._print))

    async def _next(self, snapshot: Any) -> Any:
        if hasattr(snapshot, "variable_name"):
            is_function = snapshot.variable_name in self._host.names
            values = {"value": _stand_in(snapshot.variable_name)} if is_function else {}
            return await self._compute(snapshot.resume(**values))
        if hasattr(snapshot, "pending_call_ids"):
            ids = sorted(snapshot.pending_call_ids)  # the order in which the program made the calls
            replies = await self._away(snapshot, [self._pending.pop(call_id) for call_id in ids])
            results = {call_id: self._result(reply) for call_id, reply in zip(ids, replies, strict=True)}
            return await self._compute(self._again.resume(results))
        if snapshot.is_os_function:
            return await self._compute(snapshot.resume_not_handled())
        if snapshot.function_name not in self._host.names:
            names = ", ".join(sorted(self._host.names))
            message = f"name {snapshot.function_name!r} is not defined; the functions: {names}"
            return await self._compute(snapshot.resume({"exc_type": "NameError", "message": message}))
        if self._over:
            raise _OverError  # it caught its own end
        call = ProgramCall(snapshot.function_name, tuple(snapshot.args), dict(snapshot.kwargs))
        if self._awaits(snapshot.position):
            self._pending[snapshot.call_id] = call
            return await self._compute(snapshot.resume({"future": ...}))
        (reply,) = await self._away(snapshot, [call])
        return await self._compute(self._again.resume(self._result(reply)))

    def _awaits(self, position: Any) -> bool:
        match = _INPUT.fullmatch(position.filename)
        spans = self._known.spans.get(int(match[1])) if match else None
        return spans is not None and (position.start, position.end) in spans

    async def _away(self, snapshot: Any, calls: list[ProgramCall]) -> list[Reply]:
        """Return the host's replies; the interpreter is free meanwhile, the program goes on in another one."""
        frozen = snapshot.dump()
        await self._give_back()
        replies = await self._host.calls(calls)
        await self._take()
        self._again = await self._interpreter.load_snapshot(frozen, print_callback=self._print)
        return replies

    def _result(self, reply: Reply) -> dict[str, Any]:
        if reply.error is None:
            return {"return_value": reply.value}
        self._over = self._over or reply.kind == "SystemExit"
        if reply.kind == "ToolError":
            self._said.append(reply.error)
            return {"exc_type": "RuntimeError", "message": reply.error}
        return {"exc_type": reply.kind, "message": reply.error}

    async def _compute(self, going: Awaitable[Any]) -> Any:
        """Let the program compute until it calls or ends, or the host has enough of what it prints."""
        computing = asyncio.ensure_future(going)
        enough = asyncio.ensure_future(self._enough.wait())
        try:
            await asyncio.wait({computing, enough}, return_when=asyncio.FIRST_COMPLETED)
            if self._ended is not None:
                raise self._ended
            return computing.result()
        finally:
            for task in (computing, enough):
                task.cancel()
            await asyncio.gather(computing, enough, return_exceptions=True)

    def _print(self, stream: str, text: str) -> None:
        if self._ended is None:
            try:
                self._host.print(text)
            except ProgramEndedError as exc:
                self._ended = exc
                self._loop.call_soon_threadsafe(self._enough.set)

    async def _dump(self) -> bytes | None:
        from pydantic_monty import MontyError

        try:
            return self._known.with_dump(await self._interpreter.dump())
        except MontyError:
            return None

    def _error(self, exc: Any) -> str:
        text = str(exc.display("type-msg") if hasattr(exc, "display") else exc).strip()
        message = text.removeprefix("RuntimeError: ")
        if message != text and message in self._said:
            text = f"ToolError: {message}"
        half = _LONGEST_ERROR // 2
        text = text if len(text) <= _LONGEST_ERROR else f"{text[:half]}\n[...]\n{text[-half:]}"
        frames = [self._frame(frame) for frame in exc.traceback()] if hasattr(exc, "traceback") else []
        if not frames:
            return text
        if len(frames) > _MOST_FRAMES:
            frames = [*frames[: _MOST_FRAMES // 2], ("...", ""), *frames[-_MOST_FRAMES // 2 :]]
        way = "".join(f"\n  {place}: {source}" if source else f"\n  {place}" for place, source in frames)
        return f"{frames[-1][0]}: {text}{way}"

    def _frame(self, frame: Any) -> tuple[str, str]:
        match = _INPUT.fullmatch(frame.filename)
        earlier = match is not None and int(match[1]) != self._known.programs
        place = f"line {frame.line}" + (f" of program {match[1]}" if match is not None and earlier else "")
        inside = frame.function_name or ""
        return place + (f", in {inside}" if inside not in ("", "<module>") else ""), (frame.source_line or "").strip()


def _stand_in(name: str) -> Any:
    """Return a stand-in for a function of the host in the program; it is never called here."""

    def function() -> None: ...

    function.__name__ = name
    return function


def _rendering(value: Any) -> str | None:
    if value is None:
        return None
    try:
        text = repr(value)
    except (RecursionError, ValueError):
        return f"a {type(value).__name__} that cannot be written"
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]} [...]"
