"""What sites stored is read when it changed, however they stored it, and not otherwise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.browser import find_chromium
from tests.environments.browser.troubles import hand, settings

_PAGE = """<!doctype html><title>Shop</title><p id=said></p><script>
const told = (text) => { said.textContent = text };
let base;
const made = indexedDB.open("shop", 1);
made.onupgradeneeded = () => made.result.createObjectStore("cart");
made.onsuccess = () => { base = made.result; told("ready") };
const put = () => {
  const writing = base.transaction("cart", "readwrite");
  writing.objectStore("cart").put("a kite", 1);
  writing.oncomplete = () => told("put");
};
</script>
<button onclick="told('nothing')">Nothing</button>
<button onclick="localStorage.theme = 'dark slate'">Theme</button>
<button onclick="document.cookie = 'there=elsewhere; path=/other'">Elsewhere</button>
<button onclick="fetch('/cookie').then(() => told('asked'))">Ask</button>
<button onclick="sessionStorage.step = 'the third'">Step</button>
<button onclick="put()">Put</button>"""


async def _answer(request: web.Request) -> web.Response:
    answer = web.Response(text=_PAGE, content_type="text/html")
    if request.path == "/cookie":
        answer.set_cookie("token", "from-the-server", httponly=True)
    return answer


@pytest.mark.long
@pytest.mark.real
async def test_what_sites_stored_is_read_when_it_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find_chromium()
    from playwright.async_api import BrowserContext

    read, whole = [0], BrowserContext.storage_state

    async def counted(self: BrowserContext, **how: Any) -> Any:
        read[0] += 1
        return await whole(self, **how)

    monkeypatch.setattr(BrowserContext, "storage_state", counted)
    app = web.Application()
    app.router.add_get("/{path:.*}", _answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host = f"127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with hand(tmp_path, settings(host)) as browser:
            await browser.do("go_to_url", url=f"http://{host}/")
            await browser.do("wait", text="ready")
            await browser.click("Nothing")
            assert read[0] > 0
            for name, kept in (
                ("Theme", "dark slate"),
                ("Elsewhere", "elsewhere"),
                ("Ask", "from-the-server"),
                ("Step", "the third"),
                ("Put", "a kite"),
            ):
                await browser.click(name)
                await browser.click("Nothing")  # what ended after an action is kept with the next one
                session = browser.session
                found = await session._keeper._ground.hidden(str(session.kept["stored"]))
                assert kept in json.dumps(json.loads(found or b"")), name
            times = read[0]
            await browser.click("Nothing")
            await browser.do("scroll", direction="down")
            assert read[0] == times, "nothing was stored"
    finally:
        await runner.cleanup()
