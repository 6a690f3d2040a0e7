"""A site where everything goes wrong that can, and a workspace whose browser may visit it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from tests.site.server import paper

from agentorchestra import Workspace
from agentorchestra.core.content import text_of
from agentorchestra.core.effects import Outcome
from agentorchestra.core.settings import BrowserSettings, Settings, WebSettings
from agentorchestra.environments.browser.environment import Browser
from agentorchestra.environments.browser.session.session import BrowserSession
from agentorchestra.trust.policy import AllowAll

_PAGES = {
    "/": "<title>Home</title><h1>Home</h1><a href=/second>Second page</a><a href=/file>File</a>"
    "<a href=/popup target=_blank>Popup</a>",
    "/second": "<title>Second</title><h1>The second page</h1><a href=/hang>To one that never answers</a>",
    "/spin": "<title>Spin</title><h1>Calm</h1><button onclick='for (;;);'>Spin</button>",
    "/alerts": "<title>Alerts</title><button onclick='for (let n = 1; ; n++) alert(`again ${n}`)'>Ask</button>",
    "/confirm": "<title>Confirm</title><h1 id=h>Undecided</h1><button onclick=\"h.textContent = confirm('Sure?') ? "
    "'You said yes' : 'You said no'\">Decide</button>",
    "/flood": '<title>Flood</title><p>Few words.</p><button onclick="'
    "Array.prototype.join = () => 'x'.repeat(200 << 20)\">Flood</button>",
    "/popup": "<title>Popup</title><h1>The popup</h1><button onclick='window.close()'>Close me</button>",
    "/many": "<title>Many</title><button onclick=\"for (let n = 0; n < 9; n++) window.open('/popup?' + n)\">Open"
    "</button>",
    "/tab": "<title>Tab</title><h1 id=h></h1><button onclick=\"sessionStorage.setItem('mark', 'kept for this tab');"
    "localStorage.setItem('note', 'kept for the site')\">Store</button><script>h.textContent = "
    "`tab: ${sessionStorage.getItem('mark')}, site: ${localStorage.getItem('note')}, cookie: ${document.cookie}`"
    "</script>",
}


@dataclass
class Troubles:
    """The running site.

    Attributes:
        address: `http://127.0.0.1:PORT`.
        asked: paths, in order.
        waiting: set while a request waits for an answer that never comes.
    """

    address: str = ""
    asked: list[str] = field(default_factory=list)
    waiting: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def host(self) -> str:
        """As addresses have it."""
        return self.address.removeprefix("http://")

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Whatever is asked for."""
        self.asked.append(request.path)
        if request.path == "/hang":
            self.waiting.set()
            await self.over.wait()
            return web.Response(text="<title>At last</title>", content_type="text/html")
        if request.path == "/file":
            return web.Response(body=b"a,b\n1,2\n", headers=_attached('"../../.data file.csv"'))
        if request.path == "/endless":
            return await self._endless(request)
        if request.path == "/paper":
            return web.Response(body=paper(), content_type="application/pdf")
        if request.path == "/login":
            answer = web.Response(status=302, headers={"Location": "/tab"})
            answer.set_cookie("who", request.query.get("who", "ada"))
            return answer
        body = _PAGES.get(request.path)
        if body is None:
            return web.Response(text="<title>Nothing</title>", status=404, content_type="text/html")
        return web.Response(text=f"<!doctype html>{body}", content_type="text/html")

    async def _endless(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers=_attached("endless.bin"))
        await answer.prepare(request)
        try:
            while not self.over.is_set():
                await answer.write(b"x" * 100_000)
                await asyncio.sleep(0.02)
        except ConnectionError:
            pass
        return answer


def _attached(name: str) -> dict[str, str]:
    return {"Content-Disposition": f"attachment; filename={name}", "Content-Type": "application/octet-stream"}


@asynccontextmanager
async def troubles() -> AsyncIterator[Troubles]:
    """The site, on a port of its own."""
    site = Troubles()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", site.serve)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    site.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield site
    finally:
        site.over.set()
        await runner.cleanup()


def settings(*hosts: str, **given: Any) -> Settings:
    """Settings with which these places may be visited."""
    return Settings(web=WebSettings(private=hosts), browser=BrowserSettings(**given))


@dataclass
class Hand:
    """Works a workspace's browser by direct calls, as an agent would.

    Attributes:
        ws: the workspace.
        made: the environments that were made.
    """

    ws: Workspace
    made: list[Browser]

    @property
    def session(self) -> BrowserSession:
        """Of the environment that is open."""
        return next(one for one in reversed(self.made) if one._ground is not None).session

    async def outcome(self, action: str, **arguments: Any) -> Outcome:
        """Of a call."""
        return await self.ws.ecp.invoke("browser", action, arguments)

    async def do(self, action: str, **arguments: Any) -> str:
        """What a call says, a mistake too."""
        found = await self.outcome(action, **arguments)
        return text_of(found.blocks()) if found.ok else str(found.error)

    async def see(self) -> str:
        """The state."""
        return text_of(await self.ws.ecp.state("browser"))

    async def ref(self, name: str) -> str:
        """The reference of the element that has this name now."""
        state = await self.see()
        found = re.search(rf'^\s*- \[(\w+)\] \w+ "{re.escape(name)}"', state, re.MULTILINE)
        assert found is not None, state
        return found[1]

    async def click(self, name: str) -> str:
        """Click what has this name."""
        return await self.do("click", ref=await self.ref(name))


@asynccontextmanager
async def hand(folder: Path, given: Settings) -> AsyncIterator[Hand]:
    """A workspace with a browser."""
    made: list[Browser] = []

    def make() -> Browser:
        made.append(Browser(given.browser, given.web))
        return made[-1]

    async with Workspace(folder, settings=given, policy=AllowAll(), environments={"browser": make}) as ws:
        yield Hand(ws, made)


__all__ = ["Hand", "Troubles", "hand", "settings", "troubles"]
