"""Bodies of answers, unpacked in bounded memory: what a few kilobytes unpack to is counted while it comes out."""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Iterator
from typing import Any

from agentorchestra.tools.web.addresses import web_error

MOST_CODINGS = 2  # compressions within each other; nobody honest uses more
_STEP = 64 * 1024


def accepted_codings() -> str:
    """Return what this installation can unpack, for `Accept-Encoding`."""
    codings = ["gzip", "deflate"]
    for name, module in (("br", "brotli"), ("zstd", "backports.zstd")):
        try:
            importlib.import_module(module)
        except ImportError:
            continue
        codings.append(name)
    return ", ".join(codings)


class _Zlib:
    """gzip and deflate (with its header, or raw as some servers send it)."""

    def __init__(self, coding: str) -> None:
        self._gzip = coding == "gzip"
        self._d: Any = None
        self._held = b""
        self._ended = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        data = self._held + data
        self._held = b""
        while data and not self._ended:
            if self._d is None or self._d.eof:
                if len(data) < 2:
                    self._held = data  # how it goes on is told by two bytes
                    return
                if self._d is not None and not (self._gzip and data.startswith(b"\x1f\x8b")):
                    self._ended = True  # padding behind the end is no content
                    return
                self._d = self._decompressor(data)  # gzip files may follow each other
            yield self._d.decompress(data, _STEP)
            data = self._d.unused_data if self._d.eof else self._d.unconsumed_tail

    def _decompressor(self, data: bytes) -> Any:
        if self._gzip:
            return zlib.decompressobj(16 + zlib.MAX_WBITS)
        # A zlib header is two bytes that are a multiple of 31 and name the method 8; some servers leave it out.
        whole = data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0
        return zlib.decompressobj(zlib.MAX_WBITS if whole else -zlib.MAX_WBITS)

    @property
    def complete(self) -> bool:
        return bool(self._d.eof) if self._d is not None else not self._held


class _Brotli:
    def __init__(self) -> None:
        self._d = importlib.import_module("brotli").Decompressor()

    def feed(self, data: bytes) -> Iterator[bytes]:
        # It holds back output beyond the limit also where it says that it would take more input.
        while not self._d.is_finished():
            piece = self._d.process(data, output_buffer_limit=_STEP)
            data = b""
            if not piece and self._d.can_accept_more_data():
                return
            yield piece

    @property
    def complete(self) -> bool:
        return bool(self._d.is_finished())


class _Zstd:
    def __init__(self) -> None:
        self._module = importlib.import_module("backports.zstd")
        self._d = self._new()

    def _new(self) -> Any:
        # RFC 9659: at most 8 MiB of window on the web; a frame that wants more wants memory.
        options = {self._module.DecompressionParameter.window_log_max: 23}
        return self._module.ZstdDecompressor(options=options)

    def feed(self, data: bytes) -> Iterator[bytes]:
        while True:
            if self._d.eof:
                if not data:
                    return
                self._d = self._new()
            yield self._d.decompress(data, _STEP)
            if self._d.eof:
                data = self._d.unused_data
            elif self._d.needs_input:
                return
            else:
                data = b""

    @property
    def complete(self) -> bool:
        return bool(self._d.eof)


class ResponseBody:
    """Takes the bytes of an answer and keeps what they unpack to, up to `most`; WebError for unknown compressions."""

    def __init__(self, codings: str, most: int, url: str) -> None:
        names = [name.strip().lower().removeprefix("x-") for name in codings.split(",")]
        names = [name for name in names if name not in ("", "identity")]
        if len(names) > MOST_CODINGS:
            reason = f"sent an answer compressed {len(names)} times, which is no ordinary page; leave it out"
            raise web_error(url, reason, "bad_answer")
        self._unpackers = [_unpacker(name, url) for name in reversed(names)]
        self._url = url
        self._most = most
        self._kept = bytearray()

    def take(self, data: bytes) -> bool:
        """Take some bytes; return True if there is room for more. WebError for bytes that are not so compressed."""
        try:
            for piece in self._through(data, 0):
                room = self._most - len(self._kept)
                self._kept += piece[:room]
                if len(piece) > room:
                    return False
        except Exception as error:  # each library has its own
            reason = f"sent an answer that cannot be unpacked ({type(error).__name__}: {error}); try it later"
            raise web_error(self._url, reason, "bad_answer") from None
        return True

    def _through(self, data: bytes, at: int) -> Iterator[bytes]:
        if at == len(self._unpackers):
            if data:
                yield data
            return
        for piece in self._unpackers[at].feed(data):
            yield from self._through(piece, at + 1)

    @property
    def complete(self) -> bool:
        """True if nothing is missing at the end of what is compressed."""
        return all(unpacker.complete for unpacker in self._unpackers)

    @property
    def data(self) -> bytes:
        return bytes(self._kept)


def _unpacker(name: str, url: str) -> _Zlib | _Brotli | _Zstd:
    try:
        if name in ("gzip", "deflate"):
            return _Zlib(name)
        if name == "br":
            return _Brotli()
        if name == "zstd":
            return _Zstd()
    except ImportError:
        pass
    coding = f"compressed as {name[:40]!r}, which was not asked for and cannot be unpacked here"
    raise web_error(url, f"sent an answer {coding}; leave it out", "bad_answer")
