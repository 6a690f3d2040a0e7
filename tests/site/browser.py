"""A website for a browser that is worked by hand: forms, frames, shadows, dialogs, films, and what happened on it.

`async with browser_site() as site:` serves the pages of `browser_pages/`. What their scripts tell is in `site.said`,
every request in `site.requests`.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.site.server import Asked, paper
from tests.support.patience import LONGEST_S

PAGES = Path(__file__).with_name("browser_pages")
USER, PASSWORD = "ada", "lovelace-1843"
STATEMENT = "month,shells\nMay,410\nJune,794\n"
OYSTER_FILE = "year,oysters\n2020,47330\n2021,52690\n"
HARBOURS = ("Aldin North", "Aldin South", "Holm", "Port Aldin", "Skerrow")
TABLE = "High tide at 11:42"


@dataclass
class BrowserSite:
    """A running site.

    Attributes:
        address: `http://127.0.0.1:PORT`.
        host: `127.0.0.1:PORT`.
        requests: everything that was asked, in order.
        said: what the pages' scripts told, in order, each with its `name`.
        forms: the fields of the forms that were sent.
        uploads: (field, name, bytes) of the files that were sent.
        sessions: the cookies of those who signed in.
        news: set when something was told.
    """

    address: str = ""
    requests: list[Asked] = field(default_factory=list)
    said: list[dict[str, Any]] = field(default_factory=list)
    forms: list[dict[str, str]] = field(default_factory=list)
    uploads: list[tuple[str, str, bytes]] = field(default_factory=list)
    sessions: set[str] = field(default_factory=set)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def host(self) -> str:
        """As the address bar shows it."""
        return self.address.removeprefix("http://")

    def of(self, name: str) -> list[dict[str, Any]]:
        """What was told under a name."""
        return [one for one in self.said if one["name"] == name]

    async def heard(self, name: str, count: int = 1) -> dict[str, Any]:
        """The last that was told under a name, waited for: it comes after the action that made the page tell it."""
        async with asyncio.timeout(LONGEST_S):
            while len(self.of(name)) < count:
                self.news.clear()
                await self.news.wait()
        return self.of(name)[-1]

    def asked(self, path: str) -> list[Asked]:
        """The requests for a path."""
        return [one for one in self.requests if one.path == path]


SITE: web.AppKey[BrowserSite] = web.AppKey("browser-site", BrowserSite)
FOLDER: web.AppKey[Path] = web.AppKey("folder", Path)


@web.middleware
async def _keep(request: web.Request, handler: Any) -> web.StreamResponse:
    kept = Asked(request.method, request.path, dict(request.query), dict(request.headers))
    request.app[SITE].requests.append(kept)
    answer: web.StreamResponse = await handler(request)
    return answer


def _html(text: str, status: int = 200) -> web.Response:
    return web.Response(text=text, status=status, content_type="text/html")


async def _page(request: web.Request) -> web.StreamResponse:
    name = request.match_info.get("page", "article")
    file = PAGES / (name if name.endswith(".js") else f"{name}.html")
    if "/" in name or not file.is_file():
        return _html("<!doctype html><title>Not here</title><h1>No such page</h1>", 404)
    kind = "text/javascript" if name.endswith(".js") else "text/html"
    return web.Response(body=file.read_bytes(), content_type=kind, charset="utf-8")


async def _said(request: web.Request) -> web.Response:
    site = request.app[SITE]
    site.said.append(json.loads(await request.text()))
    site.news.set()
    return web.Response(text="")


async def _form(request: web.Request) -> web.Response:
    site = request.app[SITE]
    site.forms.append({name: str(value) for name, value in (await request.post()).items()})
    return _html(f"<!doctype html><title>Thank you</title><h1>Order {len(site.forms)} received</h1>")


async def _upload(request: web.Request) -> web.Response:
    site = request.app[SITE]
    for name, value in (await request.post()).items():
        if isinstance(value, web.FileField) and value.filename:
            site.uploads.append((name, value.filename, value.file.read()))
    return _html(f"<!doctype html><title>Sent</title><h1>{len(site.uploads)} files received</h1>")


# -- behind the login --------------------------------------------------------------------------------------------------


async def _login(request: web.Request) -> web.Response:
    given = await request.post()
    if (given.get("user"), given.get("password")) != (USER, PASSWORD):
        return _html("<!doctype html><title>Sign in</title><p>Wrong user or password.</p>", 403)
    session = hashlib.sha256(f"{len(request.app[SITE].sessions)}".encode()).hexdigest()[:16]
    request.app[SITE].sessions.add(session)
    answer = web.Response(status=303, headers={"Location": str(given.get("next") or "/account")})
    answer.set_cookie("session", session, httponly=True, max_age=3600)
    return answer


def _known(request: web.Request) -> None:
    if request.cookies.get("session") not in request.app[SITE].sessions:
        raise web.HTTPFound(f"/login?next={request.path}")


async def _account(request: web.Request) -> web.StreamResponse:
    _known(request)
    return web.Response(body=(PAGES / "account.html").read_bytes(), content_type="text/html", charset="utf-8")


async def _statement(request: web.Request) -> web.Response:
    _known(request)
    if request.path.endswith(".pdf"):
        return web.Response(body=paper(), content_type="application/pdf")
    saved = {"Content-Disposition": 'attachment; filename="statement.csv"'}
    return web.Response(text=STATEMENT, content_type="text/csv", headers=saved)


# -- what scripts of the pages ask for ---------------------------------------------------------------------------------


async def _items(request: web.Request) -> web.Response:
    first = int(request.query["from"])
    return web.json_response([f"Tide {number}" for number in range(first, first + 30)])


async def _words(request: web.Request) -> web.Response:
    begun = request.query["q"].lower()
    return web.json_response([one for one in HARBOURS if begun and begun in one.lower()])


async def _table(request: web.Request) -> web.Response:
    await asyncio.sleep(0.3)
    return web.Response(text=TABLE)


async def _robot(request: web.Request) -> web.Response:
    return _html("<!doctype html><label><input type=checkbox> I'm not a robot</label>")


# -- files -------------------------------------------------------------------------------------------------------------


@cache
def clip() -> bytes:
    """A film of four seconds without sound: two of them red, two of them blue."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "clip.webm"
        colours = [part for name in ("red", "blue") for part in ("-f", "lavfi", "-i", f"color={name}:s=160x90:d=2:r=5")]
        joined = ("-filter_complex", "concat=n=2:v=1", "-c:v", "libvpx", "-b:v", "60k", "-g", "5")
        subprocess.run(["ffmpeg", "-v", "error", *colours, *joined, str(out)], check=True)
        return out.read_bytes()


@cache
def gif() -> bytes:
    """A moving picture of four frames."""
    from PIL import Image

    frames = [Image.new("RGB", (32, 32), colour) for colour in ("red", "green", "blue", "white")]
    held = io.BytesIO()
    frames[0].save(held, "GIF", save_all=True, append_images=frames[1:], duration=100, loop=0)
    return held.getvalue()


SUBTITLES = "WEBVTT\n\n00:00.000 --> 00:02.000\nThe sea is red.\n\n00:02.000 --> 00:04.000\nThe sea is blue.\n"


async def _file(request: web.Request) -> web.StreamResponse:
    name = request.match_info["name"]
    if name == "broken.csv":
        answer = web.StreamResponse(headers={"Content-Type": "text/csv", "Content-Length": "5000"})
        await answer.prepare(request)
        await answer.write(b"year,oysters\n2020,")
        assert request.transport is not None
        request.transport.close()
        return answer
    if name == "clip.webm":
        # From a file, so that parts of it can be asked for: without them nobody can seek.
        if not (film := request.app[FOLDER] / name).exists():
            film.write_bytes(await asyncio.to_thread(clip))
        return web.FileResponse(film, headers={"Content-Type": "video/webm"})
    kinds: dict[str, tuple[bytes, str]] = {
        "oysters.csv": (OYSTER_FILE.encode(), "text/csv"),
        "clip.vtt": (SUBTITLES.encode(), "text/vtt"),
    }
    if name == "paper.pdf":
        return web.Response(body=paper(), content_type="application/pdf")
    if name == "wrong.pdf":
        return web.Response(body=b"<html><body>Please sign in first</body></html>", content_type="application/pdf")
    if name == "spin.gif":
        return web.Response(body=gif(), content_type="image/gif")
    if name not in kinds:
        raise web.HTTPNotFound
    data, kind = kinds[name]
    return web.Response(body=data, content_type=kind)


async def _status(request: web.Request) -> web.Response:
    status = int(request.match_info["status"])
    return _html(f"<!doctype html><title>Error {status}</title><h1>Error {status}</h1><p>Sorry.</p>", status)


@asynccontextmanager
async def browser_site() -> AsyncIterator[BrowserSite]:
    """The site, until the block ends."""
    site = BrowserSite()
    app = web.Application(middlewares=[_keep], client_max_size=32 << 20)
    held = tempfile.TemporaryDirectory()
    app[SITE], app[FOLDER] = site, Path(held.name)
    app.add_routes(
        [
            web.post("/said", _said),
            web.post("/form", _form),
            web.post("/upload", _upload),
            web.post("/login", _login),
            web.get("/account", _account),
            web.get("/account/{name}", _statement),
            web.get("/endless/items", _items),
            web.get("/autocomplete/words", _words),
            web.get("/late/table", _table),
            web.get("/recaptcha/api2/anchor", _robot),
            web.get("/files/{name}", _file),
            web.get("/status/{status}", _status),
            web.get("/{page}", _page),
            web.get("/", _page),
        ]
    )
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    listener = web.TCPSite(runner, "127.0.0.1", 0)
    await listener.start()
    host, port = runner.addresses[0][:2]
    site.address = f"http://{host}:{port}"
    try:
        yield site
    finally:
        await runner.cleanup()
        held.cleanup()


__all__ = ["HARBOURS", "OYSTER_FILE", "PASSWORD", "STATEMENT", "TABLE", "USER", "BrowserSite", "browser_site", "clip"]
