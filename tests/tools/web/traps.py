"""Servers that speak no proper HTTP, in every way that costs a careless client time or memory."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import ssl
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import brotli  # type: ignore[import-untyped]
from backports import zstd

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
_LARGE = b"\0" * (4 << 20)
"""What bombs unpack to; tests read at most a part of it."""


@dataclass
class Listener:
    """Something that listens.

    Attributes:
        port: where.
        host: at which address.
        requests: the first line of each request.
        redirect: where `/redirect` leads.
    """

    port: int = 0
    host: str = "127.0.0.1"
    requests: list[str] = field(default_factory=list)
    redirect: str = "/"

    @property
    def address(self) -> str:
        """Its address."""
        return f"http://{self.host}:{self.port}"


async def _write(writer: asyncio.StreamWriter, *pieces: bytes) -> None:
    for piece in pieces:
        writer.write(piece)
        await writer.drain()


async def _for_ever(writer: asyncio.StreamWriter, start: bytes, piece: bytes, pause: float = 0.0) -> None:
    await _write(writer, start)
    while True:
        await _write(writer, piece)
        await asyncio.sleep(pause)


def _packed(coding: str, body: bytes) -> bytes:
    return _HEAD + f"Content-Encoding: {coding}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def _raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


async def _answer(path: str, writer: asyncio.StreamWriter) -> None:
    """What is answered to a path."""
    fixed: dict[str, Callable[[], bytes]] = {
        "/gzip-bomb": lambda: _packed("gzip", gzip.compress(_LARGE)),
        "/deflate-bomb": lambda: _packed("deflate", zlib.compress(_LARGE)),
        "/raw-deflate-bomb": lambda: _packed("deflate", _raw_deflate(_LARGE)),
        "/brotli-bomb": lambda: _packed("br", brotli.compress(_LARGE, quality=1)),
        "/zstd-bomb": lambda: _packed("zstd", zstd.compress(_LARGE)),
        "/nested-bomb": lambda: _packed("gzip, gzip", gzip.compress(gzip.compress(_LARGE))),
        "/nested-thrice": lambda: _packed("gzip, gzip, gzip", b"x"),
        "/unknown-coding": lambda: _packed("compress", b"x"),
        "/no-gzip": lambda: _packed("gzip", b"this is no gzip"),
        "/cut-gzip": lambda: _packed("gzip", gzip.compress(b"words " * 1000)[:-12]),
        "/giant": lambda: _HEAD + b"Content-Length: 1073741824\r\n\r\n",
        "/short": lambda: _HEAD + b"Content-Length: 5000\r\n\r\nno more than this",
        "/negative": lambda: _HEAD + b"Content-Length: -5\r\n\r\nhello",
        "/two-lengths": lambda: _HEAD + b"Content-Length: 5\r\nContent-Length: 50\r\n\r\nhello",
        "/chunked-nonsense": lambda: _HEAD + b"Transfer-Encoding: chunked\r\n\r\nZZZ\r\nhello\r\n0\r\n\r\n",
        "/chunked-huge": lambda: _HEAD + b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFFFFF\r\nhello",
        "/no-http": lambda: b"220 mail.example ESMTP ready\r\n",
        "/nothing": lambda: b"",
        "/many-headers": lambda: _HEAD + b"".join(b"X-%d: y\r\n" % n for n in range(2000)) + b"\r\nhello",
        "/null-in-header": lambda: _HEAD + b"X-A: a\0b\r\nContent-Length: 2\r\n\r\nhi",
        "/redirect-nowhere": lambda: b"HTTP/1.1 302 Found\r\nLocation: http://[::1\r\nContent-Length: 0\r\n\r\n",
        "/redirect-backslash": lambda: b"HTTP/1.1 302 Found\r\nLocation: \\\\evil\\x\r\nContent-Length: 0\r\n\r\n",
        "/redirect-file": lambda: b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n",
    }
    if path in fixed:
        await _write(writer, fixed[path]())
    elif path == "/endless-headers":
        await _for_ever(writer, _HEAD, b"X-More: and more\r\n" * 50)
    elif path == "/endless-header":
        await _for_ever(writer, _HEAD + b"X-Long: ", b"long" * 500)
    elif path == "/endless-status":
        await _for_ever(writer, b"HTTP/1.1 200 ", b"O" * 2000)
    elif path == "/endless-informed":
        await _for_ever(writer, b"", b"HTTP/1.1 103 Early Hints\r\n\r\n", 0.01)
    elif path == "/endless-trailers":
        await _for_ever(writer, _HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X-T: more\r\n" * 50)
    elif path == "/endless-extension":
        await _for_ever(writer, _HEAD + b"Transfer-Encoding: chunked\r\n\r\n5;", b"x" * 2000)
    elif path == "/endless":
        await _for_ever(writer, _HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1000\r\n" + b"x" * 4096 + b"\r\n")
    elif path == "/slow-headers":
        await _for_ever(writer, b"HTTP/1.1 200 OK\r\nX-Slow: ", b"s", 0.02)
    elif path == "/slow-body":
        await _for_ever(writer, _HEAD + b"\r\n", b"s", 0.02)
    elif path == "/silent":
        await asyncio.Event().wait()
    else:
        await _write(writer, _HEAD + b"Content-Length: 5\r\n\r\nhello")


@asynccontextmanager
async def listening(
    host: str = "127.0.0.1", port: int = 0, context: ssl.SSLContext | None = None
) -> AsyncIterator[Listener]:
    """A server of all traps, until the block ends."""
    listener = Listener(host=host)
    busy: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        busy.add(task)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            line = head.partition(b"\r\n")[0].decode("latin-1")
            listener.requests.append(line)
            path = line.split(" ")[1]
            if path == "/redirect":
                where = f"HTTP/1.1 302 Found\r\nLocation: {listener.redirect}\r\nContent-Length: 0\r\n\r\n"
                await _write(writer, where.encode())
            else:
                await _answer(path, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            busy.discard(task)
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    server = await asyncio.start_server(serve, host, port, ssl=context)
    listener.port = server.sockets[0].getsockname()[1]
    try:
        yield listener
    finally:
        server.close()
        for task in busy:
            task.cancel()
        if busy:
            await asyncio.wait(busy)
