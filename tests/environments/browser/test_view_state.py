"""What the state of the browser gives the models of runs: pictures to those that see, and what changed to all."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from PIL import Image
from tests.environments.browser.hand import at_work
from tests.site.browser import browser_site

from agentorchestra import Workspace
from agentorchestra.core.settings import BrowserSettings, ModelProfile, Settings, WebSettings
from agentorchestra.testing import LoopbackModelServer, call, decide

pytestmark = [pytest.mark.long, pytest.mark.real]


def pictures(request: dict[str, Any]) -> list[bytes]:
    """What is sent as pictures."""
    return [
        base64.b64decode(piece["image_url"]["url"].partition(",")[2])
        for message in request["messages"]
        for piece in (message["content"] if isinstance(message["content"], list) else ())
        if piece.get("type") == "image_url"
    ]


@pytest.mark.parametrize(
    ("vision", "setting", "seen"), [(True, "auto", True), (False, "auto", False), (True, "never", False)]
)
async def test_models_that_see_get_the_page_as_a_picture(
    tmp_path: Path, vision: bool, setting: Any, seen: bool
) -> None:
    async with browser_site() as site:
        replies = [
            decide(calls=[call("browser_go_to_url", url=f"{site.address}/form")]),
            decide(calls=[call("done", answer="seen")]),
        ]
        async with LoopbackModelServer(replies) as server:
            settings = Settings(
                models={"m": ModelProfile(model="openai:gpt-5", base_url=server.base_url, vision=vision)},
                model="m",
                system="react",
                web=WebSettings(private=(site.host,)),
                browser=BrowserSettings(screenshots=setting),
            )
            async with Workspace(tmp_path / "ws", settings=settings) as ws:
                result = await ws.run(f"Look at {site.address}/form", environments=["browser"])
        assert result.answer == "seen", result.error
    before, after = (json.loads(json.dumps(one)) for one in server.requests)
    assert not pictures(before)
    assert "Order oysters" in json.dumps(after)
    found = pictures(after)
    assert len(found) == (1 if seen else 0)
    for data in found:
        assert Image.open(io.BytesIO(data)).size == (1280, 800)


async def test_the_state_says_what_changed_since_it_was_looked_at(tmp_path: Path) -> None:
    async with at_work(tmp_path) as hand:
        await hand.open("form")
        assert "changed since" not in await hand.state()
        assert "nothing changed since view 1" in await hand.state()
        await hand.fill("Name", "Ada")
        state = await hand.state()
        told = state[state.index("changed since view") :]
        assert '"Ada"' in told and "Colour" not in told and "Colour" in state
        await hand.open("hover")
        assert "changed since" not in await hand.state()


async def test_elements_out_of_view_are_found_and_used(tmp_path: Path) -> None:
    async with at_work(tmp_path) as hand:
        await hand.open("article")
        found = await hand.do("find_elements", text="MILLER'S daughter")
        assert "kilowatts" not in found
        ref = found[: found.index('] link "miller')].rpartition("[")[2]
        assert f"[{ref}]" not in await hand.state(), "it lies below the view"
        assert "/form" in await hand.do("click", ref=ref)
        assert '"Order oysters"' in await hand.do("find_elements")
        assert "no element of the page holds 'kiwi'" in await hand.fail("find_elements", text="kiwi")


async def test_a_page_that_hangs_whoever_looks_is_one_sentence_and_the_browser_goes_on(tmp_path: Path) -> None:
    async def hanging(request: web.Request) -> web.Response:
        script = "Object.defineProperty(Node.prototype, 'firstChild', {get() { for (;;); }})"
        return web.Response(text=f"<p>Hello<script>{script}</script>", content_type="text/html")

    app = web.Application()
    app.router.add_get("/", hanging)
    server = TestServer(app, host="127.0.0.1")
    await server.start_server()
    async with at_work(tmp_path, private=(f"127.0.0.1:{server.port}",)) as hand:
        told = await hand.do("go_to_url", url=str(server.make_url("/")))  # the end of the action looks, too
        assert "waiting for the page took longer" in told and "did not answer any more and was closed" in told, told
        assert "the tab is empty" in await hand.state()
        await hand.open("form")
        assert "Order oysters" in await hand.state()
    await server.close()


async def test_secrets_are_on_no_picture(tmp_path: Path) -> None:
    async def card(request: web.Request) -> web.Response:
        fields = "".join(
            f"<input autocomplete={kind} value=4111 style='position:absolute;left:{x}px;top:50px;"
            "width:80px;height:30px;background:#fff;border:0'>"
            for x, kind in ((100, "cc-number"), (300, "one-time-code"), (500, "name"))
        )
        return web.Response(text=f"<body style='background:#fff'>{fields}", content_type="text/html")

    app = web.Application()
    app.router.add_get("/", card)
    server = TestServer(app, host="127.0.0.1")
    await server.start_server()
    async with at_work(tmp_path, private=(f"127.0.0.1:{server.port}",)) as hand:
        await hand.do("go_to_url", url=str(server.make_url("/")))
        for asked in ({}, {"whole": True}):
            outcome = await hand.did("screenshot", **asked)
            (kept,) = outcome.artifacts
            taken = Image.open(io.BytesIO(await hand.ws.store.get_blob(kept.sha256))).convert("RGB")
            assert [taken.getpixel((x + 60, 60)) for x in (100, 300, 500)] == [(0, 0, 0), (0, 0, 0), (255, 255, 255)]
    await server.close()
