"""The boundary as an agent meets it: by the environment's actions, in what it is told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import JsonValue
from tests.environments.browser.leading import NAME, WAYS, Leading, Target, leading, target
from tests.support.names import names_from
from tests.tools.web.names import name_server

from agentorchestra import Workspace
from agentorchestra.core.content import text_of
from agentorchestra.core.errors import SettingsError
from agentorchestra.core.settings import BrowserSettings, Settings
from agentorchestra.log.store import MemoryStore
from agentorchestra.tools.web import http
from agentorchestra.trust.policy import AllowAll


@dataclass
class Place:
    """A workspace with a browser, a site that leads to a target."""

    ws: Workspace
    site: Leading
    target: Target

    async def did(self, action: str, **arguments: JsonValue) -> str:
        """What an action said."""
        done = await self.ws.ecp.invoke("browser", action, arguments)
        return done.error or text_of(done.blocks())

    async def state(self) -> str:
        """What an agent sees."""
        return text_of(await self.ws.ecp.state("browser"))


@asynccontextmanager
async def place(folder: Path, **lists: tuple[str, ...]) -> AsyncIterator[Place]:
    """Every name below `target.test` is here, and only the site is allowed."""
    zone = {f"{way}.{NAME}": [["127.0.0.1"]] for way in ("a", *WAYS)}
    async with target() as to, leading(to) as site, name_server(zone) as names:
        settings = Settings(
            browser=BrowserSettings(private=(f"127.0.0.1:{site.port}",), **lists)  # type: ignore[arg-type]
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(http, "system_names", names_from(names.port))
            async with Workspace(folder, settings=settings, store=MemoryStore(), policy=AllowAll()) as ws:
                yield Place(ws, site, to)


@pytest.mark.long
@pytest.mark.real
async def test_agents_are_told_where_a_page_did_not_lead(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        assert "The allowed page" not in await here.did("go_to_url", url=here.site.page())
        assert "The allowed page" in await here.state()
        said = await here.did("go_to_url", url=here.site.page(f"leave?http://a.{NAME}:{here.target.port}/x"))
        assert f"the host a.{NAME} is at 127.0.0.1" in said + await here.state()
        said = await here.did("go_to_url", url=f"https://127.0.0.1:{here.target.port}/")
        assert "not on the public network (loopback)" in said, "of https too the reason is said at once"
        for url in (
            "file:///etc/passwd",
            "FILE:/etc/passwd",
            " file:///etc/passwd",
            "chrome://version",
            "data:text/html,<h1>root:x:0:0</h1>",
            "javascript:document.body.append('root:x:0:0')",
            "view-source:http://127.0.0.1/",
            "about:version",
            "/etc/passwd",
        ):
            assert "is no address of the web" in await here.did("go_to_url", url=url), url
        assert "root:x:0:0" not in await here.state()
        await here.did("go_to_url", url=here.site.page("all"))
        assert "not on the public network" in await here.state()
        assert here.target.untouched


@pytest.mark.long
@pytest.mark.real
async def test_a_popup_and_a_download_stay_inside(tmp_path: Path) -> None:
    async with place(tmp_path) as here:
        away = f"http://127.0.0.1:{here.target.port}"
        await here.did("go_to_url", url=here.site.page(f"script?run=window.open('{away}/popup')"))
        assert "loopback" in await here.state()
        assert "loopback" in await here.did("download", url=f"{away}/file.bin") + await here.state()
        assert here.target.untouched


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["allow", "deny", "private"])
async def test_lists_that_hold_something_else_are_refused_before_a_run(tmp_path: Path, name: str) -> None:
    settings = Settings(model="offline", browser=BrowserSettings(**{name: ("http:///x",)}))  # type: ignore[arg-type]
    async with Workspace(tmp_path, settings=settings, store=MemoryStore()) as ws:
        with pytest.raises(SettingsError, match=rf"browser\.{name}"):
            await ws.run("Look at a page.", environments=["browser"])


@pytest.mark.long
@pytest.mark.real
async def test_lists_of_the_settings(tmp_path: Path) -> None:
    async with place(tmp_path / "deny", deny=("127.0.0.1",)) as here:
        await here.did("go_to_url", url=here.site.page())
        assert "browser.deny names it" in await here.state()
        assert here.site.asked == []
    async with place(tmp_path / "allow", allow=("*.example.org",)) as here:
        await here.did("go_to_url", url=here.site.page())
        assert "browser.allow does not name it" in await here.state()
        assert here.site.asked == []


async def sites_of(here: Place, action: str = "", **arguments: JsonValue) -> list[str]:
    """Where what is said by an action, or by the state, comes from."""
    if action:
        done = await here.ws.ecp.invoke("browser", action, arguments)
        assert done.ok, done.error
        blocks = done.blocks()
    else:
        blocks = await here.ws.ecp.state("browser")
    return [one.source.ref for one in blocks if one.source is not None and one.source.kind == "web"]


@pytest.mark.long
@pytest.mark.real
async def test_all_sites_of_a_page_are_named_as_sources(tmp_path: Path) -> None:
    """Policy lets a page's words be typed into that page's site: what a frame shows is not the page's."""
    async with place(tmp_path) as here:
        framed = f"a.{NAME}:{here.target.port}"  # it is refused, and what is shown instead is at its address
        frame = f"document.write('<iframe src=http://{framed}/></iframe>')"
        assert framed in await sites_of(here, "go_to_url", url=here.site.page(f"script?run={frame}"))
        for action in ("read_page", "screenshot", "", ""):
            assert framed in await sites_of(here, action)
        assert await sites_of(here, "go_to_url", url=here.site.page()) == [here.site.page()]
