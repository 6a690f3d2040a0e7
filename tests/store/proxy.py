"""Stands between the driver and PostgreSQL, and can lose what is said."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType


class Proxy:
    """Forwards connections to a port of the loopback address.

    Attributes:
        port: its own.
        lose: what happens to the next COMMIT: `answer`: it is carried out and the answer is lost with the connection;
            `commit`: the connection is lost before the server hears it.
        lost: how many were.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.lose = ""
        self.lost = 0
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            upstream = socket.create_connection(("127.0.0.1", self._target))
            self._open += [client, upstream]
            for work in (self._up, self._down):
                thread = threading.Thread(target=work, args=(client, upstream), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _up(self, client: socket.socket, upstream: socket.socket) -> None:
        try:
            while data := client.recv(65536):
                lose, self.lose = (self.lose, "") if b"COMMIT" in data else ("", self.lose)
                if lose == "commit":
                    self.lost += 1
                    break
                if lose == "answer":
                    # Nothing comes down any more; the server still hears it to its end.
                    self.lost += 1
                    _end(client)
                upstream.sendall(data)
        except OSError:
            pass
        _end(client)
        _end(upstream, how=socket.SHUT_WR)

    def _down(self, client: socket.socket, upstream: socket.socket) -> None:
        try:
            while data := upstream.recv(65536):
                try:
                    client.sendall(data)
                except OSError:
                    continue
        except OSError:
            pass
        _end(client)

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _end(self._server)
        self._server.close()
        for one in self._open:
            _end(one)
        for thread in self._threads:
            thread.join(10)
        for one in self._open:
            one.close()


def _end(connection: socket.socket, how: int = socket.SHUT_RDWR) -> None:
    with suppress(OSError):
        connection.shutdown(how)
