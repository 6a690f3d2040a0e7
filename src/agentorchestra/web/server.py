"""Serving the application with uvicorn in this process, on a socket that is bound before anything starts."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import signal
import socket
from collections.abc import Generator

import uvicorn

from agentorchestra.core.errors import SettingsError
from agentorchestra.web.app import WebApp

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_GRACE_S = 10
"""Time for requests under way to end when the server stops; streams of events end at once."""


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
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, OverflowError) as exc:
        why = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
        raise SettingsError(
            f"{host} port {port} cannot be listened at: {why}; choose others with --host and --port "
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


def uvicorn_server(app: WebApp) -> uvicorn.Server:
    """Return a server for the application that logs no requests and takes no signals."""
    return _Server(
        uvicorn.Config(
            app,
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
    """Answer requests until SIGINT, SIGTERM or SIGHUP; a second one does not wait for requests under way."""
    server = uvicorn_server(app)

    def stop() -> None:
        server.force_exit = server.should_exit
        server.should_exit = True
        app.stop_streams()

    loop = asyncio.get_running_loop()
    for one in _SIGNALS:
        loop.add_signal_handler(one, stop)
    try:
        await server.serve(sockets=[listener])
    finally:
        for one in _SIGNALS:
            loop.remove_signal_handler(one)
        if server.force_exit:
            # uvicorn then leaves the lifespan out: the runs are put away all the same.
            await app.close()
