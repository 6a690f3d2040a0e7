"""Serving the application with uvicorn in this process, on a socket that is bound before anything starts."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import signal
import socket
from collections.abc import Generator
from http import HTTPStatus
from typing import cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from agentorchestra.core.errors import SettingsError
from agentorchestra.core.settings import ServeSettings
from agentorchestra.web.app import WebApp

HEADER_S = 10.0  # until the head of a request has come, from the connection or from its first byte on
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_GRACE_S = 10  # time for requests under way to end when the server stops; streams of events end at once


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach an address that is listened at."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens there, port 0 at a free one; raise SettingsError if it cannot be bound."""
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        # Else the end of an answer waits for the acknowledgement of its beginning: 40 ms.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except (OSError, OverflowError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
        raise SettingsError(
            f"{host} port {port} cannot be listened at: {reason}; choose others with --host and --port "
            "(port 0 takes a free one)"
        ) from None


def address_of(listener: socket.socket) -> str:
    """Return the address, such as `http://127.0.0.1:8765`."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave the signals to `serve`."""
        yield


class _Limited(H11Protocol):
    """A connection that is given up when the head of a request takes too long, or when there are too many of them."""

    _head: asyncio.TimerHandle | None = None  # set while the head of a request is waited for
    _since = 0.0  # the loop's time at which it connected or began its last request

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self.loop.time()
        most = self._limits().max_connections
        connections = [peer for peer in self._all() if peer is not self and not peer.transport.is_closing()]
        if len(connections) >= most:
            # Those without a request have shown no token for it: they do not keep out the owner, who comes last.
            waiting = [connection for connection in connections if not connection._answers()]
            loser = min(waiting, key=lambda connection: connection._since, default=self)
            sentence = f"{most} connections are open, which is the most; send the request at once, or try again later"
            loser._give_up(HTTPStatus.SERVICE_UNAVAILABLE, f"{sentence}, or set serve.max_connections")
            if loser is self:
                return
        self._watch()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unwatch()

    def _all(self) -> set[_Limited]:
        return cast("set[_Limited]", self.connections)

    def _limits(self) -> ServeSettings:
        return cast(WebApp, self.config.app).limits

    def _watch(self) -> None:
        """Begin to wait for a head; bytes do not begin it anew. While a request is answered none is waited for."""
        if self._answers():
            self._since = self.loop.time()
            self._unwatch()
        elif self._head is None:
            self._head = self.loop.call_later(HEADER_S, self._too_slow)

    def _answers(self) -> bool:
        cycle = cast(RequestResponseCycle | None, self.cycle)  # None before the first request
        return cycle is not None and not cycle.response_complete

    def _unwatch(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _too_slow(self) -> None:
        sentence = f"the head of the request was not there after {HEADER_S:g} s; send it faster"
        self._give_up(HTTPStatus.REQUEST_TIMEOUT, sentence)

    def _give_up(self, status: HTTPStatus, sentence: str) -> None:
        self._unwatch()
        if self.transport.is_closing():
            return
        body = json.dumps({"error": sentence, "error_type": "HttpRequestError"}).encode()
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\nConnection: close\r\n"
        self.transport.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        self.transport.close()


def uvicorn_server(app: WebApp) -> uvicorn.Server:
    """Return a server for the application that logs no requests, takes no signals and keeps to its limits."""
    return _Server(
        uvicorn.Config(
            app,
            http=_Limited,
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            timeout_graceful_shutdown=_GRACE_S,
        )
    )


async def serve(app: WebApp, listener: socket.socket) -> None:
    """Answer requests until SIGINT, SIGTERM or SIGHUP; a second one waits neither for requests nor for effects."""
    server = uvicorn_server(app)

    def stop() -> None:
        server.force_exit = server.should_exit
        server.should_exit = True
        app.stop(now=server.force_exit)

    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stop)
    try:
        await server.serve(sockets=[listener])
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
        if server.force_exit:
            # uvicorn then leaves the lifespan out: the runs are put away all the same.
            await app.close()
