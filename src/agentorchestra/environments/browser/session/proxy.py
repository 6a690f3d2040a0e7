"""The proxy through which a run's browser reaches anything at all.

It listens on the loopback address, resolves names itself, has the `Boundary` judge every address, and connects to the
address that was judged. It speaks what browsers speak to a proxy: requests with an absolute address, and CONNECT, by
which TLS and WebSockets come. Each connection carries one request, so that no two of them can be mistaken for each
other; h11 reads and writes both sides, so that what is passed on is what was understood.

    async with BoundaryProxy(Boundary(settings.web)) as proxy:
        context = await browser.new_context(proxy=proxy.for_context)
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self, cast

import h11  # also without the extra: openai's client brings it

from agentorchestra.core.errors import WebError
from agentorchestra.environments.browser.session.boundary import Boundary
from agentorchestra.tools.web.addresses import WebAddress

if TYPE_CHECKING:
    from playwright.async_api import ProxySettings

_PIECE = 32 * 1024
_MAX_HEAD = 128 * 1024  # bytes of the head of a request or an answer
# At the same time; more than Chromium opens by itself (32 for requests, 255 WebSockets), so that no page can take
# them all.
_MOST_CONNECTIONS = 400
_HEAD_S = 60.0  # until a request's head is there; browsers open connections before they need them
_CONNECT_S = 15.0
_IDLE_S = 300.0  # without a byte in either direction
_LINGER_S = 2.0

_HOP_BY_HOP = {b"connection", b"expect", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
_HOP_BY_HOP |= {b"proxy-authenticate", b"proxy-authorization", b"proxy-connection"}


class _BadRequestError(Exception):
    """A request that no browser sends; the sentence is its answer."""


class _GoneError(ConnectionError):
    """The browser closed its connection."""


class BoundaryProxy:
    """A forward proxy for one run; its boundary judges each connection and keeps the log."""

    def __init__(self, boundary: Boundary) -> None:
        self.boundary = boundary
        self._server: asyncio.Server | None = None
        self.port = 0  # on 127.0.0.1; 0 before it started
        self._open: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_PIECE)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        open_ = list(self._open)
        for task in open_:
            task.cancel()
        await asyncio.gather(*open_, return_exceptions=True)
        await server.wait_closed()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def for_context(self) -> ProxySettings:
        # This machine too is reached through the proxy.
        return {"server": f"http://127.0.0.1:{self.port}", "bypass": "<-loopback>"}

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        if self._server is None:
            writer.transport.abort()
            return
        self._open.add(task)
        writer.transport.set_write_buffer_limits(high=0)
        try:
            if len(self._open) > _MOST_CONNECTIONS:
                self.boundary.note("", 0, "refused", f"more than {_MOST_CONNECTIONS} connections at the same time")
                return
            await _Exchange(self, reader, writer).run()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass  # either side went away, or was silent for too long: what the browser sees is a connection that ended
        except asyncio.CancelledError:
            if self._server is not None:
                raise  # not by close()
        finally:
            writer.transport.abort()
            self._open.discard(task)

    async def connect(self, authority: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to `HOST:PORT`, at an address that was judged; a WebError if it is refused or nothing answers."""
        try:
            async with asyncio.timeout(_CONNECT_S):
                address, ips = await self.boundary.judge(authority)
                return await self._connect(address, ips)
        except TimeoutError:
            host, _, port = authority.rpartition(":")
            reason = f"{authority[:80]} did not answer within {_CONNECT_S:g} s"
            self.boundary.note(host, int(port) if port.isdecimal() else 0, "failed", reason)
            raise WebError(reason, kind="timeout", url=authority[:80]) from None

    async def _connect(
        self, address: WebAddress, ips: Sequence[str]
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        problem = ""
        for ip in ips:
            if address.port == self.port and ipaddress.ip_address(ip).is_loopback:
                problem = "it is the browser's own proxy"
                break
            try:
                reader, writer = await asyncio.open_connection(ip, address.port, limit=_PIECE)
            except OSError as error:
                problem = str(error.strerror or error)
                continue
            try:
                self.boundary.check_peer(address, str(writer.get_extra_info("peername")[0]))
            except WebError:
                writer.transport.abort()
                raise
            self.boundary.note(address.host, address.port, "allowed")
            writer.transport.set_write_buffer_limits(high=0)
            return reader, writer
        reason = f"{address.place} cannot be reached ({problem})"
        self.boundary.note(address.host, address.port, "failed", reason)
        raise WebError(reason, kind="unreachable", url=address.place)


class _Exchange:
    """One request of the browser, and its answer."""

    def __init__(self, proxy: BoundaryProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._reader, self._writer = reader, writer
        self._browser = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD)
        self._site = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD)

    async def run(self) -> None:
        """Serve it; every problem is an answer of one sentence, where there was none yet."""
        try:
            async with asyncio.timeout(_HEAD_S):
                request = await _event(self._browser, self._reader)
            if not isinstance(request, h11.Request):
                return
            if request.method == b"CONNECT":
                await self._tunnel(request)
            else:
                await self._forward(request)
        except WebError as error:
            await self._answer(403 if error.kind == "refused" else 502, str(error))
        except (_BadRequestError, h11.RemoteProtocolError) as error:
            await self._answer(400, f"this proxy does not understand that request: {error}")
        except h11.LocalProtocolError as error:  # what one side says cannot be said to the other
            await self._answer(502, f"the request or its answer is no proper HTTP: {error}")
        # The browser closes first: closing with something unread would take the answer back.
        self._writer.write_eof()
        async with asyncio.timeout(_LINGER_S):
            while await self._reader.read(_PIECE):
                pass

    async def _tunnel(self, request: h11.Request) -> None:
        """Serve CONNECT: pass on bytes in both directions, whatever they mean."""
        authority = request.target.decode("ascii")
        if not authority.rpartition(":")[2].isdecimal():
            raise _BadRequestError("CONNECT without a port")
        reader, writer = await self._proxy.connect(authority)
        try:
            await _write(self._writer, b"HTTP/1.1 200 Connection established\r\n\r\n")
            early, _ = self._browser.trailing_data
            async with asyncio.timeout(_IDLE_S) as limit:
                upstream = asyncio.ensure_future(_pass_on(self._reader, writer, _longer(limit), early))
                back = asyncio.ensure_future(_pass_on(reader, self._writer, _longer(limit)))
                # A site that says no more has ended, and so has a browser: neither closes one direction only.
                await _first(upstream, back)
        finally:
            writer.transport.abort()

    async def _forward(self, request: h11.Request) -> None:
        authority, path = _split(request.target)
        headers = _passed_on(request.headers)
        names = [name for name, _ in request.headers]
        if b"transfer-encoding" in names:
            if b"content-length" in names:
                raise _BadRequestError("it has two lengths")
            headers.append((b"Transfer-Encoding", b"chunked"))
        headers = [(b"Host", authority), *headers, (b"Connection", b"close")]
        place = authority.decode("ascii")
        reader, writer = await self._proxy.connect(place if place.rpartition(":")[2].isdecimal() else f"{place}:80")
        try:
            async with asyncio.timeout(_IDLE_S) as limit:
                alive = _longer(limit)
                message = h11.Request(method=request.method, target=path, headers=headers)
                await _write(writer, self._site.send(message) or b"")
                body = asyncio.ensure_future(self._body(writer, alive))
                answer = asyncio.ensure_future(self._relay(reader, alive))
                await _first(answer, body)  # the answer may come before the body was taken
        finally:
            writer.transport.abort()

    async def _body(self, writer: asyncio.StreamWriter, alive: Callable[[], None]) -> None:
        """Pass on what the browser sends along; ends with an error when the browser goes away."""
        while True:
            if self._browser.they_are_waiting_for_100_continue:
                go_on = h11.InformationalResponse(status_code=100, headers=[])
                await _write(self._writer, self._browser.send(go_on) or b"")
            event = await _event(self._browser, self._reader)
            alive()
            if isinstance(event, h11.ConnectionClosed):
                raise _GoneError
            piece = self._site.send(event) or b""
            try:
                await _write(writer, piece)
            except OSError:
                break  # a site may have enough of a body, and answer
            if isinstance(event, h11.EndOfMessage):
                break
        if await self._reader.read(1) == b"":
            raise _GoneError
        await asyncio.Event().wait()  # a second request on this connection is not read

    async def _relay(self, reader: asyncio.StreamReader, alive: Callable[[], None]) -> None:
        try:
            head = await _event(self._site, reader)
            while isinstance(head, h11.InformationalResponse):
                head = await _event(self._site, reader)
            if not isinstance(head, h11.Response):
                raise h11.RemoteProtocolError("the connection ended without one")
        except h11.RemoteProtocolError as error:
            await self._answer(502, f"the site gave no proper answer: {error}")
            return
        alive()
        # 407 is what a proxy says: from a site it would have the browser send what it knows of its proxy.
        status = 502 if head.status_code == 407 else head.status_code
        headers = _passed_on(head.headers)
        if any(name == b"transfer-encoding" for name, _ in head.headers):
            headers = [(name, value) for name, value in headers if name.lower() != b"content-length"]
        headers.append((b"Connection", b"close"))
        response = h11.Response(status_code=status, headers=headers, reason=head.reason)
        await _write(self._writer, self._browser.send(response) or b"")
        while True:
            try:
                event = await _event(self._site, reader)
            except h11.RemoteProtocolError:
                raise ConnectionAbortedError("the answer broke off") from None
            alive()
            if isinstance(event, h11.Data):
                await _write(self._writer, self._browser.send(event) or b"")
            elif isinstance(event, h11.EndOfMessage):
                await _write(self._writer, self._browser.send(h11.EndOfMessage()) or b"")
                return

    async def _answer(self, status: int, sentence: str) -> None:
        """Send an answer of the proxy's own, where the browser was told nothing yet."""
        if self._browser.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        body = f"{sentence}\n".encode()
        head = (
            f"HTTP/1.1 {status} {'Refused' if status == 403 else 'Not reached'}\r\n"
            f"Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        await _write(self._writer, head.encode() + body)


async def _event(connection: h11.Connection, reader: asyncio.StreamReader) -> Any:
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(_PIECE))
        elif event is h11.PAUSED:
            raise h11.RemoteProtocolError("another message follows on the same connection")
        else:
            return event


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, alive: Callable[[], None], early: bytes = b""
) -> None:
    piece = early or await reader.read(_PIECE)
    while piece:
        alive()
        await _write(writer, piece)
        piece = await reader.read(_PIECE)


async def _first(*jobs: asyncio.Future[None]) -> None:
    """Wait until one of them has ended, raise its error (the first of them in order), and end the others."""
    try:
        await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
        next(job for job in jobs if job.done()).result()
    finally:
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)


async def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    """Write and wait until the system has it; the buffers of both sides hold nothing (`high=0`)."""
    writer.write(data)
    await writer.drain()


def _longer(limit: asyncio.Timeout) -> Callable[[], None]:
    """Return a function that puts off the end of what is not idle."""
    loop = asyncio.get_running_loop()
    return lambda: limit.reschedule(loop.time() + _IDLE_S)


def _split(target: bytes) -> tuple[bytes, bytes]:
    """Return (authority, path and query) of an absolute address."""
    if target[:7].lower() != b"http://":
        raise _BadRequestError("its address is not absolute, or not http")
    rest = target[7:].partition(b"#")[0]
    end = min((at for char in (b"/", b"?") if (at := rest.find(char)) >= 0), default=len(rest))
    path = rest[end:]
    return rest[:end], path if path.startswith(b"/") else b"/" + path


def _passed_on(headers: Any) -> list[tuple[bytes, bytes]]:
    """Return the headers that are meant for the other side, without `Host`."""
    pairs = [(bytes(name), bytes(value)) for name, value in headers.raw_items()]
    names = {
        word.strip().lower() for name, value in pairs if name.lower() == b"connection" for word in value.split(b",")
    }
    left_out = _HOP_BY_HOP | names | {b"host"}
    return [(name, value) for name, value in pairs if name.lower() not in left_out]
