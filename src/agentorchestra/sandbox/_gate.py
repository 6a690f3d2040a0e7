"""The way out of a sandbox: `python -E -s -B _gate.py PORT SOCKET PROGRAM ...`.

It listens on the loopback address inside, where programs look for a proxy, passes each connection on to the proxy of
the host behind a socket, and becomes the program, whose child it leaves behind for that. What may be reached is the
proxy's to say. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import sys

PIECE = 1 << 16
MOST = 200  # connections at the same time


def serve(listener: socket.socket, path: str) -> None:
    """Pass connections on, both ways, until the sandbox ends."""
    watch = selectors.DefaultSelector()
    watch.register(listener, selectors.EVENT_READ)
    peers: dict[socket.socket, socket.socket] = {}
    while True:
        for key, _ in watch.select():
            sock = key.fileobj
            assert isinstance(sock, socket.socket)
            if sock is listener:
                accept(listener, path, watch, peers)
            elif sock in peers:
                pass_on(sock, watch, peers)


def accept(
    listener: socket.socket, path: str, watch: selectors.BaseSelector, peers: dict[socket.socket, socket.socket]
) -> None:
    inside, _ = listener.accept()
    outside = socket.socket(socket.AF_UNIX)
    try:
        if len(peers) > 2 * MOST:
            raise OSError("too many connections")
        outside.connect(path)
    except OSError:
        inside.close()
        outside.close()
        return
    for sock, other in ((inside, outside), (outside, inside)):
        peers[sock] = other
        watch.register(sock, selectors.EVENT_READ)


def pass_on(sock: socket.socket, watch: selectors.BaseSelector, peers: dict[socket.socket, socket.socket]) -> None:
    other = peers[sock]
    with contextlib.suppress(OSError):
        data = sock.recv(PIECE)
        if data:
            other.sendall(data)
            return
    for end in (sock, other):  # the proxy ends a connection as a whole
        watch.unregister(end)
        del peers[end]
        end.close()


def main() -> None:
    port, path, *program = sys.argv[1:]
    listener = socket.create_server(("127.0.0.1", int(port)))
    if os.fork() == 0:
        os.setsid()
        for fd in (0, 1, 2):  # the program's own: its messages, and the sign that it ended
            os.close(fd)
            os.open(os.devnull, os.O_RDWR)
        serve(listener, path)
    listener.close()
    os.execv(program[0], program)


if __name__ == "__main__":
    main()
