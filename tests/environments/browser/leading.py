"""A site whose pages lead elsewhere in every way that a page has, and a target that notes whatever arrives at it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field

from aiohttp import web
from tests.support.patience import LONGEST_S

NAME = "target.test"
"""Each way leads to a name of its own below it, by which it is told from the others."""

WAYS = {
    "img": "<img src='{to}/'>",
    "script": "<script src='{to}/'></script>",
    "style": "<style>@import '{to}/';</style>",
    "font": "<style>@font-face {{font-family: f; src: url('{to}/')}} b {{font-family: f}}</style><b>text</b>",
    "video": "<video src='{to}/' preload=auto></video>",
    "embed": "<embed src='{to}/'>",
    "iframe": "<iframe src='{to}/'></iframe>",
    "manifest-link": "<link rel=prefetch href='{to}/'>",
    "meta": "<iframe srcdoc=\"<meta http-equiv=refresh content='0;url={to}/'>\"></iframe>",
    "scripted": "<iframe srcdoc=\"<script>location = '{to}/'</script>\"></iframe>",
    "form": "<iframe name=f></iframe><form id=f method=post action='{to}/' target=f><input name=a value=b></form>"
    "<script>document.getElementById('f').submit()</script>",
    "fetch": "<script>fetch('{to}/', {{mode: 'no-cors', method: 'POST', body: 'secret'}})</script>",
    "keepalive": "<script>fetch('{to}/', {{mode: 'no-cors', keepalive: true}})</script>",
    "xhr": "<script>let x = new XMLHttpRequest(); x.open('GET', '{to}/'); x.send()</script>",
    "beacon": "<script>navigator.sendBeacon('{to}/', 'secret')</script>",
    "events": "<script>new EventSource('{to}/')</script>",
    "module": "<script>import('{to}/m.js')</script>",
    "socket": "<script>new WebSocket('{to}/'.replace('http', 'ws'))</script>",
    "worker": "<script>new Worker(URL.createObjectURL(new Blob([\"fetch('{to}/', {{mode: 'no-cors'}})\"])))</script>",
    "service-worker": "<script>navigator.serviceWorker.register('/worker.js?{to}/')</script>",
    "popup": "<script>window.open('{to}/')</script>",
    "download": "<iframe srcdoc=\"<a id=d download href='{to}/file.bin'>d</a><script>d.click()</script>\"></iframe>",
    "redirected": "<script>fetch('/leave?{to}/', {{mode: 'no-cors'}})</script>",
    "reported": "<iframe src='/reports?{to}/'></iframe>",
}
"""What a page holds that leads to `{to}` by itself."""

_WEBRTC = """<title>gathering</title><script>
(async () => {
  const servers = [
    {urls: 'stun:127.0.0.1:%(port)d'}, {urls: 'stun:stun.%(name)s:%(port)d'},
    {urls: 'turn:127.0.0.1:%(port)d?transport=udp', username: 'u', credential: 'c'},
    {urls: 'turn:127.0.0.1:%(port)d?transport=tcp', username: 'u', credential: 'c'},
    {urls: 'turn:turn.%(name)s:%(port)d?transport=tcp', username: 'u', credential: 'c'},
  ];
  const peer = new RTCPeerConnection({iceServers: servers});
  const found = [];
  peer.onicecandidate = event => event.candidate && found.push(event.candidate.candidate);
  peer.onicegatheringstatechange = () => {
    if (peer.iceGatheringState === 'complete') document.title = 'gathered ' + found.join(' | ');
  };
  peer.createDataChannel('x');
  await peer.setLocalDescription(await peer.createOffer());
  try { await new WebTransport('https://127.0.0.1:%(port)d/').ready } catch (error) {}
})();
</script>"""


class _Packets(asyncio.DatagramProtocol):
    def __init__(self, target: Target) -> None:
        self._target = target

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._target.packets += 1


@dataclass
class Target:
    """What must not be reached.

    Attributes:
        port: of TCP and of UDP.
        asked: the host of each request.
        connections: of TCP, also those that said nothing.
        packets: of UDP.
        news: set at each request.
    """

    port: int = 0
    asked: list[str] = field(default_factory=list)
    connections: int = 0
    packets: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def untouched(self) -> bool:
        """Whether nothing at all arrived."""
        return not (self.asked or self.connections or self.packets)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Note the host that is asked for, and answer."""
        self.connections += 1
        try:
            async with asyncio.timeout(LONGEST_S):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            hosts = [line[5:].strip() for line in head.split("\r\n") if line.startswith("host:")]
            self.asked += hosts
            self.news.set()
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def target() -> AsyncIterator[Target]:
    """A target at a port of TCP and UDP."""
    made = Target()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    packets, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: _Packets(made), local_addr=("127.0.0.1", made.port)
    )
    try:
        yield made
    finally:
        packets.close()
        server.close()
        await server.wait_closed()


@dataclass
class Leading:
    """The site.

    Attributes:
        port: of it; it is allowed.
        asked: the paths that were asked for.
    """

    port: int = 0
    asked: list[str] = field(default_factory=list)

    def page(self, path: str = "") -> str:
        """An address of it."""
        return f"http://127.0.0.1:{self.port}/{path}"


@asynccontextmanager
async def leading(to: Target) -> AsyncIterator[Leading]:
    """A site that leads to the target."""
    made = Leading()

    def away(way: str) -> str:
        return f"http://{way}.{NAME}:{to.port}"

    async def answer(request: web.Request) -> web.Response:
        made.asked.append(request.path_qs)
        headers: dict[str, str] = {}
        match request.path:
            case "/all":
                text = f"<title>ways</title><link rel=preconnect href='{away('early')}'>" + "".join(
                    page.format(to=away(way)) for way, page in WAYS.items()
                )
            case "/webrtc":
                text = _WEBRTC % {"port": to.port, "name": NAME}
            case "/worker.js":
                text = f"fetch('{request.query_string}', {{mode: 'no-cors'}})"
                return web.Response(text=text, content_type="text/javascript")
            case "/reports":
                headers["Content-Security-Policy"] = f"img-src 'none'; report-uri {request.query_string}"
                text = "<img src=/never>"
            case "/leave":
                return web.Response(status=302, headers={"Location": request.query_string})
            case "/script":
                text = f"<title>script</title>still here<script>{request.query['run']}</script>"
            case _:
                text = "<title>Allowed</title><h1>The allowed page</h1>"
        return web.Response(text=text, content_type="text/html", headers=headers)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.port = runner.addresses[0][1]
    try:
        yield made
    finally:
        await runner.cleanup()


async def to_this_machine(host: str) -> list[str]:
    """A resolver that knows the names below `NAME`, all of them here."""
    if not host.endswith(NAME):
        raise OSError("unknown")
    return ["127.0.0.1"]


def free_port() -> int:
    """A port at which nothing listens."""
    with closing(socket.socket()) as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])
