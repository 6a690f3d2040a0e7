"""One server, one task: it opens the connection, keeps it, opens it again and closes it; calls come from many tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

import anyio
from pydantic import ValidationError

from agentorchestra.core.errors import McpError, ToolError
from agentorchestra.tools.mcp.config import Server
from agentorchestra.tools.mcp.tool_list import Dispatcher
from agentorchestra.tools.mcp.transports import SENDING, LastWords, Sending, quiet, streams
from mcp import ClientSession, MCPError, types

RECONNECT_S = 30.0  # seconds a server that went away is waited for. After that each call tries once.
CLOSE_S = 15.0
_FIRST_DELAY_S = 0.1
_LONGEST_DELAY_S = 2.0
_TRIES = 5
_FIRST_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 30.0
_LONGEST = 500


@dataclass(frozen=True)
class About:
    """A server's own name and version, "" where it gives none, and the protocol that is spoken."""

    name: str = ""
    version: str = ""
    protocol: str = ""  # version of the protocol that is spoken


@dataclass
class _Attempt:
    """An attempt to reach the server: several calls may wait for one."""

    settlement: asyncio.Event = field(default_factory=asyncio.Event)
    failure: McpError | None = None


class _Link:
    def __init__(self, session: ClientSession, words: LastWords | None, ring: Callable[[], None]) -> None:
        self.session = session
        self.words = words
        self.ended = False
        self._ring = ring

    def end(self) -> None:
        self.ended = True
        self._ring()


class Connection:
    """A server and the one task that owns its connection; `where` names it in messages, `hide` takes out secrets."""

    def __init__(self, server: Server, label: str, *, hide: Callable[[str], str], changed: Callable[[], None]) -> None:
        self.server = server
        self.about = About()
        self.listed: list[dict[str, Any]] = []
        self.cut = False
        self._where = label
        self._name = f"the MCP server {server.name!r}"
        self._hide = hide
        self._changed = changed
        self._bell = asyncio.Event()
        self._closing = False
        self._stale = asyncio.Event()
        self._known: object = None
        self._attempt: _Attempt | None = None
        self._link: _Link | None = None
        self._patience_s = 0.0
        self._owner: asyncio.Task[None] | None = None
        self._asking: anyio.CancelScope | None = None

    async def open(self) -> None:
        """Reach the server and list its tools; McpError if that cannot be done."""
        quiet()
        self._owner = asyncio.create_task(self._own(), name=f"mcp {self.server.name}")
        try:
            await self._current_link()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End the connection, and the program behind it; idempotent, and bounded in time."""
        self._closing = True
        self._bell.set()
        if self._asking is not None:
            self._asking.cancel()
        if self._owner is None:
            return
        _, late = await asyncio.wait([self._owner], timeout=CLOSE_S)
        if late:
            self._owner.cancel()
            await asyncio.wait([self._owner], timeout=CLOSE_S)

    async def call(self, tool: str, arguments: Mapping[str, Any], *, repeat: bool) -> types.CallToolResult:
        """Call a tool; again, if `repeat`, when nobody knows whether it happened. ToolError says what is known."""
        problem = ""
        for _ in range(_TRIES):
            try:
                link = await self._current_link()
            except McpError as exc:
                raise ToolError(f"{tool} was not called: {exc}") from None
            sending = Sending()
            token = SENDING.set(sending)
            try:
                return await link.session.call_tool(tool, dict(arguments))
            except MCPError as exc:
                problem = self._problem(sending, exc, link.words)
                is_lost = exc.code == types.CONNECTION_CLOSED or bool(sending.problem)
                # Another call found that nobody is there, and the connection was given up before this one went out.
                kept_back = bool(self.server.url) and exc.code == types.CONNECTION_CLOSED and not sending.went_out
            except ValidationError as exc:
                raise ToolError(
                    f"{tool} on {self._name} was called, but its result is not as the protocol asks: "
                    f"{exc.errors(include_url=False)[0]['msg']}"
                ) from None
            except RuntimeError as exc:  # it asks for more input, which nobody gives here
                raise ToolError(f"{tool} on {self._name} gave no result: {self._cut(str(exc))}") from None
            finally:
                SENDING.reset(token)
            if sending.unreachable or sending.session_gone or kept_back:
                link.end()  # and nothing was done: the call is made again whatever it does
                continue
            if not is_lost:
                raise ToolError(f"{tool} on {self._name} failed: {problem}")
            if not self.server.url:
                link.end()
            if not repeat:
                raise ToolError(
                    f"{self._name} went away while {tool} was under way ({problem}): the call may have happened. It "
                    "was not repeated; find out what it did before calling it again"
                )
        raise ToolError(f"{tool} on {self._name} failed {_TRIES} times: {problem}")

    async def _current_link(self) -> _Link:
        while not self._closing:
            if self._link is not None and not self._link.ended:
                return self._link
            attempt = self._attempt = self._attempt or _Attempt()
            self._bell.set()
            await attempt.settlement.wait()
            if attempt.failure is not None:
                raise McpError(str(attempt.failure))
        raise McpError(f"{self._where} is closed")

    async def _own(self) -> None:
        try:
            while not self._closing:
                if self._attempt is None:
                    await self._rung()
                else:
                    await self._reach(self._attempt)
        finally:
            self._closing = True
            if self._attempt is not None:
                self._settle(McpError(f"{self._where} is closed"))

    async def _rung(self, timeout_s: float | None = None) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._bell.wait()
                self._bell.clear()
        except TimeoutError:
            return

    def _settle(self, failure: McpError | None = None) -> None:
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.failure = failure
            attempt.settlement.set()

    async def _reach(self, attempt: _Attempt) -> None:
        """Connect, again and again for a while; returns when a connection has ended, or cannot be had."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._patience_s
        delay = _FIRST_DELAY_S
        while True:
            failure = await self._live()
            if attempt.settlement.is_set():
                self._patience_s = RECONNECT_S
                return
            if self._closing or loop.time() + delay > until:
                self._patience_s = 0.0
                self._settle(failure)
                return
            await self._rung(delay)
            delay = min(2 * delay, _LONGEST_DELAY_S)

    async def _live(self) -> McpError:
        """Hold one connection from its beginning to its end; return why it ended."""
        link: _Link | None = None
        sending = Sending()
        SENDING.set(sending)
        words = None if self.server.url else LastWords()
        failure: BaseException | None = None
        try:
            async with AsyncExitStack() as stack:
                pair = await stack.enter_async_context(streams(self.server, self._where, words))
                dispatcher = Dispatcher(*pair)
                session = ClientSession(
                    dispatcher=dispatcher,
                    message_handler=self._hear,
                    client_info=types.Implementation(name="agentorchestra", version=_version()),
                )
                await stack.enter_async_context(session)
                link = _Link(session, words, self._bell.set)
                dispatcher.ended = link.end
                failure = await self._greet(session, dispatcher)
                if failure is None:
                    self._link = link
                    self._settle()
                    await self._serve(link, session, dispatcher)
        except (Exception, BaseExceptionGroup) as exc:
            failure = exc
            while isinstance(failure, BaseExceptionGroup):
                failure = failure.exceptions[0]
        finally:
            self._link = None
            if link is not None:
                link.end()
            if words is not None:
                words.close()
        return self._failure(failure, sending, words)

    async def _greet(self, session: ClientSession, dispatcher: Dispatcher) -> BaseException | None:
        """Say who is there and list the tools; return what goes wrong: the connection is still to be closed."""
        step = "say what it is (initialize)"
        try:
            with self._time_limit():
                try:
                    await session.initialize()
                except MCPError as exc:
                    if exc.code not in (types.METHOD_NOT_FOUND, types.UNSUPPORTED_PROTOCOL_VERSION):
                        raise
                    await session.discover()
                info = session.server_info
                self.about = About(
                    name=self._cut(info.name) if info is not None else "",
                    version=self._cut(info.version) if info is not None else "",
                    protocol=session.protocol_version or "",
                )
                step = "list its tools (tools/list)"
                self.listed, self.cut = await dispatcher.list_tools(session)
        except TimeoutError:
            if self._closing:
                return McpError(f"{self._where} is closed")
            return McpError(
                f"{self._where} did not {step} within {self.server.startup_s:g} s; see whether it runs by itself, or "
                'give it more "startup_timeout_s"'
            )
        except (MCPError, ValidationError, RuntimeError) as exc:
            return exc
        return None

    @contextmanager
    def _time_limit(self) -> Iterator[None]:
        """Bound the time of what the server is asked; closing the connection ends it at once. Raises TimeoutError."""
        with anyio.move_on_after(0 if self._closing else self.server.startup_s) as self._asking:
            yield
        scope, self._asking = self._asking, None
        if scope.cancelled_caught:
            raise TimeoutError

    async def _serve(self, link: _Link, session: ClientSession, dispatcher: Dispatcher) -> None:
        """Look at the tools again when the server says that they changed, while the connection lasts."""
        self._stale.clear()
        self._compare()
        pause = _FIRST_PAUSE_S
        while await self._goes_on(link):
            if not self._stale.is_set():
                continue
            self._stale.clear()
            try:
                with self._time_limit():
                    self.listed, self.cut = await dispatcher.list_tools(session)
            except (MCPError, ValidationError, TimeoutError):
                continue  # those that were listed stay, until it says something again
            self._compare()
            # However often it says so: what comes in between is looked at once, and each time later.
            pause = min(2 * pause, _LONGEST_PAUSE_S)
            with anyio.move_on_after(pause):
                while await self._goes_on(link):
                    pass

    async def _goes_on(self, link: _Link) -> bool:
        """Wait until there is something to do; return True if it is to be done on this connection."""
        if not (link.ended or self._closing):
            await self._rung()
        return not (link.ended or self._closing)

    def _compare(self) -> None:
        """Say so when there is something else than before: another version of the server after a restart, too."""
        before, self._known = self._known, (self.about, self.listed, self.cut)
        if before not in (None, self._known):
            self._changed()

    async def _hear(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._stale.set()
            self._bell.set()

    def _problem(self, sending: Sending, exc: BaseException, words: LastWords | None) -> str:
        problem = sending.problem or (words.problem if words is not None else "")
        if problem:
            return self._cut(problem)
        text = self._cut(str(exc)) or type(exc).__name__
        return f"HTTP {sending.status}, {text}" if sending.status >= 400 else text

    def _failure(self, exc: BaseException | None, sending: Sending, words: LastWords | None) -> McpError:
        if exc is None:
            return McpError(f"{self._where} went away")
        output = f". It wrote: {self._cut(words.text, last=True)}" if words is not None and words.text else ""
        if isinstance(exc, McpError):
            return McpError(f"{exc}{output}")
        if sending.status in (401, 403):
            return McpError(
                f"{self._where} lets nobody in (HTTP {sending.status}); check the headers it is to be sent, and that "
                "their variables are set"
            )
        return McpError(
            f"{self._where} cannot be used: {self._problem(sending, exc, words)}{output or '.'} See whether it runs by "
            "itself"
        )

    def _cut(self, text: str, *, last: bool = False) -> str:
        """Return what a stranger says, in one line, without secrets."""
        line = self._hide(" ".join(text.split()))
        if len(line) <= _LONGEST:
            return line
        return f"…{line[-_LONGEST:]}" if last else f"{line[:_LONGEST]}…"


def _version() -> str:
    try:
        return metadata.version("agentorchestra")
    except metadata.PackageNotFoundError:
        return "0"
